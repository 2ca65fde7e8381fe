from __future__ import annotations

import numpy as np

from ganglion.sdk import ActuatorInformation
from ganglion_toys.pendulum import TORQUE, Pendulum
from ganglion_toys.swing import Swing


def test_swing_moves_like_the_pendulum(make) -> None:
    """From the same state, equal torques give equal bits, whatever the other rows."""
    alone, many = make(Pendulum), make(Swing)
    alone.start_environment()
    draw = np.random.default_rng(1)
    states = many.begin([1, 2, 3])
    states["cos"][1], states["sin"][1], states["speed"][1] = alone.cosine, alone.sine, alone.speed
    for _ in range(100):
        torque = draw.uniform(-2, 2, 3)
        found = many.step(states, {"torque": torque})
        state = alone.update([ActuatorInformation(float(torque[1]), TORQUE, "torque")])
        states = found.states

        assert [it.value for it in state.sensor_information] == [it[1] for it in found.observations.values()]
        assert state.rewards[0].value == found.rewards[1]
