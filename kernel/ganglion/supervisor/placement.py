"""Placement: processes of a worker are free or kept on one processor, whichever is measured to be faster."""

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
"""Words of the setting `cpus`; anything else is a list of processors, on which the supervisor itself is kept."""
_TOGETHER = (Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE)  # of one worker: they take turns
_LOOK_SHARE = 0.02  # of the supervisor's time, for looking again


class Comparison:
    """Decide by step counts whether the workers of a phase are faster free or kept together.

    `kept` is how they are to be placed now. Call `placed` as soon as they are, `count` for each step count that a
    worker tells and `tick` from time to time; place them anew where one of these returns True. Free and kept follow
    each other in windows; a free one and a kept one are a pair, and a pair is a vote. `PLACEMENT_VOTES` equal votes
    are a decision. Workers that are kept are compared anew if they become slower than they were free: learning may
    have begun, or a simulator been started. `rates` are the steps per second in each window, by `kept`.
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
        """Begin a window: the workers are placed as `kept` says since a moment."""
        self._from_s, self._counts = now_s + limits.PLACEMENT_SETTLE_S, {}

    def count(self, worker: int, at_s: float, steps: int) -> bool:
        """Take in how many steps a worker had made at a moment; say whether the workers are to be placed anew."""
        if (self.decided and not self.kept) or worker not in self._workers or at_s < self._from_s:
            return False
        begun_s, begun, former_s, former = self._counts.get(worker, (at_s, steps, at_s, steps))
        if steps < former or at_s < former_s:  # a successor that goes back, or the clock was set
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
        """Leave the workers free if a window does not fill: between such steps a wake-up costs nothing that counts."""
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
    """Return a processor for each worker: one with the fewest others."""
    others, found = Counter(taken), {}
    for worker in sorted(workers):
        found[worker] = min(processors, key=lambda one: (others[one], one))
        others[found[worker]] += 1
    return found


@dataclass(slots=True)
class _Placed:
    """Hold how the workers of a run are placed in its present phase, and the processes that are kept."""

    phase: int
    comparison: Comparison
    processors: dict[int, int]
    kept: set[Process] = field(default_factory=set)


class Placer:
    """Place the processes of runs by what is measured in each phase; without a choice all are free."""

    def __init__(self, supervisor: Supervisor, cpus: str) -> None:
        self._supervisor = supervisor
        self._cpus = cpus
        self._processors = supervisor.launcher.processors if cpus == AUTO else frozenset[int]()
        self._runs: dict[str, _Placed] = {}
        self._looking: asyncio.TimerHandle | None = None

    def told(self, run: Run, peer: str, news: RunEvent) -> None:
        """Take in that a controller tells how many steps it has made."""
        if len(self._processors) < 2 or run.over.is_set():
            return
        member, taken = run.members.get(peer), news.fields.get("taken")
        if member is None or not _measured(member) or type(taken) is not int or news.fields.get("phase") != run.phase:
            return  # one that evaluates, or of the phase before
        placed = self._runs.get(run.id)
        if placed is None or placed.phase != run.phase:
            placed = self._begin(run)
        if placed.comparison.count(member.place.worker or 0, news.time_s, taken):
            self._place(run, placed)

    def end(self, run: Run) -> None:
        """Give back all processes of a run, and the broker."""
        placed = self._runs.pop(run.id, None)
        if placed is not None:
            self._keep_all(placed, {})

    def of(self, run: Run, member: Member) -> str:
        """Return in words where the process of a member may run; empty for one that was started from outside."""
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
        """Begin to measure a phase, with the placement in which the one before has ended: short ones lose nothing."""
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
        """Place the workers of a run as its comparison says, and tell what has been decided."""
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
        """Place all processes of the workers, also those that are new; with one worker of one run the broker, too."""
        wanted: dict[Process, int] = {}
        for member in run.members.values() if placed.comparison.kept else ():
            if member.process is not None and _together(run, member):
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
        """Look again: environments start threads and children, lost processes have successors, runs end."""
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
    """Say whether the steps of a member count: of workers that evaluate none, they wait most of the time."""
    return member.place.role is Role.CONTROLLER and not member.place.evaluation


def _together(run: Run, member: Member) -> bool:
    """Say whether a member is kept with its worker; a brain is where there is one worker."""
    if member.place.role is Role.BRAIN:
        return sum(map(_measured, run.members.values())) == 1
    return member.place.role in _TOGETHER and not member.place.evaluation
