"""`ganglion signal`, `pause`, `continue`, `stop`: what operators say to live runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.limits import DEADLINE_OTHER_S, PAUSE_ANSWER_S
from ganglion.supervisor.operator import Operator, find_run
from ganglion.supervisor.output import printable
from ganglion.wire.messages import RunRequest, RunSignal, Signalled


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands take."""
    for decorate in (
        click.option("--reason", default="", metavar="TEXT", help="why; kept with the signal"),
        click.option("--worker", type=click.IntRange(min=0), metavar="N", help="one worker only"),
        click.option("--phase", metavar="PHASE", help="name or number of the phase that is meant"),
        click.option("--steps", type=click.IntRange(min=1), metavar="N", help="go on for N steps, then stand again"),
        click.argument("run", metavar="RUN"),
    ):
        command = decorate(command)
    return command


@click.command("pause")
@_options
@click.pass_obj
def pause(settings: Settings, run: str, steps: int | None, phase: str | None, worker: int | None, reason: str) -> int:
    """Let the workers of RUN stand at their next step boundary; return when they do, and print where each one is."""
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = send(operator, RunSignal(run, "PAUSE", phase, worker, reason))
        if steps is not None and answer.accepted:
            answer = send(operator, RunSignal(run, "CONTINUE", phase, worker, reason, steps))
    return say(settings, answer)


@click.command("continue")
@_options
@click.pass_obj
def go_on(settings: Settings, run: str, steps: int | None, phase: str | None, worker: int | None, reason: str) -> int:
    """Let the paused workers of RUN go on; with --steps return when they stand again, and print where each one is."""
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = send(operator, RunSignal(run, "CONTINUE", phase, worker, reason, steps))
    return say(settings, answer)


def send(operator: Operator, wish: RunSignal) -> Signalled:
    """Send a flow signal; return the governor's answer, which comes when all workers stand if PAUSE is in it."""
    answer: Signalled = operator.ask("kernel.signal", wish, PAUSE_ANSWER_S + DEADLINE_OTHER_S)
    return answer


def say(settings: Settings, answer: Signalled) -> int:
    """Print the governor's answer; return the exit status."""
    if settings.json:
        click.echo(json.dumps({"accepted": answer.accepted, "text": answer.text}))
    else:
        click.echo("\n".join(printable(line) for line in answer.text.split("\n")))
    return 0 if answer.accepted else 1


@click.command("signal")
@click.argument("run", metavar="RUN")
@click.argument("name", metavar="NAME")
@click.option("--phase", metavar="PHASE", help="name or number of the phase that is meant")
@click.option("--worker", type=click.IntRange(min=0), metavar="N", help="one worker only")
@click.option("--reason", default="", metavar="TEXT", help="why; kept with the signal")
@click.pass_obj
def command(settings: Settings, run: str, name: str, phase: str | None, worker: int | None, reason: str) -> int:
    """Send the flow signal NAME (RESET, STOP_PHASE, ...) to RUN and print the governor's answer."""
    wish = RunSignal(run, name.upper().replace("-", "_"), phase, worker, reason)
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = send(operator, wish)
    return say(settings, answer)


@click.command("stop")
@click.argument("run", metavar="RUN")
@click.option("--now", is_flag=True, help="cut the running episodes; they are stored as truncated")
@click.option("--reason", default="", metavar="TEXT", help="why; kept with the run")
@click.pass_obj
def stop(settings: Settings, run: str, now: bool, reason: str) -> int:
    """Interrupt RUN; its `ganglion run` ends with 130."""
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = operator.ask("kernel.stop", RunRequest(run, now, reason))
    if settings.json:
        click.echo(json.dumps({"accepted": answer.accepted, "text": answer.text}))
    else:
        click.echo("\n".join(printable(line) for line in answer.text.split("\n")))
    return 0 if answer.accepted else 1
