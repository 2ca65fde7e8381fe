"""`ganglion observe`: what runs tell, handed to an observer: of a pipe, or of what was stored."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ganglion.cli.extension import UsageError, registry
from ganglion.cli.settings import Settings
from ganglion.cli.stores import open_reader
from ganglion.sdk import Observer, check_parameters, construct
from ganglion_observers.feed import Feed, events_stored, events_told
from ganglion_observers.scalars import tool


@click.command("observe")
@click.argument("name", metavar="OBSERVER")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE...] [RUN...]")
@click.option("--attached", is_flag=True, hidden=True, help="say first that it is ready; events come by standard input")
@click.pass_obj
def observe(settings: Settings, /, name: str, words: tuple[str, ...], attached: bool) -> int:
    """Hand what runs tell to the plugin OBSERVER: csv, tensorboard, wandb, mlflow, or one of another distribution.

    With RUN what was stored of these runs, also years after; without, the events that `ganglion run --json` prints,
    from standard input. `ganglion run --observe OBSERVER` does it while the run runs. KEY=VALUE are parameters of the
    observer; a VALUE is JSON, or else text.
    """
    params = dict(map(_parameter, (word for word in words if "=" in word)))
    runs = [word for word in words if "=" not in word]
    cls: type[Observer] = registry.load("observer", name)
    check_parameters(cls, params)
    if hasattr(cls, "check"):
        cls.check()

    def make(run: str) -> Observer:
        folder = str(Path(settings.results, run).absolute())
        return construct(cls, params, {}, {"run": run, "folder": folder})

    def tell(text: str) -> None:
        click.echo(f"observer {name}: {text}", err=True)

    feed = Feed(make, tell)
    try:
        if runs:
            with open_reader(settings) as reader:
                for run in [reader.resolve(word) for word in runs]:
                    for event in events_stored(reader, run):
                        feed.take(event)
        else:
            if attached:
                click.echo(f"observer {name} is connected")
                sys.stdout.flush()
            elif sys.stdin.isatty():
                raise UsageError(
                    "expected RUN, or events on standard input: ganglion run --json | ganglion observe ..."
                )
            for event in events_told(sys.stdin.buffer, tell):
                feed.take(event)
    finally:
        feed.close()
    return 1 if feed.failed else 0


@click.command("metrics")
@click.option("--port", type=click.IntRange(0, 65_535), default=9642, metavar="PORT", help="0: any that is free [9642]")
@click.option("--attached", is_flag=True, hidden=True, help="end with standard input")
@click.pass_obj
def metrics(settings: Settings, /, port: int, attached: bool) -> None:
    """Serve numbers about the live runs of the results folder for Prometheus, at 127.0.0.1:PORT/metrics.

    `ganglion run --metrics PORT` does it while the run runs, and its processes count their calls then, too.
    """
    from ganglion_observers.metrics import Collector

    collector = Collector(settings)
    library = tool("prometheus_client", "metrics")
    registry = library.CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = library.start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        raise UsageError(f"--port: 127.0.0.1:{port} is not free: {error.strerror}; 0 takes any") from error
    click.echo(f"metrics are at http://127.0.0.1:{server.server_port}/metrics")
    sys.stdout.flush()
    try:
        if attached:
            for _ in sys.stdin.buffer:
                continue
        else:
            thread.join()
    finally:
        server.shutdown()


def _parameter(word: str) -> tuple[str, Any]:
    key, _, text = word.partition("=")
    try:
        return key, json.loads(text)
    except ValueError:
        return key, text
