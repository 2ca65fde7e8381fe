"""Columns: values of any space as flat arrays of float64, with their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import Box, Dict, Discrete, MultiBinary, MultiDiscrete, SensorInformation, Space, Tuple

__all__ = ["bounds", "box_like", "flat", "shaped"]

Floats = NDArray[np.float64]


def flat(reading: SensorInformation) -> Floats:
    """Return a reading as (size,) float64, in C order."""
    return reading.space.to_vector(reading.value).astype(np.float64)


def bounds(space: Space) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each column, (size,) each; infinite where there is none."""
    if isinstance(space, Box):
        return space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    if isinstance(space, Discrete):
        return np.array([float(space.start)]), np.array([float(space.start + space.n - 1)])
    if isinstance(space, MultiDiscrete):
        start = space.start.ravel().astype(np.float64)
        return start, start + space.nvec.ravel() - 1.0
    if isinstance(space, MultiBinary):
        return np.zeros(space.size), np.ones(space.size)
    if isinstance(space, Tuple):
        parts = list(space.spaces)
    else:
        assert isinstance(space, Dict)
        parts = [space.spaces[name] for name in sorted(space.spaces)]
    pairs = [bounds(part) for part in parts]
    return _joined([low for low, _ in pairs]), _joined([high for _, high in pairs])


def _joined(columns: list[Floats]) -> Floats:
    return np.concatenate(columns) if columns else np.zeros(0)


def box_like(space: Space, low: Floats, high: Floats) -> Box:
    """Return a box of float64 with these bounds per column, in the shape of a space; of a Tuple or Dict, flat."""
    shape: tuple[int, ...] = () if space.scalar else getattr(space, "shape", (space.size,))
    return Box(low.reshape(shape), high.reshape(shape), shape)


def shaped(columns: Floats, box: Box, like: SensorInformation, uid: str | None = None) -> SensorInformation:
    """Return columns as a reading of a box, under the id of another reading or one of its own."""
    value: Any = columns[0].item() if box.scalar else columns.reshape(box.shape)
    return SensorInformation(value, box, like.uid if uid is None else uid, like.value_ids)
