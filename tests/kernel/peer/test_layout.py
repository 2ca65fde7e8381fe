from __future__ import annotations

import enum
import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.limits import WORLD_STATE_VALUES
from ganglion.peer.step.arrays import Readings
from ganglion.peer.step.layout import Layout, declaration
from ganglion.peer.values import deserialize, plain, serialize, to_json
from ganglion.sdk import Box, Discrete, MultiBinary, Tuple, spaces
from ganglion.wire.codec import decode_map, encode_map

ONE = {
    "number": spaces.Box(0.0, 1.0, ()),
    "single": spaces.Box(-1.0, 1.0, (), np.float32),
    "count": spaces.Box(0, 9, (), np.int64),
    "choice": spaces.Discrete(5, start=-2),
    "array": spaces.Box(0.0, 1.0, (2, 3)),
    "small": spaces.Box(0, 255, (4,), np.uint8),
    "choices": spaces.MultiDiscrete([3, 4]),
    "bits": spaces.MultiBinary(5),
    "mask": spaces.Mask(4, of="choice"),
    "ragged": spaces.Ragged(spaces.Box(-1.0, 1.0, (3, 2), np.float32)),
    "pair": spaces.Tuple((spaces.Discrete(3), spaces.Box(0.0, 1.0, (2,)))),
}


def layout_of(names: list[str]) -> Layout:
    """Return a layout of these spaces, as it comes over the wire."""
    declarations = [declaration(name, ONE[name]) for name in names]
    return Layout.of(decode_map(encode_map({"d": declarations}))["d"])


@pytest.mark.parametrize("last", [0, 1])
def test_a_block_of_masks_is_contained_if_each_body_may_do_something(last: int) -> None:
    """A mask of a body that allows nothing is found among those of many bodies."""
    masks = np.array([[1, 0, 0, 1], [0, 0, 0, last]], np.int8)
    layout = layout_of(["array", "mask"])

    assert bool(last) is layout.contains([np.zeros((2, 6)).tobytes(), masks.tobytes()], finite=True, count=2)


NUMBERS = ("number", "count", "choice")


@given(st.lists(st.sampled_from(NUMBERS), unique=True), st.data())
def test_a_row_that_is_held_is_contained_and_travels_as_it_is(names: list[str], data: st.DataObject) -> None:
    """One comparison of a row of numbers agrees with the spaces; without it nothing is said."""
    layout = layout_of(names)
    number = st.integers(-4, 11) | st.floats() | st.booleans() | st.none()
    row = data.draw(st.lists(number, min_size=len(names), max_size=len(names)))
    contained = [ONE[name].contains(value) for name, value in zip(names, row, strict=True)]
    exact = [type(value) is (float if name == "number" else int) for name, value in zip(names, row, strict=True)]

    assert (all(contained) and all(exact)) == layout.holds(row)
    assert not layout.holds(row) or layout.values(layout.field([row]), "row") == row
    assert not layout.holds([*row, 0])


def travel(row: list[Any]) -> list[Any]:
    """Return a row as it arrives."""
    return decode_map(encode_map({"row": row}))["row"]


def same(one: Any, other: Any) -> bool:
    """Compare values that may hold arrays, by value, type and dtype."""
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool(np.array_equal(one, other))
    return type(one) is type(other) and one == other


@given(st.lists(st.sampled_from(sorted(ONE)), unique=True, max_size=6), st.integers(0, 2**32))
def test_rows_of_all_spaces_round_trip(names: list[str], seed: int) -> None:
    """Values of any spaces come back from the row that they become, with type and dtype."""
    layout, rng = layout_of(names), np.random.default_rng(seed)
    values = [ONE[name].canonical(ONE[name].sample(rng)) for name in names]

    assert same(values, layout.from_row(travel(layout.to_row(values)), "readings"))
    assert (len(names), tuple(names)) == (len(layout), layout.ids)


@pytest.mark.parametrize("name", sorted(ONE))
@pytest.mark.parametrize("sent", [None, "x", {}, [[]], {"a": 1}, [None, None], b"123", [[[1]]], "12", [10**400]])
def test_what_does_not_fit_is_refused_by_its_id(name: str, sent: Any) -> None:
    """Whatever is no value of a space is refused with the id, and with nothing but RemoteProtocolError."""
    with pytest.raises(RemoteProtocolError, match=f"^readings.{name}: "):
        layout_of([name]).from_row([sent], "readings")


def test_declaration_travels() -> None:
    """A declaration has id and space, and value and ids of components where they are given."""
    full = declaration("a", ONE["array"], np.zeros((2, 3)), ["x", "y"])

    assert {"id", "space", "value", "value_ids"} == set(full)
    assert (bytes(48), ["x", "y"]) == (full["value"], full["value_ids"])
    assert {"id", "space"} == set(declaration("a", ONE["choice"]))
    assert 0 == declaration("a", ONE["choice"], 0)["value"]


# -- free data --------------------------------------------------------------------------------------------------------
def round_trip(value: Any) -> Any:
    """Freeze, send, deserialize."""
    blobs: list[bytes] = []
    frozen = serialize(value, blobs, "update")
    return deserialize(decode_map(encode_map({"v": frozen}))["v"], blobs, "update")


arrays = hnp.arrays(
    st.sampled_from(["?", "i1", "u1", "<i2", ">i4", "<i8", "<u8", "<f2", ">f4", "<f8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(trees)
def test_plain_values_round_trip(value: Any) -> None:
    """Plain values come back as they were."""
    assert same([value], [round_trip(value)]) or value == round_trip(value)


def test_large_arrays_are_frames_of_their_own() -> None:
    """Above 64 KiB an array travels as a blob; several keep their numbers, wherever they lie."""
    blobs: list[bytes] = []
    big, other, small = np.arange(8193.0), np.arange(9000.0)[::-1], np.zeros(8192)
    frozen = serialize({"a": [big], "b": small, "c": (other,)}, blobs, "update")

    assert [0, 1] == [frozen["a"][0]["blob"], frozen["c"][0]["blob"]]
    assert "data" in frozen["b"]
    back = deserialize(frozen, blobs, "update")
    assert np.array_equal(other, back["c"][0])
    assert np.array_equal(big, back["a"][0])


class Word(enum.StrEnum):
    """Be text."""

    ONE = "one"


class Number(enum.IntEnum):
    """Be a number."""

    TWO = 2


class Real(float):
    """Be a float."""


class Mixed(str, enum.Enum):  # noqa: UP042 - authors have such classes
    """Be text in the old way."""

    THREE = "three"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Word.ONE, "one"),
        (Mixed.THREE, "three"),
        (Number.TWO, 2),
        (Real(1.5), 1.5),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        ((1, 2), [1, 2]),
    ],
)
def test_kin_of_plain_values_become_plain(value: Any, plain: Any) -> None:
    """Members of enumerations, numpy's scalars, subclasses and tuples travel as what they stand for."""
    back = round_trip(value)

    assert plain == back
    assert type(plain) is type(back)


def nested(levels: int) -> Any:
    """Return lists in one another."""
    found: Any = []
    for _ in range(levels - 1):
        found = [found]
    return found


def cycle() -> Any:
    """Return a list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


def test_frozen_data_become_json() -> None:
    """Arrays are lists, bytes base64, and what JSON has no number for is text."""
    value = {"grid": np.arange(4).reshape(2, 2), "raw": b"\x00\xff", "no": [None, np.nan, -np.inf], "c": np.array([1j])}
    text = to_json(serialize(value, None, "model"))

    assert {
        "grid": [[0, 1], [2, 3]],
        "raw": {"$bytes": "AP8="},
        "no": [None, "nan", "-inf"],
        "c": [[0.0, 1.0]],
    } == json.loads(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, {"b": object()}]}, r"update\.a\[1\]\.b: a builtins.object cannot travel"),
        ({1: 2}, "update: expected keys that are text, found 1"),
        ([{1, 2}], r"update\[0\]: a builtins.set cannot travel"),
        (1j, "update: a builtins.complex cannot travel"),
        (2**53, "update: expected an integer of at most 53 bits"),
        ([np.uint64(2**63)], r"update\[0\]: expected an integer of at most 53 bits"),
        (np.array([object()]), "update: expected an array of numbers, booleans or bytes, found dtype object"),
        (np.array(["x"]), "update: expected an array of numbers"),
        (np.complex64(1j), r"update: a numpy\.complex64 cannot travel"),
        ({"dtype": "<f8", "shape": [1], "data": b"12345678"}, "update: a map with the keys dtype, shape, data"),
        ({"a": {"shape": 1, "dtype": 2, "blob": 3}}, r"update\.a: a map with the keys shape, dtype, blob"),
        (["x\udc80"], r"update\[0\]: expected text that is UTF-8"),
        ({"x\udc80": 1}, "update: expected text that is UTF-8"),
        (nested(29), r"update(\[0\])+: expected at most 28 levels of maps and lists"),
        (cycle(), r"update(\[0\])+: expected at most 28 levels"),
    ],
)
def test_what_cannot_travel_is_refused_by_its_path(value: Any, text: str) -> None:
    """A value that is not plain is refused with the path that leads to it."""
    with pytest.raises(AuthorError, match=text):
        serialize(value, [], "update")


WHOLE: dict[str, Any] = {"dtype": "<f8", "shape": [1], "data": b"12345678"}
NAMES: tuple[Any, ...] = ("O", "<U2", "f8,(2,)i4", "f8,(", "<f3", "float64", ["<f8"], {"names": ["a"]}, None)
SHAPES: tuple[Any, ...] = ([2], [-1], [2**62, 4], [2**70], 1, "1", [True], [1] * 100)
FORMS = [
    *({**WHOLE, "dtype": name} for name in NAMES),
    *({**WHOLE, "shape": shape} for shape in SHAPES),
    *({**WHOLE, "data": data} for data in (b"1234567", "12345678", None, [1.0])),
    *({"dtype": "<f8", "shape": [1], "blob": blob} for blob in (1, -1, "0", True)),
    {"dtype": "<f3", "shape": [1], "data": b"123"},
    {"dtype": "f8,(2,)i4", "shape": [1], "data": b"1" * 16},
]


@pytest.mark.parametrize("form", FORMS)
def test_bad_array_is_refused_by_its_path(form: dict[str, Any]) -> None:
    """What is no array of numbers is refused with its path, before numpy reads a word of it."""
    with pytest.raises(RemoteProtocolError, match=r"^update\.w\[0\]: not an array: "):
        deserialize({"w": [form]}, [b"12345678"], "update")


@given(arrays)
def test_arrays_round_trip(array: Any) -> None:
    """Arrays of numbers and booleans come back with shape, values and dtype, little-endian and read-only."""
    back = round_trip({"w": array})["w"]

    assert (array.shape, array.dtype.newbyteorder("<")) == (back.shape, back.dtype.newbyteorder("<"))
    assert np.array_equal(array, back, equal_nan=array.dtype.kind == "f")
    assert not back.flags.writeable


@given(st.fixed_dictionaries({"dtype": st.text(max_size=6) | trees, "shape": trees, "data": trees}))
def test_any_array_form_is_read_or_refused(form: dict[str, Any]) -> None:
    """No form of an array leads to anything but an array or RemoteProtocolError."""
    try:
        array = deserialize(form, [], "update")
    except RemoteProtocolError:
        return
    assert array.dtype.kind in "biuf"


# -- matrix -----------------------------------------------------------------------------------------------------------
UNIT, TEN = Box(0.0, 1.0, ()), Discrete(10)
GRID = Box(0, 9, (2, 2), dtype=np.int16)
BOTH = Tuple([Discrete(3), MultiBinary(2)])


def test_each_id_has_its_part_of_the_matrix() -> None:
    """Readings by id have the shape and dtype of their space; a tuple has its vector."""
    layout = Layout(["s", "g", "t"], [UNIT, GRID, BOTH])
    grid = np.arange(4, dtype=np.int16).reshape(2, 2)
    matrix = layout.matrix([layout.field([[0.5, grid, (2, [1, 0])]])], "x")
    readings = Readings(layout, matrix)

    assert [[0.5, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0]] == matrix.tolist()
    assert (["s", "g", "t"], 3) == (list(readings), len(readings))
    assert ((1,), np.float64) == (readings["s"].shape, readings["s"].dtype)
    assert ((1, 2, 2), np.int16, grid.tolist()) == (
        readings["g"].shape, readings["g"].dtype, readings["g"][0].tolist(),
    )  # fmt: skip
    assert [[2, 1, 0]] == readings["t"].tolist()
    assert "none" not in readings


@pytest.mark.parametrize(
    "row", [[0.5], "ab", *([0.5, it] for it in (np.arange(4, dtype="<i2").tobytes()[:-1], b"", 1.0, None, [1, 2], "1"))]
)
def test_what_is_no_row_is_refused_by_name(row: Any) -> None:
    """A row of another length, and a value that its space cannot hold, are refused as in the form with objects."""
    with pytest.raises(RemoteProtocolError, match=r"^x"):
        Layout(["s", "g"], [UNIT, GRID]).matrix([[row]], "x")


# -- plain ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(1.5), 1.5),
        (np.bool_(True), True),
        (np.array(3), 3),
        (np.array([[1, 2], [3, 4]], dtype=np.uint8), [[1, 2], [3, 4]]),
        ((1, (2, 3)), [1, [2, 3]]),
        (MappingProxyType({"a": np.array([True])}), {"a": [True]}),
        (datetime(2030, 1, 2, tzinfo=UTC), "2030-01-02T00:00:00+00:00"),
        (np.str_("a"), "a"),
    ],
)
def test_arrays_and_times_become_plain(value: Any, expected: Any) -> None:
    """Arrays and their numbers become lists and numbers, tuples lists, times text; all can be sent."""
    assert expected == plain(value)
    assert expected == msgpack.unpackb(msgpack.packb(plain(value)))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (object(), TypeError, "found object"),
        ({"a": {3: 4}}, TypeError, "text as keys of a map, found int"),
        ([b"x"], TypeError, "found bytes"),
        (2**53, ValueError, "expected integers of at most 9007199254740991"),
        (np.zeros(WORLD_STATE_VALUES), ValueError, "limit world_state_values"),
        ("x" * 8 * WORLD_STATE_VALUES, ValueError, "limit world_state_values"),
        ({"x" * 8 * WORLD_STATE_VALUES: 1}, ValueError, "limit world_state_values"),
        (np.array([1j]), TypeError, "found complex"),
        ({"a": [1, {"b": object()}]}, TypeError, r"^state\.a\[1\]\.b: expected numbers"),
        ({"a": {"b": {3: 4}}}, TypeError, r"^state\.a\.b: expected text as keys"),
        ([2**60], ValueError, r"^state\[0\]: expected integers"),
        ([0] * (WORLD_STATE_VALUES + 1), ValueError, "^state: expected at most"),
        (cycle(), ValueError, "levels"),
    ],
)
def test_what_cannot_be_sent_is_refused(value: Any, error: type[Exception], text: str) -> None:
    """Objects, keys that are no text, large integers, depth, and more than a message holds: where, in words."""
    with pytest.raises(error, match=text):
        plain(value, "state")
