"""Merge steps: the readings of the last decisions beside those of now."""

from __future__ import annotations

from typing import Any

from ganglion.sdk import ActuatorInformation, Filter, SensorInformation
from ganglion_filters.history import Setpoints, checked_steps

__all__ = ["MergeSteps"]

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


class MergeSteps(Filter):
    """Show behind each sensor its values of the decisions before: `LAST-1-<id>` (one ago) to `LAST-<steps-1>-<id>`.

    Missing history repeats the oldest reading of the episode.

    Params:
        steps: How many decisions are shown, this one included, >= 1; default 3.
        merge_actuators: Whether the setpoints of the last `steps - 1` decisions follow, as by `action_time_shift`;
            default false.
    """

    def __init__(self, steps: int = 3, merge_actuators: bool = False) -> None:
        self.steps = checked_steps(steps)
        self.merge_actuators = bool(merge_actuators)
        self._past: tuple[dict[str, Any], ...] = ()  # newest first
        self._history = Setpoints((), 0)

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return each sensor with those of its past, then those of the setpoints."""
        found = []
        for it in sensors:
            found.append(it)
            for n in range(1, self.steps):
                found.append(SensorInformation(None, it.space, f"LAST-{n}-{it.uid}", it.value_ids))
        shown = actuators if self.merge_actuators else ()
        self._history = Setpoints(shown, self.steps - 1, [it.uid for it in found])
        return [*found, *self._history.sensors(declared=True)], actuators

    def muscle_pre_process(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the readings of now and before."""
        now = {it.uid: it.value for it in sensors}
        past = (*self._past, *([self._past[-1] if self._past else now] * self.steps))
        found = []
        for it in sensors:
            found.append(it)
            for n in range(1, self.steps):
                found.append(SensorInformation(past[n - 1][it.uid], it.space, f"LAST-{n}-{it.uid}", it.value_ids))
        self._past = (now, *self._past)[: self.steps - 1]
        return [*found, *self._history.sensors()], actuators

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Take the setpoints; they are handed on as they are."""
        self._history.note(setpoints)
        return setpoints, data

    def reset(self) -> None:
        """Forget the episode before."""
        self._past = ()
        self._history.reset()
