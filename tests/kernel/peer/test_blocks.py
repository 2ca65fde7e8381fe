"""Blocks: what values of any number of bodies become, what is cut out of them, and what is refused."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import RemoteProtocolError
from ganglion.peer.step.layout import Cut, Layout
from ganglion.sdk import Box, Dict, Discrete, Mask, MultiBinary, MultiDiscrete, Ragged, Tuple

SPACES = [
    Box(-1.0, 1.0, ()),
    Box(-np.inf, np.inf, ()),
    Box(-1.0, 1.0, (), np.float32),
    Box(0, 255, (), np.uint8),
    Box(-9, 9, (), np.int64),
    Discrete(5, start=-2),
    Box(0.0, 1.0, (2, 3)),
    Box(0, 255, (4, 1), np.uint8),
    Box(0.0, 1.0, (0,)),
    MultiDiscrete([3, 4]),
    MultiBinary(3),
    Mask(4, of="a"),
    Ragged(Box(-2, 9, (3, 2), np.int64)),
    Tuple((Discrete(3), Box(0.0, 1.0, (2,)))),
    Dict(a=Discrete(2), b=MultiBinary(2)),
]
UNIT, TEN = SPACES[0], Discrete(10)

layouts = st.lists(st.sampled_from(SPACES), max_size=8).map(
    lambda spaces: Layout([f"w.{i}" for i in range(len(spaces))], spaces)
)
counts = st.integers(0, 64)


def drawn(layout: Layout, bodies: int, seed: int) -> list[list[Any]]:
    """Return values of so many bodies."""
    rng = np.random.default_rng(seed)
    return [[space.canonical(space.sample(rng)) for space in layout.spaces] for _ in range(bodies)]


def same(layout: Layout, one: list[list[Any]], other: list[list[Any]]) -> bool:
    """Say whether values are equal bit for bit, and of equal types."""
    assert [[type(v) for v in row] for row in one] == [[type(v) for v in row] for row in other]
    return [layout.to_row(row) for row in one] == [layout.to_row(row) for row in other]


@given(layouts, counts, st.integers(0, 2**32))
def test_blocks_of_any_bodies_come_back(layout: Layout, bodies: int, seed: int) -> None:
    """Values become one block for each run of equal dtype, and rows, and come back from both bit for bit."""
    values = drawn(layout, bodies, seed)
    field = layout.field(values)
    dtypes = [space.dtype for space in layout.spaces]

    assert len(field) == len([dtype for dtype, _ in groupby(dtypes)])
    assert layout.fits(field, bodies)
    assert same(layout, values, layout.bodies(field, "x", bodies))
    assert [layout.to_row(row) for row in values] == layout.rows(field, bodies)
    assert field == layout.checked(field, "x", count=bodies)
    assert field == layout.checked(layout.rows(field, bodies), "x", count=bodies)
    arrays = layout.arrays(field, bodies)
    for i, (uid, space) in enumerate(layout.pairs()):
        assert len(arrays[uid]) == bodies
        assert [space.to_vector(row[i]).tobytes() for row in values] == [vector.tobytes() for vector in arrays[uid]]


@given(layouts, st.integers(1, 64), st.integers(0, 2**32))
def test_fields_of_many_decisions_are_one_matrix(layout: Layout, decisions: int, seed: int) -> None:
    """Fields of one body each are stacked as the vectors of their values, read-only."""
    values = drawn(layout, decisions, seed)
    found = layout.matrix([layout.field([row]) for row in values], "x")

    assert np.array_equal(layout.vectors(values), found)
    assert (layout.dtype, False) == (found.dtype, found.flags.writeable)


@given(st.lists(layouts, min_size=1, max_size=3), counts, st.data())
def test_columns_are_cut_out_of_several_fields(sources: list[Layout], bodies: int, data: st.DataObject) -> None:
    """Any columns of any sources in any order: as if each value had been taken by itself."""
    all_places = [(source, i) for source, layout in enumerate(sources) for i in range(len(layout))]
    places = data.draw(st.lists(st.sampled_from(all_places), unique=True) if all_places else st.just([]))
    values = [drawn(layout, bodies, data.draw(st.integers(0, 2**32))) for layout in sources]
    cut = Cut([f"a.{i}" for i in range(len(places))], sources, places)
    fields = [layout.field(rows) for layout, rows in zip(sources, values, strict=True)]
    expected = [[values[source][body][i] for source, i in places] for body in range(bodies)]

    assert cut.layout.field(expected) == cut(fields, bodies)
    rows = [layout.rows(field, bodies) for layout, field in zip(sources, fields, strict=True)]
    if cut.whole is None and places and bodies:
        assert cut.layout.rows(cut.layout.field(expected), bodies) == cut(rows, bodies)


def test_all_columns_of_one_source_are_its_own_field() -> None:
    """Who sees a whole environment gets the very bytes that were heard; another order is another field."""
    layout = Layout(["s", "t"], [UNIT, UNIT])
    field = layout.field([[0.25, 0.5]])

    assert Cut(["w.s", "w.t"], [layout], [(0, 0), (0, 1)])([field]) is field
    assert layout.field([[0.5, 0.25]]) == Cut(["w.t", "w.s"], [layout], [(0, 1), (0, 0)])([field])
    assert Cut(["w.s"], [layout], [(0, 0)]).whole is None


def test_columns_that_follow_one_another_in_two_sources_stay_apart() -> None:
    """The first column of one environment and the second of another are no two columns of one."""
    layout = Layout(["s", "t"], [UNIT, UNIT])
    cut = Cut(["v.s", "w.t"], [layout, layout], [(0, 0), (1, 1)])

    assert layout.field([[0.25, -0.5]]) == cut([layout.field([[0.25, 0.5]]), layout.field([[-0.25, -0.5]])])


@given(counts.filter(bool), st.data())
def test_where_a_value_is_missing_there_are_rows(bodies: int, data: st.DataObject) -> None:
    """A field without one of its values travels as rows, is cut as rows, and has NaN in a matrix."""
    layout = Layout(["r", "q"], [UNIT, TEN], missing=True)
    values = drawn(layout, bodies, 1)
    body = data.draw(st.integers(0, bodies - 1))
    values[body][1] = None
    field = layout.field(values)

    assert values == field == layout.checked(field, "x", count=bodies)
    assert values == layout.bodies(field, "x", bodies)
    assert [[row[1]] for row in values] == Cut(["q"], [layout], [(0, 1)], missing=True)([field], bodies)
    assert np.isnan(layout.matrix([[row] for row in values], "x")[body, 1])


PAIR = Layout(["s", "t", "n"], [UNIT, UNIT, TEN])


@pytest.mark.parametrize(
    ("field", "count", "text"),
    [
        ([bytes(8), bytes(8)], 1, r"^x\.s to t: expected 16 bytes of <f8 for 1 bodies, found 8$"),
        ([bytes(24), bytes(8)], 1, r"^x\.s to t: expected 16 bytes of <f8 for 1 bodies, found 24$"),
        ([bytes(16), bytes(4)], 1, r"^x\.n: expected 8 bytes of <i8 for 1 bodies, found 4$"),
        ([bytes(32), bytes(8)], 2, r"^x\.n: expected 16 bytes of <i8 for 2 bodies, found 8$"),
        ([bytes(16)], 1, "^x: expected 2 blocks, found 1$"),
        ([bytes(16), bytes(8), b""], 1, "^x: expected 2 blocks, found 3$"),
        ([bytes(16), 7], 1, r"^x\.n: expected 8 bytes of <i8 for 1 bodies, found int$"),
        ([], 1, "^x: expected one row of 3 values, found 0 rows$"),
        ([[0.0, 0.0, 0]], 2, "^x: expected 2 rows of 3 values, found 1 rows$"),
        ([[0.0, 0.0]], 1, "^x: expected one row of 3 values, found 2 values$"),
        ([np.array([0.5, 2.0]).tobytes(), bytes(8)], 1, r"^x\.t: expected a value of Box.*, found 2\.0$"),
        ([np.array([np.nan, 0.0]).tobytes(), bytes(8)], 1, r"^x\.s: expected a value of Box.*, found nan$"),
        ([bytes(32), np.array([3, 10]).tobytes()], 2, r"^x\.n: expected a value of Discrete\(10\), found 10 of body 1"),
        ([[0.0, 0.0, 1], [0.0, -2.0, 1]], 2, r"^x\.t: expected a value of Box.*, found -2\.0 of body 1$"),
    ],
)  # fmt: skip
def test_what_is_not_as_declared_is_refused_by_name(field: list[Any], count: int, text: str) -> None:
    """Another number of blocks, bytes or rows, and a value outside its space: id and body, what was expected, found."""
    with pytest.raises(RemoteProtocolError, match=text):
        PAIR.checked(field, "x", count=count)


@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_infinity_is_refused_where_numbers_are_finite(form: str) -> None:
    """A space without bounds contains infinity, which no reward and no setpoint may be."""
    layout = Layout(["a", "b"], [UNIT, Box(-np.inf, np.inf, ())])
    field = layout.field([[0.0, np.inf]])
    given = field if form == "blocks" else layout.rows(field)

    assert field == layout.checked(given, "x")
    with pytest.raises(RemoteProtocolError, match=r"^x\.b: expected a finite number$"):
        layout.checked(given, "x", finite=True)


def test_composites_are_looked_at_value_by_value() -> None:
    """A tuple within its bounds may still not be contained: half a choice is none."""
    layout = Layout(["t"], [Tuple((Discrete(3), UNIT))])
    for wrong in ([0.5, 0.0], [0.0, 2.0]):
        with pytest.raises(RemoteProtocolError, match=r"^x\.t: "):
            layout.checked([np.array(wrong).tobytes()], "x")
