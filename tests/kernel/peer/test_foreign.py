"""What a program declares and answers, taken or refused by its own declaration."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.environment.contract import Declared, declared_layout
from ganglion.sdk.spaces import Box, Discrete

UNIT = {"type": "box", "shape": [], "dtype": "<f8", "low": -1.0, "high": 1.0}
PAIR = {"type": "box", "shape": [2], "dtype": "<f4", "low": -1.0, "high": 1.0}
COUNT = {"type": "discrete", "n": 4, "start": 0}
ALL = [{"id": "unit", "space": UNIT}, {"id": "pair", "space": PAIR}, {"id": "count", "space": COUNT}]


def _declared() -> Declared:
    declared = Declared()
    declared.declare("sensors", ALL)
    return declared


@pytest.mark.parametrize("pair", [[0, 0.5], struct.pack("<2f", 0.0, 0.5)], ids=["list", "bytes"])
def test_every_allowed_form_becomes_one(pair: object) -> None:
    """Integers for floats, integral floats for integers, lists for bytes: the row is as our own hosts send it."""
    row = _declared().row("sensors", [[1, pair, 3.0]], "readings")

    assert [1.0, struct.pack("<2f", 0.0, 0.5), 3] == row
    assert [float, bytes, int] == [type(value) for value in row]


@pytest.mark.parametrize(
    ("row", "uid"),
    [
        ([2.0, [0, 0], 0], "unit"),
        ([float("nan"), [0, 0], 0], "unit"),
        (["0", [0, 0], 0], "unit"),
        ([None, [0, 0], 0], "unit"),
        ([0.0, [0, 2], 0], "pair"),
        ([0.0, [0], 0], "pair"),
        ([0.0, b"123", 0], "pair"),
        ([0.0, struct.pack("<2f", 0.0, 7.0), 0], "pair"),
        ([0.0, [0, 0], 4], "count"),
        ([0.0, [0, 0], 0.5], "count"),
        ([True, [0, 0], 0], "unit"),
        ([0.0, [0, 0], True], "count"),
    ],
)
def test_value_that_does_not_fit_is_named(row: list[Any], uid: str) -> None:
    """A value outside its declared space is refused by the name of its sensor."""
    with pytest.raises(RemoteProtocolError, match=rf"^readings\.{uid}: "):
        _declared().row("sensors", [row], "readings")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"space": UNIT}, r"^sensors\[1\]\.id: expected printable text"),
        ({"id": "", "space": UNIT}, r"^sensors\[1\]\.id: expected printable text"),
        ({"id": "b\n", "space": UNIT}, r"^sensors\[1\]\.id: expected printable text"),
        ({"id": 7, "space": UNIT}, r"^sensors\[1\]\.id: expected printable text"),
        ({"id": "a", "space": UNIT}, r"^sensors\[1\]\.id: 'a' is declared twice"),
        ({"id": "b"}, r"^sensors\.b\.space: expected text or a map, found None"),
        ({"id": "b", "space": 7}, r"^sensors\.b\.space: expected text or a map, found 7"),
        ({"id": "b", "space": "Box"}, r"^sensors\.b\.space: space, column 1: expected one of Box, Discrete"),
        ("b: Disc(3)", r"^sensors\.b\.space: space, column 1: expected one of Box, Discrete"),
        ("b:Discrete(3)", r"^sensors\[1\]: expected text 'id: space' or a map {id, space}, found 'b:Discrete\(3\)'"),
        (None, r"^sensors\[1\]: expected text 'id: space' or a map"),
        ({"id": "b", "space": {"type": "bax"}}, r"^sensors\.b: space\.type: expected one of"),
    ],
)
def test_declaration_that_is_none_is_named(wrong: Any, text: str) -> None:
    """A declaration without id or space, or of an id that is taken, is refused by its place."""
    with pytest.raises(RemoteProtocolError, match=text):
        declared_layout([{"id": "a", "space": UNIT}, wrong], "sensors")


def test_text_declares_as_a_map_does() -> None:
    """A declaration may be text, and so may the space in a map: both leave the maps of their spaces."""
    declared: list[Any] = ["a: Box(0, 1)", {"id": "b", "space": "Discrete(3)", "value": 1, "unit": None}]
    layout = declared_layout(declared, "actuators")

    assert [("a", Box(0.0, 1.0, ())), ("b", Discrete(3))] == layout.pairs()
    assert [
        {"id": "a", "space": Box(0.0, 1.0, ()).to_wire()},
        {"id": "b", "space": Discrete(3).to_wire(), "value": 1},
    ] == declared


def test_no_op_lies_in_its_space() -> None:
    """A no-op outside the actuator's space is refused."""
    with pytest.raises(RemoteProtocolError, match=r"^actuators: value\.torque: expected a value of Box"):
        Declared().declare("actuators", [{"id": "torque", "space": UNIT, "value": 7.0}])


def test_time_never_falls_within_an_episode() -> None:
    """Ticks and timestamps may stand still, not fall; a new episode begins anew."""
    declared = _declared()
    declared.pass_time(3, "2030-01-01T00:00:00")
    declared.pass_time(3, "2030-01-01T00:00:00")

    with pytest.raises(RemoteProtocolError, match="simtime fell from"):
        declared.pass_time(2, None)
    with pytest.raises(RemoteProtocolError, match="simtime fell from"):
        declared.pass_time(4, "2029-12-31T00:00:00")
    declared.begin()
    declared.pass_time(0, "2020-01-01T00:00:00")


@pytest.mark.parametrize("timestamp", ["noon", "2030-01-01T00:00:00+00:00"])
def test_timestamp_that_cannot_be_compared_is_refused(timestamp: str) -> None:
    """What is no timestamp, or has a time zone where the one before had none, is refused."""
    declared = _declared()
    declared.pass_time(0, "2020-01-01T00:00:00")

    with pytest.raises(RemoteProtocolError, match=r"^timestamp: expected ISO 8601"):
        declared.pass_time(1, timestamp)
