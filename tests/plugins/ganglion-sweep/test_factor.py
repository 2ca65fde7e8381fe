from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.cli.extension import Node, Source
from ganglion_sweep.factor import Factor

MARK = Node("f", Source("x", inline=True))
PLACES = st.floats(0, 1, exclude_max=True)


def ranged(low: float, high: float, **more: Any) -> Factor:
    """Return a factor with a range."""
    return Factor("f", MARK, (("a",),), low=low, high=high, **more)


@given(PLACES, st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_a_range_is_never_left(place: float, low: float, width: float) -> None:
    """Every place of the axis is a number of the range."""
    assert low <= ranged(low, low + width).level(place).label <= low + width


@given(PLACES, st.integers(1, 50), st.integers(1, 50), st.booleans())
def test_whole_numbers_are_whole(place: float, low: int, width: int, log: bool) -> None:
    """A range of whole numbers gives integers between its ends."""
    number = ranged(low, low + width, whole=True, log=log).level(place).label

    assert isinstance(number, int)
    assert low <= number <= low + width


def test_points_of_a_full_design_include_both_ends() -> None:
    """A range is cut evenly, a logarithmic one into equal ratios, and no number comes twice."""
    assert [0.0, 0.5, 1.0] == [level.label for level in ranged(0.0, 1.0, points=3).stepped().levels or ()]
    logarithmic = [level.label for level in ranged(1e-4, 1e-1, log=True, points=4).stepped().levels or ()]
    assert (1e-4, 1e-1) == (logarithmic[0], logarithmic[-1])
    assert logarithmic == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert [1, 2, 3] == [level.label for level in ranged(1, 3, whole=True, points=9).stepped().levels or ()]
    assert [5.0] == [level.label for level in ranged(5.0, 6.0, points=1).stepped().levels or ()]
