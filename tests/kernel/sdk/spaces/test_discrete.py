from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import SpaceError
from ganglion.sdk.spaces.kinds import Discrete

SPACE = Discrete(4, start=-1)


@given(st.from_type(Discrete))
def test_bounds_are_inclusive(space: Discrete) -> None:
    """The first and the last integer are contained, their neighbours outside are not."""
    last = space.start + space.n - 1

    assert space.contains(space.start)
    assert space.contains(last)
    assert not space.contains(space.start - 1)
    assert not space.contains(last + 1)


@pytest.mark.parametrize(
    ("value", "expected"), [(-9, -1), (9, 2), (0.5, 0), (1.5, 2), (math.inf, 2), (-math.inf, -1), (np.array(1.4), 1)]
)
def test_clipping(value: Any, expected: int) -> None:
    """Fractions are rounded half to even, then the nearest integer of the range is taken."""
    assert expected == SPACE.clip(value)


@pytest.mark.parametrize("value", [math.nan, "1", [1], None])
def test_what_has_no_nearest_integer_is_refused(value: Any) -> None:
    """NaN, texts and arrays cannot be clipped."""
    with pytest.raises(SpaceError):
        SPACE.clip(value)


@pytest.mark.parametrize(
    "arguments", [(0,), (-1,), (1.5,), ("3",), (3, 0.5), (2**63, 1), (1, 2**63), (1, -(2**63) - 1)]
)
def test_impossible_ranges_are_refused(arguments: tuple[Any, ...]) -> None:
    """A range needs at least one integer and fits into 64 bits."""
    with pytest.raises(SpaceError):
        Discrete(*arguments)
