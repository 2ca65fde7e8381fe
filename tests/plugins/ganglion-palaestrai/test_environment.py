from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion import sdk
from ganglion.sdk import Discrete, EnvironmentState
from ganglion_palaestrai.environment import Environment, EnvironmentStateTransformer, Reward

Make = Callable[..., Any]
SPACE = Discrete(5)


class Lamp(Environment):
    """Be as bright as it was set."""

    def __init__(self, uid: str, broker_uri: str, seed: int, watts: int = 3) -> None:
        super().__init__(uid, broker_uri, seed)
        self.given = (uid, broker_uri, seed, watts)

    def start_environment(self) -> Any:
        return [], []

    def update(self, actuators: Any) -> Any:
        return [it.setpoint for it in actuators]


class Bright(Reward):
    """Sum readings, scaled."""

    def __call__(self, *states: Any) -> Any:
        return sum(it.sensor_value for it in states[0].sensor_information) * self._parameters["scale"]


class Lens(EnvironmentStateTransformer):
    """Keep the rewards in the world's state."""

    def __call__(self, state: Any) -> Any:
        state.world_state = [self._params["name"], *(it.reward_value for it in state.rewards)]
        return state


def state() -> EnvironmentState:
    """Return a state as an environment of another project makes it."""
    readings = [sdk.SensorInformation(value, SPACE, str(value)) for value in (1, 2)]
    return EnvironmentState(readings, [sdk.RewardInformation(4, SPACE, "r")])


def test_environments_are_made_as_they_were(make: Make) -> None:
    """The constructor gets uid, an empty broker and the seed, and passes them on by position."""
    lamp = make(Lamp, seed=9, watts=5)

    assert ("part", "", 9, 5) == lamp.given
    assert ("part", "part") == (lamp._uid, lamp._name)


def test_environments_see_old_names(make: Make) -> None:
    """The setpoints that an environment is given answer to the old names."""
    with pytest.warns(DeprecationWarning, match="is called"):
        assert [4] == make(Lamp).update([sdk.ActuatorInformation(4, SPACE, "a")])


def test_rewards_and_transformers_see_old_names(make: Make) -> None:
    """Readings and rewards of any state answer to the old names; the parameters are where they were."""
    with pytest.warns(DeprecationWarning, match="SensorInformation.sensor_value is called value"):
        assert 6 == make(Bright, scale=2)(state())
    with pytest.warns(DeprecationWarning, match="RewardInformation.reward_value is called value"):
        assert ["x", 4] == make(Lens, name="x")(state()).world_state
