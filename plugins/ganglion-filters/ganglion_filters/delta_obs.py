"""Delta obs: how readings changed since the decision before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ganglion.sdk import ActuatorInformation, AuthorError, Box, Filter, SensorInformation
from ganglion_filters.column import Floats, box_like, flat, shaped

__all__ = ["DeltaObs"]

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


class DeltaObs(Filter):
    """Show `DELTA-<id>`, the value less that of the decision before; 0 at first in an episode.

    Params:
        delta_sensor_uids: Full ids of the sensors; null, the default, is all.
        replace: Whether it takes the place of the sensor, the default; else it is added behind all sensors.
    """

    def __init__(self, delta_sensor_uids: Sequence[str] | None = None, replace: bool = True) -> None:
        if isinstance(delta_sensor_uids, str):
            raise ValueError(f"delta_sensor_uids: expected a list of ids, found {delta_sensor_uids!r}")
        self.uids = None if delta_sensor_uids is None else tuple(delta_sensor_uids)
        self.replace = bool(replace)
        self._boxes: dict[str, Box] = {}
        self._before: dict[str, Floats] = {}

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the sensors with their changes; a box from low - high to high - low for each."""
        known = [it.uid for it in sensors]
        strange = [uid for uid in self.uids or () if uid not in known]
        if strange:
            raise AuthorError(
                f"delta_sensor_uids: there is no sensor {strange[0]!r}; expected some of {', '.join(known)}"
            )
        for it in sensors:
            if self.uids is None or it.uid in self.uids:
                low, high = it.space.column_bounds()
                self._boxes[it.uid] = box_like(it.space, low - high, high - low)
        deltas = {
            it.uid: SensorInformation(None, self._boxes[it.uid], f"DELTA-{it.uid}", it.value_ids)
            for it in sensors
            if it.uid in self._boxes
        }
        return self._placed(sensors, deltas), actuators

    def muscle_pre_process(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the readings with their changes."""
        deltas, now = {}, {}
        for it in sensors:
            box = self._boxes.get(it.uid)
            if box is not None:
                now[it.uid] = columns = flat(it)
                before = self._before.get(it.uid, columns)
                # What is equal has not changed: infinity less infinity would be no number.
                change = np.subtract(columns, before, out=np.zeros(columns.size), where=columns != before)
                deltas[it.uid] = shaped(change, box, it, f"DELTA-{it.uid}")
        self._before = now
        return self._placed(sensors, deltas), actuators

    def _placed(self, sensors: Sensors, deltas: dict[str, SensorInformation]) -> Sensors:
        if self.replace:
            return [deltas.get(it.uid, it) for it in sensors]
        return [*sensors, *deltas.values()]

    def reset(self) -> None:
        """Forget the episode before."""
        self._before = {}
