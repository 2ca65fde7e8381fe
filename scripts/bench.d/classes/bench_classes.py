"""Classes of authors that the benches run: an environment of images, a muscle of arrays, a brain that learns rarely."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Batch,
    Box,
    Brain,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Muscle,
    RewardInformation,
    SensorInformation,
    StepBatch,
)

SHAPE = (84, 84, 4)
LEARN_EVERY = 64


class Images(Environment):
    """Show one image of uint8 per step, whose bytes count the steps."""

    batched = True

    def __init__(self, max_iter: int = 400) -> None:
        super().__init__()
        self.max_iter, self.steps = max_iter, 0
        self.image = np.zeros(SHAPE, np.uint8)
        self.space = Box(0, 255, SHAPE, "uint8")

    def start_environment(self) -> EnvironmentBaseline:
        """Declare the image, ten actuators and the reward."""
        self.steps = 0
        self.image[:] = 0
        return EnvironmentBaseline(
            [SensorInformation(self.image.copy(), self.space, "image")],
            [ActuatorInformation(0.0, Box(0.0, 10.0, ()), str(i)) for i in range(10)],
            rewards_available=[RewardInformation(0.0, Box(0.0, 1.0, ()), "reward")],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Refuse: steps are taken by `update_batch`."""
        raise NotImplementedError

    def update_batch(self, setpoints: Any) -> StepBatch:
        """Count one further in every byte."""
        self.steps += 1
        self.image += 1
        over = np.array([self.steps >= self.max_iter])
        return StepBatch({"image": self.image[None].copy()}, {"reward": np.ones(1)}, over, np.zeros(1, bool))


class Constant(Muscle):
    """Set every actuator to one half, as an array."""

    batched = True

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Refuse: decisions are made by `propose_batch`."""
        raise NotImplementedError

    def propose_batch(self, batch: Batch) -> Any:
        """Return one row per body."""
        return np.full((len(batch.observations), len(self.actuators)), 0.5), [None] * len(batch.observations)


class Rare(Brain):
    """Hear every decision, and give an update with every 64th."""

    learn_every = LEARN_EVERY

    def setup(self) -> None:
        """Count from 0."""
        self.heard = 0

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Return the count with every 64th decision."""
        self.heard += 1
        return None if self.heard % LEARN_EVERY else self.heard


class Upright(Muscle):
    """Push carts to the side to which their poles fall."""

    batched = True

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Refuse: decisions are made by `propose_batch`."""
        raise NotImplementedError

    def propose_batch(self, batch: Batch) -> Any:
        """Return one row per body."""
        seen = batch.observations
        return (seen[:, 2:3] + 0.5 * seen[:, 3:4] > 0).astype(np.int64)


class Deaf(Brain):
    """Take every round as arrays, and learn nothing."""

    batched = True

    def setup(self) -> None:
        """Keep no rows."""
        self.memory.size_limit = 0

    def initial_update(self, muscle_id: str) -> None:
        """Give nothing to a muscle that joins."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> None:
        """Refuse: rounds come as arrays."""
        raise NotImplementedError

    def learn(self, batch: Any) -> None:
        """Look at the rewards."""
        self.total = float(batch.rewards.sum())


class Draws(Brain):
    """Ask a table for 64 decisions with each tick but the first, when it is empty; or leave it alone."""

    batched = True

    def __init__(self, asks: bool = True) -> None:
        super().__init__()
        self.asks, self.ticks = asks, 0

    def thinking(self, muscle_id: str, data: Any) -> Any:
        """Give no update."""
        return None

    def learn(self, batch: Any) -> Any:
        """Draw, and learn nothing."""
        self.ticks += 1
        if self.asks and self.ticks > 1:
            self.tables["recent"].sample_steps(64)
