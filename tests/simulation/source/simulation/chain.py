"""Plugins whose every value depends on all that they have heard: what is lost, doubled or late shows in the tables."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Brain,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Muscle,
    RewardInformation,
    SensorInformation,
    SimTime,
)

MODULUS = 1_000_003  # a prime, so that no factor loses anything
FACTOR = 48_271
SPACE = Discrete(MODULUS)


def mix(*values: int) -> int:
    """Return a number that depends on all of these and on their order."""
    found = 1
    for value in values:
        found = (found * FACTOR + value + 1) % MODULUS
    return found


class ChainEnvironment(Environment):
    """Read out a number into which every setpoint and a draw of the environment's own stream were mixed.

    Params:
        length: The episode terminates after so many steps.
    """

    def __init__(self, length: int = 3) -> None:
        super().__init__()
        self.length = length
        self.link = self.steps = 0

    def start_environment(self) -> EnvironmentBaseline:
        """Begin an episode; what was before it is forgotten, as its seed says all."""
        self.steps, self.link = 0, self._draw()
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=[ActuatorInformation(0, SPACE, "move")],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0, SPACE, "gain")],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        self.steps += 1
        self.link = mix(self.link, *(int(actuator.value) for actuator in actuators), self._draw())
        return EnvironmentState(
            sensor_information=self._readings(),
            rewards=[RewardInformation(mix(self.link), SPACE, "gain")],
            terminated=self.steps >= self.length,
            simtime=SimTime(simtime_ticks=self.steps),
        )

    def _draw(self) -> int:
        return int(self.rng.integers(MODULUS))

    def _readings(self) -> list[SensorInformation]:
        return [SensorInformation(self.link, SPACE, "link")]


class DiceEnvironment(ChainEnvironment):
    """Throw dice that no seed governs: what it does is done differently again."""

    def _draw(self) -> int:
        return int.from_bytes(os.urandom(4), "little") % MODULUS


class ChainMuscle(Muscle):
    """Answer with a number into which all updates, readings and draws were mixed; it goes to the brain as well."""

    def __init__(self) -> None:
        super().__init__()
        self.link = 0

    def update(self, update: Any) -> None:
        self.link = mix(self.link, int(update))

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> tuple[list[ActuatorInformation], int]:
        self.link = mix(self.link, *(int(sensor.value) for sensor in sensors), int(self.rng.integers(MODULUS)))
        for actuator in actuators_available:
            actuator.value = self.link
        return actuators_available, self.link


class ChainBrain(Brain):
    """Return as update a number into which all rows and draws were mixed, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.link = 0

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> int:
        row = () if data_from_muscle is None else (int(data_from_muscle), len(self.memory))
        self.link = mix(self.link, int(muscle_id.rpartition("/")[2]), *row, int(self.rng.integers(MODULUS)))
        return self.link + 1  # never nothing

    def evaluate(self, evaluation: Any) -> dict[str, float]:
        self.link = mix(self.link, *(int(row.objective_sum or 0) for row in evaluation.episodes))
        return {"link": float(self.link)}

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {"link": np.array(self.link, dtype=np.int64)}

    def load_arrays(self, arrays: Any) -> None:
        self.link = int(arrays["link"])
