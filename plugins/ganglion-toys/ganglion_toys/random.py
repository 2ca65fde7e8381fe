"""Random muscle: setpoints drawn uniformly from their spaces."""

from __future__ import annotations

from ganglion.sdk import ActuatorInformation, Muscle, SensorInformation

__all__ = ["RandomMuscle"]


class RandomMuscle(Muscle):
    """Sample every actuator's space from the muscle's own stream, whatever the readings are."""

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Set each actuator to a sample of its space, in declared order."""
        for actuator in actuators_available:
            actuator.value = actuator.space.sample(self.rng)
        return actuators_available
