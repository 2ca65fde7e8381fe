"""Muscle: draws from the policy of the last update; in test and evaluation it takes the most likely action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, Box
from ganglion_learners.actor import Actor
from ganglion_learners.choice import Choices
from ganglion_learners.perceptron import LOG_ROOT, Perceptron
from ganglion_learners.ranges import Ranges

__all__ = ["PpoMuscle", "actions_of"]

Array = NDArray[Any]


def actions_of(actuators: Sequence[ActuatorInformation]) -> Choices | Ranges:
    """Return the columns of actuators that are all discrete, or all Boxes of floats; ValueError of others."""
    boxes = bool(actuators) and isinstance(actuators[0].space, Box)
    return Ranges(actuators) if boxes else Choices(actuators)


class PpoMuscle(Actor):
    """Act for `PpoBrain`: any number of discrete actuators, or any number of Box actuators of floats.

    It has no parameters of its own. Each discrete column is drawn by its own probabilities, which are 0 for what the
    Mask of its actuator forbids; each continuous one is
    normal about the network's output, in units of half its range where it has both bounds, and clipped. In test and
    evaluation the most likely value is taken, without chance; of equal ones the first.

    With each decision goes, per body, the logarithm of its probability (or density); with Box actuators a float32
    array: that, then the columns before clipping.
    """

    algorithm = "ppo"

    def _prepare(self) -> None:
        """Look at the actuators: all discrete, or all Box."""
        self._actions = actions_of(self.actuators)
        self.outputs = self._actions.total if isinstance(self._actions, Choices) else len(self._actions)

    def _take(self, update: Mapping[str, Any]) -> None:
        network = Perceptron("policy", update, self.inputs, self.outputs, str(update.get("activation")))
        if isinstance(self._actions, Ranges):
            log_std = update.get("log_std")
            if not isinstance(log_std, np.ndarray) or log_std.shape != (self.outputs,):
                raise ValueError(f"log_std: expected ({self.outputs},), found {getattr(log_std, 'shape', None)}")
            self._log_std = log_std.astype(np.float32)
            self._std = np.exp(self._log_std)
        self._network = network

    def _decide(self, rows: NDArray[np.float32]) -> tuple[Array, Sequence[Any] | Array]:
        if isinstance(self._actions, Choices):
            logits = self._network(rows)
            return self._choose(self._actions, self._legal.outputs(logits, rows) if self._legal else logits, rows)
        found = self._finite(rows)
        if not self._explores:
            return self._actions.scale(found), [None] * len(rows)
        noise = self.rng.standard_normal(found.shape, dtype=np.float32)
        raw = found + self._std * noise
        logs = (-0.5 * noise * noise - self._log_std - np.float32(LOG_ROOT)).sum(axis=1, dtype=np.float32)
        told = np.column_stack([logs, raw])
        return self._actions.scale(raw), told if len(told) > 1 else list(told)

    def _choose(self, choices: Choices, logits: Array, rows: Array) -> tuple[Array, Sequence[Any] | Array]:
        """Choose in each column; in plain numbers, which for few choices is quicker than arrays."""
        setpoints = np.empty((len(logits), len(choices.sizes)), dtype=np.int64)
        data: list[Any] = []
        for body, row in enumerate(logits.tolist()):
            start, log = 0, 0.0
            for column, size in enumerate(choices.sizes):
                index, part = self._draw(row[start : start + size])
                if part != part:
                    raise self._refuse_nan(rows)
                setpoints[body, column] = index
                log += part
                start += size
            data.append(log)
        setpoints += choices.starts
        return setpoints, np.array(data) if len(data) > 1 else data

    def _draw(self, logits: list[float]) -> tuple[int, float]:
        """Return the index of a choice, and the logarithm of its probability; NaN if an output is."""
        most = max(logits)
        weights = [math.exp(value - most) for value in logits]
        total = sum(weights)
        if total != total:
            return 0, total
        if not self._explores:
            return logits.index(most), -math.log(total)
        left, index = self.rng.random() * total, 0
        last = len(weights) - 1
        while not weights[last]:  # forbidden by a mask
            last -= 1
        while index < last and left >= weights[index]:
            left -= weights[index]
            index += 1
        return index, logits[index] - most - math.log(total)
