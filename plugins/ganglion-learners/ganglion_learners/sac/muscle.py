"""Muscle: draws from a squashed Gaussian policy; in test and evaluation it takes its centre."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion_learners.actor import Actor
from ganglion_learners.perceptron import Perceptron
from ganglion_learners.ranges import Ranges

__all__ = ["LOG_STD_MAX", "LOG_STD_MIN", "SacMuscle"]

# Of the logarithm of the spread before squashing: e^2 covers the range several times, e^-5 is hardly chance any more.
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


class SacMuscle(Actor):
    """Act for `SacBrain`: any number of Box actuators of floats, all with both bounds.

    It has no parameters of its own. In training an action is drawn: uniformly until the brain has warmed up, then the
    hyperbolic tangent of a normal number about the network's output. In test and evaluation it is that of the centre.
    """

    algorithm = "sac"

    def _prepare(self) -> None:
        """Look at the actuators."""
        self._ranges = Ranges(self.actuators, bounded=True)
        self._uniform = False

    def _take(self, update: Mapping[str, Any]) -> None:
        uniform = update.get("uniform")
        if not isinstance(uniform, bool):
            raise ValueError(f"uniform: expected a boolean, found {uniform!r:.40}")
        outputs = 2 * len(self._ranges)
        self._network = Perceptron("policy", update, self.inputs, outputs, str(update.get("activation")))
        self._uniform = uniform

    def _decide(self, rows: NDArray[np.float32]) -> tuple[NDArray[Any], list[Any]]:
        columns = len(self._ranges)
        data: list[Any] = [None] * len(rows)
        if self._explores and self._uniform:
            return self._ranges.scale(self.rng.uniform(-1.0, 1.0, (len(rows), columns))), data
        found = self._finite(rows)
        raw: NDArray[Any] = found[:, :columns]
        if self._explores:
            noise = self.rng.standard_normal(raw.shape, dtype=np.float32)
            raw = raw + np.exp(np.clip(found[:, columns:], LOG_STD_MIN, LOG_STD_MAX)) * noise
        return self._ranges.scale(np.tanh(raw)), data
