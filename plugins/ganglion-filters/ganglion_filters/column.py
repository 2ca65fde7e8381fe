"""Columns: values of any space as flat arrays of float64, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import Box, SensorInformation, Space

__all__ = ["box_like", "flat", "shaped"]

Floats = NDArray[np.float64]


def flat(reading: SensorInformation) -> Floats:
    """Return a reading as (size,) float64, in C order."""
    return reading.space.to_vector(reading.value).astype(np.float64)


def box_like(space: Space, low: Floats, high: Floats) -> Box:
    """Return a box of float64 with these bounds per column, in the shape of a space; of a Tuple or Dict, flat."""
    return Box(low.reshape(space.shape), high.reshape(space.shape), space.shape)


def shaped(columns: Floats, box: Box, like: SensorInformation, uid: str | None = None) -> SensorInformation:
    """Return columns as a reading of a box, under the id of another reading or one of its own."""
    value: Any = columns[0].item() if box.scalar else columns.reshape(box.shape)
    return SensorInformation(value, box, like.uid if uid is None else uid, like.value_ids)
