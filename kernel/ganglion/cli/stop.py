"""`ganglion stop`: interrupts a live run, after the running episode or now."""

from __future__ import annotations

import json

import click

from ganglion.cli.settings import Settings
from ganglion.supervisor.operator import find_run
from ganglion.supervisor.output import printable
from ganglion.wire.messages import RunRequest

__all__ = ["command"]


@click.command("stop")
@click.argument("run", metavar="RUN")
@click.option("--now", is_flag=True, help="cut the running episodes; they are stored as truncated")
@click.option("--reason", default="", metavar="TEXT", help="why; kept with the run")
@click.pass_obj
def command(settings: Settings, run: str, now: bool, reason: str) -> int:
    """Interrupt RUN; its `ganglion run` ends with 130."""
    with find_run(settings.results, settings.kernel, run) as operator:
        answer = operator.ask("kernel.stop", RunRequest(run, now, reason))
    if settings.json:
        click.echo(json.dumps({"accepted": answer.accepted, "text": answer.text}))
    else:
        click.echo("\n".join(printable(line) for line in answer.text.split("\n")))
    return 0 if answer.accepted else 1
