from __future__ import annotations

import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.store import StoreError
from ganglion_store.records import ACTIONS, STEPS, Rows, fields_of, to_json


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


@given(st.integers(1, 40), st.integers(1, 70_000))
def test_packed_rows_do_not_depend_on_batches(first: int, count: int) -> None:
    """The canonical bytes of rows are the same however they are cut into batches."""
    count = min(count, 300)
    rows = [[n, None, None, None, b"\x90", b"\x90", b"\x90", False, False, None] for n in range(count)]
    cut = min(first, count - 1)
    parts = [part for part in (rows[:cut], rows[cut:]) if part]

    assert b"".join(map(msgpack.packb, rows)) == b"".join(bytes(Rows.of(STEPS, part).packed) for part in parts)


def test_json_is_strict() -> None:
    """Numbers that JSON has not become null."""
    assert '{"a":[1,null,null]}' == to_json({"a": [1, math.nan, math.inf]})
    assert to_json(None) is None
