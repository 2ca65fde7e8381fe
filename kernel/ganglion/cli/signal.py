"""`ganglion signal`: sends a flow signal to a live run, as its operator."""

from __future__ import annotations

import json

import click

from ganglion.cli.settings import Settings
from ganglion.limits import DEADLINE_OTHER_S, PAUSE_ANSWER_S
from ganglion.supervisor.operator import Operator, find_run
from ganglion.supervisor.output import printable
from ganglion.wire.messages import RunSignal, Signalled

__all__ = ["command", "say", "send"]


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
def command(
    settings: Settings, run: str, name: str, phase: str | None, worker: int | None, reason: str
) -> int:
    """Send the flow signal NAME (RESET, STOP_PHASE, ...) to RUN and print the governor's answer."""
    wish = RunSignal(run, name.upper().replace("-", "_"), phase, worker, reason)
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = send(operator, wish)
    return say(settings, answer)
