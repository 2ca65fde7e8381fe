from __future__ import annotations

import numpy as np

from ganglion.peer.layout import Layout
from ganglion.peer.transitions import Row, Stack
from ganglion.sdk import Box, Discrete, bootstrap_mask

UNIT, TEN = Box(0.0, 1.0, ()), Discrete(10)


def test_rows_become_arrays_in_their_order() -> None:
    """Each field has one row per decision; the next readings are there at the end too."""
    stack = Stack("a", Layout(["w.s", "w.t"], [UNIT, TEN]), Layout(["w.a"], [TEN]))
    stack.declare(Layout(["w.r", "w.q"], [UNIT, UNIT], missing=True))
    batch = stack(
        [
            Row("a/0", [0.25, 1], [3], [0.5, None], 1.5, [0.5, 2], False, False, 4, 7, "x"),
            Row("a/1", [0.75, 2], [4], [0.5, 1.0], None, [1.0, 3], True, False, 5, 8, None),
            Row("a/2", [0.0, 0], [0], [0.0, 1.0], 2.0, [0.0, 9], False, True, 0, 0, [1]),
        ]
    )

    assert 3 == len(batch)
    assert ([[0.25, 1.0], [0.75, 2.0], [0.0, 0.0]], np.float64) == (
        batch.observations.tolist(),
        batch.observations.dtype,
    )
    assert [[0.5, 2.0], [1.0, 3.0], [0.0, 9.0]] == batch.next_observations.tolist()
    assert ([[3], [4], [0]], np.int64) == (batch.actions.tolist(), batch.actions.dtype)
    assert [1.5, 2.0] == batch.objectives[[0, 2]].tolist()
    assert np.isnan(batch.objectives[1])
    assert np.isnan(batch.rewards[0, 1])
    assert [0.5, 0.5, 0.0] == batch.rewards[:, 0].tolist()
    assert [False, True, False] == batch.terminated.tolist()
    assert [False, False, True] == batch.truncated.tolist()
    mask = bootstrap_mask(batch.terminated | batch.truncated, batch.terminated, batch.truncated)
    assert ([1.0, 0.0, 1.0], mask.tobytes()) == (mask.tolist(), batch.bootstrap.tobytes())
    assert (["a/0", "a/1", "a/2"], [("a", 0)] * 3) == (batch.muscle, batch.body)
    assert ([7, 8, 0], [4, 5, 0]) == (batch.episode.tolist(), batch.step.tolist())
    assert ["x", None, [1]] == batch.data
