"""Ranges: the columns of continuous actuators, scaled so that a network sees [-1, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, Box
from ganglion_learners.choice import described

__all__ = ["Ranges", "refuse_outside"]

Array = NDArray[np.float64]


class Ranges:
    """Know the bounds of the columns of Box actuators of floats.

    A column with both bounds is scaled: -1 is low, 1 is high. Any other is taken as it is, and clipped at the bound
    that it has.

    Args:
        actuators: In any number.
        bounded: Whether every column must have both bounds.

    Raises:
        ValueError: There is none, or one of another kind, or a bound is missing; the message names all.
    """

    def __init__(self, actuators: Sequence[ActuatorInformation], bounded: bool = False) -> None:
        what = f"expected {'bounded ' if bounded else ''}Box actuators of floats"
        low: list[Array] = []
        high: list[Array] = []
        for it in actuators:
            if not isinstance(it.space, Box) or it.space.dtype.kind != "f":
                raise ValueError(f"{what}, found {described(actuators)}")
            low.append(it.space.low.astype(np.float64).ravel())
            high.append(it.space.high.astype(np.float64).ravel())
        if not low or not sum(map(len, low)):
            raise ValueError(f"{what}, found {described(actuators)}")
        self.low, self.high = np.concatenate(low), np.concatenate(high)
        finite = np.isfinite(self.low) & np.isfinite(self.high)
        if bounded and not finite.all():
            raise ValueError(f"{what}, found {described(actuators)}")
        low_end, high_end = np.where(finite, self.low, 0.0), np.where(finite, self.high, 0.0)
        self._centre = low_end / 2.0 + high_end / 2.0
        self._half = np.where(finite, high_end / 2.0 - low_end / 2.0, 1.0)

    def __len__(self) -> int:
        return len(self.low)

    def scale(self, unit: NDArray[Any]) -> Array:
        """Return setpoints, (k, columns) float64 within the bounds, of what a network says, likewise."""
        found: Array = self._centre + self._half * unit
        np.maximum(found, self.low, out=found)
        np.minimum(found, self.high, out=found)
        return found

    def check(self, setpoints: NDArray[Any]) -> None:
        """Refuse columns of setpoints, (k, columns), of which one leaves its bounds; ValueError names the first."""
        refuse_outside(setpoints, self.low, self.high)

    def unscale(self, setpoints: NDArray[Any]) -> Array:
        """Return what a network would have said; 0 where a column can have one value only."""
        width = np.where(self._half > 0.0, self._half, 1.0)
        found: Array = (np.asarray(setpoints, dtype=np.float64) - self._centre) / width
        return found


def refuse_outside(setpoints: NDArray[Any], low: Array, high: Array) -> None:
    """Refuse columns of setpoints, (k, columns), of which one leaves its bounds; ValueError names the first."""
    columns = np.asarray(setpoints, dtype=np.float64)
    fits = np.isfinite(columns) & (columns >= low) & (columns <= high)
    for row, column in np.argwhere(~fits).tolist():
        raise ValueError(
            f"decision {row} has the action {columns[row, column]:g} (column {column}), expected a number in "
            f"[{low[column]:g}, {high[column]:g}]"
        )
