"""Action time shift: what was set before, as readings."""

from __future__ import annotations

from typing import Any

from ganglion.sdk import ActuatorInformation, Filter, SensorInformation
from ganglion_filters.history import Setpoints, checked_steps

__all__ = ["ActionTimeShift"]

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


class ActionTimeShift(Filter):
    """Add sensors `LAST-1-<actuator>` (the newest) to `LAST-<steps>-<actuator>`, behind the others.

    They show what this filter handed on; before the first decision of an episode that is the no-op. Where other
    filters change actions too, it shows what was applied if it stands before them in the document.

    Params:
        steps: How many decisions are shown, >= 1; default 1.
    """

    def __init__(self, steps: int = 1) -> None:
        self.steps = checked_steps(steps)
        self._history = Setpoints((), steps)

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the sensors and a new one per actuator and step."""
        self._history = Setpoints(actuators, self.steps, [it.uid for it in sensors])
        return [*sensors, *self._history.sensors(declared=True)], actuators

    def muscle_pre_process(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the readings and the setpoints of the decisions before."""
        return [*sensors, *self._history.sensors()], actuators

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Take the setpoints; they are handed on as they are."""
        self._history.note(setpoints)
        return setpoints, data

    def reset(self) -> None:
        """Forget the setpoints of the episode before."""
        self._history.reset()
