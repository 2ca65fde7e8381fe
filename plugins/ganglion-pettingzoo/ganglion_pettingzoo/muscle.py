"""Muscle: legal actions at random."""

from __future__ import annotations

import numpy as np

from ganglion.sdk import ActuatorInformation, Discrete, Muscle, SensorInformation

__all__ = ["RandomLegalMuscle"]


class RandomLegalMuscle(Muscle):
    """Draw each action uniformly from those that the sensor `action_mask` of the same PettingZoo agent allows.

    Without such a sensor, and where nothing is legal (whose turn it is not), from all. It has no parameters.
    """

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Set each actuator, in declared order, from the muscle's own stream."""
        masks = {it.uid: it.value for it in sensors}
        for actuator in actuators_available:
            mask = masks.get(f"{actuator.uid.rpartition('.')[0]}.action_mask")
            legal = np.flatnonzero(() if mask is None else mask)
            if len(legal) and isinstance(actuator.space, Discrete):
                actuator.value = actuator.space.start + int(self.rng.choice(legal))
            else:
                actuator.value = actuator.space.sample(self.rng)
        return actuators_available
