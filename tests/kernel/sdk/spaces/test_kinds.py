from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import SpaceError
from ganglion.limits import ARRAY_RANK, SPACE_ELEMENTS
from ganglion.sdk.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, integer_or_none

SCALAR = Box(-1.0, 1.0)
PLANE = Box([0, -1], [1, 2])
WHOLE = Box(-3, 7, (), np.int64)
NARROW = Box(0.0, 1.0, dtype=np.float32)
OPEN_NARROW = Box(-np.inf, np.inf, dtype=np.float32)


REALS = Box(-np.inf, np.inf)
BYTES = Box(0, 255, (2,), np.uint8)
LONGS = Box(-(2**63), 2**63 - 1, (1,), np.int64)
OPEN_PLANE = Box(-np.inf, np.inf, (2,), np.float32)
PAIR = Tuple([Discrete(3), Box(0, 1, (2,), np.float32)])
NAMED = Dict({"b": Discrete(3), "a": Box(0, 1)})


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (
            SCALAR,
            [1.0, -1.0, 1, True, np.float32(0.5), np.int8(1), np.array(0.5)],
            [math.nextafter(1.0, 2.0), 2, np.array([0.5]), [0.5], math.nan, np.nan, "0", None, 1j],
        ),
        (REALS, [math.inf, 2**53], [10**400, 2**53 + 1]),
        (Box(0, np.inf), [np.uint64(2**63)], [np.uint64(2**64 - 1)]),
        (
            PLANE,
            [[0, 2], (1.0, -1.0), np.array([0.5, 0.5], dtype=np.float32), np.array([0, 1])],
            [[0.0, 2.1], [0.0, np.nan], [0.0], np.zeros(1), np.zeros((3, 2)), [[0.0, 0.0]], [0.0, [1.0]], 0.0],
        ),
        (WHOLE, [7, 7.0, np.array(7)], [6.5, math.inf, 8]),
        (BYTES, [np.array([0, 255])], [np.array([0, 256]), np.array([-1, 0]), [0.0, 254.5], [0.0, np.inf]]),
        (LONGS, [[-(2.0**63)]], [[2.0**63]]),
        (NARROW, [0.1], []),
        (Box(0.0, 0.1, dtype=np.float32), [0.1], []),
        (Box(0.1, 1.0, dtype=np.float32), [0.1], []),
        (OPEN_NARROW, [math.inf, 2**24], [1e300, 2**24 + 1]),
        (OPEN_PLANE, [np.array([0, 2**30])], [[1.0, 1e300], np.array([0, 2**24 + 1])]),
        (Box(0, 1, (0,)), [[]], [[0.0]]),
        (PAIR, [(1, [0.5, 0.5]), [1, (0, 1)]], [(3, [0.5, 0.5]), (1,), (1, [0.5, 0.5], 0), 1, "ab"]),
        (NAMED, [{"a": 0.5, "b": 2}, {"b": 2, "a": 0.5}], [{"a": 0.5}, {"a": 0.5, "b": 2, "c": 0}, [0.5, 2]]),
        (MultiDiscrete([2, 3], 1), [[2, 3]], [[2, 4], [0, 3]]),
        (MultiBinary(2), [[True, 0]], [[2, 0]]),
    ],
    ids=str,
)
def test_containment(space: Space, inside: list[Any], outside: list[Any]) -> None:
    """Values are accepted where they fit without loss; bounds are inclusive; NaN and other shapes are not."""
    assert [] == [value for value in inside if not space.contains(value)]
    assert [] == [value for value in outside if space.contains(value)]


@given(st.from_type(Box), st.data())
def test_containment_at_every_bound(space: Box, data: st.DataObject) -> None:
    """Each bound is contained, and what lies one step beyond a finite bound is not."""
    assert space.contains(space.low)
    assert space.contains(space.high)
    if space.size == 0:
        return
    place = data.draw(st.integers(0, space.size - 1))
    for bound, direction in ((space.low, -1), (space.high, 1)):
        value = bound.ravel()[place]
        if space.dtype.kind == "f":
            if not np.isfinite(value):
                continue
            with np.errstate(over="ignore"):
                beyond: Any = np.nextafter(value, space.dtype.type(direction * np.inf))
            if not np.isfinite(beyond):
                continue
        else:
            beyond = int(value) + direction
        found: Any = bound.astype(object)
        if space.scalar:
            found = beyond
        else:
            found.flat[place] = beyond
            found = found.tolist()
        assert not space.contains(found)


@given(st.from_type(Box), st.floats(allow_nan=False))
def test_clipping_gives_a_contained_value(space: Box, number: float) -> None:
    """Whatever is clipped is contained; at shape () it is the nearest."""
    clipped = space.clip(np.full(space.shape, number))

    assert space.contains(clipped)
    if space.scalar and space.dtype == np.float64:
        assert clipped == min(max(number, space.low.item()), space.high.item())


@pytest.mark.parametrize("value", [[0.0], [[0.0, 0.0]], "ab", [0.0, math.nan], None, {}])
def test_what_has_no_nearest_value_is_refused(value: Any) -> None:
    """Another shape and NaN cannot be clipped."""
    with pytest.raises(SpaceError):
        PLANE.clip(value)


@given(st.floats(-1e308, 1e308), st.floats(-1e308, 1e308), st.floats(-1.0, 1.0))
def test_scale_and_unscale_are_inverse(a: float, b: float, unit: float) -> None:
    """[-1, 1] maps onto [low, high], exactly at both ends, and back, even where the width overflows."""
    space = Box(min(a, b), max(a, b))
    low, high = space.low.item(), space.high.item()

    assert (low, high) == (space.scale(-1.0), space.scale(1.0))
    value = space.scale(unit)
    assert low <= value <= high
    assert -1.0 <= space.unscale(value) <= 1.0
    if low < high:
        assert (-1.0, 1.0) == (space.unscale(low), space.unscale(high))
        magnitude = max(abs(low), abs(high))
        assert abs(space.scale(space.unscale(value)) - value) <= 1e-15 * 8 * magnitude + 5e-324
    else:
        assert space.unscale(low) == 0.0


def test_scale_of_arrays_and_integers() -> None:
    """Arrays are scaled element by element; integers are rounded half to even."""
    assert [0.5, 0.5] == PLANE.scale([0.0, 0.0]).tolist()
    assert [0.0, 0.0] == PLANE.unscale([0.5, 0.5]).tolist()
    assert WHOLE.scale(0.0) == 2
    assert Box(0, 1, (), np.int64).scale(0.0) == 0


@pytest.mark.parametrize("value", [1.5, math.nan, [0.0]])
def test_scale_refuses_what_lies_outside(value: Any) -> None:
    """What is not in [-1, 1] is refused and not clipped in silence."""
    with pytest.raises(SpaceError, match=r"\[-1, 1\]"):
        SCALAR.scale(value)


def test_scale_needs_finite_bounds() -> None:
    """Where a side is open there is nothing to scale to."""
    with pytest.raises(SpaceError, match="finite"):
        Box([0.0, 0.0], [1.0, np.inf]).scale([0.0, 0.0])
    with pytest.raises(SpaceError, match="finite"):
        Box(-np.inf, 0.0).unscale(0.0)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1, 0), "at most"),
        ((math.nan, 1), "NaN"),
        (("a", 1), "numbers"),
        (([0, 0], 1, (3,)), "shape"),
        ((0, 1, (1,) * (ARRAY_RANK + 1)), "axes"),
        ((0, 1, (SPACE_ELEMENTS, 2)), "elements"),
        ((0, 1, (-1,)), "axes"),
        ((0, 1, (), np.complex128), "dtype"),
        ((0, 1, (), bool), "dtype"),
        ((0, 256, (), np.uint8), "fit"),
        ((0.5, 2, (), np.int64), "integers"),
        ((math.inf, math.inf), "finite"),
        ((-math.inf, -math.inf), "finite"),
    ],
)
def test_impossible_boxes_are_refused(arguments: tuple[Any, ...], match: str) -> None:
    """A box whose bounds make no sense, or that is too large, is refused before memory is taken."""
    with pytest.raises(SpaceError, match=match):
        Box(*arguments)


def test_infinite_bounds_of_integers_are_those_of_the_dtype() -> None:
    """An integer always has bounds."""
    assert Box(-128, 127, (), np.int8) == Box(-np.inf, np.inf, (), np.int8)


@given(st.integers(0, 2**32), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_number_is_drawn_like_an_array_of_one(seed: int, a: float, b: float) -> None:
    """The short way for scalars draws, bit for bit, what the general way draws."""
    low, high = min(a, b), max(a, b)
    alone, beside = (Box(low, high, shape).sample(np.random.default_rng(seed)) for shape in ((), (1,)))

    assert alone == beside[0]


RANGE = Discrete(4, start=-1)


@given(st.from_type(Discrete))
def test_bounds_of_integers_are_inclusive(space: Discrete) -> None:
    """The first and the last integer are contained, their neighbours outside are not."""
    last = space.start + space.n - 1

    assert space.contains(space.start)
    assert space.contains(last)
    assert not space.contains(space.start - 1)
    assert not space.contains(last + 1)


@pytest.mark.parametrize(
    ("value", "expected"), [(-9, -1), (9, 2), (0.5, 0), (1.5, 2), (math.inf, 2), (-math.inf, -1), (np.array(1.4), 1)]
)
def test_clipping_integers(value: Any, expected: int) -> None:
    """Fractions are rounded half to even, then the nearest integer of the range is taken."""
    assert expected == RANGE.clip(value)


@pytest.mark.parametrize("value", [math.nan, "1", [1], None])
def test_what_has_no_nearest_integer_is_refused(value: Any) -> None:
    """NaN, texts and arrays cannot be clipped."""
    with pytest.raises(SpaceError):
        RANGE.clip(value)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        *((Discrete, it) for it in ((0,), (-1,), (1.5,), ("3",), (3, 0.5), (2**63, 1), (1, 2**63), (1, -(2**63) - 1))),
        *((MultiDiscrete, it) for it in ((3,), ([0],), ([1.5],), (["a"],), ([2, 2], [1]), ([2**62], [2**62 + 2]))),
        (MultiDiscrete, ([[1], [1, 2]],)),
        (MultiBinary, (-1,)),
    ],
)
def test_impossible_integers_are_refused(kind: type[Space], arguments: tuple[Any, ...]) -> None:
    """A range needs at least one integer and fits into 64 bits; no shape has a negative length."""
    with pytest.raises(SpaceError):
        kind(*arguments)


def test_an_integer_that_would_be_rounded_is_refused() -> None:
    """Beside floats an integer has 53 bits; more are refused instead of lost."""
    space = Tuple([Discrete(2**62), Box(0, 1)])

    assert [2.0**53, 0.5] == space.to_vector((2**53, 0.5)).tolist()
    with pytest.raises(SpaceError, match="53 bits"):
        space.to_vector((2**53 + 1, 0.5))


def test_parts_can_be_had() -> None:
    """A Tuple gives its parts by position, a Dict by key; both have a length."""
    assert (Discrete(3), 2, [Discrete(3), PAIR[1]]) == (PAIR[0], len(PAIR), list(PAIR))
    assert (Discrete(3), 2, ["a", "b"], ["a", "b"]) == (NAMED["b"], len(NAMED), list(NAMED), list(NAMED.keys()))


def test_keys_are_texts() -> None:
    """Maps on the bus have text keys."""
    with pytest.raises(SpaceError, match="texts"):
        Dict({1: Discrete(2)})  # type: ignore[dict-item]


def test_integers_without_loss() -> None:
    """Only what equals an integer is one, and it is one of Python's."""
    for value in (3, np.uint8(3), 3.0, np.float16(3.0), np.array(3)):
        assert (3, int) == (integer_or_none(value), type(integer_or_none(value)))
    assert (1, 1, 2**70) == (integer_or_none(True), integer_or_none(np.bool_(True)), integer_or_none(2.0**70))
    for value in (3.5, math.nan, math.inf, np.array([3]), np.array("3"), "3", 3 + 0j, None):
        assert integer_or_none(value) is None
