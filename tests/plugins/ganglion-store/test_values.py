"""What lists, records and declarations of values are, and how they rest."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store.records import ACTIONS, STEPS, Rows, fields_of, to_json
from ganglion_store.values import Declarations, Declared, checked, declared_lists, named, sums, value_lists

pack = msgpack.packb
SCALARS = [Declared(f"g.{n}", "<f8", ()) for n in range(3)]


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


def _list(*ids: str) -> list[Declared]:
    return [Declared(name, "<f8", ()) for name in ids]


def test_the_same_again_is_harmless() -> None:
    """A list is new once; another one under its key is refused with what differs."""
    declarations = Declarations()
    key = (0, "grid", "", "sensor")
    assert declarations.add(key, _list("grid.a", "grid.b"))
    assert not declarations.add(key, _list("grid.a", "grid.b"))

    with pytest.raises(
        Nondeterministic, match=r"sensors of environment grid, phase 0: declared grid\.b .* now grid\.c"
    ):
        declarations.add(key, _list("grid.a", "grid.c"))
    with pytest.raises(Nondeterministic, match="declared 2 before, now 1"):
        declarations.add(key, _list("grid.a"))


@pytest.mark.parametrize(
    "values",
    [
        [0, "grid", None, "smell", []],
        [0, None, None, "sensor", []],
        [0, "grid", None, "sensor", [["grid.a", "Box", None, "<f8"]]],
        [0, "grid", None, "sensor", [["grid.a", "Box", None, "<f8", [1.5]]]],
        [0, "grid", None, "sensor", [[3, "Box", None, "<f8", []]]],
    ],
)
def test_malformed_declarations_are_refused(values: list[Any]) -> None:
    """A record that declares nothing readable is refused."""
    with pytest.raises(StoreError, match="record declare: expected"):
        checked(values)


@pytest.mark.parametrize(
    ("homes", "rows", "expected"),
    [
        (["lake"], {"": "lake.x"}, {"lake": "lake.x"}),
        (["lake", "moor"], {"": "x"}, {"lake": "lake.x", "moor": "moor.x"}),
        # What looks like a full id may be a local one.
        (["lake", "moor"], {"": "lake.x"}, {"lake": "lake.lake.x", "moor": "moor.lake.x"}),
        # Groups: lake and fen are one, moor is another one.
        (
            ["lake", "moor", "fen"],
            {"lake": "x", "moor": "moor.x", "fen": "x"},
            {"lake": "lake.x", "moor": "moor.x", "fen": "fen.x"},
        ),
        ([], {"": "lake.x"}, {"": "lake.x"}),
    ],
)
def test_what_bodies_declare_is_read_under_full_ids(
    homes: list[str], rows: dict[str, str], expected: dict[str, str]
) -> None:
    """Ids are local where an agent, or a group of its bodies, is in several environments: there the name is added."""
    told = [[0, environment, "ada", "sensor", name, "<f8", "[]", "Box"] for environment, name in rows.items()]
    bodies = [[0, "ada", environment, 0] for environment in homes] + [[0, "bob", "sea", 0], [1, "ada", "sea", 0]]

    found = declared_lists(told, bodies)

    assert {(0, place, "ada", "sensor"): [name] for place, name in expected.items()} == {
        key: [one.id for one in declared] for key, declared in found.items()
    }


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "expected a record"),
        ("steps", "expected a record"),
        (["unknown", 1], "expected a record"),
        ([["steps"]], "expected a record"),
        (["phase", 0], "record phase: expected 5 fields, found 1"),
        (["phase", True, "a", "train", "running", None], "expected an integer as `phase`, found True"),
        (["phase", 0, 7, "train", "running", None], "expected text as `name`, found 7"),
        (["episode", 0, "train", 0, None, 0, 3, 1, False, "", 0], "expected a boolean as `terminated`, found 1"),
    ],
)
def test_malformed_records_are_refused(record: Any, message: str) -> None:
    """A record of the wrong kind, length or type is refused with the field's name."""
    with pytest.raises(StoreError, match=message):
        fields_of(record)


@pytest.mark.parametrize(
    ("position", "value", "name"),
    [(0, "1", "step"), (0, True, "step"), (3, 5, "simtime_timestamp"), (4, [1.0], "sensors"), (7, 0, "terminated")],
)
def test_malformed_rows_are_refused(tell: Any, position: int, value: Any, name: str) -> None:
    """One wrong value among many rows is refused with its column."""
    rows = tell.steps(0, 1, 5)[-1]
    rows[3][position] = value
    with pytest.raises(StoreError, match=f"as `{name}`, found"):
        Rows.of(STEPS, rows)
    with pytest.raises(StoreError, match="expected rows of"):
        Rows.of(STEPS, [rows[0][:-1]])
    with pytest.raises(StoreError, match="rows of equal length"):
        Rows.of(STEPS, [rows[0], rows[1][:-1]])


def test_integers_for_floats_are_canonical(tell: Any) -> None:
    """An objective sent as an integer has the bytes of the float that it rests as."""
    short, long = tell.actions(0, 0, 3)[-1], tell.actions(0, 0, 3)[-1]
    short[2][7] = int(long[2][7])

    assert 1 == short[2][7]
    assert Rows.of(ACTIONS, long).packed == Rows.of(ACTIONS, short).packed


def test_json_is_strict() -> None:
    """Numbers that JSON has not become null."""
    assert '{"a":[1,null,null]}' == to_json({"a": [1, math.nan, math.inf]})
    assert to_json(None) is None
