"""Muscle: acts by the values of the last update, with exploration while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ganglion.sdk import ActuatorInformation, Mode, Muscle, SensorInformation
from ganglion_learners.sarsa.networks import FourierBasis, action_space, observe, ranges
from ganglion_learners.update import refused

__all__ = ["SarsaMuscle"]


class SarsaMuscle(Muscle):
    """Take the action of highest value; in training, with probability `exploration`, any action that is allowed.

    It has no parameters of its own: everything that it must know comes with the update of `SarsaBrain`. In test and
    evaluation it never explores. Of equal values the first action is taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exploration = 0.0
        self._basis: FourierBasis | None = None
        self._weights = np.zeros((0, 0))
        self._shape: list[float] = []

    def update(self, update: Any) -> None:
        """Take over values and exploration: `weights` (actions, features), `basis` (2,), `exploration` ().

        Raises:
            ValueError: It is of another learner, or does not fit sensors and actuators; the muscle acts as before.
        """
        if not isinstance(update, Mapping) or set(update) != {"weights", "basis", "exploration"}:
            raise refused("sarsa", update)
        weights = np.asarray(update["weights"], dtype=np.float64)
        shape = np.asarray(update["basis"], dtype=np.float64).tolist()
        basis = self._basis
        if shape != self._shape or basis is None:
            order, unbounded = shape
            basis = FourierBasis(*ranges(self.sensors, unbounded), int(order))
        expected = action_space(self.actuators).n, basis.count
        if weights.shape != expected:
            raise ValueError(
                f"update of sarsa does not fit {len(self.sensors)} sensors and {len(self.actuators)} actuators: "
                f"weights: expected {expected}, found {weights.shape}"
            )
        if not np.isfinite(weights).all():
            raise ValueError("update of sarsa: weights: expected finite numbers, found NaN or infinity")
        self._weights, self._basis, self._shape = weights, basis, shape
        self.exploration = float(update["exploration"])

    def save_state(self) -> Mapping[str, Any]:
        """Return what an update brings; an empty map before the first."""
        known = {"weights": self._weights, "basis": self._shape, "exploration": self.exploration}
        return {} if self._basis is None else known

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; this muscle has been set up."""
        if state:
            self.update(state)

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> tuple[list[ActuatorInformation], int]:
        """Set the one Discrete actuator; the second element is the index of its action.

        Raises:
            RuntimeError: No update has come and no policy was loaded.
        """
        space = action_space(actuators_available)
        if self._basis is None:
            raise RuntimeError("sarsa has no policy: in test mode give the agent one by `load`, or train it before")
        mask = actuators_available[0].mask
        legal = np.arange(space.n) if mask is None else np.flatnonzero(mask)
        explores = self.mode is Mode.TRAIN and self.rng.random() < self.exploration
        if explores:
            choice = int(legal[self.rng.integers(len(legal))])
        else:
            values = self._weights @ self._basis.features(observe(sensors))
            choice = int(legal[np.argmax(values[legal])])
        actuators_available[0].value = space.start + choice
        return actuators_available, choice
