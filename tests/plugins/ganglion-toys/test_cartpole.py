from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Body, ResetRequest
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
    """Episodes of equal seed and actions have the readings of Gymnasium's CartPole-v1, bit for bit."""
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


def _bodies(make, count: int, **params) -> CartPole:
    many = make(CartPole, **params)
    many.bodies = tuple(Body("ada", 0, b) for b in range(count))
    many.start_environment()
    return many


def test_bodies_move_like_carts_alone(make) -> None:
    """Each body's episodes have the readings, rewards and flags of a cart alone of that seed, bit for bit."""
    count, seeds = 16, iter(range(1000))
    many, alone = _bodies(make, count, longest=30), [make(CartPole, longest=30) for _ in range(count)]
    rng, begun, ends = np.random.default_rng(3), np.arange(count), 0
    for _ in range(200):
        drawn = [next(seeds) for _ in begun]
        if len(begun):
            first = many.begin_batch(begun, drawn)["observation"]
            for row, seed, reading in zip(begun, drawn, first, strict=True):
                one = alone[row].reset(ResetRequest(1, seed)).sensors_available[0].value
                np.testing.assert_array_equal(one, reading)
        many.rows = np.flatnonzero(rng.random(count) < 0.8)  # not all take part in each step
        actions = rng.integers(2, size=len(many.rows))
        batch = many.update_batch({"action": actions})
        states = [alone[row].update(_push(int(by))) for row, by in zip(many.rows, actions, strict=True)]
        readings = np.array([it.sensor_information[0].value for it in states]).reshape(-1, 4)
        np.testing.assert_array_equal(readings, batch.readings["observation"])
        assert [it.rewards[0].value for it in states] == batch.rewards["reward"].tolist()
        assert [it.terminated for it in states] == batch.terminated.tolist()
        assert [it.truncated for it in states] == batch.truncated.tolist()
        begun = many.rows[batch.terminated | batch.truncated]
        ends += len(begun)

    assert ends > 50


def test_bodies_go_on_where_they_were(make) -> None:
    """A loaded state is gone on with, in another object, and what was saved stands still."""
    one, other = _bodies(make, 3), _bodies(make, 3)
    one.begin_batch(np.arange(3), [1, 2, 3])
    one.rows = other.rows = np.arange(3)
    actions = [{"action": np.array(row)} for row in ([0, 1, 0], [1, 1, 0], [0, 0, 1])]
    one.update_batch(actions[0])
    saved = {name: np.array(value) for name, value in one.save_state().items()}
    expected = [one.update_batch(it).readings["observation"] for it in actions[1:]]
    other.load_state(saved)

    np.testing.assert_array_equal(expected, [other.update_batch(it).readings["observation"] for it in actions[1:]])
