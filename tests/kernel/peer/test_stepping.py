from __future__ import annotations

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.peer.values import Layout, arrays_of, reward_layout, values_of
from ganglion.sdk import Box, Discrete, MultiBinary, Tuple

SPACES = [Discrete(5), Box(0.0, 1.0, (2,), np.float32), Tuple([Discrete(3), MultiBinary(2)])]
LAYOUT = Layout(["d", "b", "t"], SPACES)
VALUES = [3, np.array([0.25, 0.5], np.float32), (2, np.array([1, 0], np.int8))]


def test_values_become_arrays_and_come_back() -> None:
    """Each value is an array with one row, a tuple as its vector; what lacks is left out."""
    arrays = arrays_of(LAYOUT, VALUES)
    again = values_of("sensor", LAYOUT, arrays)

    assert ([3], [[0.25, 0.5]], [[2, 1, 0]]) == tuple(array.tolist() for array in arrays.values())
    assert LAYOUT.to_row(VALUES) == LAYOUT.to_row(again)
    assert ["b"] == list(arrays_of(LAYOUT, [None, VALUES[1], None]))


def test_rewards_without_declaration_are_boxes() -> None:
    """Shape and dtype are those of the arrays; integers and booleans become floats."""
    found = reward_layout({"a": np.zeros(1, np.float32), "b": np.zeros((1, 2), np.int64)})

    assert (("a", "b"), (), (2,)) == (found.ids, found.spaces[0].shape, found.spaces[1].shape)
    assert [np.float32, np.float64] == [space.dtype for space in found.spaces]
    with pytest.raises(AuthorError, match="reward 'a'"):
        reward_layout({"a": 1.0})
