"""Delta obs: how readings changed since the decision before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ganglion.sdk import ActuatorInformation, AuthorError, Box, Filter, FilterBatch, SensorInformation
from ganglion_filters.column import Floats, box_like

__all__ = ["DeltaObs"]

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


class DeltaObs(Filter):
    """Show `DELTA-<id>`, the value less that of the decision before; 0 at first in an episode.

    Params:
        delta_sensor_uids: Full ids of the sensors; null, the default, is all.
        replace: Whether it takes the place of the sensor, the default; else it is added behind all sensors.
    """

    batched: ClassVar[bool] = True

    def __init__(self, delta_sensor_uids: Sequence[str] | None = None, replace: bool = True) -> None:
        if isinstance(delta_sensor_uids, str):
            raise ValueError(f"delta_sensor_uids: expected a list of ids, found {delta_sensor_uids!r}")
        self.uids = None if delta_sensor_uids is None else tuple(delta_sensor_uids)
        self.replace = bool(replace)
        self._boxes: dict[str, Box] = {}
        self._before: dict[str, Floats] = {}
        self._began = np.zeros(0, bool)  # whose episode has had a decision

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
        shown = [deltas.get(it.uid, it) for it in sensors] if self.replace else [*sensors, *deltas.values()]
        return shown, actuators

    def pre_process_batch(self, batch: FilterBatch) -> Mapping[str, Any]:
        """Return the readings with their changes."""
        if len(self._began) != batch.count:
            self._began = np.zeros(batch.count, bool)
            self._before = {uid: np.zeros((batch.count, box.size)) for uid, box in self._boxes.items()}
        rows, found = batch.rows, dict(batch.values)
        for uid, box in self._boxes.items():
            values = found.pop(uid) if self.replace else found[uid]
            columns = values.reshape(len(rows), -1).astype(np.float64)
            before, self._before[uid][rows] = self._before[uid][rows], columns
            # What is equal has not changed: infinity less infinity would be no number.
            moved = self._began[rows, None] & (columns != before)
            change = np.subtract(columns, before, out=np.zeros(columns.shape), where=moved)
            found[f"DELTA-{uid}"] = change.reshape(len(rows), *box.shape)
        self._began[rows] = True
        return found

    def reset_batch(self, rows: Any) -> None:
        """Forget the episode before."""
        if len(self._began):
            self._began[rows] = False
