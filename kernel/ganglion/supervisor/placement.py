"""Placement: the processes of a worker run free or pinned to one processor, whichever is measured to be faster."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ganglion import limits
from ganglion.supervisor.event import PHASE_PLACED
from ganglion.wire.name import Role

if TYPE_CHECKING:
    from ganglion.supervisor.launch.process import Process
    from ganglion.supervisor.runs import Member, Run
    from ganglion.supervisor.supervisor import Supervisor
    from ganglion.wire.messages import RunEvent

AUTO, FREE = "auto", "free"
"""Words of the setting `cpus`; any other value is a list of processors to which the supervisor itself is pinned."""
_TOGETHER = (Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE)  # roles of one worker that run in turn
_LOOK_SHARE = 0.02  # the most of the supervisor's time that repeated looks may take


class Comparison:
    """Decide by step counts whether the workers of a phase are faster free or pinned ("kept") to processors.

    `kept` is the present placement. Call `placed` once the workers have this placement, `count` for each step count
    that a worker reports, and `tick` periodically; when one of these returns True, place the workers again. Free and
    pinned windows alternate. Each pair of windows is one vote, and `PLACEMENT_VOTES` equal votes decide. Pinned workers
    are compared again if they become slower than they were free, for example because learning has begun or a simulator
    was started. `rates` are the steps per second of each window, by `kept`.
    """

    def __init__(self, workers: Iterable[int], kept: bool = False) -> None:
        self.kept = kept
        self.decided = False
        self.rates: dict[bool, list[float]] = {False: [], True: []}
        self._workers = frozenset(workers)
        self._watch_s = limits.PLACEMENT_WATCH_S
        self._from_s = math.inf
        self._counts: dict[int, tuple[float, int, float, int]] = {}  # worker -> time and steps, first and last

    def placed(self, now_s: float) -> None:
        """Begin a window: the workers have the placement `kept` since `now_s`."""
        self._from_s, self._counts = now_s + limits.PLACEMENT_SETTLE_S, {}

    def count(self, worker: int, at_s: float, steps: int) -> bool:
        """Take in a worker's step count at a time; return True if the workers are to be placed again."""
        if (self.decided and not self.kept) or worker not in self._workers or at_s < self._from_s:
            return False
        begun_s, begun, former_s, former = self._counts.get(worker, (at_s, steps, at_s, steps))
        if steps < former or at_s < former_s:  # a successor that replays, or the clock was set
            self.placed(at_s)
            return False
        self._counts[worker] = (begun_s, begun, at_s, steps)
        if len(self._counts) < len(self._workers):
            return False
        spans = [(last_s - first_s, last - first) for first_s, first, last_s, last in self._counts.values()]
        if min(span_s for span_s, _ in spans) < (self._watch_s if self.decided else limits.PLACEMENT_WINDOW_S):
            return False
        rate = sum(made / span_s for span_s, made in spans)
        if not self.decided:
            self._close_window(rate)
        elif rate < sum(self.rates[False]) / len(self.rates[False]):
            self.decided, self.rates, self._watch_s = False, {False: [], True: []}, 2 * self._watch_s
        else:
            self.placed(at_s)
            return False
        return True

    def tick(self, now_s: float) -> bool:
        """Leave the workers free if a window does not fill: with slow steps, a wake-up costs too little to matter."""
        if self.decided or now_s < self._from_s + limits.PLACEMENT_PATIENCE_S:
            return False
        self.kept, self.decided = False, True
        return True

    def _close_window(self, rate: float) -> None:
        self.rates[self.kept].append(rate)
        pairs = zip(self.rates[False], self.rates[True], strict=False)
        votes = [kept > limits.PLACEMENT_FASTER * free for free, kept in pairs]
        for verdict in (True, False):
            if votes.count(verdict) == limits.PLACEMENT_VOTES:
                self.kept, self.decided = verdict, True
                return
        self.kept = not self.kept


def assign(workers: Iterable[int], processors: Iterable[int], taken: Iterable[int]) -> dict[int, int]:
    """Return a processor for each worker: one of those with the fewest other workers."""
    others, found = Counter(taken), {}
    for worker in sorted(workers):
        found[worker] = min(processors, key=lambda one: (others[one], one))
        others[found[worker]] += 1
    return found


@dataclass(slots=True)
class _Placed:
    """Hold the placement of a run's workers in its present phase, and the pinned processes."""

    phase: int
    comparison: Comparison
    processors: dict[int, int]
    kept: set[Process] = field(default_factory=set)


class Placer:
    """Place the processes of runs as measured in each phase; with fewer than two processors all are free."""

    def __init__(self, supervisor: Supervisor, cpus: str) -> None:
        self._supervisor = supervisor
        self._cpus = cpus
        self._processors = supervisor.launcher.processors if cpus == AUTO else frozenset[int]()
        self._runs: dict[str, _Placed] = {}
        self._looking: asyncio.TimerHandle | None = None

    def told(self, run: Run, peer: str, news: RunEvent) -> None:
        """Take in a controller's report of its step count."""
        if len(self._processors) < 2 or run.over.is_set():
            return
        member, taken = run.members.get(peer), news.fields.get("taken")
        if member is None or not _measured(member) or type(taken) is not int or news.fields.get("phase") != run.phase:
            return  # an evaluating controller, or one of the previous phase
        placed = self._runs.get(run.id)
        if placed is None or placed.phase != run.phase:
            placed = self._begin(run)
        if placed.comparison.count(member.place.worker or 0, news.time_s, taken):
            self._place(run, placed)

    def end(self, run: Run) -> None:
        """Unpin all processes of a run, and the broker."""
        placed = self._runs.pop(run.id, None)
        if placed is not None:
            self._keep_all(placed, {})

    def of(self, run: Run, member: Member) -> str:
        """Return a text for the placement of a member's process; empty for a process started from outside."""
        if member.place.attached:
            return ""
        placed = self._runs.get(run.id)
        if placed is not None and _together(run, member):
            if not placed.comparison.decided:
                return "measuring"
            if placed.comparison.kept:
                return f"kept on {placed.processors.get(member.place.worker or 0)}"
        return FREE if self._cpus in (AUTO, FREE) else f"kept on {self._cpus}"

    # -- one run ------------------------------------------------------------------------------------------------------
    def _begin(self, run: Run) -> _Placed:
        """Begin to measure a phase, starting with the last placement of the previous phase: short phases benefit."""
        workers = {m.place.worker or 0 for m in run.members.values() if _measured(m)}
        placed = self._runs.get(run.id)
        if placed is not None and placed.processors.keys() == workers:
            placed.phase, placed.comparison = run.phase, Comparison(workers, placed.comparison.kept)
        else:
            self.end(run)
            taken = [one for other in self._runs.values() for one in other.processors.values()]
            processors = assign(workers, self._processors, taken)
            placed = self._runs[run.id] = _Placed(run.phase, Comparison(workers), processors)
        self._place(run, placed)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(limits.PLACEMENT_LOOK_S, self._look)
        return placed

    def _place(self, run: Run, placed: _Placed) -> None:
        """Place the workers of a run as its comparison says, and publish a decision."""
        comparison = placed.comparison
        self._keep(run, placed)
        comparison.placed(time.time())
        if comparison.decided:
            fields: dict[str, Any] = {"phase": placed.phase, "placement": "kept" if comparison.kept else FREE}
            if comparison.kept:
                fields["processors"] = list(placed.processors.values())
            for kept, rates in comparison.rates.items():
                fields[f"{'kept' if kept else FREE}_steps_per_s"] = round(sum(rates) / len(rates), 1) if rates else None
            self._supervisor.tell(run, PHASE_PLACED, fields)

    def _keep(self, run: Run, placed: _Placed) -> None:
        """Place all processes of the workers, including new ones, and the broker if there is one worker of one run."""
        wanted: dict[Process, int] = {}
        for member in run.members.values() if placed.comparison.kept else ():
            if _together(run, member):
                wanted[member.process] = placed.processors.get(member.place.worker or 0, 0)
        broker = self._supervisor.broker
        if wanted and broker is not None and len(placed.processors) == len(self._open()) == 1:
            wanted[broker] = next(iter(placed.processors.values()))
        self._keep_all(placed, wanted)

    def _keep_all(self, placed: _Placed, wanted: Mapping[Process, int]) -> None:
        for process in {*placed.kept, *wanted}:
            if process.launched is not None and not process.ended.is_set():
                process.launched.keep(wanted.get(process))
        placed.kept = set(wanted)

    def _open(self) -> list[Run]:
        return [run for run in self._supervisor.runs.values() if run.outcome is None and not run.queued]

    def _look(self) -> None:
        """Place again periodically: environments start threads and children, processes get successors, runs end."""
        self._looking, begun_s = None, time.monotonic()
        for run in self._open():
            placed = self._runs.get(run.id)
            if placed is not None and placed.comparison.tick(time.time()):
                self._place(run, placed)
            elif placed is not None and placed.comparison.kept:
                self._keep(run, placed)
        if self._runs:
            pause_s = max(limits.PLACEMENT_LOOK_S, (time.monotonic() - begun_s) / _LOOK_SHARE)
            self._looking = asyncio.get_running_loop().call_later(pause_s, self._look)


def _measured(member: Member) -> bool:
    """Return True if a member's steps are measured; workers that evaluate are not, they wait most of the time."""
    return member.place.role is Role.CONTROLLER and not member.place.evaluation


def _together(run: Run, member: Member) -> bool:
    """Return True if a member is pinned with its worker; a brain is pinned only if there is one worker."""
    if member.place.role is Role.BRAIN:
        return sum(map(_measured, run.members.values())) == 1
    return member.place.role in _TOGETHER and not member.place.evaluation
