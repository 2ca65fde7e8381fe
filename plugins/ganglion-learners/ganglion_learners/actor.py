"""Actor: the base of the muscles of the deep learners: checked updates, and both forms of deciding."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, Batch, Mode, Muscle, SensorInformation
from ganglion_learners.choice import Legal
from ganglion_learners.perceptron import Perceptron
from ganglion_learners.update import refused

__all__ = ["Actor"]

Array = NDArray[Any]


class Actor(Muscle):
    """Act by a perceptron of numpy from the last update of the brain or from the stored policy.

    An actor has no state but its stream and the last update.
    """

    batched = True
    algorithm: ClassVar[str]
    _network: Perceptron

    def __init__(self) -> None:
        super().__init__()
        self._newest: Mapping[str, Any] | None = None
        self._decided = 0

    def setup(self) -> None:
        """Check sensors and actuators.

        Raises:
            ValueError: The actuators are not of the kind that the learner acts on.
        """
        self.inputs = sum(it.space.size for it in self.sensors)
        self._explores = self.mode is Mode.TRAIN
        self._legal = Legal(self.sensors, self.actuators)
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Check the actuators."""

    @abstractmethod
    def _take(self, update: Mapping[str, Any]) -> None:
        """Set the update of the right learner."""

    @abstractmethod
    def _decide(self, rows: NDArray[np.float32]) -> tuple[Array, Sequence[Any] | Array]:
        """Return columns of setpoints (k, m), and data for the brain per row, of observations (k, n)."""

    def update(self, update: Any) -> None:
        """Set the brain's update.

        Raises:
            ValueError: The update is of another learner, or does not fit sensors and actuators; the muscle acts as
            before.
        """
        found = update.get("algorithm") if isinstance(update, Mapping) else None
        if found != self.algorithm:
            raise refused(self.algorithm, update)
        try:
            self._take(update)
        except ValueError as error:
            raise ValueError(
                f"update of {self.algorithm} does not fit {len(self.sensors)} sensors with {self.inputs} columns and "
                f"{len(self.actuators)} actuators: {error}"
            ) from error
        self._newest = update

    def save_state(self) -> Mapping[str, Any]:
        """Return the newest update, and the number of decisions."""
        return {"update": self._newest, "decided": self._decided}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `save_state` returned; this muscle has been set up."""
        if state["update"] is not None:
            self.update(state["update"])
        self._decided = state["decided"]

    def propose_batch(self, batch: Batch) -> tuple[Array, Sequence[Any] | Array]:
        """Decide for all bodies.

        Raises:
            RuntimeError: No update has come and no policy was loaded.
            ValueError: There is a mask without a sensor: it could not be learned.
            FloatingPointError: The network gives NaN.
        """
        for name in batch.masks.keys() - self._legal.columns.keys() if batch.masks else ():
            raise ValueError(f"{self.algorithm} knows masks by their sensors, found one of actuator {name} without")
        return self._checked(np.asarray(batch.observations, dtype=np.float32))

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> tuple[list[ActuatorInformation], Any]:
        """Decide for one body; errors as of `propose_batch`."""
        row = np.concatenate([it.space.to_vector(it.value).astype(np.float32) for it in sensors])
        columns, data = self._checked(row[None, :])
        start = 0
        for it in actuators_available:
            it.value = it.space.from_vector(columns[0, start : start + it.space.size])
            start += it.space.size
        return actuators_available, data[0]

    def _checked(self, rows: NDArray[np.float32]) -> tuple[Array, Sequence[Any] | Array]:
        if self._newest is None:
            raise RuntimeError(
                f"{self.algorithm} has no policy: in test mode give the agent one by `load`, or train it before"
            )
        found = self._decide(rows)
        self._decided += 1
        return found

    def _finite(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the output of the network; FloatingPointError: it is not finite."""
        found = self._network(rows)
        if not math.isfinite(found.sum()):
            raise self._refuse_nan(rows)
        return found

    def _refuse_nan(self, rows: NDArray[np.float32]) -> FloatingPointError:
        """Return the error of a network that gives NaN, with a likely cause."""
        seen = float(np.abs(rows).max()) if rows.size else 0.0
        return FloatingPointError(
            f"{self.algorithm}: the network gives NaN at decision {self._decided} of this muscle; the largest reading "
            f"is {seen:g} (readings should be of the order of 1: filter `norm` makes them so), the largest weight "
            f"{self._network.largest:g} (beyond 100 or so the brain's learning_rate is too high)"
        )
