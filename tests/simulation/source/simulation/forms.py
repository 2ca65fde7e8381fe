"""One agent in two forms, on objects and on arrays: a linear policy whose weights its brain moves."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ganglion.sdk import Brain, Filter, Muscle


class ObjectMuscle(Muscle):
    """Set each actuator, a number, to a clipped product."""

    def setup(self) -> None:
        """Begin with small weights."""
        columns = sum(it.space.size for it in self.sensors)
        self.weights = np.full((columns, len(self.actuators)), 0.01)

    def update(self, update: Any) -> None:
        """Take the weights."""
        self.weights = update

    def decide(self, seen: Any) -> Any:
        """Return the setpoints of one row of readings."""
        return np.array([it.space.clip(x) for it, x in zip(self.actuators, seen @ self.weights, strict=True)])

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Decide; the brain gets what was seen."""
        seen = np.concatenate([it.space.to_vector(it.value).astype(float) for it in sensors])
        for it, value in zip(actuators_available, self.decide(seen).tolist(), strict=True):
            it.value = value
        return actuators_available, {"seen": seen}


class ArrayMuscle(ObjectMuscle):
    """Do the same on arrays."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        """Decide; the brain gets what was seen."""
        seen = batch.observations.astype(float)
        return np.array([self.decide(row) for row in seen]), [{"seen": row} for row in seen]


class ObjectBrain(Brain):
    """Move the weights by what was seen and what came of it, row by row."""

    def setup(self) -> None:
        """Begin with small weights."""
        columns = sum(it.space.size for it in self.sensors)
        self.weights = np.full((columns, len(self.actuators)), 0.01)

    def move(self, seen: Any, objective: float, following: Any) -> Any:
        """Return the weights after one row."""
        self.weights = self.weights + 1e-3 * objective * (seen + following)[:, np.newaxis]
        return self.weights

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Learn from one row."""
        if data_from_muscle is None:
            return None
        shard = self.memory.tail(1)
        return self.move(data_from_muscle["seen"], shard.objective[0], shard.next_readings.flat[0])

    def arrays(self) -> Any:
        """Return the weights."""
        return {"weights": self.weights}


class ArrayBrain(ObjectBrain):
    """Learn from the rows of a round, without a memory."""

    batched = True

    def setup(self) -> None:
        """Keep no rows."""
        super().setup()
        self.memory.size_limit = 0

    def learn(self, batch: Any) -> Any:
        """Learn from all rows in their order."""
        for seen, objective, following in zip(
            batch.observations, batch.objectives, batch.next_observations, strict=True
        ):
            found = self.move(seen, objective, following)
        return found


class PatientBrain(ObjectBrain):
    """Move the weights with each row, and give them away with every n-th; `says` is whether it says so."""

    def __init__(self, every: int, says: bool) -> None:
        super().__init__()
        self.every, self.rows = every, 0
        self.learn_every = every if says else 1

    def move(self, seen: Any, objective: float, following: Any) -> Any:
        """Return the weights after every n-th row."""
        super().move(seen, objective, following)
        self.rows += 1
        if self.rows % self.every:
            return None
        self.add_statistics("rows", self.rows)
        return self.weights


class PatientArrayBrain(PatientBrain, ArrayBrain):
    """Do the same on arrays."""


class Witness(Filter):
    """Change nothing, and note for how many bodies it is asked."""

    batched = True
    asked: ClassVar[list[int]] = []

    def pre_process_batch(self, batch: Any) -> Any:
        """Return the readings."""
        self.asked.append(len(batch.rows))
        return batch.values


class Plain(Filter):
    """Change nothing, and know nothing of arrays."""
