"""Rewards and transformers of documents, on objects and on arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ganglion.sdk import Box, Brain, EnvironmentState, Muscle, Reward, RewardInformation, StateTransformer


class Pays(Reward):
    """Pay what the environment does, times a factor, and how many steps the episode has."""

    def __init__(self, factor: float = 2.0) -> None:
        self.factor, self.steps = factor, 0

    def __call__(self, state: EnvironmentState) -> Any:
        """Pay one body."""
        self.steps += 1
        return [RewardInformation(self.factor * it.value + self.steps, it.space, it.uid) for it in state.rewards]

    def reset(self) -> None:
        """Begin an episode."""
        self.steps = 0


class PaysAll(Pays):
    """Do the same for all bodies at once."""

    batched = True

    def __init__(self, factor: float = 2.0) -> None:
        self.factor, self.counts = factor, np.zeros(64)

    def rewards_batch(self, step: Any) -> Any:
        """Pay all that take part."""
        self.counts[self.rows] += 1
        return {uid: self.factor * values + self.counts[self.rows] for uid, values in step.rewards.items()}

    def reset(self) -> None:
        """Begin the episodes of some."""
        self.counts[self.rows] = 0


class Level(Reward):
    """Pay the sum of the readings, under another id."""

    def declare(self, rewards: list[RewardInformation]) -> list[RewardInformation]:
        """Declare one."""
        return [RewardInformation(None, Box(-np.inf, np.inf), "level")]

    def __call__(self, state: EnvironmentState) -> RewardInformation:
        """Pay one body."""
        return RewardInformation(
            float(sum(np.sum(it.value) for it in state.sensor_information)), Box(-np.inf, np.inf), "level"
        )


class Fails(Pays):
    """Raise in the third step."""

    def __call__(self, state: EnvironmentState) -> Any:
        """Pay, but once."""
        found = super().__call__(state)
        if self.steps == 3:
            raise RuntimeError("no money")
        return found


class Shifts(StateTransformer):
    """Add to each reading, from the first on; the state of the world is how often it was asked."""

    baseline = True

    def __init__(self, by: int = 1000) -> None:
        self.by, self.asked = by, 0

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        """Show one body."""
        self.asked += 1
        for it in state.sensor_information:
            it.value = it.value + self.by
        state.world_state = {"asked": self.asked}
        return state


class ShiftsAll(Shifts):
    """Do the same for all bodies at once."""

    batched = True

    def transform_batch(self, step: Any) -> Any:
        """Show all that take part."""
        return replace(step, readings={uid: values + self.by for uid, values in step.readings.items()})


class Notices(Muscle):
    """Set how many decisions there were, times ten, and note what was applied last."""

    def setup(self) -> None:
        """Begin to count."""
        self.count = 0

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Decide."""
        if len(self.memory):
            self.add_statistics("muscle", float(self.memory.tail(1).applied_setpoints.values[0][0]))
        self.count += 1
        actuators_available[0].value = 10 * self.count
        return actuators_available


class NoticesAll(Notices):
    """Do the same for all bodies at once."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        """Decide."""
        if self.count:
            last = 10 * self.count if batch.applied is None else batch.applied[0, 0]
            self.add_statistics("muscle", float(last))
        self.count += 1
        return np.full((len(batch.bodies), 1), 10 * self.count)


class Hears(Brain):
    """Note what was applied last, and what was decided."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Note."""
        row = self.memory.tail(1)
        if len(row):
            self.add_statistics("brain", float(row.applied_setpoints.values[0][0]), allow_overwrite=True)
            self.add_statistics("decided", float(row.actuator_setpoints.values[0][0]), allow_overwrite=True)
