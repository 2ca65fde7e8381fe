"""`ganglion attach`, `pipe`: join a plugin, or a program that speaks in lines, to a kernel until its run ends."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ganglion.cli.settings import Settings
from ganglion.errors import CallFailed, PeerLost, RemoteProtocolError, UsageError
from ganglion.limits import RECONNECT_S, RETRY_S

if TYPE_CHECKING:
    from ganglion.supervisor.connection import Connection

_TELL_S = 5.0  # between two lines that say so


@click.command("attach")
@click.argument("role", type=click.Choice(["environment", "observer"]))
@click.argument("name")
@click.option("--as", "uid", metavar="UID", help="The environment of the document whose place to take. [NAME]")
@click.option("--run", metavar="RUN", default="last", help="The run that an observer looks at. [last]")
@click.option("--wait", is_flag=True, help="Try again until there is a run that waits for it.")
@click.option("--allow", multiple=True, metavar="PACKAGE", help="A package that NAME may be an import path into.")
@click.pass_obj
def attach(
    settings: Settings, role: str, name: str, uid: str | None, run: str, wait: bool, allow: tuple[str, ...]
) -> int:
    """Join the plugin NAME to a kernel: the environment that a document declares with `attach: true`, or an observer.

    The parameters of an environment come from the document. Ends with status 0 when the run tells it to leave; an
    observer when its run has ended.
    """
    from ganglion.peer.main import serve

    allowed = [*allow, *filter(None, [os.environ.get("GANGLION_ALLOW")])]
    told_s = until_s = 0.0
    joined = False

    def on_join() -> None:
        nonlocal joined
        joined = True

    while True:
        reason = f"no kernel is running; looked below {settings.results} and the runtime folder"
        for connection in _connections(settings):
            try:
                variables = _variables(connection, role, name, uid or name, run)
                return serve({**variables, "GANGLION_ALLOW": ",".join(allowed)}, on_join)
            except (PeerLost, RemoteProtocolError, CallFailed) as error:
                reason = str(error)
                if joined:  # a broker that is lost is replaced, and the run waits for this environment
                    joined, until_s = False, time.monotonic() + RECONNECT_S
        now_s = time.monotonic()
        if not wait and now_s >= until_s:
            raise RemoteProtocolError(reason)
        if now_s - told_s >= _TELL_S:
            click.echo(f"waiting for a run that awaits {uid or name!r}: {reason}", err=True)
            told_s = now_s
        time.sleep(RETRY_S["attach"])


def _connections(settings: Settings) -> Sequence[Connection]:
    """Return the kernels to try: the one that was named, else all that are alive, newest first."""
    from ganglion.supervisor.connection import find_connections, read_connection

    if settings.kernel is not None:
        try:
            return [read_connection(settings.kernel)]
        except UsageError:
            return []
    return [connection for _, connection in find_connections(settings.results)]


def _variables(connection: Connection, role: str, name: str, uid: str, run: str) -> dict[str, str]:
    """Return what the process needs to find its place."""
    keys = connection.keys("attach" if role == "environment" else "observer")
    variables = {
        **(keys.variables() if keys is not None else {}),
        "GANGLION_ENDPOINT": connection.endpoint,
        "GANGLION_NAME": uid,
        "GANGLION_TOKEN": connection.attach_token,
        "GANGLION_ROLE": role,
        "GANGLION_PLUGIN": name,
        "GANGLION_FOLDER": str(Path.cwd()),
    }
    if role == "environment":
        return variables
    from ganglion.supervisor.operator import Operator
    from ganglion.wire.messages import RunRequest

    with Operator(connection) as operator:  # CallFailed or PeerLost if this kernel has no such run
        run = str(operator.ask("kernel.runs", RunRequest(run)).rows[0]["run"])
    return {**variables, "GANGLION_TOKEN": connection.observer_token, "GANGLION_RUN": run}


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
