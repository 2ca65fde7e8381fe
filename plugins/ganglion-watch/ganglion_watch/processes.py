"""`ganglion ps`: the processes of live runs, as their kernels know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.table import aligned, tell

if TYPE_CHECKING:
    from ganglion.cli.extension import Operator


@click.command("ps")
@click.argument("run", required=False, default="", metavar="[RUN]")
@click.pass_obj
def ps(settings: Settings, run: str) -> None:
    """List the processes of all live runs, or of RUN; none is an empty list."""
    from ganglion.cli.extension import RunRequest

    rows: list[dict[str, Any]] = []
    for operator in operators(settings, run):
        with operator:
            rows += operator.ask("kernel.processes", RunRequest(run)).rows
    tell(settings, rows, aligned(cells(rows)))


def operators(settings: Settings, run: str = "") -> Iterator[Operator]:
    """Yield an operator of each living kernel, or of the one that knows a run; PeerLost if none does."""
    from ganglion.cli.extension import Operator, PeerLost, find_connections, find_kernel, find_run

    if run:
        yield find_run(settings.results, settings.kernel, run)
    elif settings.kernel is not None:
        yield Operator(find_kernel(settings.results, settings.kernel)[1])
    else:
        for _, connection in find_connections(settings.results):
            try:
                operator = Operator(connection)
            except PeerLost:
                continue  # it has just ended
            yield operator


def span(seconds: float) -> str:
    """Return a span of time as text."""
    from ganglion.cli.extension import span

    return span(seconds)


COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {  # title -> key of the row, its text
    **{name: (name, str) for name in ("run", "name", "role", "worker", "host", "pid", "state")},
    "heard": ("heard_ms", lambda heard_ms: f"{heard_ms / 1000:.1f} s"),
    "waiting for": ("waiting_for", ", ".join),
    "table": ("table", lambda state: " ".join(f"{k}={v}" for k, v in state.items() if v is not None)),
    **{name: (name, str) for name in ("stayed", "travelled")},
    "per step": ("per_step", lambda counts: "{} + {}".format(*counts)),
    "cpu": ("cpu_s", lambda cpu_s: f"{cpu_s:.1f} s"),
    "memory": ("memory_bytes", lambda memory_bytes: f"{memory_bytes / 2**20:.0f} MB"),
    **{name: (name, str) for name in ("restarts", "recovery", "excused", "placement")},
    "elapsed": ("elapsed_s", span),
    "eta": ("left_s", span),
}
"""The columns of `ganglion ps`; what is known of a run stands in the row of its governor."""


def cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the table of processes with its head, as texts."""
    return [[name.upper() for name in COLUMNS], *([_cell(row, *column) for column in COLUMNS.values()] for row in rows)]


def _cell(row: dict[str, Any], key: str, text: Callable[[Any], str]) -> str:
    return "-" if row.get(key) in (None, "", []) else text(row[key])
