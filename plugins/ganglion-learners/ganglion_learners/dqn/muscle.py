"""Muscle: takes the action of highest value; in training, with some probability, a random one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation
from ganglion_learners.actor import Actor
from ganglion_learners.choice import FORBIDDEN, Choices, described
from ganglion_learners.perceptron import Perceptron

__all__ = ["DqnMuscle", "one_choice"]


def one_choice(actuators: Sequence[ActuatorInformation]) -> Choices:
    """Return the choices of one discrete actuator; ValueError: there are several, or too many combinations."""
    choices = Choices(actuators)
    if len(actuators) != 1:
        raise ValueError(f"dqn acts on exactly one Discrete or MultiDiscrete actuator, found {described(actuators)}")
    _ = choices.joint  # refuses too many
    return choices


class DqnMuscle(Actor):
    """Act for `DqnBrain`: one Discrete actuator, or one MultiDiscrete whose combinations are the actions.

    It has no parameters. In training a random action is taken with the update's probability, in test and evaluation
    never. Of equal values the first action is taken. Actions that the actuator's Mask forbids are not taken.
    """

    algorithm = "dqn"

    def _prepare(self) -> None:
        """Check the actuator."""
        self._choices = one_choice(self.actuators)
        self._actions = self._choices.joint
        self._exploration = 0.0

    def _take(self, update: Mapping[str, Any]) -> None:
        exploration = update.get("exploration")
        if not isinstance(exploration, float) or not 0.0 <= exploration <= 1.0:
            raise ValueError(f"exploration: expected a number in [0, 1], found {exploration!r:.40}")
        activation = str(update.get("activation"))
        self._network = Perceptron("values", update, self.inputs, self._actions, activation)
        self._exploration = exploration

    def _decide(self, rows: NDArray[np.float32]) -> tuple[NDArray[Any], list[Any]]:
        values = self._finite(rows)
        values = self._legal.outputs(values, rows) if self._legal else values
        chosen = values.argmax(axis=1)
        if self._explores:
            for body in range(len(chosen)):  # body by body, as if each decided alone
                if self.rng.random() < self._exploration:
                    free = np.flatnonzero(values[body] > FORBIDDEN) if self._legal else np.arange(self._actions)
                    chosen[body] = free[self.rng.integers(len(free))]
        return self._choices.split(chosen), [None] * len(rows)
