from __future__ import annotations

import struct

import pytest

from ganglion.sdk import ActuatorInformation, ResetRequest
from ganglion_toys.pendulum import SEED_SHIFT, TORQUE, Pendulum

# Big-endian hex of cos, sin, speed after a reset; with seed 0 also after steps 1 and 200, with the reward.
RESETS = {
    0: "bfd2f3c265315f45 bfee90932a3878b6 3fe05bd66ce0b7ac",
    3936898253221180: "bfba95c67b0c3d36 bfefd3b5199145ef 3fdf94852dbf290c",
}
STEPS = {
    1: "bfd47d686939d7d0 bfee50d146ffc71c bfe02a318c633c78 c0055bcde2632505",
    200: "bfd713e2922cbdaf 3fedd8e1f4f58629 3fec1f921534d54f c006653419bd905c",
}
SUM_OF_REWARDS = "c08a8b750b1cb799"


def _hex(*numbers: float) -> str:
    return " ".join(struct.pack(">d", number).hex() for number in numbers)


def _request(seed: int) -> ResetRequest:
    """Return a request whose seed is this one for peers that have 53 bits."""
    return ResetRequest(1, seed << SEED_SHIFT)


@pytest.mark.parametrize("seed", RESETS)
def test_resets_bit_by_bit(make, seed) -> None:
    """A seed gives the bits of a state that every language computes."""
    sensors = make(Pendulum).reset(_request(seed)).sensors_available

    assert ["cos", "sin", "speed"] == [it.uid for it in sensors]
    assert RESETS[seed] == _hex(*(it.value for it in sensors))


def test_steps_bit_by_bit(make) -> None:
    """200 steps with known torques, some beyond the limit, give known bits; then the episode is truncated.

    A torque beyond +-2 is clipped, not refused, by the equations; its actuator's space would refuse it before.
    """
    environment = make(Pendulum)
    environment.reset(_request(0))
    total = 0.0
    for i in range(200):
        torque = ActuatorInformation(None, TORQUE, "torque")
        torque._value = ((7 * i) % 11) * 0.5 - 2.5
        state = environment.update([torque])
        total += state.rewards[0].value
        values = [*(it.value for it in state.sensor_information), state.rewards[0].value]
        assert STEPS.get(i + 1, _hex(*values)) == _hex(*values)
        assert (False, i == 199) == (state.terminated, state.truncated)

    assert SUM_OF_REWARDS == _hex(total)


def test_starts_by_the_upper_bits_of_its_seed(make) -> None:
    """Its own seed has 63 bits, of which the pendulum takes the upper 53, as peers in other languages get them."""
    sensors = make(Pendulum, seed=4031383811298489202).start_environment().sensors_available

    assert RESETS[3936898253221180] == _hex(*(it.value for it in sensors))


def test_without_a_setpoint_nothing_pushes(make) -> None:
    """No setpoint is torque 0."""
    left, right = make(Pendulum), make(Pendulum)
    left.start_environment()
    right.start_environment()

    pushed = right.update([ActuatorInformation(0.0, TORQUE, "torque")])
    assert left.update([]).rewards[0].value == pushed.rewards[0].value
