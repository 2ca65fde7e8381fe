"""`ganglion pause`, `ganglion continue`: hold workers of a live run at their step boundaries, let them go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.signal import say, send
from ganglion.supervisor.operator import find_run
from ganglion.wire.messages import RunSignal

__all__ = ["go_on", "pause"]


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands take."""
    for decorate in (
        click.option("--reason", default="", metavar="TEXT", help="why; kept with the signal"),
        click.option("--worker", type=click.IntRange(min=0), metavar="N", help="one worker only"),
        click.option("--phase", metavar="PHASE", help="name or number of the phase that is meant"),
        click.option(
            "--steps", type=click.IntRange(min=1), metavar="N", help="go on for N steps, then stand again"
        ),
        click.argument("run", metavar="RUN"),
    ):
        command = decorate(command)
    return command


@click.command("pause")
@_options
@click.pass_obj
def pause(
    settings: Settings, run: str, steps: int | None, phase: str | None, worker: int | None, reason: str
) -> int:
    """Let the workers of RUN stand at their next step boundary; return when they do, and print where each one is."""
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = send(operator, RunSignal(run, "PAUSE", phase, worker, reason))
        if steps is not None and answer.accepted:
            answer = send(operator, RunSignal(run, "CONTINUE", phase, worker, reason, steps))
    return say(settings, answer)


@click.command("continue")
@_options
@click.pass_obj
def go_on(
    settings: Settings, run: str, steps: int | None, phase: str | None, worker: int | None, reason: str
) -> int:
    """Let the paused workers of RUN go on; with --steps return when they stand again, and print where each one is."""
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = send(operator, RunSignal(run, "CONTINUE", phase, worker, reason, steps))
    return say(settings, answer)
