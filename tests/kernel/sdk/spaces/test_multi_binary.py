from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import SpaceError
from ganglion.sdk.spaces.kinds import MultiBinary

SPACE = MultiBinary((2, 2))


@pytest.mark.parametrize(
    ("value", "contained"),
    [
        ([[0, 1], [1, 0]], True),
        ([[False, True], [True, False]], True),
        (np.ones((2, 2)), True),
        ([[0, 2], [0, 0]], False),
        ([[0, 0.5], [0, 0]], False),
        ([0, 1, 1, 0], False),
        (1, False),
    ],
)
def test_containment(value: Any, contained: bool) -> None:
    """Zeros, ones and booleans in the shape of the space."""
    assert contained is SPACE.contains(value)


def test_a_count_is_a_shape() -> None:
    """`MultiBinary(3)` and `MultiBinary((3,))` are one space."""
    assert MultiBinary(3) == MultiBinary((3,))


def test_values_are_read_only_int8() -> None:
    """The canonical form is int8; clipping gives the nearest zeros and ones."""
    found = SPACE.canonical([[True, False], [0, 1]])

    assert (np.int8, False) == (found.dtype, found.flags.writeable)
    assert [[1, 0], [0, 1]] == SPACE.clip([[7, -3], [0.4, 0.6]]).tolist()


def test_the_empty_shape_is_an_array_too() -> None:
    """A space of shape () holds arrays of shape (), as its sisters hold arrays of theirs."""
    space = MultiBinary(())

    assert (False, ()) == (space.scalar, space.canonical(1).shape)


def test_impossible_shapes_are_refused() -> None:
    """A negative length is none."""
    with pytest.raises(SpaceError):
        MultiBinary(-1)
