"""Pools and tables of a fixed capacity: a million steps go through them, and they take no more memory than before."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion_replay import PoolTable, SessionPoolEnvironment

STEPS, LENGTH, TOGETHER, FLAT_BYTES = 1_000_000, 100, 20, 16 * 1024**2


def pool() -> Callable[[], None]:
    """Return what appends a session to a pool of 20,000 steps, and draws from it now and then."""
    found = SessionPoolEnvironment([("seen", (8,), np.float32)], 1, 0, capacity={"steps": 20_000})
    seen, acted = np.zeros((1, LENGTH + 1, 8), np.float32), np.zeros((1, LENGTH), np.int32)

    def add() -> None:
        [number] = found.append_sessions(seen, acted, np.ones((1, LENGTH))).tolist()
        if number % 100 == 0:
            found.sample_session_batch(64)
            steps = found.sample_steps(256, alpha=0.6, beta=0.4)
            found.set_priorities(steps.ids, steps.ticks, 1.0 + np.arange(256))

    return add


def table(**params: Any) -> Callable[[], None]:
    """Return what inserts as many decisions as one session has, some at a time, and draws from them now and then."""
    found = PoolTable(capacity={"steps": 20_000}, **params)
    found.uid = found.name = "recent"
    found.feed, found.serve, found.rng = ["ada"], ["ada"], np.random.default_rng(1)
    found.setup()
    number = 0

    def add() -> None:
        nonlocal number
        for begin in range(0, LENGTH, TOGETHER):
            ticks, nothing = np.arange(begin, begin + TOGETHER), np.zeros(TOGETHER, bool)
            given: dict[str, Any] = {
                "observations": np.zeros((TOGETHER, 8), np.float32),
                "actions": np.zeros((TOGETHER, 1), np.int64),
                "objectives": np.ones(TOGETHER),
                "rewards": np.ones((TOGETHER, 1)),
                "next_observations": np.zeros((TOGETHER, 8), np.float32),
                "terminated": ticks == LENGTH - 1,
                "truncated": nothing,
                "episodes": np.full(TOGETHER, number),
                "ticks": ticks,
                "versions": ticks,
                "streams": ["ada/0"] * TOGETHER,
            }
            found.insert("ada", given)
        number += 1
        if number % 100 == 0:
            drawn = found.answer("ada", "sample_steps", {"n": 256, "alpha": 0.6, "beta": 0.4})
            found.note("ada", "set_priorities", {"ids": drawn["ids"], "values": 1.0 + np.arange(256)})

    return add


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
@pytest.mark.parametrize("make", [pool, table, lambda: table(remove="priority")], ids=["pool", "table", "priority"])
def test_a_million_steps_leave_it_as_large_as_it_was(make: Callable[[], Callable[[], None]]) -> None:
    """From a tenth of the steps on, the memory of the process grows by no more than 16 MiB, at its highest."""
    add, sizes = make(), []
    for number in range(STEPS // LENGTH):
        add()
        if number >= STEPS // LENGTH // 10 and number % 100 == 0:
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())

    assert max(sizes) - sizes[0] < FLAT_BYTES
