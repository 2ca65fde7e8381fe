"""The live view of a run on a terminal: a bar per phase, steps per second, returns as they grow."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ganglion import __version__
from ganglion.cli.progress import Progress, following
from ganglion.cli.settings import Settings
from ganglion.supervisor import event
from ganglion.supervisor.output import printable

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Outcome
    from ganglion.wire.messages import RunEvent

__all__ = ["LiveProgress", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
_REDRAW_S = 0.1  # at most ten redraws a second
_WIDTH = 12
_RATE_SPAN_S = 2.0
_SMOOTH = 0.1  # of all episodes so far: the first and the last tenth are compared


def sparkline(values: list[float], width: int = _WIDTH) -> str:
    """Return numbers as a row of bars, thinned to `width` by means."""
    if not values:
        return ""
    count = min(width, len(values))
    cells = [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    means = [sum(cell) / len(cell) for cell in cells]
    low, high = min(means), max(means)
    if low == high:  # neither good nor bad: nothing to compare it with
        return _BARS[len(_BARS) // 2] * count
    span = high - low
    return "".join(_BARS[min(len(_BARS) - 1, int((mean - low) / span * len(_BARS)))] for mean in means)


@dataclass(slots=True)
class _Phase:
    name: str
    episodes: int | None
    done: int = 0
    steps: int = 0
    ended: bool = False
    returns: dict[str, list[float]] = field(default_factory=dict)
    evaluated: dict[str, float | None] = field(default_factory=dict)  # mean return of the last evaluation


class LiveProgress(Progress):
    """Draw one line per phase, and below it for whom a run waits."""

    def __init__(self, settings: Settings, out: TextIO, err: TextIO) -> None:
        super().__init__(settings, out, err)
        self._console = Console(file=out, highlight=False)
        self._live: Live | None = None
        self._phases: dict[tuple[str, Any], _Phase] = {}
        self._started_s: dict[str, float] = {}
        self._participants: dict[str, str] = {}
        self._waiting = ""
        self._drawn_s = 0.0
        self._rates: deque[tuple[float, int]] = deque()

    def begin(self, run: str, seed: str, folder: str) -> None:
        """Print the first line."""
        self._started_s[run] = time.monotonic()
        self._print(f"ganglion {__version__} · run {run} · seed {seed} · {folder}")

    def show(self, run: str, news: RunEvent) -> None:
        """Take in an event and draw, unless the last drawing is very young."""
        handler = {
            event.RUN_STARTED: self._run_started,
            event.PHASE_STARTED: self._phase_started,
            event.PHASE_ENDED: self._phase_ended,
            event.EPISODE_ENDED: self._episode_ended,
            event.EVALUATION_ENDED: self._evaluation_ended,
            event.WAITING: self._wait,
        }.get(news.event)
        if handler is not None:
            handler(run, news.fields)
        now_s = time.monotonic()
        if now_s - self._drawn_s >= _REDRAW_S or news.event == event.PHASE_ENDED:
            self._draw(now_s)

    def note(self, text: str) -> None:
        """Print a sentence above the bars."""
        self._print(text)

    def end(self, outcome: Outcome, store: str) -> None:
        """Leave the bars as they are and print the end below them."""
        self._draw(time.monotonic())
        self._stop()
        self._phases.clear()
        self._story(outcome)
        self._print(self._summary(outcome, store))
        for line in following(outcome, store):
            self._print(line)

    def close(self) -> None:
        """Give the terminal back."""
        self._stop()

    # -- events -------------------------------------------------------------------------------------------------------
    def _run_started(self, run: str, fields: dict[str, Any]) -> None:
        self._participants[run] = printable(str(fields.get("participants", "")))

    def _phase_started(self, run: str, fields: dict[str, Any]) -> None:
        if run in self._participants:
            took_s = time.monotonic() - self._started_s.get(run, time.monotonic())
            self._print(f"up in {took_s:.1f} s: broker, {self._participants.pop(run)}")
        self._waiting = ""
        phase = _Phase(printable(str(fields.get("name", fields.get("phase")))), fields.get("episodes"))
        workers = fields.get("workers") or 1
        if phase.episodes is not None:
            phase.episodes *= workers
        self._phases[run, fields.get("phase")] = phase

    def _phase_ended(self, run: str, fields: dict[str, Any]) -> None:
        phase = self._phases.get((run, fields.get("phase")))
        if phase is not None:
            phase.ended = True

    def _episode_ended(self, run: str, fields: dict[str, Any]) -> None:
        self._waiting = ""
        phase = self._phases.get((run, fields.get("phase")))
        if phase is None:
            return
        steps = int(fields.get("steps", 0))
        phase.steps += steps
        self._rates.append((time.monotonic(), steps))
        if fields.get("mode") is not None:  # of an evaluation: none of the phase's own
            return
        phase.done += 1
        for agent, value in (fields.get("returns") or {}).items():
            if isinstance(value, int | float):
                phase.returns.setdefault(agent, []).append(float(value))

    def _evaluation_ended(self, run: str, fields: dict[str, Any]) -> None:
        phase = self._phases.get((run, fields.get("phase")))
        if phase is not None:
            phase.evaluated = {agent: metrics.get("return") for agent, metrics in fields["metrics"].items()}

    def _wait(self, run: str, fields: dict[str, Any]) -> None:
        self._waiting = printable(str(fields.get("text", "")))

    # -- drawing ------------------------------------------------------------------------------------------------------
    def _draw(self, now_s: float) -> None:
        if not self._phases and not self._waiting:
            return
        self._drawn_s = now_s
        if self._live is None:
            # Nothing draws by itself: a thread of its own would be one more thing that forks and signals meet.
            self._live = Live(
                console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        lines = [self._line(phase, now_s) for phase in self._phases.values()]
        if self._waiting:
            lines.append(Text(self._waiting, style="yellow"))
        self._live.update(Text("\n").join(lines), refresh=True)

    def _line(self, phase: _Phase, now_s: float) -> Text:
        line = Text(f"{phase.name:<8} ")
        if phase.episodes:
            full = min(_WIDTH, _WIDTH * phase.done // phase.episodes)
            line.append("━" * full, style="green").append("━" * (_WIDTH - full), style="dim")
            line.append(f"  {phase.done}/{phase.episodes} episodes")
        else:
            line.append(f"{phase.done} episodes")
        if not phase.ended:
            line.append(f"  {self._rate(now_s):.0f} steps/s")
        for agent, returns in phase.returns.items():
            tenth = max(1, int(len(returns) * _SMOOTH))
            first, last = sum(returns[:tenth]) / tenth, sum(returns[-tenth:]) / tenth
            line.append(f"   {printable(agent)} {first:.4g} → {last:.4g} {sparkline(returns)}")
            if phase.evaluated.get(agent) is not None:
                line.append(f" evaluated {phase.evaluated[agent]:.4g}")
        return line

    def _rate(self, now_s: float) -> float:
        while self._rates and now_s - self._rates[0][0] > _RATE_SPAN_S:
            self._rates.popleft()
        span_s = max(0.1, now_s - self._rates[0][0]) if self._rates else 1.0
        return sum(steps for _, steps in self._rates) / span_s

    def _print(self, text: str) -> None:
        self._console.print(Text(text))

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
