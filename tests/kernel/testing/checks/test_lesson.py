from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, SensorInformation
from ganglion.testing.checks.agent import Lesson

SENSORS = [SensorInformation(None, Box(0.0, np.inf, (2,)), "w.s"), SensorInformation(None, Discrete(3), "w.n")]
ACTUATORS = [ActuatorInformation(5, Discrete(2, start=5), "w.a")]


def test_each_look_gives_the_same_anew() -> None:
    """A second pass has equal episodes, by number, from behind or as a slice; of another seed they are others."""
    lesson, other = Lesson(SENSORS, ACTUATORS, 1, 3, 4), Lesson(SENSORS, ACTUATORS, 2, 3, 4)

    assert lesson[0] is not lesson[0]
    for one, two in ((lesson[0], next(iter(lesson))), (lesson[-1], lesson[2]), (lesson[1:][0], lesson[1])):
        np.testing.assert_array_equal(one.observations, two.observations)
        np.testing.assert_array_equal(one.objectives, two.objectives)
    assert not np.array_equal(lesson[0].objectives, other[0].objectives)
    with pytest.raises(IndexError, match="session 3 of 3"):
        _ = lesson[3]
