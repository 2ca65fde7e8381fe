from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ganglion.sdk import Environment
from ganglion_gymnasium.wrapper import as_gymnasium
from ganglion_toys.cartpole import CartPole
from ganglion_toys.dummy import DummyEnvironment


@pytest.mark.filterwarnings(
    "ignore:.*WARN.*:UserWarning"
)  # of its unbounded columns and of a missing registration
def test_passes_gymnasiums_own_check() -> None:
    """Gymnasium's checker of environments finds nothing wrong."""
    check_env(as_gymnasium(CartPole), skip_render_check=True)


def test_ours_equals_theirs() -> None:
    """Our cart-pole in their interface is their cart-pole: equal seeds and actions, equal answers."""
    ours, theirs = as_gymnasium(CartPole), gymnasium.make("CartPole-v1").unwrapped
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    for seed in (3, 11):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
        for step in range(8):
            left, right = ours.step(step % 2), theirs.step(step % 2)
            np.testing.assert_array_equal(left[0], right[0])
            assert left[1:4] == right[1:4]
    theirs.close()


def test_a_seed_repeats_everything() -> None:
    """A reset by a seed repeats the episodes after it too, though they begin without one."""
    environment = as_gymnasium(CartPole)
    found = []
    for _ in range(2):
        environment.reset(seed=3)
        found.append([environment.reset()[0].tolist() for _ in range(3)])

    assert found[0] == found[1]
    assert 3 == len({tuple(it) for it in found[0]})


def test_several_of_each_are_named() -> None:
    """Several sensors and actuators are a Dict by id; rewards are summed, and told one by one."""
    environment = as_gymnasium(DummyEnvironment, {"max_iter": 2})
    observation, info = environment.reset(seed=0)
    action = dict.fromkeys(environment.action_space, 1)
    first, second = environment.step(action), environment.step(action)

    assert ([str(i) for i in range(10)], 0) == (sorted(observation), info["simtime_ticks"])
    assert (1.0, False, False) == first[1:4]
    assert (0.0, True, False) == second[1:4]
    assert {"rewards": {"Dummy Reward": 1.0}, "simtime_ticks": 1} == first[4]
    assert environment.observation_space.contains(first[0])


class Plain(DummyEnvironment):
    """Answer by tuples, as an environment may."""

    def start_environment(self):
        found = super().start_environment()
        return found.sensors_available, found.actuators_available

    def update(self, actuators):
        state = super().update(actuators)
        return state.sensor_information, state.rewards, state.terminated


class Slow(DummyEnvironment):
    async def update(self, actuators):
        return super().update(actuators)


class Blind(DummyEnvironment):
    def start_environment(self):
        found = super().start_environment()
        found.sensors_available = []
        return found


def test_answers_may_be_tuples() -> None:
    """An environment that returns tuples is wrapped like any other."""
    environment = as_gymnasium(Plain, {"max_iter": 1})
    environment.reset(seed=0)
    observation, reward, terminated, _, info = environment.step(environment.action_space.sample())

    assert (0.0, True, None) == (reward, terminated, info["simtime_ticks"])
    assert environment.observation_space.contains(observation)


@pytest.mark.parametrize(("cls", "told"), [(Blind, "without sensors"), (Environment, "not implemented")])
def test_refuses_what_cannot_be_wrapped(cls, told) -> None:
    """What has nothing to observe, or is abstract, is refused at once."""
    with pytest.raises(Exception, match=told):
        as_gymnasium(cls)


@pytest.mark.filterwarnings("ignore:coroutine")
def test_refuses_an_asynchronous_hook() -> None:
    """Gymnasium has no loop, so an asynchronous hook is refused and not forgotten."""
    environment = as_gymnasium(Slow)
    environment.reset(seed=0)

    with pytest.raises(TypeError, match="a hook of this environment is asynchronous"):
        environment.step(environment.action_space.sample())
