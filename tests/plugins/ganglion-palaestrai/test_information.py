from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion import sdk
from ganglion.sdk import Box, Discrete, OutOfActionSpaceError, Template
from ganglion_palaestrai.information import ActuatorInformation, RewardInformation, SensorInformation, adopt

SPACE = Discrete(5)
OLD = [
    (SensorInformation, "sensor_value", "observation_space", "sensor_id"),
    (ActuatorInformation, "setpoint", "action_space", "actuator_id"),
    (RewardInformation, "reward_value", "observation_space", "reward_id"),
]


@pytest.mark.parametrize(("kind", "value", "space", "uid"), OLD)
def test_old_names_read_and_set_and_say_so(kind: Any, value: str, space: str, uid: str) -> None:
    """An old attribute is the new one, read and set, and each use is a deprecation warning that names the new one."""
    information = kind(3, SPACE, "a")

    for old, new, other in ((value, "value", 4), (space, "space", Discrete(9)), (uid, "uid", "b")):
        with pytest.warns(DeprecationWarning, match=f"{kind.__name__}.{old} is called {new}"):
            assert getattr(information, old) == getattr(information, new)
        with pytest.warns(DeprecationWarning, match=old):
            setattr(information, old, other)
        assert other == getattr(information, new)


@pytest.mark.parametrize(("kind", "value", "space", "uid"), OLD)
def test_constructors_take_old_names(kind: Any, value: str, space: str, uid: str) -> None:
    """Old names of arguments make the same information, with a warning each; the new ones warn of nothing."""
    with pytest.warns(DeprecationWarning, match="is called") as caught:
        old = kind(**{value: 3, space: SPACE, uid: "a"})
    new = kind(value=3, space=SPACE, uid="a", value_ids=["x"])

    assert 3 == len(caught)
    assert all(__file__ == warning.filename for warning in caught)
    assert (3, SPACE, "a", None) == (old.value, old.space, old.uid, old.value_ids)
    assert (3, SPACE, "a", ["x"]) == (new.value, new.space, new.uid, new.value_ids)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SensorInformation(1, SPACE), "SensorInformation: uid is missing"),
        (lambda: SensorInformation(1, uid="a"), "SensorInformation: space is missing"),
        (lambda: SensorInformation(1, SPACE, "a", colour=3), "found 'colour'"),
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], Any], message: str) -> None:
    """A space or uid that lacks, and a name that there never was, are refused by name."""
    with pytest.raises(TypeError, match=message):
        make()


def test_a_value_outside_its_space_is_refused_by_any_name() -> None:
    """Setting by an old name checks the space like setting by the new one; the value before stays."""
    actuator = ActuatorInformation(1, SPACE, "a")

    with pytest.warns(DeprecationWarning, match="is called"), pytest.raises(OutOfActionSpaceError):
        actuator.setpoint = 7
    assert 1 == actuator.value


def test_more_of_the_old_ways() -> None:
    """`id` is the uid, a length is that of the space's vector, a reward plus a number is a number."""
    sensor = SensorInformation([0.0, 1.0], Box(0.0, 1.0, (2,)), "a")
    with pytest.warns(DeprecationWarning, match="id is called uid"):
        assert "a" == sensor.id

    assert (2, 1) == (len(sensor), len(ActuatorInformation(1, SPACE, "a")))
    assert 5 == RewardInformation(3, SPACE, "r") + 2


def test_informations_of_the_bus_are_adopted() -> None:
    """What the bus made learns the old names in place; nothing is copied, all else is left alone."""
    declared = [sdk.SensorInformation(None, SPACE, "s"), sdk.ActuatorInformation(None, SPACE, "a")]
    given = [*Template(declared).fill([2, 3]), sdk.RewardInformation(1, SPACE, "r"), 7]
    kept = list(given)
    adopt(given)

    assert all(a is b for a, b in zip(kept, given, strict=True))
    assert [SensorInformation, ActuatorInformation, RewardInformation, int] == [type(it) for it in given]
    with pytest.warns(DeprecationWarning, match="is called"):
        assert (2, 3, 1) == (given[0].sensor_value, given[1].setpoint, given[2].reward_value)
