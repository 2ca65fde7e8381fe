"""The live view of a run on a terminal: a bar per phase, steps per second, elapsed and remaining time, returns."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from ganglion import __version__
from ganglion.cli.progress import Progress
from ganglion.cli.settings import Settings
from ganglion.supervisor import event
from ganglion.supervisor.output import printable

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Outcome
    from ganglion.wire.messages import RunEvent

_BARS = "▁▂▃▄▅▆▇█"
_REDRAW_S = 0.1  # at most ten redraws a second
_WIDTH = 12
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
    bar: TaskID  # in episodes
    steps: TaskID  # never shown: its speed is the steps per second
    name: str
    episodes: int | None
    next: dict[Any, int] = field(default_factory=dict)  # worker -> number of the episode that it is in
    ended: int = 0  # episodes seen, and the steps in them
    taken: int = 0
    open: dict[Any, int] = field(default_factory=dict)  # worker -> steps of the episode that it is in
    tick: int | None = None  # with bodies: the newest of which a worker has told
    paused: str = ""
    returns: dict[str, list[float]] = field(default_factory=dict)
    evaluated: dict[str, float | None] = field(default_factory=dict)  # mean return of the last evaluation


class LiveProgress(Progress):
    """Draw one line per phase, and below it what a run waits for."""

    def __init__(
        self, settings: Settings, out: TextIO, err: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(settings, out, err)
        self._clock = clock
        self._console = Console(file=out, highlight=False)
        # Nothing draws by itself: a thread of its own would be one more thing that forks and signals meet.
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
        self._started_s: dict[str, float] = {}
        self._participants: dict[str, str] = {}
        self._waiting = ""
        self._drawn_s = -_REDRAW_S

    def begin(self, run: str, seed: str, folder: str) -> None:
        """Print the first line."""
        self._started_s[run] = self._clock()
        self.note(f"ganglion {__version__} · run {run} · seed {seed} · {folder}")

    def show(self, run: str, news: RunEvent) -> None:
        """Take in an event and draw, unless the last drawing is very young."""
        phase = self._phases.get((run, news.fields.get("phase")))
        if news.event == event.RUN_STARTED:
            self._participants[run] = printable(str(news.fields.get("participants", "")))
        elif news.event == event.WAITING:
            self._waiting = printable(str(news.fields.get("text", "")))
        elif news.event == event.PHASE_STARTED:
            self._start_phase(run, news.fields)
        elif phase is not None:
            self._change(phase, news.event, news.fields)
            self._bars.update(phase.steps, completed=phase.taken + sum(phase.open.values()))
        if self._clock() - self._drawn_s >= _REDRAW_S or news.event == event.PHASE_ENDED:
            self.refresh()

    def refresh(self) -> None:
        """Draw: time passes without events, too."""
        if not self._phases and not self._waiting:
            return
        self._drawn_s = self._clock()
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        tasks = {task.id: task for task in self._bars.tasks}
        runs = {run for run, _ in self._phases}
        for (run, _), phase in self._phases.items():
            self._describe(phase, tasks, f"{printable(run)} " if len(runs) > 1 else "")
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
        for line in (f"{outcome.run} {last}" if len(self._started_s) > 1 else last, *more):
            self.note(line)

    def close(self) -> None:
        """Give the terminal back."""
        self._leave(list(self._phases))

    # -- events -------------------------------------------------------------------------------------------------------
    def _start_phase(self, run: str, fields: dict[str, Any]) -> None:
        participants = self._participants.pop(run, "")
        if participants:
            took_s = self._clock() - self._started_s.get(run, self._clock())
            self.note(f"up in {took_s:.1f} s: broker, {participants}")
        self._waiting = ""
        episodes = fields.get("episodes")
        episodes = None if episodes is None else episodes * (fields.get("workers") or 1)
        key, name = (run, fields.get("phase")), printable(str(fields.get("name", fields.get("phase"))))
        known = self._phases.get(key)  # it begins again
        bar = self._bars.add_task("", total=episodes, count="", more="") if known is None else known.bar
        steps = self._bars.add_task("", total=None, visible=False) if known is None else known.steps
        self._phases[key] = _Phase(bar, steps, name, episodes)

    def _change(self, phase: _Phase, what: str, fields: dict[str, Any]) -> None:
        """Take in an event of a phase that has started."""
        worker = fields.get("worker"), fields.get("mode")
        if what == event.PHASE_ENDED:
            self._bars.stop_task(phase.bar)
        elif what in (event.PHASE_PAUSED, event.PHASE_RESUMED):
            workers = ", ".join(str(worker) for worker in fields.get("workers") or ())
            phase.paused = f"paused: worker {workers}" if workers else ""
        elif what == event.EVALUATION_ENDED:
            phase.evaluated = {agent: metrics.get("return") for agent, metrics in fields["metrics"].items()}
        elif what == event.STEPS_TAKEN:
            self._waiting = ""
            episode = int(fields.get("episode", 0))
            if "tick" in fields:
                phase.tick, phase.open[worker] = int(fields["tick"]), int(fields.get("steps", 0))
                phase.next[worker] = max(phase.next.get(worker, 0), sum(fields.get("episodes", {}).values()))
            elif episode >= phase.next.get(worker, 0):  # else its end came before
                phase.next[worker], phase.open[worker] = episode, int(fields.get("steps", 0))
        elif what == event.EPISODE_ENDED:
            self._waiting = ""
            if "episodes" in fields:  # with bodies: the newest of some environment, and for how many it stands
                phase.next[worker] = phase.next.get(worker, 0) + int(fields["episodes"])
            else:
                phase.taken += int(fields.get("steps", 0))
                phase.open.pop(worker, None)
                phase.next[worker] = int(fields.get("episode", phase.next.get(worker, 0))) + 1
            if fields.get("mode") is None:  # else of an evaluation: none of the phase's own
                phase.ended += 1
                for agent, value in (fields.get("returns") or {}).items():
                    if isinstance(value, int | float):
                        phase.returns.setdefault(agent, []).append(float(value))

    # -- drawing ------------------------------------------------------------------------------------------------------
    def _describe(self, phase: _Phase, tasks: dict[TaskID, Task], run: str) -> None:
        """Write the words of a bar."""
        task, speed = tasks[phase.bar], tasks[phase.steps].speed
        # An episode has its number: a run that was resumed has those that were there before.
        done = sum(number for (_, mode), number in phase.next.items() if mode is None)
        count = f"{done}/{phase.episodes} episodes" if phase.episodes else f"{done} episodes"
        more = []
        if phase.tick is not None:
            count += f"  tick {phase.tick}"
        if phase.paused:
            count += f"  {phase.paused}"
        elif task.stop_time is None and speed is not None:
            count += f"  {speed:.0f} steps/s" if speed >= 1 else f"  {speed:.2g} steps/s"
        mean = phase.taken / phase.ended if phase.ended else 0.0
        begun = sum(steps for (_, mode), steps in phase.open.items() if mode is None)
        part = done + min(begun / mean, len(phase.open)) if mean else float(done)
        if phase.episodes and speed and mean and task.stop_time is None:
            left_s = max(0.0, phase.episodes - part) * mean / speed
            more.append(f"ETA {dt.timedelta(seconds=int(left_s))}")
        for agent, returns in phase.returns.items():
            tenth = max(1, int(len(returns) * _SMOOTH))
            first, last = sum(returns[:tenth]) / tenth, sum(returns[-tenth:]) / tenth
            evaluated = phase.evaluated.get(agent)
            text = f"{printable(agent)} {first:.4g} → {last:.4g} {sparkline(returns)}"
            more.append(text if evaluated is None else f"{text} evaluated {evaluated:.4g}")
        self._bars.update(phase.bar, completed=part, description=run + phase.name, count=count, more="   ".join(more))

    def _leave(self, keys: list[tuple[str, Any]]) -> None:
        """Print bars for good, and draw them no more."""
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
            self._bars.remove_task(phase.steps)
