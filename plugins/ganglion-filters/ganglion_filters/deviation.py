"""Deviation: readings as their distance from one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ganglion.sdk import ActuatorInformation, Box, Filter, SensorInformation
from ganglion_filters.column import Floats, box_like, flat, shaped

__all__ = ["AbsoluteDeviation", "QuadraticPenalty"]

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


class _Deviation(Filter):
    """Map every column of every reading; ids stay, the bounds are those of what can come out."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._boxes: dict[str, Box] = {}

    @abstractmethod
    def of(self, distance: Floats) -> Floats:
        """Return what becomes of a distance from one, >= 0; it grows with it."""

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return boxes in the place of the sensors' spaces."""
        found = []
        for it in sensors:
            low, high = it.space.column_bounds()
            ends = np.abs(1.0 - low), np.abs(1.0 - high)
            least = np.where((low <= 1.0) & (high >= 1.0), 0.0, np.minimum(*ends))
            box = self._boxes[it.uid] = box_like(it.space, self.of(least), self.of(np.maximum(*ends)))
            found.append(SensorInformation(None, box, it.uid, it.value_ids))
        return found, actuators

    def muscle_pre_process(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the mapped readings."""
        mapped = [(it, self.of(np.abs(1.0 - flat(it)))) for it in sensors]
        return [shaped(columns, self._boxes[it.uid], it) for it, columns in mapped], actuators


class AbsoluteDeviation(_Deviation):
    """Show each reading v as abs(1 - v)."""

    def of(self, distance: Floats) -> Floats:
        """Return the distance."""
        return distance


class QuadraticPenalty(_Deviation):
    """Show each reading v as (1 - v)^2."""

    def of(self, distance: Floats) -> Floats:
        """Return its square."""
        return distance * distance
