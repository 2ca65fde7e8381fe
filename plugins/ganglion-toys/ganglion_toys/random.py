"""Random muscle: setpoints drawn uniformly from what is allowed."""

from __future__ import annotations

from ganglion.sdk import ActuatorInformation, Muscle, SensorInformation

__all__ = ["RandomMuscle"]


class RandomMuscle(Muscle):
    """Draw every actuator from its space and what a mask allows, by the muscle's own stream, whatever it reads."""

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Set each actuator, in declared order."""
        for actuator in actuators_available:
            actuator.value = actuator.sample(self.rng)
        return actuators_available
