"""Pools and tables of a fixed capacity: a million steps go through them, and they take no more memory than before."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion_replay import PoolTable, SessionPoolEnvironment

STEPS, LENGTH, FLAT_BYTES = 1_000_000, 100, 16 * 1024**2


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
    """Return what inserts as many decisions as one session has, one by one, and draws from them now and then."""
    found = PoolTable(capacity={"steps": 20_000}, **params)
    found.uid = found.name = "recent"
    found.feed, found.serve, found.rng = ["ada"], ["ada"], np.random.default_rng(1)
    found.setup()
    number = 0

    def add() -> None:
        nonlocal number
        for tick in range(LENGTH):
            end = np.array([tick == LENGTH - 1])
            given: dict[str, Any] = {
                "observations": np.zeros((1, 8), np.float32),
                "actions": np.zeros((1, 1), np.int64),
                "objectives": np.ones(1),
                "rewards": np.ones((1, 1)),
                "next_observations": np.zeros((1, 8), np.float32),
                "terminated": end,
                "truncated": ~end & end,
                "episodes": np.array([number]),
                "ticks": np.array([tick]),
                "versions": np.array([tick]),
                "streams": ["ada/0"],
            }
            found.insert("ada", given)
        number += 1
        if number % 100 == 0:
            drawn = found.answer("ada", "sample_steps", {"n": 256, "alpha": 0.6, "beta": 0.4})
            found.note("ada", "set_priorities", {"ids": drawn["ids"], "values": 1.0 + np.arange(256)})

    return add


@pytest.mark.long
@pytest.mark.parametrize("make", [pool, table, lambda: table(remove="priority")], ids=["pool", "table", "priority"])
def test_a_million_steps_leave_it_as_large_as_it_was(make: Callable[[], Callable[[], None]]) -> None:
    """From a tenth of the steps on, all that Python and numpy hold grows by no more than 16 MiB, at its highest."""
    add = make()
    tracemalloc.start()
    try:
        for _ in range(STEPS // LENGTH // 10):
            add()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(9 * STEPS // LENGTH // 10):
            add()
        _, highest = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert before > 20_000 * 8 * 4
    assert highest - before < FLAT_BYTES, (before, highest)
