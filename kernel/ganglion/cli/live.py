"""Commands for live runs: `ganglion pause`, `continue`, `signal`, `set`, `stop`, `attach`, `pipe`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.table import tell
from ganglion.errors import CallFailed, DeadlineExceeded, PeerLost, RemoteProtocolError, UsageError
from ganglion.limits import DEADLINE_OTHER_S, PAUSE_ANSWER_S, RECONNECT_S, RETRY_S
from ganglion.supervisor.connection import Connection, Operator, find_connections, find_run, read_connection
from ganglion.wire.messages import RunRequest, RunSignal, Signalled

_run = click.argument("run", metavar="RUN")
_steps = click.option("--steps", type=click.IntRange(min=1), metavar="N", help="continue for N steps, then pause again")


def _scope(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the arguments `phase`, `worker` and `reason` of a flow signal."""
    command = click.option("--reason", default="", metavar="TEXT", help="why; kept with the signal")(command)
    command = click.option("--worker", type=click.IntRange(min=0), metavar="N", help="one worker only")(command)
    return click.option("--phase", metavar="PHASE", help="one phase only, by name or number")(command)


@click.command("pause")
@_run
@_steps
@_scope
@click.pass_obj
def pause(settings: Settings, /, run: str, steps: int | None, **scope: Any) -> int:
    """Pause the workers of RUN at their next step boundary; return when they are paused, and print where."""
    steps_on = [] if steps is None else [RunSignal(run, "CONTINUE", steps=steps, **scope)]
    return _send(settings, RunSignal(run, "PAUSE", **scope), *steps_on)


@click.command("continue")
@_run
@_steps
@_scope
@click.pass_obj
def unpause(settings: Settings, /, run: str, **scope: Any) -> int:
    """Continue the paused workers of RUN; with --steps return when they are paused again, and print where."""
    return _send(settings, RunSignal(run, "CONTINUE", **scope))


@click.command("signal")
@_run
@click.argument("name", metavar="NAME")
@_scope
@click.pass_obj
def signal(settings: Settings, /, run: str, name: str, **scope: Any) -> int:
    """Send the flow signal NAME (RESET, STOP_PHASE, ...) to RUN and print the governor's answer."""
    return _send(settings, RunSignal(run, name.upper().replace("-", "_"), **scope))


@click.command("set")
@_run
@click.argument("uid", metavar="UID")
@click.argument("given", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option("--topic", default="parameters", metavar="TOPIC", help="engine, or one of a plugin's own [parameters]")
@_scope
@click.pass_obj
def tell_topics(settings: Settings, /, run: str, uid: str, given: Sequence[str], topic: str, **scope: Any) -> int:
    """Set parameters of an environment or agent of RUN, from its next step on until the phase ends.

    A VALUE is JSON, or else text. With --topic of a plugin's own it is a message.
    """
    entries = []
    for word in given:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"expected KEY=VALUE, found {word!r}")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        entries.append([uid, topic, key, value])
    return _send(settings, RunSignal(run, "CONTINUE", topics=entries, **scope))


def _send(settings: Settings, *wishes: RunSignal) -> int:
    """Send flow signals until one is refused; print the governor's last answer, and return the exit status.

    A PAUSE among them is answered when all workers are paused.
    """
    with find_run(settings.results, settings.kernel, wishes[0].run) as operator:
        for wish in wishes:
            answer: Signalled = operator.ask("kernel.signal", wish, PAUSE_ANSWER_S + DEADLINE_OTHER_S)
            if not answer.accepted:
                break
    return _say(settings, answer)


@click.command("stop")
@_run
@click.option("--now", is_flag=True, help="end the running episodes at once; they are stored as truncated")
@click.option("--reason", default="", metavar="TEXT", help="why; kept with the run")
@click.pass_obj
def stop(settings: Settings, run: str, now: bool, reason: str) -> int:
    """Interrupt RUN; its `ganglion run` ends with 130."""
    with find_run(settings.results, settings.kernel, run) as operator:
        return _say(settings, operator.ask("kernel.stop", RunRequest(run, now, reason)))


def _say(settings: Settings, answer: Signalled) -> int:
    tell(settings, {"accepted": answer.accepted, "text": answer.text}, [answer.text])
    return 0 if answer.accepted else 1


_TELL_S = 5.0  # between two lines about the wait


@click.command("attach")
@click.argument("role", type=click.Choice(["environment", "observer"]))
@click.argument("name")
@click.option("--as", "uid", metavar="UID", help="uid of the environment in the document [NAME]")
@click.option("--run", metavar="RUN", default="last", help="run that an observer follows [last]")
@click.option("--wait", is_flag=True, help="retry until a run waits for this environment")
@click.option("--allow", multiple=True, metavar="PACKAGE", help="a package that import paths may name")
@click.pass_obj
def attach(
    settings: Settings, role: str, name: str, uid: str | None, run: str, wait: bool, allow: tuple[str, ...]
) -> int:
    """Join the plugin NAME to a kernel: the environment that a document declares with `attach: true`, or an observer.

    The parameters of an environment come from the document. An environment ends with status 0 when the run
    releases it, an observer when its run has ended.
    """
    from ganglion.peer.main import serve

    allowed = [*allow, *filter(None, [os.environ.get("GANGLION_ALLOW")])]
    told_s = until_s = 0.0
    joined: list[bool] = []
    while True:
        reason = f"no kernel is running; looked below {settings.results} and the runtime folder"
        for connection in _connections(settings):
            try:
                variables = _variables(connection, role, name, uid or name, run)
                return serve({**variables, "GANGLION_ALLOW": ",".join(allowed)}, lambda: joined.append(True))
            except (PeerLost, RemoteProtocolError, CallFailed, DeadlineExceeded) as error:
                reason = str(error)
                if joined:  # a lost broker is replaced, and the run waits for this environment
                    joined.clear()
                    until_s = time.monotonic() + RECONNECT_S
        now_s = time.monotonic()
        if not wait and now_s >= until_s:
            raise RemoteProtocolError(reason)
        if now_s - told_s >= _TELL_S:
            click.echo(f"waiting for a run that awaits {uid or name!r}: {reason}", err=True)
            told_s = now_s
        time.sleep(RETRY_S["attach"])


def _connections(settings: Settings) -> Sequence[Connection]:
    """Return the kernels to try: the named one, else all live kernels, newest first."""
    if settings.kernel is not None:
        try:
            return [read_connection(settings.kernel)]
        except UsageError:
            return []
    return [connection for _, connection in find_connections(settings.results)]


def _variables(connection: Connection, role: str, name: str, uid: str, run: str) -> dict[str, str]:
    """Return the variables by which the process joins the bus."""
    variables = place_variables(connection, role, uid, connection.endpoint)
    variables |= {"GANGLION_PLUGIN": name, "GANGLION_FOLDER": str(Path.cwd())}
    if role == "observer":
        with Operator(connection) as operator:  # CallFailed or PeerLost if this kernel has no such run
            variables["GANGLION_RESULTS"] = connection.results
            variables["GANGLION_RUN"] = str(operator.ask("kernel.runs", RunRequest(run)).rows[0]["run"])
    return variables


def place_variables(connection: Connection, role: str, uid: str, endpoint: str) -> dict[str, str]:
    """Return the variables by which a process takes its place on the bus of a kernel."""
    observes = role == "observer"
    keys = connection.keys("observer" if observes else "attach")
    return {
        "GANGLION_ENDPOINT": endpoint,
        "GANGLION_NAME": uid,
        "GANGLION_TOKEN": connection.observer_token if observes else connection.attach_token,
        "GANGLION_ROLE": role,
        **(keys.variables() if keys is not None else {}),
    }


@click.command("pipe", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def pipe(command: tuple[str, ...]) -> int:
    """Join the program COMMAND, which reads and writes one JSON object per line, to a kernel.

    The place is in the variables that `ganglion kernel env` prints; PROTOCOL.md, "The pipe", describes the lines.
    """
    for name in ("GANGLION_ENDPOINT", "GANGLION_NAME", "GANGLION_TOKEN", "GANGLION_ROLE"):
        if not os.environ.get(name):
            raise UsageError(f"expected the variable {name}, found nothing; see ganglion kernel env --help")
    from ganglion.peer.main import main

    return main({**os.environ, "GANGLION_PLUGIN": "lines"}, command)
