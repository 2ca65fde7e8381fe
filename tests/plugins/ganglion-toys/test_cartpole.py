from __future__ import annotations

import math

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, ResetRequest
from ganglion_toys.cartpole import ACTION, CartPole, advance

NOTHING = (0.0, 0.0, 0.0, 0.0)


def _push(action: int) -> list[ActuatorInformation]:
    return [ActuatorInformation(action, ACTION, "action")]


def test_declares_one_of_each(make) -> None:
    """It has one observation of four float32, one binary action, one reward."""
    baseline = make(CartPole).start_environment()
    high = np.array([4.8, np.inf, 24 * 2 * math.pi / 360, np.inf], dtype=np.float32)

    assert [("observation", Box(-high, high, (4,), np.float32))] == [
        (it.uid, it.space) for it in baseline.sensors_available
    ]
    assert [("action", Discrete(2), 0)] == [(it.uid, it.space, it.value) for it in baseline.actuators_available]
    assert [("reward", Box(0.0, 1.0, ()))] == [(it.uid, it.space) for it in baseline.rewards_available]
    assert 500 == CartPole.longest_episode()


def test_a_pushed_pole_at_rest_follows_the_equations() -> None:
    """From rest, 10 N give the accelerations of the closed form: F / (M + m (1 - 3/4)) for the cart."""
    position, velocity, angle, spin = advance(NOTHING, 10.0)

    assert (0.0, 0.0) == (position, angle)
    assert velocity == pytest.approx(0.02 * 10.0 / (1.0 + 0.1 / 4), rel=1e-12)
    assert spin == pytest.approx(-0.02 * 0.75 / 0.5 * 10.0 / (1.0 + 0.1 / 4), rel=1e-12)


def test_left_and_right_mirror_each_other() -> None:
    """A mirrored state under a mirrored force moves to the mirrored state."""
    state = (0.3, -0.5, 0.1, 0.7)
    mirrored = tuple(-it for it in state)

    assert tuple(-it for it in advance(state, 10.0)) == advance(mirrored, -10.0)


def test_an_episode_begins_by_its_seed(make) -> None:
    """Equal seeds begin equally, at most 0.05 away from the upright rest; others begin elsewhere."""
    environment = make(CartPole)
    found = [environment.reset(ResetRequest(1, seed)).sensors_available[0].value for seed in (7, 7, 8)]

    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert float(np.abs(np.stack(found)).max()) <= 0.05


def test_a_pole_that_is_pushed_one_way_falls(make) -> None:
    """Pushing to one side ends in a fall within a dozen steps, with reward 1 in each, the last included."""
    environment = make(CartPole)
    environment.start_environment()
    states = [environment.update(_push(1))]
    while not states[-1].done:
        states.append(environment.update(_push(1)))

    assert 8 <= len(states) <= 12
    assert (True, False) == (states[-1].terminated, states[-1].truncated)
    assert {1.0} == {state.rewards[0].value for state in states}
    assert abs(states[-1].sensor_information[0].value[2]) > 12 * 2 * math.pi / 360
    assert list(range(1, len(states) + 1)) == [state.simtime.simtime_ticks for state in states]


def test_a_balanced_pole_is_cut_off(make) -> None:
    """A hand-made controller balances to the last step, which is truncated and not terminated."""
    environment = make(CartPole)
    reading = environment.start_environment().sensors_available[0].value
    for _ in range(500):
        position, velocity, angle, spin = reading.tolist()
        state = environment.update(_push(int(angle + 0.3 * spin + 0.02 * position + 0.05 * velocity > 0)))
        reading = state.sensor_information[0].value

    assert (False, True) == (state.terminated, state.truncated)
    assert 500 == state.simtime.simtime_ticks


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
