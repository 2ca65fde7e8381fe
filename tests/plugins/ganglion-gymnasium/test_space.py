"""Spaces of both, and environments of ours as theirs."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces as theirs
from gymnasium.utils.env_checker import check_env

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Dict,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    MultiBinary,
    MultiDiscrete,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    Tuple,
)
from ganglion_gymnasium.space import from_gymnasium, to_gymnasium, value_to_gymnasium
from ganglion_gymnasium.wrapper import as_gymnasium

SPACES = [
    Box(-1.0, 2.5, (2, 3)),
    Box(np.array([0.0, -np.inf], np.float32), np.array([np.inf, 1.0], np.float32), dtype=np.float32),
    Box(0, 255, (4, 4, 3), np.uint8),
    Box(-1.0, 1.0, ()),
    Discrete(5),
    Discrete(5, start=-2),
    MultiDiscrete([2, 3, 4]),
    MultiDiscrete([2, 3], start=[1, -1]),
    MultiBinary(3),
    MultiBinary((2, 2)),
    Tuple([Discrete(2), Box(0.0, 1.0, (3,))]),
    Dict({"b": Discrete(2), "a": Tuple([MultiBinary(2)])}),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.to_string())
def test_round_trip(space) -> None:
    """A space of ours becomes one of theirs and the same again."""
    assert space == from_gymnasium(to_gymnasium(space))


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.to_string())
def test_values_of_one_are_values_of_the_other(space) -> None:
    """Our samples are contained in their space in its own form, and their samples in ours."""
    rng = np.random.default_rng(0)
    counterpart = to_gymnasium(space)
    counterpart.seed(0)

    for _ in range(5):
        assert counterpart.contains(value_to_gymnasium(space, space.sample(rng)))
        assert space.contains(counterpart.sample())


def test_refuses_what_is_no_space() -> None:
    """Anything but our spaces is refused on the way out."""
    with pytest.raises(TypeError, match="expected a space that Gymnasium has too"):
        to_gymnasium(theirs.Discrete(2))
    with pytest.raises(TypeError, match=r"expected a space of ganglion\.sdk"):
        value_to_gymnasium(theirs.Discrete(2), 1)


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
