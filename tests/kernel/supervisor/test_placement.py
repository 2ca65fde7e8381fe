from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ganglion.limits import (
    PLACEMENT_FASTER,
    PLACEMENT_PATIENCE_S,
    PLACEMENT_SETTLE_S,
    PLACEMENT_WATCH_S,
    PLACEMENT_WINDOW_S,
)
from ganglion.supervisor.launch.system import Family, children_of, may_change_user
from ganglion.supervisor.placement import Comparison, assign

Rate = Callable[[bool, float], float]  # kept, seconds since the begin -> steps per second of one worker
REPORT_S = 0.1


def _drive(
    comparison: Comparison, rate: Rate, span_s: float, workers: int = 1, begun_s: float = 0.0
) -> tuple[str, float]:
    """Let workers tell their steps for a time; return the placements of the windows, and when they ended."""
    now_s, taken, windows = begun_s, 1000.0 * begun_s, "K" if comparison.kept else "F"
    comparison.placed(now_s)
    while now_s < begun_s + span_s:
        taken += rate(comparison.kept, now_s) * REPORT_S
        now_s += REPORT_S
        told = [comparison.count(worker, now_s, int(taken)) for worker in range(workers)]
        if any(told) or comparison.tick(now_s):
            if comparison.decided:
                return windows, now_s
            windows += "K" if comparison.kept else "F"
            comparison.placed(now_s)
    return windows, now_s


CASES: dict[str, tuple[Rate, bool, int, str, bool]] = {  # rate, kept before, workers, windows, decision
    "kept is faster": (lambda kept, s: 3250 if kept else 2400, False, 1, "FKFK", True),
    "free is faster": (lambda kept, s: 800 if kept else 2400, False, 1, "FKFK", False),
    "no difference": (lambda kept, s: 2000, False, 1, "FKFK", False),
    "four per cent are none": (lambda kept, s: 2080 if kept else 2000, False, 1, "FKFK", False),
    "six per cent are one": (lambda kept, s: 2120 if kept else 2000, False, 1, "FKFK", True),
    "begins as before": (lambda kept, s: 3250 if kept else 2400, True, 1, "KFKF", True),
    "gives back what was kept before": (lambda kept, s: 2000, True, 1, "KFKF", False),
    "learning begins in the first pair": (
        lambda kept, s: (3250 if kept else 2400) * (1.0 if s < 0.4 else 0.3), False, 1, "FKFKFK", True
    ),
    "a disturbed first pair": (lambda kept, s: 100 if s < 0.4 else 2000, False, 1, "FKFKFK", False),
    "three workers": (lambda kept, s: 1300 if kept else 1000, False, 3, "FKFK", True),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_faster_is_kept(name: str) -> None:
    """Pairs of windows vote: kept where the kept one is faster by more than 5 %, free otherwise; two votes decide."""
    rate, before, workers, windows, verdict = CASES[name]
    comparison = Comparison(range(workers), before)
    found, ended_s = _drive(comparison, rate, 10.0, workers)

    assert (windows, True, verdict) == (found, comparison.decided, comparison.kept)
    assert len(windows) * (PLACEMENT_WINDOW_S + PLACEMENT_SETTLE_S) <= ended_s < 0.6 * len(windows)
    assert PLACEMENT_FASTER == 1.05


def test_rates_are_of_all_workers() -> None:
    """Steps of the workers are added up; those that are told before a window has settled are of no window."""
    comparison = Comparison([0, 1])
    comparison.placed(10.0)
    for at_s, steps in ((9.9, 0), (10.0, 5000), (10.1, 6000), (10.2, 6100), (10.5, 6400)):
        for worker in (0, 1):
            comparison.count(worker, at_s, steps)

    assert [2000.0] == [round(rate) for rate in comparison.rates[False]]
    assert comparison.kept


def test_a_worker_without_steps_is_awaited() -> None:
    """A window is full when each worker has filled it; counts of others mean nothing."""
    comparison = Comparison([0, 1])
    comparison.placed(0.0)
    told = [comparison.count(worker, at_s, 10) for at_s in (0.1, 1.0, 2.0) for worker in (0, 7)]

    assert [False] * 6 == told
    assert not comparison.kept


def test_slow_steps_stay_free() -> None:
    """Where a window does not fill in time nothing is kept, and nothing is measured any more."""
    comparison = Comparison([0])
    assert not comparison.tick(1000.0)  # nobody is placed yet
    comparison.placed(0.0)
    early = comparison.tick(PLACEMENT_PATIENCE_S)
    late = comparison.tick(PLACEMENT_PATIENCE_S + PLACEMENT_SETTLE_S)

    assert (False, True) == (early, late)
    assert (True, False) == (comparison.decided, comparison.kept)
    assert not comparison.tick(2 * PLACEMENT_PATIENCE_S)
    assert not comparison.count(0, 20.0, 7)


def test_a_successor_begins_its_window_anew() -> None:
    """A worker that tells fewer steps than before has been replaced: the window begins again."""
    comparison = Comparison([0])
    comparison.placed(0.0)
    told = [comparison.count(0, *one) for one in ((0.1, 500), (0.2, 600), (0.3, 100), (0.4, 200), (0.6, 400))]

    assert [False] * 5 == told
    assert comparison.count(0, 0.75, 550)
    assert [1000.0] == [round(rate) for rate in comparison.rates[False]]


def test_kept_workers_that_become_slow_are_measured_anew() -> None:
    """Workers slower than they were free are compared again, each time after twice as long; equal ones never."""
    comparison = Comparison([0])
    _, decided_s = _drive(comparison, lambda kept, s: 3250 if kept else 2400, 10.0)
    windows, quiet_s = _drive(comparison, lambda kept, s: 2500, 12.0, begun_s=decided_s)
    assert ("K", True) == (windows, comparison.decided)
    windows, freed_s = _drive(comparison, lambda kept, s: 300 if kept else 900, 30.0, begun_s=quiet_s)

    assert ("KKFKF", True, False) == (windows, comparison.decided, comparison.kept)
    assert PLACEMENT_WATCH_S < freed_s - quiet_s < 2 * PLACEMENT_WATCH_S


@pytest.mark.parametrize(
    ("workers", "taken", "processors"),
    [(1, [], {0: 0}), (1, [0], {0: 1}), (4, [], {0: 0, 1: 1, 2: 2, 3: 0}), (2, [0, 0, 1, 1], {0: 2, 1: 2})],
)
def test_workers_go_to_different_processors(workers: int, taken: list[int], processors: dict[int, int]) -> None:
    """A worker gets a processor with the fewest others."""
    assert processors == assign(range(workers), [0, 1, 2], taken)


CHILD = """
import os, subprocess, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
own = threading.Event()
def place():
    os.sched_setaffinity(threading.get_native_id(), {int(sys.argv[1])})
    print(threading.get_native_id(), flush=True)
    own.wait()
threading.Thread(target=place, daemon=True).start()
child = subprocess.Popen(["sh", "-c", "cat; true"], stdin=subprocess.PIPE)
for line in sys.stdin:
    threading.Thread(target=own.wait, daemon=True).start()
    print("started", flush=True)
child.stdin.close()
child.wait()
own.set()
"""
several = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="there is no choice"
)


@pytest.fixture
def process() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield a process with threads, a child and a grandchild, and a thread of it that is where its author wants it."""
    last = str(max(os.sched_getaffinity(0)))
    argv = [sys.executable, "-c", CHILD, last]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        own = int(child.stdout.readline())
        while not [grandchild for one in children_of(child.pid) for grandchild in children_of(one)]:
            assert child.poll() is None
        yield child, own
        child.stdin.close()


def _affinities(pid: int) -> dict[int, set[int]]:
    """Return where each thread of a process and of its descendants may run."""
    found = {int(at.name): os.sched_getaffinity(int(at.name)) for at in Path(f"/proc/{pid}/task").iterdir()}
    for child in children_of(pid):
        found |= _affinities(child)
    return found


def _start_thread(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "started\n"


@several
def test_families_are_kept_and_given_back(process: tuple[subprocess.Popen[str], int]) -> None:
    """All threads and descendants are moved and given back, later ones too; a thread that is placed already is not."""
    child, own = process
    free = os.sched_getaffinity(0)
    first, last = min(free), max(free)
    family = Family()
    for processor in (first, last, last, first):
        family.place(child.pid, processor)
        places = _affinities(child.pid)
        assert {last} == places.pop(own)
        assert [{processor}] * 4 == list(places.values())[:4]
        assert {processor} == set.union(*places.values())
    _start_thread(child)
    family.place(child.pid, None)
    places = _affinities(child.pid)

    assert {last} == places.pop(own)
    assert [free] * 5 == list(places.values())
    assert family.at is None


@several
def test_a_child_that_its_parent_leaves_is_given_back() -> None:
    """A process that was kept as somebody's child is given back when it is nobody's child any more."""
    free = os.sched_getaffinity(0)
    script = "sleep 60 >/dev/null & echo $!; read line"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        orphan = int(child.stdout.readline())
        family = Family()
        family.place(child.pid, min(free))
        kept = os.sched_getaffinity(orphan)
        child.communicate("\n")
    family.place(child.pid, None)
    given = os.sched_getaffinity(orphan)
    os.kill(orphan, 9)

    assert ({min(free)}, free) == (kept, given)


@several
def test_what_is_not_kept_is_not_given_back(process: tuple[subprocess.Popen[str], int]) -> None:
    """A family that nobody has kept is left as it is, also where its author has placed all of it."""
    child, _ = process
    free = os.sched_getaffinity(0)
    for thread in _affinities(child.pid):
        os.sched_setaffinity(thread, {max(free)})
    family = Family()
    for processor in (None, max(free), None, min(free), None):
        family.place(child.pid, processor)
        assert {frozenset({max(free)})} == set(map(frozenset, _affinities(child.pid).values()))


@several
@pytest.mark.skipif(not may_change_user(), reason="only root starts processes of others")
def test_processes_of_other_users_are_left_alone() -> None:
    """A process that has become another user stays where it is, also where we might move it."""
    free = os.sched_getaffinity(0)
    become = "import os, sys; os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534); print(flush=True)"
    argv = [sys.executable, "-c", f"{become}; sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        Family().place(child.pid, min(free))
        found = os.sched_getaffinity(child.pid)
        child.communicate(b"")

    assert free == found
