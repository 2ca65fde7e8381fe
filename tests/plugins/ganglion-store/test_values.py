from __future__ import annotations

import math
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.store import StoreError
from ganglion_store.values import Declared, named, sums, value_lists

pack = msgpack.packb
SCALARS = [Declared(f"g.{n}", "<f8", ()) for n in range(3)]


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False), st.integers(-(2**53), 2**53)), min_size=3, max_size=3))
def test_scalars_survive(values: list[Any]) -> None:
    """Scalars are what they were, under their ids, in declared order."""
    assert dict(zip(["g.0", "g.1", "g.2"], values, strict=True)) == named(SCALARS, pack(values))


def test_what_is_not_known() -> None:
    """Nil and NaN are None; only nil is left out where that was asked for; booleans are booleans."""
    declared = [*SCALARS, Declared("g.on", "|b1", ())]
    blob = pack([None, math.nan, 1.0, 1])

    assert {"g.0": None, "g.1": None, "g.2": 1.0, "g.on": True} == named(declared, blob)
    assert ["g.1", "g.2", "g.on"] == list(named(declared, blob, given_only=True))


@pytest.mark.parametrize(
    ("declared", "blob", "message"),
    [
        (SCALARS, pack([1.0]), "expected 3 values as declared, found 1"),
        (SCALARS, b"\xc1", "msgpack"),
        (SCALARS, pack({"a": 1}), "expected a value list"),
        ([Declared("g.a", None, ())], pack([b"1234"]), "g.a: found the bytes of an array, but no dtype"),
        ([Declared("g.a", "<f8", (2,))], pack([b"1234"]), r"g.a: expected <f8 of shape \[2\], found 4 bytes"),
        ([Declared("g.a", "nonsense", ())], pack([b"1234"]), "g.a: expected nonsense"),
    ],
)
def test_what_does_not_fit_is_refused(declared: list[Declared], blob: bytes, message: str) -> None:
    """Values that are not as declared are an error, never a guess."""
    with pytest.raises(StoreError, match=message):
        named(declared, blob)


def test_sums() -> None:
    """A sum counts numbers, booleans and elements of arrays; where nothing is known it is None."""
    rewards = [Declared("g.r", "<f8", ()), Declared("g.a", "<f4", (2,))]
    rows = [[1.5, struct.pack("<2f", 1, 2)], [None, struct.pack("<2f", 0, 1)], [None, None], [], [True, 2]]

    assert [4.5, 1.0, None, None, 3.0] == sums([pack(row) for row in rows], rewards)
    assert [3.5] == sums([pack([1.5, [1, [1]]])], rewards)
    for row in ("text", ["text"], [1.0, 2.0, b"1234"]):
        with pytest.raises(StoreError):
            sums([pack(row)], rewards)


DECLARED = [
    Declared("g.x", "<f8", ()),
    Declared("g.y", "<f8", ()),
    Declared("g.n", "<i8", ()),
    Declared("g.s", "<f4", ()),
    Declared("g.v", "<f4", (2, 1)),
    Declared("g.b", "|i1", (3,)),
]


@given(st.integers(0, 6), st.lists(st.tuples(st.floats(width=32), st.integers(-(2**53), 2**53)), max_size=20))
def test_blocks_rest_as_rows(count: int, drawn: list[tuple[float, int]]) -> None:
    """Blocks of any dtypes become the very bytes of a row, whole columns at once; a row is packed, None stays."""
    declared = DECLARED[:count]
    column, expected = [], []
    for x, n in drawn:
        vector, bits = struct.pack("<2f", x, 1.0), struct.pack("<3b", 1, 0, -1)
        parts = [struct.pack("<d", x), struct.pack("<d", -x), struct.pack("<q", n), struct.pack("<f", x), vector, bits]
        column.append(b"".join(parts[:count]))
        expected.append(pack([x, -x, n, x, vector, bits][:count]))

    assert expected == list(value_lists(column, declared))
    assert [pack([None]), *expected, None] == list(value_lists([[[None]], *column, None], declared))


@pytest.mark.parametrize("values", [b"1234567", bytes(17), b"", [[1.0], [2.0]], [7], 7])
def test_blocks_that_are_not_as_declared_are_refused(values: Any) -> None:
    """Another number of bytes, and what is no one row, is an error that says what was expected."""
    for declared in (DECLARED[:2], DECLARED[:3], [Declared("g.a", "nonsense", ())]):
        with pytest.raises(StoreError, match="expected"):
            value_lists([values], declared)
