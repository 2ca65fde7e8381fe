from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import SpaceError
from ganglion.sdk.spaces.kinds import MultiDiscrete

SPACE = MultiDiscrete([2, 3], start=[0, 10])


@pytest.mark.parametrize(
    ("value", "contained"),
    [
        ([0, 10], True),
        ([1, 12], True),
        ((1.0, 11.0), True),
        (np.array([1, 12], dtype=np.uint8), True),
        ([2, 10], False),
        ([0, 13], False),
        ([0, 9], False),
        ([0.5, 10], False),
        ([0], False),
        ([[0, 10]], False),
        (0, False),
    ],
)
def test_containment(value: Any, contained: bool) -> None:
    """Each element has a range of its own, both ends included."""
    assert contained is SPACE.contains(value)


def test_one_start_stands_for_all() -> None:
    """A start that is one number is the start of every element."""
    assert MultiDiscrete([[2, 3]], 1) == MultiDiscrete([[2, 3]], [[1, 1]])


def test_values_are_read_only_arrays() -> None:
    """The canonical form is int64, in the shape of `nvec`; clipping goes element by element."""
    found = SPACE.canonical([1, 12])

    assert (np.int64, (2,), False) == (found.dtype, found.shape, found.flags.writeable)
    assert [1, 10] == SPACE.clip([7.2, -4]).tolist()


@pytest.mark.parametrize(
    "arguments", [(3,), ([0],), ([1.5],), (["a"],), ([2, 2], [1]), ([2**62], [2**62 + 2]), ([[1], [1, 2]],)]
)
def test_impossible_ranges_are_refused(arguments: tuple[Any, ...]) -> None:
    """Counts are integers from 1, starts have their shape, ranges fit into 64 bits."""
    with pytest.raises(SpaceError):
        MultiDiscrete(*arguments)
