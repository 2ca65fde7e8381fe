"""`ganglion ps`, `pause`, `continue`, `signal`, `stop`: what operators ask of live runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.table import aligned
from ganglion.errors import PeerLost
from ganglion.limits import DEADLINE_OTHER_S, PAUSE_ANSWER_S
from ganglion.supervisor.connection import find_connections
from ganglion.supervisor.operator import Operator, find_kernel, find_run
from ganglion.supervisor.output import printable
from ganglion.wire.messages import RunRequest, RunSignal, Signalled


@click.command("ps")
@click.argument("run", required=False, default="", metavar="[RUN]")
@click.pass_obj
def ps(settings: Settings, run: str) -> None:
    """List the processes of all live runs, or of RUN; none is an empty list."""
    rows: list[dict[str, Any]] = []
    for operator in _operators(settings, run):
        with operator:
            rows += operator.ask("kernel.processes", RunRequest(run)).rows
    if settings.json:
        click.echo(json.dumps(rows, indent=2))
        return
    cells = [[show(row) for show in _COLUMNS.values()] for row in rows]
    for line in aligned([[name.upper() for name in _COLUMNS], *cells]):
        click.echo(line)


def _operators(settings: Settings, run: str) -> list[Operator]:
    if run:
        return [find_run(settings.results, settings.kernel, run)]
    if settings.kernel is not None:
        return [Operator(find_kernel(settings.results, settings.kernel)[1])]
    found = []
    for _, connection in find_connections(settings.results):
        try:
            found.append(Operator(connection))
        except PeerLost:
            continue  # it has just ended
    return found


def _number(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: "-" if row.get(key) is None else str(row[key])


_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "run": lambda row: row.get("run") or "-",
    "name": lambda row: str(row.get("name")),
    "role": lambda row: str(row.get("role")),
    "worker": _number("worker"),
    "pid": _number("pid"),
    "state": lambda row: str(row.get("state")),
    "heard": lambda row: "-" if row.get("heard_ms") is None else f"{row['heard_ms'] / 1000:.1f} s",
    "waiting for": lambda row: ", ".join(row.get("waiting_for") or []) or "-",
    "cpu": lambda row: f"{row.get('cpu_s', 0.0):.1f} s",
    "memory": lambda row: f"{row.get('memory_bytes', 0) / 2**20:.0f} MB",
    "restarts": lambda row: str(row.get("restarts", 0)),
    "excused": lambda row: str(row.get("excused", 0)),
}


_run = click.argument("run", metavar="RUN")
_steps = click.option("--steps", type=click.IntRange(min=1), metavar="N", help="go on for N steps, then stand again")
_phase = click.option("--phase", metavar="PHASE", help="name or number of the phase that is meant")
_worker = click.option("--worker", type=click.IntRange(min=0), metavar="N", help="one worker only")
_reason = click.option("--reason", default="", metavar="TEXT", help="why; kept with the signal")


@click.command("pause")
@_run
@_steps
@_phase
@_worker
@_reason
@click.pass_obj
def pause(settings: Settings, run: str, steps: int | None, phase: str | None, worker: int | None, reason: str) -> int:
    """Let the workers of RUN stand at their next step boundary; return when they do, and print where each one is."""
    wishes = [RunSignal(run, "PAUSE", phase, worker, reason)]
    if steps is not None:
        wishes.append(RunSignal(run, "CONTINUE", phase, worker, reason, steps))
    return _send(settings, *wishes)


@click.command("continue")
@_run
@_steps
@_phase
@_worker
@_reason
@click.pass_obj
def go_on(settings: Settings, run: str, steps: int | None, phase: str | None, worker: int | None, reason: str) -> int:
    """Let the paused workers of RUN go on; with --steps return when they stand again, and print where each one is."""
    return _send(settings, RunSignal(run, "CONTINUE", phase, worker, reason, steps))


@click.command("signal")
@_run
@click.argument("name", metavar="NAME")
@_phase
@_worker
@_reason
@click.pass_obj
def signal(settings: Settings, run: str, name: str, phase: str | None, worker: int | None, reason: str) -> int:
    """Send the flow signal NAME (RESET, STOP_PHASE, ...) to RUN and print the governor's answer."""
    return _send(settings, RunSignal(run, name.upper().replace("-", "_"), phase, worker, reason))


def _send(settings: Settings, *wishes: RunSignal) -> int:
    """Send flow signals up to one that is refused; print the governor's last answer, and return the exit status.

    The answer comes when all workers stand if PAUSE is among them.
    """
    with find_run(settings.results, settings.kernel, wishes[0].run) as operator:
        for wish in wishes:
            answer: Signalled = operator.ask("kernel.signal", wish, PAUSE_ANSWER_S + DEADLINE_OTHER_S)
            if not answer.accepted:
                break
    return _say(settings, answer)


@click.command("stop")
@_run
@click.option("--now", is_flag=True, help="cut the running episodes; they are stored as truncated")
@click.option("--reason", default="", metavar="TEXT", help="why; kept with the run")
@click.pass_obj
def stop(settings: Settings, run: str, now: bool, reason: str) -> int:
    """Interrupt RUN; its `ganglion run` ends with 130."""
    with find_run(settings.results, settings.kernel, run) as operator:
        return _say(settings, operator.ask("kernel.stop", RunRequest(run, now, reason)))


def _say(settings: Settings, answer: Signalled) -> int:
    if settings.json:
        click.echo(json.dumps({"accepted": answer.accepted, "text": answer.text}))
    else:
        click.echo("\n".join(printable(line) for line in answer.text.split("\n")))
    return 0 if answer.accepted else 1
