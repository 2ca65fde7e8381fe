"""Muscle: legal actions at random."""

from __future__ import annotations

from ganglion.sdk import ActuatorInformation, Muscle, SensorInformation

__all__ = ["RandomLegalMuscle"]


class RandomLegalMuscle(Muscle):
    """Draw each action uniformly from those that its mask allows, without one from all. It has no parameters."""

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Set each actuator, in declared order, from the muscle's own stream."""
        for actuator in actuators_available:
            actuator.value = actuator.sample(self.rng)
        return actuators_available
