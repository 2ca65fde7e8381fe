from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfActionSpaceError, OutOfObservationSpaceError
from ganglion.limits import IDS_PER_ENVIRONMENT
from ganglion.peer.environment.contract import difference, field_set, layout_of, listed, static_model
from ganglion.peer.values import deserialize
from ganglion.sdk import ActuatorInformation, Box, Discrete, RewardInformation, SensorInformation, Space

TEN = Discrete(10)
PAIR = Box(-1.0, 1.0, (2,))


def sensor(value: Any = 3, space: Any = TEN, uid: str = "s") -> SensorInformation:
    """Return one reading."""
    return SensorInformation(value, space, uid)


def spaceless() -> SensorInformation:
    """Return a reading whose space was taken away."""
    found: Any = sensor()
    found.space = "Box"
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("what", "given", "text"),
    [
        ("sensor", {"s": 1}, "sensors: expected a list of SensorInformation, found {'s': 1}"),
        ("sensor", iter([]), "sensors: expected a list of SensorInformation, found <list_iterator"),
        ("sensor", None, "sensors: expected a list of SensorInformation, found None"),
        ("sensor", [sensor(), "t"], r"sensors\[1\]: expected a SensorInformation, found 't'"),
        ("sensor", [ActuatorInformation(1, TEN, "a")], r"sensors\[0\]: expected a SensorInformation, found Act"),
        ("reward", RewardInformation(1, TEN, "r"), "rewards: expected a list of RewardInformation, found Rew"),
        ("sensor", [spaceless()], "sensor 's': expected a space, found 'Box'"),
    ],
)
def test_what_stands_in_the_place_of_informations_is_named(what: str, given: Any, text: str) -> None:
    """A list of the right informations passes; anything else is refused by what it is and where it stands."""
    assert [] == listed("sensor", [])
    with pytest.raises(AuthorError, match=text):
        listed(what, given)


def changed(values: list[float], space: Space = PAIR) -> Any:
    """Return an actuator whose array was changed after it was set."""
    array = np.zeros(2)
    found = ActuatorInformation(array, space, "a")
    array[:] = values
    return found


@pytest.mark.parametrize(
    ("what", "given", "error", "text"),
    [
        ("sensor", [sensor(), sensor()], AuthorError, "sensor 's' is declared twice"),
        ("actuator", [ActuatorInformation(None, TEN, "a")], AuthorError, "'a' has no value: expected its no-op"),
        ("actuator", [changed([7, 7])], OutOfActionSpaceError, "setpoint a: expected a value of Box"),
        (
            "actuator",
            [ActuatorInformation(np.inf, Box(-np.inf, np.inf, ()), "a")],
            AuthorError,
            "actuator 'a': expected a finite number as its no-op",
        ),
        (
            "sensor",
            [sensor(uid=str(i)) for i in range(IDS_PER_ENVIRONMENT + 1)],
            AuthorError,
            f"expected at most {IDS_PER_ENVIRONMENT} sensors",
        ),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused(what: str, given: Any, error: type[Exception], text: str) -> None:
    """Ids come once, actuators have their no-op, and there are not more than are allowed."""
    with pytest.raises(error, match=text):
        layout_of(what, given)


@pytest.mark.parametrize(
    ("now", "text"),
    [
        ([("a", TEN), ("b", PAIR)], None),
        ([("a", TEN)], "b is missing"),
        ([("a", TEN), ("b", PAIR), ("c", TEN)], "c is new"),
        ([("b", PAIR), ("a", TEN)], "the order was a, b and is b, a"),
        ([("a", Discrete(11)), ("b", PAIR)], "the space of a was Discrete(10) and is Discrete(11)"),
    ],
)
def test_a_difference_is_named(now: Any, text: str | None) -> None:
    """Equal declarations differ in nothing; else the first difference is told in words."""
    assert text == difference([("a", TEN), ("b", PAIR)], now)


def test_rows_stand_in_declared_order() -> None:
    """Informations may come in any order."""
    layout = layout_of("sensor", [sensor(uid="s"), sensor(uid="t")])

    assert [[1, 2]] == layout.rows(field_set("sensor", layout, [sensor(2, uid="t"), sensor(1, uid="s")]))


def test_an_array_that_was_changed_after_it_was_set_is_refused_by_id() -> None:
    """A value is looked at when it leaves, not only when it was set."""
    array = np.zeros(2)
    reading = SensorInformation(array, PAIR, "s")
    layout = layout_of("sensor", [reading])
    array[0] = 7.0

    with pytest.raises(OutOfObservationSpaceError, match="reading s: expected a value of Box"):
        field_set("sensor", layout, [reading])


def test_a_static_model_may_hold_arrays() -> None:
    """Arrays travel as such, whatever their size; None is none."""
    model = {"grid": np.arange(30_000).reshape(2, -1), "name": "x", "deep": [{"raw": b"\x00"}]}
    found = deserialize(static_model(model), (), "model")

    assert static_model(None) is None
    assert model["grid"].tolist() == found["grid"].tolist()
    assert ("x", [{"raw": b"\x00"}], False) == (found["name"], found["deep"], found["grid"].flags.writeable)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ([1], r"static_world_model: expected a map with text keys, found \[1\]"),
        ({"a": [object()]}, r"static_world_model\.a\[0\]: a builtins.object cannot travel"),
        ({1: 2}, "static_world_model: expected keys that are text, found 1"),
    ],
)
def test_a_static_model_that_cannot_travel_is_refused(model: Any, text: str) -> None:
    """It is a map of plain values and arrays; what is not is refused by its path."""
    with pytest.raises(AuthorError, match=text):
        static_model(model)
