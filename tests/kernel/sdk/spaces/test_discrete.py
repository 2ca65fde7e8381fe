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


@pytest.mark.parametrize(
    ("value", "contained"),
    [
        (-1, True),
        (2, True),
        (-2, False),
        (3, False),
        (True, True),
        (0.0, True),
        (0.5, False),
        (math.nan, False),
        (math.inf, False),
        (np.int8(2), True),
        (np.uint64(2), True),
        (np.float32(1.0), True),
        (np.bool_(True), True),
        (np.array(1), True),
        (np.array(1.0), True),
        (np.array([1]), False),
        ([1], False),
        ("1", False),
        (None, False),
        (10**30, False),
    ],
)
def test_containment(value: Any, contained: bool) -> None:
    """Integers of every kind are accepted, fractions and other types are not."""
    assert contained is SPACE.contains(value)


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


def test_values_are_python_integers() -> None:
    """Whatever form a value comes in, its canonical form is an int; a vector has one column with it."""
    assert [int] * 3 == [type(SPACE.canonical(v)) for v in (np.int8(2), 2.0, np.array(2))]
    assert [2] == SPACE.to_vector(2).tolist()
    assert SPACE.from_vector([2.0]) == 2


@pytest.mark.parametrize(
    "arguments", [(0,), (-1,), (1.5,), ("3",), (3, 0.5), (2**63, 1), (1, 2**63), (1, -(2**63) - 1)]
)
def test_impossible_ranges_are_refused(arguments: tuple[Any, ...]) -> None:
    """A range needs at least one integer and fits into 64 bits."""
    with pytest.raises(SpaceError):
        Discrete(*arguments)


def test_all_integers_are_drawn() -> None:
    """Sampling reaches every integer of the range and no other."""
    rng = np.random.default_rng(0)

    assert {-1, 0, 1, 2} == {SPACE.sample(rng) for _ in range(200)}
