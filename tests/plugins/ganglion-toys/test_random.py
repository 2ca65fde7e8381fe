from __future__ import annotations

import numpy as np

from ganglion.sdk import ActuatorInformation, Box, Discrete
from ganglion_toys.random import RandomMuscle


def _actuators() -> list[ActuatorInformation]:
    return [ActuatorInformation(None, Discrete(4), "e.a"), ActuatorInformation(None, Box(-2, 2, (3,)), "e.b")]


def test_samples_every_actuator_from_its_stream(make) -> None:
    """Equal seeds give equal setpoints, all values of a small space come up, and all lie in their spaces."""
    muscles = make(RandomMuscle), make(RandomMuscle)
    rows = [[muscle.propose_actions([], _actuators()) for _ in range(50)] for muscle in muscles]

    for left, right in zip(*rows, strict=True):
        assert left[0].value == right[0].value
        np.testing.assert_array_equal(left[1].value, right[1].value)
    assert {0, 1, 2, 3} == {row[0].value for row in rows[0]}
