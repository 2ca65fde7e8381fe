"""An environment and a muscle that use every topic, in ordinary phases and with bodies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Environment,
    EnvironmentState,
    FunctionalEnvironment,
    Muscle,
    RewardInformation,
    SensorInformation,
)

LEVEL = Box(-np.inf, np.inf, ())


class Pond(FunctionalEnvironment):
    """Fill ponds at the rate of a parameter, whose draws show in the readings."""

    TOPICS = ("chat",)
    action_bounds = (-1.0, 1.0)

    def __init__(self, deep: float = 1e9) -> None:
        super().__init__({"level": ()}, {"level": ()}, {"open": ()}, *["float64"] * 3)
        self.deep, self.at_first = deep, self.topics["parameters"].get("rate", 0.0)

    def initial_states(self, batch: int, rng: np.random.Generator) -> Any:
        self.topics["log"].write(f"begins at {self.topics['parameters'].get('rate', 0.0):.3f}", "begin")
        return {"level": rng.uniform(0, 1, batch)}

    def get_first_observations(self, states: Any) -> Any:
        return states

    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> Any:
        heard = sum(message.value for message in self.topics["chat"].messages)
        rate = self.topics["parameters"].get("rate", 0.0) * self.topics["engine"].get("speed", 1)
        level = last_states["level"] + rate + heard / 100
        for how in ("mean", "sum", "last", "histogram"):
            self.topics["stats"].add(how, level, how)
        self.topics["chat"].send("level", round(float(level[0]), 3))
        return {"level": level}, {"level": level}

    def get_whether_alive(self, observations: Any) -> Any:
        return observations["level"] < self.deep


class Plain(Environment):
    """Be told the rate of an ordinary environment that saves no state, and change it itself."""

    def start_environment(self) -> Any:
        self.steps = 0
        return self.readings(), [ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "open")]

    def readings(self) -> list[SensorInformation]:
        return [SensorInformation(self.topics["parameters"].get("rate"), LEVEL, "level")]

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        self.steps += 1
        self.topics["stats"].add("steps", 1, "sum")
        if self.steps == 3 and self.episode == 1:
            self.topics["parameters"].set("rate", -1.0)
        rewards = [RewardInformation(1.0, LEVEL, "reward")]
        return EnvironmentState(self.readings(), rewards, terminated=self.steps == 5)


class Talker(Muscle):
    """Say each third decision what it has heard, and set the speed of the lake at the seventh."""

    TOPICS = ("chat",)

    def setup(self) -> None:
        self.decisions = 0
        self.stats = self.topics["stats"]

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        self.decisions += 1
        self.stats.add("heard", len(self.topics["chat"].messages), "sum")
        if self.decisions % 3 == 0:
            self.topics["chat"].send("word", self.decisions, to="lake")
        if self.decisions == 7:
            self.topics["engine"].set("speed", 2, to="lake")
        for it in actuators_available:
            it.value = self.topics["parameters"].get("pace", 0.0)
        return actuators_available


class Telling(Muscle):
    """Set the number of the update by which it decides."""

    version = 0

    def update(self, update: Any) -> None:
        self.version = int(update["version"])

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        for actuator in actuators_available:
            actuator.value = self.version
        return actuators_available
