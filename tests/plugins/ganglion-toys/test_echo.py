from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, SensorInformation
from ganglion_toys.echo import EchoMuscle, checksum

GOLDEN = [([1, 0, 2, 0], 60637), ([0, 0, 0, 0], 30784), ([2, 1, 4, 3], 91454)]
SPACE = Box(0, 2**31 - 1, (4,), np.int64)
ANSWER = Box(-1, 1000002, (), np.int64)


@pytest.mark.parametrize(("readings", "expected"), GOLDEN)
def test_checksum(readings, expected) -> None:
    """The checksum of known readings is known."""
    assert expected == checksum([np.array(readings)])


def test_checksum_runs_through_sensors_and_arrays_in_order() -> None:
    """Arrays count in C order, sensors one after the other, floats truncated."""
    assert checksum([1, 2, 3, 4]) == checksum([np.array([[1, 2], [3, 4]])]) == checksum([1.9, np.array([2, 3, 4])])


@pytest.mark.parametrize(("offset", "expected"), [(0, 60637), (5, 60642), (1000003 - 60637, 0)])
def test_every_actuator_gets_the_checksum(make, offset, expected) -> None:
    """The answer is the checksum plus the offset, modulo 1000003."""
    muscle = make(EchoMuscle, offset=offset)
    actuators = [ActuatorInformation(None, ANSWER, f"lake.{i}") for i in range(2)]
    found = muscle.propose_actions([SensorInformation(np.array([1, 0, 2, 0]), SPACE, "lake.observation")], actuators)

    assert [expected, expected] == [it.value for it in found]


def test_no_reading_is_lost() -> None:
    """Readings that differ in one value differ in their checksum."""
    found = {checksum([a, b, c]) for a in range(10) for b in range(10) for c in range(10)}

    assert 1000 == len(found)
