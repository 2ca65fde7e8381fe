"""Brain: the half of an agent that learns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.sdk.flow import Signal
from ganglion.sdk.information import ActuatorInformation, Group, SensorInformation, Statistics
from ganglion.sdk.memory import Memory
from ganglion.sdk.part import Part

if TYPE_CHECKING:
    from ganglion.sdk.models import Models
    from ganglion.sdk.session import Session

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Update:
    """Send data to some muscles only."""

    data: Any  # the argument of `Muscle.update`
    only: Sequence[str] | None = None  # the uids of the muscles; None is all


def carries_update(result: Any) -> bool:
    """Return whether a result of `thinking` is an update: any array, and any other value that is true.

    >>> carries_update({}), carries_update(np.zeros(1)), carries_update(Update({"epsilon": 0.1}, only=["ada/0"]))
    (False, True, True)
    """
    if isinstance(result, Update):
        result = result.data
    if result is None or isinstance(result, np.ndarray):
        return result is not None
    try:
        return bool(result)
    except (RuntimeError, TypeError, ValueError):
        return True  # several numbers in another form, such as a tensor; refused later, by name


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """Sum up one finished episode for one agent."""

    worker: int  # its worker
    episode: int  # its number in the worker, from 0
    steps: int  # its step boundaries
    objective_mean: float | None  # mean of the agent's objective per decision; None if no decision had one
    objective_sum: float | None  # sum of the agent's objective; None likewise
    terminated: bool  # whether the episode ended without a future
    truncated: bool  # whether the episode was cut off
    environment: str = ""  # in a phase with bodies, the environment of the episode; else empty
    body: str = ""  # `<agent>/<b>` for the episode of one body; else empty


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Give a brain the result of an evaluation: its number in the phase, from 0, and its episodes."""

    number: int
    episodes: Sequence[EpisodeSummary]


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Give the metrics of an evaluation."""

    metrics: Mapping[str, float]  # name -> number; they overlay `objective`, `return` and `steps`
    checkpoint_id: str | None = None  # name of a model that the brain stored for this evaluation; None without one
    checkpoint_hash: str | None = None  # its SHA-256; None is none


@dataclass(slots=True)
class Transitions:
    """Give the rows of a round at once; axis 0 is the row, in canonical order (worker, body)."""

    # `[k, n]`, columns in the order of the sensors, each as the vector of its space; the dtype is numpy's `result_type`
    # of the spaces, of integers only if all are.
    observations: Array
    actions: Array  # `[k, m]`, the muscle's own proposals, likewise
    objectives: Array  # `[k]` float64; NaN is none
    rewards: Array  # `[k, r]`, columns in the order of the agent's rewards, likewise; NaN is none
    next_observations: Array  # `[k, n]`; there also at the end of an episode
    terminated: Array  # `[k]` bool
    truncated: Array  # `[k]` bool
    muscle: Sequence[str]  # uid per row
    body: Sequence[Any]  # coordinate per row
    episode: Array  # `[k]` int64
    step: Array  # `[k]` int64, the decision's number in its episode
    data: Sequence[Any]  # the muscle's data of each row
    group: int = 0  # which of `Brain.groups` the rows are of
    # Actuator id -> the columns of observations that are its mask, as `mask_columns` returns them.
    mask_columns: Mapping[str, slice] = field(default_factory=dict)
    tick: Array | None = None  # `[k]` int64, the tick of each decision; None without bodies

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def bootstrap(self) -> Array:
        """Return 0 where no future exists, else 1, `[k]` float64: `bootstrap_mask` of the flags."""
        return 1.0 - self.terminated

    @property
    def masks(self) -> dict[str, Array]:
        """Return the allowed values of actuators at the decisions, `[k, n]` bool by id."""
        return {uid: self.observations[:, columns] != 0 for uid, columns in self.mask_columns.items()}

    @property
    def next_masks(self) -> dict[str, Array]:
        """Return the allowed values after the decisions, likewise; all values if no decision followed."""
        return {uid: self.next_observations[:, columns] != 0 for uid, columns in self.mask_columns.items()}


@dataclass(frozen=True, slots=True)
class LateCredit:
    """Give the reward of a group of bodies after the end of one of them, within the episode of their environment."""

    muscle: str  # uid of the muscle
    body: tuple[str, str, int]  # coordinate (agent, environment, b) of the body
    episode: int  # of the body's last decision
    step: int  # its number in the episode
    # Full id of the group's reward, such as `lake.herd`; local where the agent's bodies are in several environments.
    reward: str
    credit: float  # the sum of the reward, changed like the body's rewards
    # The result of `Objective.late_reward`; None after a tolerated error.
    objective: float | None


class Brain(Part, Statistics, ABC):
    """Learn for one agent in one phase, from the decisions of its muscles in all workers.

    Called in this order: constructor, `setup`, `load` if there is a model, `pretrain` if the document has `replay` for
    it; `initial_update` for each muscle that joins before there is an update; `thinking` per completed decision;
    `store` at the end of the phase. Every method may be a plain function or `async def`. `name` is the agent's.
    """

    batched: ClassVar[bool] = False  # whether `learn` is called instead of `thinking`
    # Whether it learns from bodies of several groups. An agent that has them is refused before its first decision if
    # its brain does not. `sensors` and `actuators` are those of the first group then; each group has a memory of its
    # own, with the `size_limit` of the first, and `memory` is that of the group that `learn` or `thinking` is called
    # for. `learn` is called once per group, in their order.
    takes_groups: ClassVar[bool] = False
    # The coordinates (agent, environment, b) of its bodies in a phase with bodies; without: empty.
    bodies: Sequence[Any] = ()
    # The bodies in groups of equal local ids and spaces, in the order of their first bodies; without: empty.
    groups: Sequence[Group] = ()
    # Promise that only every n-th decision of the phase gives an update or adds statistics. In lockstep with one worker
    # the muscle then sends up to n decisions together, without waiting in between; the brain receives them one by one,
    # in order, with the same results. Signals come with the answer. Set it here, or in `setup`; it is read when the
    # first muscle joins.
    learn_every: int = 1
    memory: Memory  # the rows of this phase from all muscles, without evaluations; empty at the begin
    sensors: Sequence[SensorInformation] = ()  # the declarations after filters, in document order, without values
    actuators: Sequence[ActuatorInformation] = ()  # likewise; each carries its no-op
    muscles: Sequence[str] = ()  # the uids of the muscles
    static_world_models: Mapping[str, Any] = {}  # static models of the environments by uid
    models: Models  # where models are saved and loaded
    # The tables of the document that serve this agent, by uid. Hooks may ask them from `pretrain` on.
    tables: Mapping[str, Any] = {}
    last_update: Any = None  # the newest update, None before the first one. Set by the bus.
    _signals: list[tuple[Signal, str]] | None = None

    @classmethod
    def check_spaces(
        cls, sensors: Sequence[SensorInformation], actuators: Sequence[ActuatorInformation], **params: Any
    ) -> None:
        """Raise ValueError, with expected and found, if a brain with these parameters cannot serve an agent.

        Called without an object, by `ganglion check --deep` and before the constructor, for agents without filters.
        Values are not set, and nothing heavy may be imported here.
        """

    @classmethod
    def asks(cls, **params: Any) -> Sequence[str]:
        """Return the tables that a brain with these parameters draws from; each must serve its agent."""
        return ()

    def setup(self) -> Awaitable[None] | None:
        """Prepare networks and `memory.size_limit`; sensors, actuators and seed are known."""
        return None

    def load(self) -> Awaitable[None] | None:
        """Load the model; called after `setup` if there is one. The default passes its arrays to `load_arrays`.

        Raises:
            AuthorError: There is no model.
        """
        arrays = self.models.load()
        if arrays is None:
            raise AuthorError(f"brain of {self.name}: load was called and there is no model")
        # None, unless the author made it `async def`
        taken: Awaitable[None] | None = self.load_arrays(arrays)  # type: ignore[func-returns-value]
        return taken

    def pretrain(self, sessions: Sequence[Session]) -> Any:
        """Learn from recorded episodes; called if the agent has `replay`, after `load` and before any muscle joins.

        A brain that does not override this receives the recorded decisions by `thinking` (or `learn`), one by one in
        recorded order, with their rows in `memory` and None as data; its signals are dropped then, and nothing is
        recorded again.

        Args:
            sessions: Read from files on access: iterate as often as needed, without keeping all of them. Entries of
                `replay` follow each other, each as often as it says, its episodes in recorded order. With
                `strict: false` columns may be missing.

        Returns:
            The update for the muscles, as of `thinking`; without one muscles get the `initial_update`.
        """
        return None

    def initial_update(self, muscle_id: str) -> Any:
        """Return the update for a muscle that joins.

        The default is the last update; before the first one, the result of `thinking(muscle_id, None)`.
        """
        return self.last_update if self.last_update is not None else self.thinking(muscle_id, None)

    @abstractmethod
    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Learn from one completed decision, whose rows are in `memory`; the last of an episode has the flags.

        Never called in test or evaluation.

        Args:
            muscle_id: The uid of the muscle.
            data_from_muscle: The second element of its `propose_actions`; with several bodies a list. None when the
                default `initial_update` asks.

        Returns:
            The update: any value that can be sent, for all muscles, or an `Update` for some. None, or a value that is
            false, is no update; an array always is one.
        """

    def learn(self, batch: Transitions) -> Any:
        """Learn from the rows of a round at once, if `batched` is true; the default calls `thinking` row by row.

        In lockstep one call has the rows of all workers in their order, in async those of one message. They are in
        `memory` already, unless its `size_limit` is 0. The update is as of `thinking`; the default returns the last.
        """
        found = None
        for muscle_id, data in zip(batch.muscle, batch.data, strict=True):
            result = self.thinking(muscle_id, data)
            if iscoroutine(result):
                result.close()
                raise AuthorError("thinking is async: the default learn cannot await it")
            found = result if carries_update(result) else found
        return found

    def late(self, credits: Sequence[LateCredit]) -> Any:  # noqa: A002
        """Take rewards that bodies earned after their ends, following the rows of a round; return an update or None.

        The credit of a body comes once: when the episode of its environment is over, or when a spawned body takes its
        row. The row of its last decision, which came earlier, does not change. The default ignores credits.
        """
        return None

    def evaluate(
        self, evaluation: Evaluation
    ) -> EvaluationResult | Mapping[str, float] | Awaitable[EvaluationResult | Mapping[str, float] | None] | None:
        """Return metrics of an evaluation, or None; called after each evaluation."""
        return None

    def store(self) -> Awaitable[None] | None:
        """Save the model; called at the end of each phase and at checkpoints. The default saves `arrays()`."""
        arrays: Mapping[str, Array] | Awaitable[Mapping[str, Array]] = self.arrays()
        if isawaitable(arrays):
            return self._save(arrays)
        self.models.save(arrays)
        return None

    async def _save(self, arrays: Awaitable[Mapping[str, Array]]) -> None:
        self.models.save(await arrays)

    def arrays(self) -> Mapping[str, Array]:
        """Return the model as named arrays; the default has none."""
        return {}

    def load_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Load a model; the inverse of `arrays`. The default ignores the model."""

    def signal(self, signal: Signal, reason: str = "") -> None:
        """Request flow control, up to STOP_PHASE, for the worker of the current row.

        The signal is sent with the answer of the running call. In `learn` it is for all workers with rows in the batch.
        """
        if self._signals is None:
            self._signals = []
        self._signals.append((Signal(signal), reason))

    def pop_signal(self) -> tuple[Signal, str] | None:
        """Return the greatest signal since the last call, with its first reason; None without one.

        The bus calls this after each call of `thinking` or `learn`.
        """
        found, self._signals = self._signals, None
        return max(found, key=lambda given: given[0]) if found else None


class CheckpointableBrain(Brain, ABC):
    """A brain that continues bit for bit from a checkpoint, for any number of workers.

    `CHECKPOINT_FORMAT` and `CHECKPOINT_SCHEMA_VERSION` are stored with the state; a state of another pair is refused.
    """

    CHECKPOINT_FORMAT: ClassVar[str]
    CHECKPOINT_SCHEMA_VERSION: ClassVar[int]

    @abstractmethod
    def export_checkpoint_state(self) -> Mapping[str, Array] | bytes:
        """Return the whole state: optimiser, own memories, own generators."""

    @abstractmethod
    def restore_checkpoint_state(self, state: Mapping[str, Array] | bytes) -> None:
        """Restore what `export_checkpoint_state` returned."""
