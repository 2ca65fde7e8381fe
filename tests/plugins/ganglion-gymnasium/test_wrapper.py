from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
)
from ganglion_gymnasium.wrapper import as_gymnasium

PLACE = Box(-10.0, 10.0, (2,), np.float32)


class Walk(Environment):
    """Begin at a place drawn by the seed and go where the action says, for three steps."""

    def start_environment(self):
        return self._begin(self.seed)

    def reset(self, request: ResetRequest):
        return self._begin(request.seed)

    def update(self, actuators):
        self.steps += 1
        self.place[actuators[0].value] += 1
        reward = RewardInformation(float(self.place.sum()), Box(-30.0, 30.0, ()), "sum")
        return EnvironmentState(self._readings(), [reward], truncated=self.steps == 3)

    def _begin(self, seed: int) -> EnvironmentBaseline:
        self.steps, self.place = 0, np.random.default_rng(seed).uniform(-1, 1, 2).astype(np.float32)
        return EnvironmentBaseline(self._readings(), [ActuatorInformation(0, Discrete(2), "axis")])

    def _readings(self) -> list[SensorInformation]:
        return [SensorInformation(self.place.copy(), PLACE, "place")]


class Pair(Environment):
    """Have two sensors, two actuators and two rewards, and count to `end`."""

    def __init__(self, end: int = 2) -> None:
        super().__init__()
        self.end, self.count = end, 0

    def start_environment(self):
        self.count = 0
        actuators = [ActuatorInformation(0, Discrete(9), uid) for uid in ("left", "right")]
        return EnvironmentBaseline(self._readings([0, 0]), actuators)

    def update(self, actuators):
        self.count += 1
        values = {it.uid: it.value for it in actuators}
        rewards = [RewardInformation(float(value), Box(0.0, 9.0, ()), uid) for uid, value in values.items()]
        return EnvironmentState(
            self._readings([values["left"], values["right"]]),
            rewards,
            terminated=self.count == self.end,
            simtime=SimTime(self.count),
        )

    def _readings(self, values: list[int]) -> list[SensorInformation]:
        return [SensorInformation(value, Discrete(9), uid) for value, uid in zip(values, ("a", "b"), strict=True)]


@pytest.mark.filterwarnings("ignore:.*WARN.*:UserWarning")  # of its unbounded columns and of a missing registration
def test_passes_gymnasiums_own_check() -> None:
    """Gymnasium's checker of environments finds nothing wrong."""
    check_env(as_gymnasium(Walk), skip_render_check=True)


def test_a_seed_repeats_everything() -> None:
    """A reset by a seed repeats the episodes after it too, though they begin without one."""
    environment = as_gymnasium(Walk)
    found = []
    for _ in range(2):
        environment.reset(seed=3)
        found.append([environment.reset()[0].tolist() for _ in range(3)])

    assert found[0] == found[1]
    assert 3 == len({tuple(it) for it in found[0]})


def test_several_of_each_are_named() -> None:
    """Several sensors and actuators are a Dict by id; rewards are summed, and told one by one."""
    environment = as_gymnasium(Pair, {"end": 2})
    observation, info = environment.reset(seed=0)
    first, second = (environment.step({"left": 3, "right": right}) for right in (4, 8))

    assert ({"a": 0, "b": 0}, 0) == (observation, info["simtime_ticks"])
    assert ({"a": 3, "b": 4}, 7.0, False, False) == first[:4]
    assert ({"a": 3, "b": 8}, 11.0, True, False) == second[:4]
    assert {"rewards": {"left": 3.0, "right": 4.0}, "simtime_ticks": 1} == first[4]
    assert environment.observation_space.contains(first[0])


def test_truncation_is_told() -> None:
    """An episode that is cut off is truncated and not terminated."""
    environment = as_gymnasium(Walk)
    environment.reset(seed=0)
    flags = [environment.step(0)[2:4] for _ in range(3)]

    assert [(False, False), (False, False), (False, True)] == flags


class Plain(Pair):
    """Answer by tuples, as an environment may."""

    def start_environment(self):
        found = super().start_environment()
        return found.sensors_available, found.actuators_available

    def update(self, actuators):
        state = super().update(actuators)
        return state.sensor_information, state.rewards, state.terminated


class Slow(Pair):
    async def update(self, actuators):
        return super().update(actuators)


class Blind(Pair):
    def start_environment(self):
        found = super().start_environment()
        found.sensors_available = []
        return found


def test_answers_may_be_tuples() -> None:
    """An environment that returns tuples is wrapped like any other."""
    environment = as_gymnasium(Plain, {"end": 1})
    environment.reset(seed=0)
    observation, reward, terminated, _, info = environment.step({"left": 1, "right": 2})

    assert (3.0, True, None) == (reward, terminated, info["simtime_ticks"])
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
