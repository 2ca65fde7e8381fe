from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.step.arrays import Readings
from ganglion.peer.step.layout import Layout
from ganglion.sdk import Box, Discrete, MultiBinary, Tuple

UNIT, TEN = Box(0.0, 1.0, ()), Discrete(10)
GRID = Box(0, 9, (2, 2), dtype=np.int16)
BOTH = Tuple([Discrete(3), MultiBinary(2)])


def test_each_id_has_its_part_of_the_matrix() -> None:
    """Readings by id have the shape and dtype of their space; a tuple has its vector."""
    layout = Layout(["s", "g", "t"], [UNIT, GRID, BOTH])
    grid = np.arange(4, dtype=np.int16).reshape(2, 2)
    matrix = layout.matrix([layout.field([[0.5, grid, (2, [1, 0])]])], "x")
    readings = Readings(layout, matrix)

    assert [[0.5, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0]] == matrix.tolist()
    assert (["s", "g", "t"], 3) == (list(readings), len(readings))
    assert ((1,), np.float64) == (readings["s"].shape, readings["s"].dtype)
    assert ((1, 2, 2), np.int16, grid.tolist()) == (
        readings["g"].shape, readings["g"].dtype, readings["g"][0].tolist(),
    )  # fmt: skip
    assert [[2, 1, 0]] == readings["t"].tolist()
    assert "none" not in readings


@pytest.mark.parametrize("value", [np.arange(4, dtype="<i2").tobytes()[:-1], b"", 1.0, None, [1, 2]])
def test_a_vector_of_another_length_is_refused_by_name(value: Any) -> None:
    """Bytes that are not as many as the space has, and what is no vector at all, are refused with the id."""
    layout = Layout(["s", "g"], [UNIT, GRID])
    with pytest.raises(RemoteProtocolError, match=r"x\.g: "):
        layout.matrix([[[0.5, value]]], "x")


def test_a_missing_reward_is_nan() -> None:
    """What is not there is NaN, also among integers."""
    layout = Layout(["r", "q"], [TEN, TEN], missing=True)
    found = layout.matrix([[[1, None]], [[2, 3]]], "x")

    assert (2,) == np.isnan(found).sum(axis=1).shape
    assert [1.0, 2.0, 3.0] == found[~np.isnan(found)].tolist()


@pytest.mark.parametrize("row", [[0.5], [0.5, "1"], [0.5, 1.5], [0.5, [1]], [0.5, None], "ab"])
def test_what_is_no_row_is_refused_by_name(row: Any) -> None:
    """A row of another length, and a value that its space cannot hold, are refused as in the form with objects."""
    layout = Layout(["a", "b"], [TEN, TEN])
    with pytest.raises(RemoteProtocolError, match="x"):
        layout.matrix([[row]], "x")
