"""Networks: a Fourier basis, and what a muscle needs to know to act."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, Discrete, Mask, SensorInformation
from ganglion_learners.choice import described

__all__ = ["FourierBasis", "action_space", "observe", "ranges"]

Array = NDArray[np.float64]

# Features are (order + 1) ** columns; beyond this an update no longer is a small message, and another learner is due.
FEATURES_MAX = 4096


class FourierBasis:
    """Compute features of an observation: the cosines of all sums of whole multiples of its columns.

    Args:
        low: (n,) lower end of each column; below it the column counts as `low`.
        high: (n,) upper end, likewise.
        order: Highest multiple, >= 1; there are (order + 1) ** n features.

    Raises:
        ValueError: There would be more than 4096 features.

    Source: Konidaris, Osentoski and Thomas (2011), Value function approximation in reinforcement learning using the
    Fourier basis, section 3.2 and, for `step_sizes`, 3.3.
    """

    def __init__(self, low: Array, high: Array, order: int) -> None:
        self.count = (order + 1) ** len(low)
        if self.count > FEATURES_MAX:
            raise ValueError(
                f"order {order} with {len(low)} columns of observation makes {self.count} features; "
                f"at most {FEATURES_MAX} are possible: lower the order, or connect fewer sensors"
            )
        multiples = np.array(list(itertools.product(range(order + 1), repeat=len(low))), dtype=np.float64)
        width = np.where(high > low, high - low, 1.0)  # a column that cannot change gives a constant
        self._low, self._high = low, high
        self._frequencies = math.pi * multiples / width
        self._phases = -self._frequencies @ low
        norms = np.sqrt((multiples * multiples).sum(axis=1))
        self.step_sizes: Array = 1.0 / np.where(norms > 0.0, norms, 1.0)

    def features(self, observation: NDArray[Any]) -> Array:
        """Return the features, (count,) in [-1, 1], of an observation, (n,)."""
        bounded = np.minimum(np.maximum(observation, self._low), self._high)
        found: Array = np.cos(self._frequencies @ bounded + self._phases)
        return found


def ranges(sensors: Sequence[SensorInformation], unbounded: float) -> tuple[Array, Array]:
    """Return the ends of all columns of what sensors see; a side without bound is `unbounded` away from zero."""
    ends = [sensor.space.column_bounds() for sensor in seen(sensors)]
    low = np.concatenate([low for low, _ in ends]) if ends else np.zeros(0)
    high = np.concatenate([high for _, high in ends]) if ends else np.zeros(0)
    return (
        np.where(np.isfinite(low), low, np.minimum(-unbounded, high - 1.0)),
        np.where(np.isfinite(high), high, np.maximum(unbounded, low + 1.0)),
    )


def seen(sensors: Sequence[SensorInformation]) -> list[SensorInformation]:
    """Return the sensors that features are made of: masks say what may be chosen, and would double them each."""
    return [sensor for sensor in sensors if not isinstance(sensor.space, Mask)]


def observe(sensors: Sequence[SensorInformation]) -> NDArray[Any]:
    """Return the vectors of what sensors see side by side."""
    found = [sensor.space.to_vector(sensor.value) for sensor in seen(sensors)]
    return found[0] if len(found) == 1 else np.concatenate(found or [np.zeros(0)])


def action_space(actuators: Sequence[ActuatorInformation]) -> Discrete:
    """Return the space of the one actuator.

    Raises:
        ValueError: There is not exactly one, or it is not Discrete.
    """
    if len(actuators) != 1 or not isinstance(actuators[0].space, Discrete):
        raise ValueError(f"sarsa acts on exactly one Discrete actuator, found {described(actuators)}")
    return actuators[0].space
