"""`ganglion top`: a live view of what kernels carry out: runs, their processes, rates, queues, returns; with keys."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.table import aligned, printable, tell
from ganglion_watch.processes import operators, span

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ganglion.cli.extension import Operator

_BARS = "▁▂▃▄▅▆▇█"
_KEYS = "p pause · c continue · n one step · s stop · q quit"
_WORDS = {"p": "pausing", "c": "continuing", "n": "one step", "s": "stopping after the episode", "S": "stopping now"}
_SLOW_MS, _GONE_MS = 2_000, 5_000  # a process that was not heard for so long is yellow, and red
_CURVE = 24
_RATE_S = 0.5  # over which rates are taken where there is but one look

Row = dict[str, Any]


@click.command("top")
@click.argument("run", required=False, default="", metavar="[RUN]")
@click.option("--interval", type=click.FloatRange(0.1, 60.0), default=1.0, metavar="S", help="between two updates [1]")
@click.pass_obj
def command(settings: Settings, run: str, interval: float) -> int:
    """Show all live runs, or RUN, and their processes, again and again; on a pipe once.

    Keys: p pauses, c continues, n makes one step, s stops after the episode (S at once), q leaves. With several runs
    they mean the newest, or the one that Tab has chosen.
    """
    view = View(settings, run)
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    if settings.json or settings.plain or dumb or not (sys.stdout.isatty() and sys.stdin.isatty()):
        view.look()
        time.sleep(_RATE_S)
        view.look()
        tell(settings, {"runs": view.runs, "processes": view.processes}, view.lines())
        return 0
    return _live(view, interval)


class View:
    """Know what kernels say of their runs, and how fast the numbers change."""

    def __init__(self, settings: Settings, run: str) -> None:
        self._settings, self._run = settings, run
        self.runs: list[Row] = []
        self.processes: list[Row] = []
        self.chosen = ""
        self.word = ""  # the answer to the last key
        self._before: dict[str, tuple[float, float, int]] = {}  # process -> when, seconds of processor, messages

    def look(self) -> None:
        """Ask all kernels; PeerLost if there is none with the run that was asked for."""
        from ganglion.cli.extension import CallFailed, DeadlineExceeded, PeerLost, RunRequest

        self.runs, self.processes = [], []
        for operator in operators(self._settings, self._run):
            with contextlib.suppress(*(() if self._run else (PeerLost, CallFailed, DeadlineExceeded))), operator:
                runs = operator.ask("kernel.runs", RunRequest(self._run)).rows
                self.runs += runs if self._run else [row for row in runs if row["reason"] is None]
                self.processes += operator.ask("kernel.processes", RunRequest(self._run)).rows
        for row in self.processes:
            row |= self._rates(row)
        names = [row["run"] for row in self.runs]
        if self.chosen not in names:
            self.chosen = names[-1] if names else ""

    def _rates(self, row: Row) -> Row:
        """Return how much of a processor a process takes, and how many messages it sends in a second, since before."""
        now_s, key = time.monotonic(), f"{row['name']} {row.get('pid')}"
        cpu_s, sent = row.get("cpu_s") or 0.0, sum((row.get("sent") or {}).values())
        then_s, cpu_before_s, sent_before = self._before.get(key, (now_s, cpu_s, sent))
        self._before[key] = now_s, cpu_s, sent
        if now_s <= then_s:
            return {"cpu_share": None, "messages_per_s": None}
        took_s = now_s - then_s
        share = max(0.0, (cpu_s - cpu_before_s) / took_s)
        return {"cpu_share": round(share, 3), "messages_per_s": round(max(0, sent - sent_before) / took_s, 1)}

    def choose_next(self) -> None:
        """Let the keys mean the next run."""
        names = [row["run"] for row in self.runs]
        if names:
            self.chosen = names[(names.index(self.chosen) + 1) % len(names)]

    def send(self, key: str, run: str) -> None:
        """Do what a key means for a run; the answer is the view's word."""
        from ganglion.cli.extension import (
            DEADLINE_OTHER_S,
            PAUSE_ANSWER_S,
            CallFailed,
            DeadlineExceeded,
            PeerLost,
            RunRequest,
            RunSignal,
            find_run,
        )

        def signal(operator: Operator, name: str, steps: int | None = None) -> Any:
            wish = RunSignal(run, name, steps=steps)
            return operator.ask("kernel.signal", wish, PAUSE_ANSWER_S + DEADLINE_OTHER_S)

        actions: dict[str, Callable[[Operator], Any]] = {
            "p": lambda operator: signal(operator, "PAUSE"),
            "c": lambda operator: signal(operator, "CONTINUE"),
            "n": lambda operator: signal(operator, "CONTINUE", 1),
            "s": lambda operator: operator.ask("kernel.stop", RunRequest(run, False, "")),
            "S": lambda operator: operator.ask("kernel.stop", RunRequest(run, True, "")),
        }
        if key not in actions:
            return
        self.word = f"{run}: {_WORDS[key]} ..."
        try:
            with find_run(self._settings.results, self._settings.kernel, run) as operator:
                self.word = printable(str(actions[key](operator).text)).replace("\n", " · ")
        except (PeerLost, CallFailed, DeadlineExceeded) as error:
            self.word = printable(str(error))

    # -- shown --------------------------------------------------------------------------------------------------------
    def lines(self) -> Iterator[str]:
        """Yield all as plain lines."""
        if not self.runs:
            yield "no run is live"
        for row in self.runs:
            yield headline(row)
            yield from (f"  {line}" for line in returns_of(row))
        if self.processes:
            yield ""
            yield from aligned([[name.upper() for name in _COLUMNS], *map(cells, self.processes)])

    def drawn(self) -> RenderableType:
        """Return all as it is drawn on a terminal."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[RenderableType] = []
        for row in self.runs:
            mark = "▸ " if row["run"] == self.chosen and len(self.runs) > 1 else ""
            parts.append(Text(mark + headline(row), style="bold"))
            parts += [Text(f"  {line}", style="cyan") for line in returns_of(row)]
        if not self.runs:
            parts.append(Text("no run is live; q leaves", style="dim"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in _COLUMNS:
            table.add_column(name, no_wrap=True, justify="right" if name in _NUMBERS else "left", overflow="ellipsis")
        for row in self.processes:
            table.add_row(*(Text(text) for text in cells(row)), style=style_of(row))
        parts += [Text(""), table, Text(""), Text(_KEYS, style="dim")]
        if self.word:
            parts.append(Text(self.word, style="yellow"))
        return Group(*parts)


def headline(row: Mapping[str, Any]) -> str:
    """Return how far a run is, in one line."""
    words = [row["run"], row["status"]]
    pace = row.get("progress")
    if row["reason"]:
        words.append(row["reason"])
    if pace is not None:
        of = "" if pace["limit"] is None else f"/{pace['limit']}"
        words.append(f"phase {(row['phase'] or 0) + 1}/{row['phases']} {pace['name']}")
        words.append(f"{pace['episodes']}{of} episodes, {pace['steps']} steps")
        if pace["steps_per_s"] is not None and row["status"] != "paused":
            words.append(f"{pace['steps_per_s']:.4g} steps/s")
    if row["reason"] is None:
        words.append(span(row["age_s"]))
    if pace is not None and pace["left_s"] is not None:
        words.append(f"ETA {span(pace['left_s'])}")
    return printable(" · ".join(map(str, words)))


def returns_of(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield for each agent how its returns went in this phase."""
    from ganglion.cli.extension import thinned

    for agent, values in ((row.get("progress") or {}).get("returns") or {}).items():
        means = thinned(values, _CURVE)
        low, span = min(means), max(means) - min(means)
        bars = "".join(_BARS[min(7, int((mean - low) / span * 8)) if span else 4] for mean in means)
        yield printable(f"{agent} {values[0]:.4g} → {values[-1]:.4g} {bars}")


_COLUMNS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "process": lambda row: row["name"],
    "pid": lambda row: row.get("pid"),
    "state": lambda row: row["state"],
    "heard": lambda row: None if row.get("heard_ms") is None else f"{row['heard_ms'] / 1000:.1f} s",
    "msg/s": lambda row: _number(row.get("messages_per_s")),
    "queue": lambda row: f"{row['queued_bytes'] / 1024:.0f} kB" if row.get("queued_bytes") else None,
    "cpu": lambda row: None if row.get("cpu_share") is None else f"{100 * row['cpu_share']:.0f} %",
    "memory": lambda row: f"{row['memory_bytes'] / 2**20:.0f} MB" if row.get("memory_bytes") else None,
    "restarts": lambda row: row.get("restarts") or None,
    "waiting for": lambda row: ", ".join(row.get("waiting_for") or ()) or None,
}
_NUMBERS = ("pid", "heard", "msg/s", "queue", "cpu", "memory", "restarts")


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}"


def cells(row: Mapping[str, Any]) -> Sequence[str]:
    """Return the texts of a process."""
    return [printable(str("-" if value is None else value)) for value in (text(row) for text in _COLUMNS.values())]


def style_of(row: Mapping[str, Any]) -> str:
    """Return how a process is drawn: by its state, and by how long it was not heard."""
    heard_ms = row.get("heard_ms")
    if row["state"] in ("lost", "failed", "gone") or (heard_ms or 0) > _GONE_MS:
        return "red"
    if row["state"] in ("paused", "awaited", "starting") or (heard_ms or 0) > _SLOW_MS:
        return "yellow"
    return ""


# -- the terminal ------------------------------------------------------------------------------------------------------
def _live(view: View, interval: float) -> int:
    """Draw until the key q; return the exit status."""
    from rich.console import Console
    from rich.live import Live

    view.look()
    with _keys() as pressed, Live(view.drawn(), console=Console(), screen=True, auto_refresh=False) as live:
        due_s = time.monotonic() + interval
        while True:
            live.update(view.drawn(), refresh=True)
            for key in pressed(max(0.0, due_s - time.monotonic())):
                if key in ("q", "\x03", "\x04", ""):
                    return 0
                if key == "\t":
                    view.choose_next()
                elif view.chosen:  # a pause is answered when all workers stand: the view goes on meanwhile
                    threading.Thread(target=view.send, args=(key, view.chosen), daemon=True).start()
            if time.monotonic() >= due_s:
                _look_again(view)
                due_s = time.monotonic() + interval


def _look_again(view: View) -> None:
    """Ask again; what has ended meanwhile is said."""
    from ganglion.cli.extension import CallFailed, DeadlineExceeded, PeerLost

    try:
        view.look()
    except (PeerLost, CallFailed, DeadlineExceeded) as error:
        view.word = printable(str(error))


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], list[str]]]:
    """Yield what waits so long for keys and returns them; the terminal is as it was afterwards. `` is its end."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(wait_s: float) -> list[str]:
        if not select.select([descriptor], [], [], wait_s)[0]:
            return []
        return list(os.read(descriptor, 64).decode(errors="replace")) or [""]

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
