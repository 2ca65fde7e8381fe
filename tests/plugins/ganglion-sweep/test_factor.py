from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.cli.extension import Node, Source, node_of
from ganglion_sweep.factor import Factor, Level, read_factor, same

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


def test_whole_numbers_are_equally_likely() -> None:
    """Each of n numbers has an n-th of the axis, both ends included."""
    numbers = [ranged(3, 6, whole=True).level(step / 100).label for step in range(100)]

    assert [25] * 4 == [numbers.count(number) for number in (3, 4, 5, 6)]


def test_points_of_a_full_design_include_both_ends() -> None:
    """A range is cut evenly, a logarithmic one into equal ratios, and no number comes twice."""
    assert [0.0, 0.5, 1.0] == [level.label for level in ranged(0.0, 1.0, points=3).stepped().levels or ()]
    logarithmic = [level.label for level in ranged(1e-4, 1e-1, log=True, points=4).stepped().levels or ()]
    assert (1e-4, 1e-1) == (logarithmic[0], logarithmic[-1])
    assert logarithmic == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert [1, 2, 3] == [level.label for level in ranged(1, 3, whole=True, points=9).stepped().levels or ()]
    assert [5.0] == [level.label for level in ranged(5.0, 6.0, points=1).stepped().levels or ()]


def test_a_normal_factor_has_its_quantiles() -> None:
    """The middle is the mean, 0.8413 one standard deviation above it, and the lower end is finite."""
    factor = Factor("f", MARK, normal=(10.0, 2.0))

    assert 10.0 == factor.level(0.5).label
    assert 12.0 == pytest.approx(factor.level(0.8413447460685429).label)
    assert math.isfinite(factor.level(0.0).label)


def test_levels_are_counted() -> None:
    """A place on an axis of levels is the number of one."""
    factor = Factor("f", MARK, levels=(Level("a"), Level("b")))

    assert (2, "b") == (factor.axis, factor.level(1.0).label)
    assert factor is factor.stepped()


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (True, 1), ("1", 1), (None, "null"), ([1], [True])])
def test_likes_are_not_the_same(one: Any, other: Any) -> None:
    """Values of different kinds are different levels."""
    assert same(one) != same(other)


def test_a_factor_sets_all_its_paths() -> None:
    """A range sets its number at each path of `set`."""
    mapping = {"set": ["a.b", "c"], "range": {"low": 0, "high": 1}}
    factor, faults = read_factor("f", MARK, node_of(mapping, Source("x", inline=True)), full=False)

    assert [] == faults
    assert factor is not None
    assert [("a", "b"), ("c",)] == [path for path, _ in factor.level(0.5).settings]
    assert [0.5, 0.5] == [value.value for _, value in factor.level(0.5).settings]
