"""Plugins that raise in one hook, every so often, and are what they should be otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import (
    Box,
    Brain,
    Discrete,
    Environment,
    EnvironmentState,
    Filter,
    Muscle,
    Objective,
    Reward,
    RewardInformation,
    SensorInformation,
    StateTransformer,
)
from ganglion.sdk.information import ActuatorInformation
from ganglion_conditions.vanilla import VanillaCondition

HUNDRED = Discrete(100)


class _Faulty:
    """Raise in the hook `fails` at each call whose number, from 0, is in `at`."""

    def __init__(self, fails: str = "", at: list[int] | None = None, **_: Any) -> None:
        self.fails, self.at = fails, set(at or ())
        self.calls: dict[str, int] = {}

    def step(self, hook: str) -> int:
        """Count a call of a hook and return its number; raises if it is time."""
        number = self.calls.get(hook, 0)
        self.calls[hook] = number + 1
        if hook == self.fails and number in self.at:
            raise ValueError(f"{hook} {number}")
        return number


class World(_Faulty, Environment):
    """Count to 4; sensor and reward are the count."""

    def start_environment(self) -> Any:
        self.count = 0
        self.step("start_environment")
        return [SensorInformation(0, HUNDRED, "s")], [ActuatorInformation(7, HUNDRED, "a")]

    def update(self, actuators: Any) -> Any:
        self.step("update")
        self.count += 1
        rewards = [RewardInformation(self.count, HUNDRED, "r")]
        return [SensorInformation(self.count, HUNDRED, "s")], rewards, self.count == 4


class Rewards(_Faulty, Reward):
    """Reward ten times the count, under an id of its own and that of the environment."""

    def __call__(self, state: EnvironmentState) -> Any:
        self.step("reward")
        value = state.rewards[0].value
        return [RewardInformation(10 * value, HUNDRED, "r"), RewardInformation(1.0, Box(0, 1, ()), "x")]


class Changes(_Faulty, StateTransformer):
    """Show ninety and the count."""

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        """Change the reading, then raise if it is time."""
        state.sensor_information[0].value += 90
        self.step("transformer")
        return state


class Acts(_Faulty, Muscle):
    """Set the number of the decision, from 10."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        number = self.step("propose")
        actuators_available[0].value = 10 + number
        return actuators_available, number

    def update(self, update: Any) -> None:
        self.step("update")

    def setup(self) -> None:
        self.step("setup")

    def prepare_model(self) -> None:
        self.step("prepare_model")

    def reset(self) -> None:
        self.step("reset")


class ActsOnArrays(Acts):
    """Do the same on arrays."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        number = self.step("propose")
        return np.array([[10 + number]]), [number]


class Thinks(_Faulty, Brain):
    """Update with the number of the row."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return None if data_from_muscle is None else [self.step("thinking")]

    def evaluate(self, evaluation: Any) -> Any:
        return {"mine": float(self.step("evaluate"))}

    def setup(self) -> None:
        self.step("setup")

    def store(self) -> None:
        self.step("store")


class Learns(Thinks):
    """Do the same on arrays."""

    batched = True

    def learn(self, batch: Any) -> Any:
        return [self.step("learn")]


class Judges(_Faulty, Objective):
    """Return the sum of the rewards."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> Any:
        self.step("internal_reward")
        return memory.tail(1).rewards.sum(axis=None)


class Sieve(_Faulty, Filter):
    """Change nothing."""

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        self.step("muscle_pre_process")
        return sensors, actuators

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        self.step("muscle_post_process")
        return setpoints, data

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        self.step("brain_pre_process")
        return data

    def brain_post_process(self, update: Any) -> Any:
        self.step("brain_post_process")
        return update

    def publish(self) -> Any:
        return {"n": np.array(self.step("publish"))}


class Ends(_Faulty, VanillaCondition):
    """End phases as `vanilla` does."""

    def __init__(self, **params: Any) -> None:
        _Faulty.__init__(self, **params)
        VanillaCondition.__init__(self)

    def phase(self, view: Any) -> Any:
        self.step("phase")
        return super().phase(view)
