"""Placement: processes of a worker are free or kept on one processor, whichever is measured to be faster."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganglion import limits
from ganglion.supervisor.event import PHASE_PLACED
from ganglion.supervisor.linux import children_of, proc
from ganglion.wire.name import Role

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Member, Run
    from ganglion.supervisor.supervisor import Supervisor
    from ganglion.wire.messages import RunEvent

AUTO, FREE = "auto", "free"
"""Words of the setting `cpus`; anything else is a list of processors, on which the supervisor itself is kept."""
_TOGETHER = (Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE)  # of one worker: they take turns
_PASSES_MAX = 4  # over the threads of a family, which may start others meanwhile
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
        if steps < former or at_s < former_s:  # a successor that goes back, or somebody has set the clock
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


def assign(workers: Mapping[int, int | None], processors: Iterable[int], taken: Iterable[int]) -> dict[int, int]:
    """Return a processor for each worker: one with the fewest others, and among these where the worker ran last."""
    others, found = Counter(taken), {}
    for worker, last in sorted(workers.items()):
        found[worker] = min(processors, key=lambda one: (others[one], one != last, one))
        others[found[worker]] += 1
    return found


class Family:
    """Keep processes, with their threads and descendants, on one processor, or give them back.

    `at` is the processor on which they are kept, None if they are free. Left alone are processes of other users and
    threads whose affinity is neither that which they inherited nor ours: their author has set it.
    """

    def __init__(self, inherited: Collection[int]) -> None:
        self.at: int | None = None
        self._inherited = frozenset(inherited)
        self._theirs: set[int] = set()  # threads that their author has placed
        self._known: set[int] = set()  # processes that were kept: one may lose its parent, and be found no more

    def place(self, pids: Iterable[int], processor: int | None) -> None:
        """Keep the families of processes on a processor, also what they have started since; None gives them back."""
        if processor is None and self.at is None:
            return
        roots = set(pids)
        if self.at is None:
            self._known.clear()
            self._theirs = {thread for thread in self._threads(roots) if _affinity(thread) != self._inherited}
        to = self._inherited if processor is None else frozenset({processor})
        ours = {self._inherited, to} | ({frozenset({self.at})} if self.at is not None else set())
        self.at = processor
        if processor is None:
            roots |= self._known
        for _ in range(_PASSES_MAX):  # a thread that is started meanwhile may have inherited what was
            if not [thread for thread in self._threads(roots) if self._move(thread, ours, to)]:
                break

    def _move(self, thread: int, ours: Collection[frozenset[int]], to: frozenset[int]) -> bool:
        """Move a thread; say whether it was elsewhere."""
        now = _affinity(thread)
        if thread in self._theirs or now == to:
            return False
        if now not in ours:
            self._theirs.add(thread)
            return False
        with contextlib.suppress(OSError):  # it has just ended, or the system does not let us
            os.sched_setaffinity(thread, to)
            return True
        return False

    def _threads(self, roots: Iterable[int]) -> Iterator[int]:
        """Yield the threads of processes of this user and of their descendants, none of one that its author placed."""
        left, seen = list(roots), set[int]()
        while left:
            pid = left.pop()
            if pid in seen or pid in self._theirs:
                continue
            seen.add(pid)
            if proc(f"{pid}/status").partition("\nUid:")[2].split()[1:2] != [str(os.geteuid())]:
                continue  # it may have become another user after it was started
            try:
                threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names of threads, not paths
            except OSError:
                continue  # it has just ended
            self._known.add(pid)
            yield from map(int, threads)
            left += children_of(pid)


def _affinity(thread: int) -> frozenset[int]:
    """Return the processors on which a thread may run; none for one that has ended."""
    try:
        return frozenset(os.sched_getaffinity(thread))
    except OSError:
        return frozenset()


def _processor(pid: int) -> int | None:
    """Return the processor on which a process ran last."""
    fields = proc(f"{pid}/stat").rpartition(")")[2].split()
    return int(fields[36]) if len(fields) > 36 else None


@dataclass(slots=True)
class _Placed:
    """Hold how the workers of a run are placed in its present phase; `families` has the broker's under None."""

    phase: int
    comparison: Comparison
    processors: dict[int, int]
    families: dict[int | None, Family]


class Placer:
    """Place the processes of runs by what is measured in each phase; without a choice all are free."""

    def __init__(self, supervisor: Supervisor, cpus: str) -> None:
        self._supervisor = supervisor
        self._cpus = cpus
        self._processors = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set[int]()
        self._runs: dict[str, _Placed] = {}
        self._looking: asyncio.TimerHandle | None = None

    def told(self, run: Run, peer: str, news: RunEvent) -> None:
        """Take in that a controller tells how many steps it has made."""
        if self._cpus != AUTO or len(self._processors) < 2 or run.over.is_set():
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
        for family in placed.families.values() if placed is not None else ():
            family.place([], None)

    def of(self, run: Run, member: Member) -> str:
        """Return in words where the process of a member may run; empty for one that somebody else has started."""
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
        controllers = {m.place.worker or 0: m.process for m in run.members.values() if _measured(m)}
        placed = self._runs.get(run.id)
        if placed is not None and placed.processors.keys() == controllers.keys():
            placed.phase, placed.comparison = run.phase, Comparison(controllers, placed.comparison.kept)
        else:
            self.end(run)
            taken = [one for other in self._runs.values() for one in other.processors.values()]
            last = {worker: None if one is None else _processor(one.pid) for worker, one in controllers.items()}
            processors = assign(last, self._processors, taken)
            families = {worker: Family(self._processors) for worker in (*controllers, None)}
            placed = self._runs[run.id] = _Placed(run.phase, Comparison(controllers), processors, families)
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
        for worker, processor in placed.processors.items():
            members = [m for m in run.members.values() if _together(run, m) and (m.place.worker or 0) == worker]
            pids = [m.process.pid for m in members if m.process is not None and not m.child.gone]
            placed.families[worker].place(pids, processor if placed.comparison.kept else None)
        broker = self._supervisor.broker
        alone = placed.comparison.kept and len(placed.processors) == len(self._open()) == 1
        pids = [broker.pid] if broker is not None and not broker.ended.is_set() else []
        placed.families[None].place(pids, next(iter(placed.processors.values())) if alone else None)

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
