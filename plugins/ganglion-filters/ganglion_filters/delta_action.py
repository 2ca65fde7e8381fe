"""Delta action: actions that are added to the last setpoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import ActuatorInformation, AuthorError, Filter, SensorInformation, Space

__all__ = ["DeltaAction", "numbers"]

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


def numbers(value: Any) -> Any:
    """Return a value as numbers that can be added without loss: Python's, or an array of float64 or int64."""
    if not isinstance(value, np.ndarray):
        return value
    return value.astype(np.float64 if value.dtype.kind == "f" else np.int64)


class DeltaAction(Filter):
    """Set each actuator to what it was, plus the action, clipped to its space.

    The action space stays that of the actuator. At first in an episode an actuator was at its no-op.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        self._spaces: dict[str, Space] = {}
        self._noops: dict[str, Any] = {}
        self._last: dict[str, Any] = {}

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the same, with the action nearest to zero as no-op; a Tuple or Dict cannot be added to."""
        for it in actuators:
            if it.space.kind in ("tuple", "dict"):
                raise AuthorError(f"delta_action: actuator {it.uid}: expected numbers, found {it.space!r:.80}")
            self._spaces[it.uid], self._noops[it.uid] = it.space, it.value
        self._last = dict(self._noops)
        return sensors, [ActuatorInformation(it.space.default(), it.space, it.uid, it.value_ids) for it in actuators]

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Return the sums."""
        found = []
        for it in setpoints:
            space = self._spaces[it.uid]
            value = space.clip(numbers(self._last[it.uid]) + numbers(it.value))
            found.append(ActuatorInformation(value, space, it.uid, it.value_ids))
        self._last = {it.uid: it.value for it in found}
        return found, data

    def reset(self) -> None:
        """Return to the no-ops."""
        self._last = dict(self._noops)
