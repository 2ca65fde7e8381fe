"""Delta step: actions between -1 and 1 that move setpoints by a share of what they are, or of their range."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import ActuatorInformation, AuthorError, Box, Filter, SensorInformation
from ganglion_filters.delta_action import numbers

__all__ = ["DeltaStep"]

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]
SCALES = ("relative", "range")


class DeltaStep(Filter):
    """Show each actuator with a Box as `Box(-1, 1)`: the setpoint is moved by the action. Others stay as they are.

    With p, the last setpoint (at first in an episode the no-op), and action a it is clip(p + p a), or by `range`
    clip(p + a (high - low) / 2), which leaves 0, too.

    Params:
        scale: `relative` (default) or `range`; the latter needs bounds.
    """

    def __init__(self, scale: str = "relative") -> None:
        if scale not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, found {scale!r}")
        self.scale = scale
        self._boxes: dict[str, Box] = {}
        self._noops: dict[str, Any] = {}
        self._last: dict[str, Any] = {}

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the actuators with boxes from -1 to 1, whose no-op is 0."""
        found = []
        for it in actuators:
            space = it.space
            if not isinstance(space, Box):
                found.append(it)
                continue
            finite = bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
            if self.scale == "range" and not finite:
                raise AuthorError(f"delta_step: actuator {it.uid}: expected bounds, found {space!r:.80}")
            self._boxes[it.uid], self._noops[it.uid] = space, it.value
            unit = Box(-1.0, 1.0, space.shape, space.dtype if space.dtype.kind == "f" else np.float64)
            found.append(ActuatorInformation(unit.default(), unit, it.uid, it.value_ids))
        self._last = dict(self._noops)
        return sensors, found

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Return the moved setpoints."""
        found = [self._moved(it) if it.uid in self._boxes else it for it in setpoints]
        self._last = {it.uid: it.value for it in found if it.uid in self._boxes}
        return found, data

    def _moved(self, action: ActuatorInformation) -> ActuatorInformation:
        space, last = self._boxes[action.uid], numbers(self._last[action.uid])
        step = numbers(action.value)
        high, low = space.high.astype(np.float64), space.low.astype(np.float64)
        moved = last + (last * step if self.scale == "relative" else step * (high - low) / 2.0)
        return ActuatorInformation(space.clip(moved), space, action.uid, action.value_ids)

    def reset(self) -> None:
        """Return to the no-ops."""
        self._last = dict(self._noops)
