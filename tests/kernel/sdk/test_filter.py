from __future__ import annotations

import numpy as np

from ganglion.sdk.filter import Filter
from ganglion.sdk.information import ActuatorInformation, SensorInformation
from ganglion.sdk.spaces import Discrete


def test_the_base_changes_nothing() -> None:
    """A filter that overrides one hook leaves all else as it is."""
    sensors = [SensorInformation(1, Discrete(2), "s")]
    actuators = [ActuatorInformation(1, Discrete(2), "a")]
    it = Filter()
    it.setup()
    it.reset()
    it.receive({"mean": np.zeros(1)})

    assert (sensors, actuators) == it.declare(sensors, actuators) == it.muscle_pre_process(sensors, actuators)
    assert (actuators, "data") == it.muscle_post_process(actuators, "data")
    assert (3, 4, None) == (it.brain_pre_process("a/0", 3), it.brain_post_process(4), it.publish())
