"""The live view of a run on a terminal: a bar per phase, steps per second, elapsed and remaining time, returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from ganglion import __version__
from ganglion.cli.progress import Progress, span
from ganglion.cli.settings import Settings
from ganglion.supervisor import event
from ganglion.supervisor.output import printable
from ganglion.supervisor.pace import Pace, thinned

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Outcome
    from ganglion.wire.messages import RunEvent

_BARS = "▁▂▃▄▅▆▇█"
_REDRAW_S = 0.1  # at most ten redraws a second
_WIDTH = 12
_LABEL, _CURVE_ROWS, _CURVE_WIDTH = 9, 5, 72
_CURVE_EPISODES, _CURVES = 10, 3  # for a phase with at least this many episodes; for this many agents
_SMOOTH = 0.1  # share of all episodes so far: the first and the last tenth are compared


def _bars(values: list[float], width: int, rows: int) -> tuple[list[str], float, float]:
    """Return numbers, thinned to `width` by means, as bars of `rows` rows, and the least and greatest of the means."""
    means = thinned(values, width)
    low, high, full = min(means), max(means), rows * len(_BARS)
    if low == high:  # equal values have no scale
        heights = [full // 2 + 1] * len(means)
    else:
        heights = [1 + min(full - 1, int((mean - low) / (high - low) * full)) for mean in means]
    edge = [len(_BARS) * row for row in reversed(range(rows))]
    lines = ["".join(f" {_BARS}"[max(0, min(len(_BARS), height - at))] for height in heights) for at in edge]
    return lines, low, high


def sparkline(values: list[float], width: int = _WIDTH) -> str:
    """Return numbers as a row of bars, thinned to `width` by means."""
    return _bars(values, width, 1)[0][0] if values else ""


def curve(title: str, values: list[float], width: int) -> list[str]:
    """Return numbers as a picture with a title and both axes."""
    lines, low, high = _bars(values, max(1, width - _LABEL - 2), _CURVE_ROWS)
    marks = [f"{high:.4g}", *[""] * (_CURVE_ROWS - 2), f"{low:.4g}"]
    drawn = [f"{mark:>{_LABEL}} ┤{line}" for mark, line in zip(marks, lines, strict=True)]
    return [title, *drawn, f"{'episode':>{_LABEL}} └1{len(values):>{max(1, len(lines[0]) - 1)}}"]


@dataclass(slots=True)
class _Phase:
    bar: TaskID  # in episodes
    pace: Pace
    evaluated: dict[str, float | None] = field(default_factory=dict)  # mean return of the last evaluation


class LiveProgress(Progress):
    """Draw one line per phase, and below it the wait of a run."""

    def __init__(
        self, settings: Settings, out: TextIO, err: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(settings, out, err, clock)
        self._console = Console(file=out, highlight=False)
        # No automatic drawing: a thread would interfere with forks and signals.
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(_WIDTH),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[more]}", markup=False),
            console=self._console,
            auto_refresh=False,
            get_time=clock,
        )
        self._live: Live | None = None
        self._phases: dict[tuple[str, Any], _Phase] = {}
        self._participants: dict[str, str] = {}
        self._waiting = ""
        self._drawn_s = -_REDRAW_S

    def begin(self, run: str, seed: str, folder: str) -> None:
        """Print the first line."""
        super().begin(run, seed, folder)
        self.note(f"ganglion {__version__} · run {run} · seed {seed} · {folder}")

    def show(self, run: str, news: RunEvent) -> None:
        """Process an event and draw, unless the last drawing is less than `_REDRAW_S` old."""
        phase = self._phases.get((run, news.fields.get("phase")))
        if news.event == event.RUN_STARTED:
            self._participants[run] = printable(str(news.fields.get("participants", "")))
        elif news.event == event.WAITING:
            self._waiting = printable(str(news.fields.get("text", "")))
        elif news.event == event.PHASE_STARTED:
            self._start_phase(run, news.fields)
        elif phase is not None:
            self._change(phase, news.event, news.fields)
        if self.clock() - self._drawn_s >= _REDRAW_S or news.event == event.PHASE_ENDED:
            self.refresh()

    def refresh(self) -> None:
        """Draw; the time changes without events, too."""
        if not self._phases and not self._waiting:
            return
        self._drawn_s = self.clock()
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        runs = {run for run, _ in self._phases}
        for (run, _), phase in self._phases.items():
            self._describe(phase, f"{printable(run)} " if len(runs) > 1 else "")
        waiting = [Text(self._waiting, style="yellow")] if self._waiting else []
        self._live.update(Group(self._bars, *waiting), refresh=True)

    def note(self, text: str) -> None:
        """Print a sentence above the bars."""
        self._console.print(Text(text))

    def end(self, outcome: Outcome, store: str | None) -> None:
        """Leave the bars of a run as they are and print the end below them."""
        self._leave([key for key in self._phases if key[0] == outcome.run])
        self._story(outcome)
        last, *more = self._ending(outcome, store)
        for line in (f"{outcome.run} {last}" if len(self.started_s) > 1 else last, *more):
            self.note(line)
        if len(self.started_s) == 1:
            self._draw_curves(outcome.run)
        super().end(outcome, store)

    def _draw_curves(self, run: str) -> None:
        """Draw the returns of the phase with the most episodes over time."""
        paces = [pace for (of, _), pace in self.paces.items() if of == run]
        pace = max(paces, key=lambda pace: pace.episodes, default=None)
        if pace is None or pace.episodes < _CURVE_EPISODES:
            return
        for agent, returns in list(pace.returns.items())[:_CURVES]:
            title = f"\nreturn of {printable(agent)}, phase {printable(pace.name)}"
            for line in curve(title, returns, min(_CURVE_WIDTH, self._console.width)):
                self.note(line)

    def close(self) -> None:
        """Give the terminal back."""
        self._leave(list(self._phases))

    # -- events -------------------------------------------------------------------------------------------------------
    def _start_phase(self, run: str, fields: dict[str, Any]) -> None:
        participants = self._participants.pop(run, "")
        if participants:
            took_s = self.clock() - self.started_s.get(run, self.clock())
            self.note(f"up in {took_s:.1f} s: broker, {participants}")
        self._waiting = ""
        key = run, fields.get("phase")
        pace = self.paces[key]
        known = self._phases.get(key)  # the phase begins again
        bar = self._bars.add_task("", total=pace.limit, count="", more="") if known is None else known.bar
        self._phases[key] = _Phase(bar, pace)

    def _change(self, phase: _Phase, what: str, fields: dict[str, Any]) -> None:
        """Process an event of a phase that has started."""
        if what == event.PHASE_ENDED:
            self._bars.stop_task(phase.bar)
        elif what == event.EVALUATION_ENDED:
            phase.evaluated = {agent: metrics.get("return") for agent, metrics in fields["metrics"].items()}
        elif what in (event.STEPS_TAKEN, event.EPISODE_ENDED):
            self._waiting = ""

    # -- drawing ------------------------------------------------------------------------------------------------------
    def _describe(self, phase: _Phase, run: str) -> None:
        """Write the text of a bar."""
        pace, more = phase.pace, []
        count = f"{pace.episodes}/{pace.limit} episodes" if pace.limit else f"{pace.episodes} episodes"
        speed, left_s = pace.steps_per_s, pace.left_s(self.clock())
        if pace.tick is not None:
            count += f"  tick {pace.tick}"
        if pace.paused:
            count += f"  paused: worker {', '.join(map(str, pace.paused))}"
        elif pace.ended_s is None and speed is not None:
            count += f"  {speed:.0f} steps/s" if speed >= 1 else f"  {speed:.2g} steps/s"
        if left_s is not None:
            more.append(f"ETA {span(left_s)}")
        for agent, returns in pace.returns.items():
            tenth = max(1, int(len(returns) * _SMOOTH))
            first, last = sum(returns[:tenth]) / tenth, sum(returns[-tenth:]) / tenth
            evaluated = phase.evaluated.get(agent)
            text = f"{printable(agent)} {first:.4g} → {last:.4g} {sparkline(returns)}"
            more.append(text if evaluated is None else f"{text} evaluated {evaluated:.4g}")
        named = run + printable(pace.name)
        self._bars.update(phase.bar, completed=pace.part, description=named, count=count, more="   ".join(more))

    def _leave(self, keys: list[tuple[str, Any]]) -> None:
        """Print bars for the last time, and stop drawing them."""
        self.refresh()
        phases = [self._phases.pop(key) for key in keys]
        if not self._phases and self._live is not None:
            self._live.stop()
            self._live, self._waiting = None, ""
        bars = {phase.bar for phase in phases}
        if bars:
            self._console.print(self._bars.make_tasks_table([t for t in self._bars.tasks if t.id in bars]))
        for phase in phases:
            self._bars.remove_task(phase.bar)
