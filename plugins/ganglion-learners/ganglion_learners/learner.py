"""Learner: the base of the brains of the deep learners: both forms of learning, models, checkpoints, errors."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import (
    ActuatorInformation,
    CheckpointableBrain,
    SensorInformation,
    Session,
    Transitions,
    bootstrap_mask,
)
from ganglion_learners.backend import load_torch
from ganglion_learners.choice import Choices
from ganglion_learners.ranges import Ranges
from ganglion_learners.recording import Recording

if TYPE_CHECKING:
    from ganglion_learners.tensors import Adam, Parameters

__all__ = ["Learner"]

Array = NDArray[Any]

# Rows that the object form keeps: the newest of a muscle are all that is looked at.
MEMORY_ROWS = 1024
NAMES_MAX = 4  # of arrays, in a message


class Learner(CheckpointableBrain):
    """Learn with torch on one thread from decisions as they come, one after the other, of all bodies.

    All chance is the brain's own stream. The update, which is also the stored policy, is a map of named arrays, with
    the texts `algorithm` and `activation`.
    """

    CHECKPOINT_SCHEMA_VERSION = 1
    batched = True
    algorithm: ClassVar[str]
    config: Any
    codec: ClassVar[Any]
    """The class for the columns of the actuators, with a ValueError for actuators that the learner does not act on."""
    _actions: Choices | Ranges  # made by it
    _stored: list[tuple[str, Parameters | Adam]]  # prefix of names in a model -> its network or optimiser

    def __init__(self) -> None:
        super().__init__()
        load_torch(self.algorithm)  # imported here, so that a check of the document finds it missing
        self.decisions = 0

    @classmethod
    def check_spaces(
        cls, sensors: Sequence[SensorInformation], actuators: Sequence[ActuatorInformation], **params: Any
    ) -> None:
        """Refuse actuators that the learner does not act on."""
        cls.codec(actuators)

    def setup(self) -> None:
        """Check sensors and actuators, and make the networks.

        Raises:
            ValueError: The actuators are not of the kind that the learner acts on.
        """
        load_torch(self.algorithm)  # another brain of this process may have changed it
        self.memory.size_limit = 0 if self.batched else MEMORY_ROWS
        self.inputs = sum(it.space.size for it in self.sensors)
        self._actions = self.codec(self.actuators)
        self._build()

    @abstractmethod
    def _build(self) -> None:
        """Make networks and optimisers (`_stored`), and buffers."""

    @abstractmethod
    def _learn(self, batch: Transitions) -> dict[str, Any] | None:
        """Learn from rows with finite objectives; return the newest due update."""

    @abstractmethod
    def _acting(self) -> dict[str, Any]:
        """Return copies of the acting networks, and further values for muscles."""

    @abstractmethod
    def _buffers(self) -> dict[str, Array]:
        """Return the kept decisions, and all further state that a model lacks."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `_buffers` returned."""

    # -- learning ----------------------------------------------------------------------------------------------------
    def initial_update(self, muscle_id: str) -> dict[str, Any]:
        """Return the current policy."""
        return self.policy()

    def learn(self, batch: Transitions) -> dict[str, Any] | None:
        """Learn from the rows of a round, one after the other; return a due update.

        Raises:
            ValueError: A decision has no objective.
            FloatingPointError: A loss is no finite number; learning cannot go on.
        """
        if not math.isfinite(batch.objectives.sum()):
            self._refuse(batch)
        return self._learn(batch)

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> dict[str, Any] | None:
        """Learn from the newest decision of a muscle; the object form, with the same result."""
        return self.learn(self._newest(muscle_id, data_from_muscle))

    def _newest(self, muscle_id: str, data: Any) -> Transitions:
        """Return the newest decision of all bodies of a muscle, in the form of `learn`."""
        bodies = len(data) if isinstance(data, list) else 1
        rows = self.memory.tail(bodies, include_only=muscle_id)
        return Transitions(
            observations=rows.observations,
            actions=rows.actions,
            objectives=rows.objective,
            rewards=np.zeros((len(rows), 0)),
            next_observations=rows.next_readings.flat,
            terminated=bootstrap_mask(rows.dones, rows.terminated, rows.truncated) == 0,
            truncated=rows.truncated,
            muscle=[muscle_id] * len(rows),
            body=[self.bodies[place] if place >= 0 else i for i, place in enumerate(rows.body.tolist())],
            episode=rows.episode,
            step=rows.decision_index,
            data=data if isinstance(data, list) else [data],
        )

    def _recorded(self, sessions: Iterable[Session]) -> Recording:
        """Return the decisions of sessions, checked on access."""
        return Recording(sessions, self.algorithm, self.sensors, self.actuators, self._actions.check)

    def _refuse(self, batch: Transitions) -> None:
        """Raise for a row without a finite objective; a sum may also overflow without such a row."""
        for i in np.flatnonzero(~np.isfinite(batch.objectives)).tolist():
            found = batch.objectives[i]
            raise ValueError(
                f"{self.algorithm} needs a finite objective for each decision, and decision {batch.step[i]} of "
                f"{batch.muscle[i]} in its episode {batch.episode[i]} has {'none' if math.isnan(found) else found}"
            )

    def _finite(self, what: str, value: float, params: str) -> float:
        """Return a loss; FloatingPointError with the names and values of some parameters if it is not finite."""
        if math.isfinite(value):
            return value
        config: Any = self.config
        told = ", ".join(f"{name} {getattr(config, name)}" for name in params.split())
        raise FloatingPointError(
            f"{self.algorithm}: {what} is {value} after {self.decisions} decisions, so learning cannot go on; "
            f"{told}; readings and objectives should be of the order of 1 (filter `norm` makes them so)"
        )

    # -- models and checkpoints --------------------------------------------------------------------------------------
    def policy(self) -> dict[str, Any]:
        """Return a copy of the policy for muscles."""
        return {"algorithm": self.algorithm, "activation": self.config.activation, **self._acting()}

    def arrays(self) -> dict[str, Array]:
        """Return the model: the activation as bytes, the number of decisions, networks and optimisers."""
        found: dict[str, Array] = {
            "activation": np.frombuffer(self.config.activation.encode(), dtype=np.uint8),
            "decisions": np.array(self.decisions, dtype=np.int64),
        }
        for prefix, part in self._stored:
            found |= part.arrays(prefix)
        return found

    def _load(self, arrays: Mapping[str, Array]) -> None:
        for prefix, part in self._stored:
            part.load(arrays, prefix)
        self.decisions = int(arrays["decisions"])

    def load_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Load a stored model: networks, optimisers, counters, without kept decisions.

        Raises:
            ValueError: The model is of another learner, other sensors or actuators, or other `hidden` or `activation`,
                or has NaN; nothing was changed.
        """
        own = self.arrays()
        for name in (*own, *arrays):
            expected, found = _form(own.get(name)), _form(arrays.get(name))
            if expected != found:
                names = ", ".join([*arrays][:NAMES_MAX]) + (" and others" if len(arrays) > NAMES_MAX else "")
                raise ValueError(
                    f"the stored model is not one of this {self.algorithm}: {name}: expected {expected}, found "
                    f"{found}; it has {names or 'no arrays'} (a model "
                    "belongs to one learner, with the same sensors, actuators and `hidden`)"
                )
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise ValueError(f"the stored model is damaged: {name}: expected finite numbers, found NaN or infinity")
        here, there = (bytes(it["activation"]).decode(errors="replace") for it in (own, arrays))
        if here != there:
            raise ValueError(f"the stored model has another activation: expected {here!r}, found {there!r}")
        self._load(arrays)

    def export_checkpoint_state(self) -> Mapping[str, Array]:
        """Return model and buffers; the bus keeps the state of `rng` beside them."""
        return {**self.arrays(), **self._buffers()}

    def restore_checkpoint_state(self, state: Mapping[str, Array] | bytes) -> None:
        """Restore what `export_checkpoint_state` returned."""
        if isinstance(state, bytes):
            raise ValueError(f"checkpoint of {self.algorithm}: expected named arrays, found bytes")
        self._load(state)
        self._restore(state)


def _form(array: Any) -> str:
    """Return dtype and shape of an array as text."""
    return "none" if array is None else f"{array.dtype} {array.shape}"
