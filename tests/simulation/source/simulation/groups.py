"""One agent with bodies of several groups, on objects and on arrays: what it does shows all that it was told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ganglion.sdk import Brain, Muscle, Objective

MODULUS = 1009


def mark(*values: Any) -> int:
    """Return a number that stands for readings, setpoints and rewards, in their order."""
    found = 0
    for value in values:
        for number in np.asarray(value, np.float64).ravel().tolist():
            found = (31 * found + int(number * 1000) + 1) % MODULUS
    return found


class ObjectMuscle(Muscle):
    """Choose by the readings of the body, the number of its decision, and the newest update."""

    added = made = 0

    def update(self, update: Any) -> None:
        """Take what is added."""
        self.added = int(update["added"])

    def choose(self, readings: Iterable[Any], step: int, actuators: Any) -> list[int]:
        """Return a setpoint for each actuator: one of the first two of its space."""
        return [(mark(*readings) + self.added + step) % 2 for _ in actuators]

    def reset(self) -> None:
        """Begin to count anew."""
        self.made = 0

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Decide; the brain gets the mark of what was seen."""
        values = [it.value for it in sensors]
        for it, value in zip(actuators_available, self.choose(values, self.made, actuators_available), strict=True):
            it.value = value
        self.made += 1
        return actuators_available, mark(*values)


class ArrayMuscle(ObjectMuscle):
    """Do the same on arrays, group by group."""

    batched = takes_groups = True

    def propose_batch(self, batch: Any) -> Any:
        """Decide for the bodies of one group."""
        group = self.groups[batch.group]
        assert list(batch.readings) == [it.uid for it in group.sensors]
        assert set(batch.bodies) <= set(group.bodies)
        pairs = zip(batch.observations, batch.step.tolist(), strict=True)
        chosen = [self.choose([row], step, group.actuators) for row, step in pairs]
        return np.array(chosen), np.array([mark(row) for row in batch.observations])


class ObjectBrain(Brain):
    """Sum up what came of each decision, whatever the order."""

    takes_groups = True
    total = 0

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Take one decision."""
        if data_from_muscle is None:
            return None
        row = self.memory.tail(1)
        return self.take(
            data_from_muscle,
            row.sensor_readings.flat,
            row.actuator_setpoints.flat,
            row.rewards.flat,
            row.next_readings.flat,
        )

    def take(self, seen: Any, *values: Any) -> Any:
        """Add one decision; `seen` is what its muscle added."""
        assert int(seen) == mark(values[0])
        self.total += mark(*values)
        return {"added": self.total}


class ArrayBrain(ObjectBrain):
    """Do the same on arrays, group by group."""

    batched = True

    def learn(self, batch: Any) -> Any:
        """Take the decisions of one group."""
        group = self.groups[batch.group]
        assert set(batch.body) <= set(group.bodies)
        assert batch.observations.shape[1] == sum(it.space.size for it in group.sensors)
        assert len(self.memory) >= len(batch)
        columns = (batch.data, batch.observations, batch.actions, batch.rewards, batch.next_observations)
        for row in zip(*columns, strict=True):
            found = self.take(*row)
        return found


class PlainObjective(Objective):
    """Judge one body by its rewards and by how many decisions it has made."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        """Return the sum of the newest rewards, a little less with each decision."""
        return float(memory.tail(1).rewards.flat.sum()) - len(memory) / 1024
