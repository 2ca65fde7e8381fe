from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.sdk import Box, Discrete
from ganglion_palaestrai.information import ActuatorInformation, RewardInformation, SensorInformation

SPACE = Discrete(5)
OLD = [
    (SensorInformation, "sensor_value", "observation_space", "sensor_id"),
    (ActuatorInformation, "setpoint", "action_space", "actuator_id"),
    (RewardInformation, "reward_value", "observation_space", "reward_id"),
]


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


def test_more_of_the_old_ways() -> None:
    """`id` is the uid, a length is that of the space's vector, a reward plus a number is a number."""
    sensor = SensorInformation([0.0, 1.0], Box(0.0, 1.0, (2,)), "a")
    with pytest.warns(DeprecationWarning, match="id is called uid"):
        assert "a" == sensor.id

    assert (2, 1) == (len(sensor), len(ActuatorInformation(1, SPACE, "a")))
    assert 5 == RewardInformation(3, SPACE, "r") + 2
