from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk import ActuatorInformation, Box, Brain, Muscle, Objective, RewardInformation, SensorInformation
from ganglion.testing import StagedAgent

UNIT = Box(-1.0, 1.0, ())


class Follower(Muscle):
    """Set what the brain said last."""

    said = 0.0

    def update(self, update: Any) -> None:
        self.said = float(update)

    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        actuators_available[0].value = self.said
        return actuators_available, {"seen": sensors[0].value}


class Teacher(Brain):
    """Say the objective of the last row; remember what the muscle sent."""

    def setup(self) -> None:
        self.data: list[Any] = []

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        if not len(self.memory):
            return np.array(0.5)
        self.data.append(data_from_muscle["seen"])
        return np.array(self.memory.tail(1).objective[0])

    def arrays(self) -> Any:
        return {"seen": np.array(self.data)}


class First(Objective):
    """Take the first reward."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        return float(memory.tail(1).rewards.flat[0][0])


def agent(models: Path, **chosen: Any) -> StagedAgent:
    """Return an agent with one sensor, actuator and reward."""
    return StagedAgent(
        Follower,
        sensors=[SensorInformation(None, UNIT, "w.a")],
        actuators=[ActuatorInformation(0.0, UNIT, "w.x")],
        rewards=[RewardInformation(None, UNIT, "w.r")],
        objective=First,
        models=models,
        **chosen,
    )


def test_what_an_author_raises_passes_through(tmp_path: Path) -> None:
    """An error of the brain reaches who called the muscle, with its own traceback."""

    class Falls(Teacher):
        def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
            if not len(self.memory):
                return np.array(0.5)
            raise KeyError("lost")

    staged = agent(tmp_path, brain=Falls)
    staged.begin([0.1])

    with pytest.raises(AuthorError, match="KeyError: 'lost'"):
        staged.step([0.5], [0.2])
