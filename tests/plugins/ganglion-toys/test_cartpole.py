from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, ResetRequest
from ganglion_toys.cartpole import ACTION, CartPole, advance

NOTHING = (0.0, 0.0, 0.0, 0.0)


def _push(action: int) -> list[ActuatorInformation]:
    return [ActuatorInformation(action, ACTION, "action")]


def test_a_pushed_pole_at_rest_follows_the_equations() -> None:
    """From rest, 10 N give the accelerations of the closed form: F / (M + m (1 - 3/4)) for the cart."""
    position, velocity, angle, spin = advance(NOTHING, 10.0)

    assert (0.0, 0.0) == (position, angle)
    assert velocity == pytest.approx(0.02 * 10.0 / (1.0 + 0.1 / 4), rel=1e-12)
    assert spin == pytest.approx(-0.02 * 0.75 / 0.5 * 10.0 / (1.0 + 0.1 / 4), rel=1e-12)


def test_equals_the_well_known_one(make) -> None:
    """Episodes of equal seed and actions have the readings of Gymnasium's CartPole-v1, bit by bit."""
    gymnasium = pytest.importorskip("gymnasium")
    theirs, ours = gymnasium.make("CartPole-v1").unwrapped, make(CartPole)
    rng = np.random.default_rng(0)
    for seed in (0, 42, 2**62 + 1):
        reading, _ = theirs.reset(seed=seed)
        np.testing.assert_array_equal(reading, ours.reset(ResetRequest(1, seed)).sensors_available[0].value)
        terminated = False
        while not terminated:
            action = int(rng.integers(2))
            reading, reward, terminated, _, _ = theirs.step(action)
            state = ours.update(_push(action))
            np.testing.assert_array_equal(reading, state.sensor_information[0].value)
            assert (reward, terminated) == (state.rewards[0].value, state.terminated)


def test_refuses_an_episode_without_steps(make) -> None:
    """A cap below one step is refused."""
    with pytest.raises(ValueError, match="at least 1 step, found 0"):
        make(CartPole, longest=0)
