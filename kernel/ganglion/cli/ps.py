"""`ganglion ps`: the processes of live runs, one line each."""

from __future__ import annotations

import json
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.errors import PeerLost
from ganglion.supervisor.connection import find_connections
from ganglion.supervisor.operator import Operator, find_kernel, find_run
from ganglion.wire.messages import RunRequest

_COLUMNS = (
    "run",
    "name",
    "role",
    "worker",
    "pid",
    "state",
    "heard",
    "waiting for",
    "cpu",
    "memory",
    "restarts",
    "excused",
)


@click.command("ps")
@click.argument("run", required=False, default="", metavar="[RUN]")
@click.pass_obj
def command(settings: Settings, run: str) -> int:
    """List the processes of all live runs, or of RUN; none is an empty list."""
    rows: list[dict[str, Any]] = []
    for operator in _operators(settings, run):
        with operator:
            rows += operator.ask("kernel.processes", RunRequest(run)).rows
    if settings.json:
        click.echo(json.dumps(rows, indent=2))
        return 0
    _table([_cells(row) for row in rows])
    return 0


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


def _cells(row: dict[str, Any]) -> list[str]:
    heard = row.get("heard_ms")
    return [
        str(row.get("run") or "-"),
        str(row.get("name")),
        str(row.get("role")),
        "-" if row.get("worker") is None else str(row["worker"]),
        "-" if row.get("pid") is None else str(row["pid"]),
        str(row.get("state")),
        "-" if heard is None else f"{heard / 1000:.1f} s",
        ", ".join(row.get("waiting_for") or []) or "-",
        f"{row.get('cpu_s', 0.0):.1f} s",
        f"{row.get('memory_bytes', 0) / 2**20:.0f} MB",
        str(row.get("restarts", 0)),
        str(row.get("excused", 0)),
    ]


def _table(rows: list[list[str]]) -> None:
    lines = [[column.upper() for column in _COLUMNS], *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS))]
    for line in lines:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
