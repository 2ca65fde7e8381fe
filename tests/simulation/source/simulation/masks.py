"""Masks and arrays of several lengths: muscles and brains that show what they were told, and some that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import Brain, Muscle, SensorInformation
from ganglion_toys.doors import Doors


class ObjectMuscle(Muscle):
    """Choose of what is allowed by the number of its decision and the newest update; from `rebels` on what is not."""

    added = made = 0

    def __init__(self, rebels: int = 1_000) -> None:
        super().__init__()
        self.rebels = rebels

    def update(self, update: Any) -> None:
        """Take what is added."""
        self.added = int(update["added"])

    def reset(self) -> None:
        """Begin to count anew."""
        self.made = 0

    def choose(self, mask: Any, listed: Any, step: int) -> int:
        """Return a door that is open, or one that is not, if it is its time."""
        free = np.flatnonzero(mask)
        assert listed[:, 0].tolist() == free.tolist()
        closed = np.flatnonzero(~mask)
        of = closed if step >= self.rebels and len(closed) else free
        return int(of[(step + self.added) % len(of)])

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Decide; the brain gets the number of doors that are open."""
        (door,), listed = actuators_available, sensors[-1].value
        door.value = self.choose(door.mask, listed, self.made)
        self.made += 1
        return actuators_available, int(door.mask.sum())


class ArrayMuscle(ObjectMuscle):
    """Do the same on arrays."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        """Decide for all bodies."""
        ((uid, mask),) = batch.masks.items()
        padded, lengths = self.sensors[-1].space.padded(batch.readings[self.sensors[-1].uid])
        rows = zip(mask, padded, lengths.tolist(), batch.step.tolist(), strict=True)
        chosen = [self.choose(row, listed[:count], step) for row, listed, count, step in rows]
        return {uid: np.array(chosen)}, mask.sum(1)


class ArrayBrain(Brain):
    """Sum up what was allowed in and after each decision."""

    batched = True
    total = 0

    def learn(self, batch: Any) -> Any:
        """Take the decisions of a round."""
        ((_, mask),), ((_, following),) = batch.masks.items(), batch.next_masks.items()
        assert mask[np.arange(len(batch)), batch.actions[:, -1].astype(int)].all()
        assert mask.sum(1).tolist() == [int(it) for it in batch.data]
        self.total += int(mask.sum()) + int(following.sum())
        return {"added": self.total}

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Not called: it learns from arrays."""
        raise NotImplementedError

    def initial_update(self, muscle_id: str) -> Any:
        """Tell the sum."""
        return {"added": self.total}


class WrongDoors(Doors):
    """Say what no mask may say, from the second step on: `short`, `nothing`, `float`; or declare a wrong one."""

    def __init__(self, wrong: str, **params: Any) -> None:
        super().__init__(**params)
        self.wrong = wrong

    def _readings(self, rows: Any) -> Any:
        found = super()._readings(rows)
        if int(self.made[0]) > 1:
            found["open"] = {
                "short": found["open"][:, 1:],
                "nothing": np.zeros_like(found["open"]),
                "float": found["open"].astype(float),
            }.get(self.wrong, found["open"])
        return found

    def _informed(self, readings: Any) -> Any:
        found = super()._informed(readings)
        if self.wrong == "name":
            return [*found, SensorInformation(found[1].value, type(found[1].space)(self.doors, of="gate"), "gate")]
        return [*found, SensorInformation(found[1].value, found[1].space, "twin")] if self.wrong == "twice" else found


class TiltedMuscle(ObjectMuscle):
    """Raise in its second decision of each episode, which its document tolerates."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Decide, but for one time."""
        self.made += 1
        if self.made == 2:
            raise ValueError("tilt")
        self.made -= 1
        return super().propose_actions(sensors, actuators_available)
