"""A world that is seen by a camera, and an agent that learns from the pictures in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Brain,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Muscle,
    RewardInformation,
    SensorInformation,
    Space,
)


class Camera(Environment):
    """Show pictures that depend on the seed, the step and the setpoint before.

    Args:
        shape: Of a picture, or of several.
        dtype: Of its values.
        steps: Of an episode.
    """

    def __init__(self, shape: Sequence[int], dtype: str = "uint8", steps: int = 5) -> None:
        super().__init__()
        self.space: Space = Box(0, 255, tuple(shape), dtype)
        self.steps, self.step = steps, 0

    def start_environment(self) -> EnvironmentBaseline:
        self.step = 0
        knob = ActuatorInformation(0, Discrete(10), "knob")
        light = RewardInformation(0.0, Box(0.0, 255.0, ()), "light")
        return EnvironmentBaseline(self._picture(0), [knob], rewards_available=[light])

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        self.step += 1
        picture = self._picture(int(actuators[0].value))
        light = RewardInformation(float(picture[0].value.ravel()[-1]), Box(0.0, 255.0, ()), "light")
        return EnvironmentState(picture, [light], self.step == self.steps)

    def _picture(self, knob: int) -> list[SensorInformation]:
        assert self.space.shape is not None
        first = int(self.rng.integers(200))
        picture = (np.arange(np.prod(self.space.shape)) % 50 + first + knob).astype(self.space.dtype)
        return [SensorInformation(picture.reshape(self.space.shape), self.space, "picture")]


class Watcher(Muscle):
    """Turn the knob to where the newest update and the picture say."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0

    def update(self, update: Any) -> None:
        self.turn = int(update or 0)

    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> tuple[list[Any], None]:
        seen = int(sensors[0].value.sum(dtype=np.int64))
        actuators_available[0].value = (seen + self.turn) % 10
        return actuators_available, None


class Album(Brain):
    """Learn from the pictures in the memory, of which `rows` are kept."""

    def __init__(self, rows: int = 8) -> None:
        super().__init__()
        self.rows = rows
        self.learned = 0.0

    def setup(self) -> None:
        self.memory.size_limit = self.rows

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> int:
        pictures = self.memory.tail(2).sensor_readings
        if len(pictures):
            self.learned += float(pictures.sum(axis=1).sum())
        return int(self.learned) % 1000
