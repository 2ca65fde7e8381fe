"""Muscle: the half of an agent that acts; its objective judges each decision."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import iscoroutine
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, Group, Information, SensorInformation, Statistics, Template
from ganglion.sdk.memory import Memory
from ganglion.sdk.part import Part
from ganglion.sdk.topic import Topics

if TYPE_CHECKING:
    from ganglion.sdk.brain import Transitions

Array = NDArray[Any]
Proposal = tuple[list[ActuatorInformation], Any] | list[ActuatorInformation]
BatchProposal = Array | Mapping[str, Array] | tuple[Array | Mapping[str, Array], Any]


class ModelReader(Protocol):
    """Read the model of the document's `load`."""

    def load(self, tag: str = "") -> Any:
        """Return the value saved under a tag, None without one."""


@dataclass(slots=True)
class Batch:
    """Give the readings of several bodies at once; axis 0 is the body."""

    # `[bodies, n]`, columns in the order of the sensors, each as the vector of its space; the dtype is numpy's
    # `result_type` of the spaces, of integers only if all are. Read-only.
    observations: Array
    # Sensor id -> `[bodies, *shape]` of the dtype of its space; a Tuple or Dict as its vector.
    readings: Mapping[str, Array]
    bodies: Sequence[Any]  # coordinates of the bodies
    step: Array  # number of the decision in its episode, (bodies,) int64
    episode: Array  # number of the episode, (bodies,) int64
    mode: Mode  # of the episode
    # Actuator id -> its allowed values, `[bodies, n]` bool, if a sensor is its Mask; the columns are in `observations`,
    # too. A forbidden proposal is an error of the muscle.
    masks: Mapping[str, Array] = field(default_factory=dict)
    # Whether this is the first decision of a body in its episode, (bodies,) bool, in a phase with bodies.
    first: Array | None = None
    group: int = 0  # which of `Muscle.groups` the bodies are of
    # The setpoints last applied to each body, `[bodies, m]` in the order of its actuators before filters, at a begin
    # the no-op; None if these are the proposed ones, as always without periods of decisions.
    applied: Array | None = None


class Muscle(Part, Statistics, ABC):
    """Act for one agent in one worker for one phase.

    Called in this order: constructor, `setup`; in training `update` with the newest update of the brain, in test and
    evaluation `prepare_model`; then `propose_actions` per decision; `reset` before every episode but the first;
    `teardown`. Every method may be a plain function or `async def`. `uid` is the agent's `name` and the worker,
    `scout/0`. `topics` are for messages beside the steps; objects of one agent's bodies share them.
    """

    # Whether `propose_batch` is called instead of `propose_actions`. With bodies such a muscle is one object for all
    # bodies of its agent; any other is one object per body, each with its own memory.
    batched: ClassVar[bool] = False
    TOPICS: ClassVar[Sequence[str]] = ()  # names of topics of its own
    # Whether a batched muscle takes bodies of several groups, with one call for each; `sensors` and `actuators` are
    # those of the first. Else an agent with several groups is refused before its first decision. An object per body has
    # the declarations of its own body, and ignores this attribute.
    takes_groups: ClassVar[bool] = False
    # The coordinates (agent, environment, b) of the bodies in a phase with bodies; without: empty.
    bodies: Sequence[Any] = ()
    # The bodies in groups of equal local ids and spaces, in the order of their first bodies; without: empty.
    groups: Sequence[Group] = ()
    # This worker's rows of this phase: readings before filters, applied setpoints, rewards, objective. The memories of
    # several bodies keep the newest rows, 65,536 together; `size_limit` may be set.
    memory: Memory
    sensors: Sequence[SensorInformation] = ()  # the declarations after filters, in document order, without values
    actuators: Sequence[ActuatorInformation] = ()  # likewise; each carries its no-op
    static_world_models: Mapping[str, Any] = {}  # static models of the environments by uid
    model_reader: ModelReader | None = None  # where `load` reads; set by the bus, None if there is no model

    @cached_property
    def topics(self) -> Topics:
        """Return topics for an object made by hand; the bus sets its own."""
        return Topics(type(self).TOPICS)

    def setup(self) -> Awaitable[None] | None:
        """Prepare; topics and declarations are set."""
        return None

    def prepare_model(self) -> Awaitable[None] | None:
        """Load the policy for test and evaluation; the default passes the brain's last update to `update`."""
        policy = self.load("policy")
        return None if policy is None else self.update(policy)

    @abstractmethod
    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> Proposal | Awaitable[Proposal]:
        """Return the setpoints of one decision.

        Args:
            sensors: The readings, in document order, after filters.
            actuators_available: The actuators, without values; they may be set and returned. `mask` has the values that
                the environment allows, if it declares a Mask.

        Returns:
            The actuators, these or new ones, in any order, each with a value; as second element of a tuple data for the
            brain, which are copied: None, numbers, text, bytes, lists, maps with text keys and arrays. An actuator that
            is missing, unknown or without value, a value that is not allowed, and data that cannot travel are errors of
            the muscle, which name the id or the path.
        """

    def propose_batch(self, batch: Batch) -> BatchProposal | Awaitable[BatchProposal]:
        """Return the setpoints of several bodies at once; the default calls `propose_actions` body by body.

        Returns:
            `[bodies, m]`, columns in the order of the actuators, each as the vector of its space, or actuator id ->
            `[bodies, *shape]`; as second element of a tuple a list of data for the brain, one per body.
        """
        sensors, actuators = Template(self.sensors), Template(self.actuators)
        rows: list[Array] = []
        data: list[Any] = []
        for i, vector in enumerate(batch.observations):
            readings = _row_of_vector(vector, self.sensors)
            offered = actuators.empty()
            for it in offered:
                if it.uid in batch.masks:
                    it.mask = batch.masks[it.uid][i]
            result = self.propose_actions(sensors.fill(readings), offered)
            if iscoroutine(result):
                result.close()
                raise AuthorError("propose_actions is async: the default propose_batch cannot await it")
            values, extra = read_proposal(result, actuators.uids)
            vectors = [it.space.to_vector(value) for it, value in zip(self.actuators, values, strict=True)]
            rows.append(np.concatenate(vectors) if vectors else np.zeros(0))
            data.append(extra)
        return np.array(rows), data

    def update(self, update: Any) -> Awaitable[None] | None:
        """Take the brain's newest update; called before the next decision."""
        return None

    def reset(self) -> Awaitable[None] | None:
        """Begin the next episode; called before every episode of the phase but the first."""
        return None

    def teardown(self) -> Awaitable[None] | None:
        """Release resources; called at the end of a phase."""
        return None

    def load(self, tag: str = "") -> Any:
        """Return the model's value of a tag, None without a model or tag.

        The tag `policy` is the brain's last update; other tags are maps from names to arrays.
        """
        return None if self.model_reader is None else self.model_reader.load(tag)


def read_proposal(result: Any, uids: Sequence[str]) -> tuple[list[Any], Any]:
    """Return the values in the order of `uids`, and the data, from a result of `propose_actions`.

    AuthorError: The form is invalid, or an actuator is unknown, repeated, missing, or has no value.
    """
    actuators, data = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(actuators, list | tuple) or not all(isinstance(it, ActuatorInformation) for it in actuators):
        raise AuthorError(f"propose_actions: expected a list of ActuatorInformation, found {actuators!r:.200}")
    if len(actuators) == len(uids) and all(it.uid == uid for it, uid in zip(actuators, uids, strict=True)):
        values = [it.value for it in actuators]  # the usual case: the given ones in the given order
    else:
        found = {it.uid: it.value for it in actuators}
        for uid in found:
            if uid not in uids:
                raise AuthorError(f"propose_actions: there is no actuator {uid}; expected {', '.join(uids)}")
        if len(found) < len(actuators):
            raise AuthorError(f"propose_actions: an actuator comes twice: {', '.join(it.uid for it in actuators)}")
        values = [found.get(uid) for uid in uids]
    for uid, value in zip(uids, values, strict=True):
        if value is None:
            raise AuthorError(f"propose_actions: actuator {uid} has no value")
    return values, data


def read_batch_proposal(
    result: Any, actuators: Sequence[ActuatorInformation], bodies: int
) -> tuple[list[list[Any]], list[Any]]:
    """Return for each body the values in the order of `actuators`, and the data, from a result of `propose_batch`.

    AuthorError: The form or shape is invalid; OutOfActionSpaceError: a space does not contain its value.
    """
    setpoints, data = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if data is not None and not (isinstance(data, list | tuple | np.ndarray) and len(data) == bodies):
        raise AuthorError(f"propose_batch[1]: expected a list of {bodies} values, one per body, found {data!r:.200}")
    each = [None] * bodies if data is None else list(data)
    if isinstance(setpoints, Mapping):
        return _rows_of_map(setpoints, actuators, bodies), each
    matrix = np.asarray(setpoints)
    width = sum(it.space.size for it in actuators)
    if matrix.shape != (bodies, width):
        raise AuthorError(f"propose_batch: expected setpoints of shape ({bodies}, {width}), found {matrix.shape}")
    if all(it.space.scalar for it in actuators):  # the usual case: one column each
        pairs = [list(zip(actuators, row, strict=True)) for row in matrix.tolist()]
        return [[_canonical(it, value) for it, value in row] for row in pairs], each
    return [_row_of_vector(row, actuators) for row in matrix], each


def _row_of_vector(vector: Array, informations: Sequence[Information]) -> list[Any]:
    ends = accumulate((it.space.size for it in informations), initial=0)
    return [_from_vector(it, vector[begin:end]) for it, (begin, end) in zip(informations, pairwise(ends), strict=True)]


def _rows_of_map(
    setpoints: Mapping[str, Any], actuators: Sequence[ActuatorInformation], bodies: int
) -> list[list[Any]]:
    known = [it.uid for it in actuators]
    for uid in setpoints:
        if uid not in known:
            raise AuthorError(f"propose_batch: there is no actuator {uid!r}; expected {', '.join(known)}")
    rows: list[list[Any]] = [[] for _ in range(bodies)]
    for it in actuators:
        given: Any = setpoints.get(it.uid)
        if not hasattr(given, "__len__") or np.ndim(given) == 0 or len(given) != bodies:
            found = "none" if given is None else f"{given!r:.100}"
            raise AuthorError(f"propose_batch: actuator {it.uid}: expected {bodies} values, found {found}")
        for row, value in zip(rows, given, strict=True):
            flat = it.space.composite and isinstance(value, np.ndarray)
            row.append(_from_vector(it, value) if flat else _canonical(it, value))
    return rows


def _canonical(actuator: ActuatorInformation, value: Any) -> Any:
    if not actuator.space.contains(value):
        actuator.value = value  # raises with the id
    return actuator.space.canonical(value)


def _from_vector(information: Information, vector: Array) -> Any:
    try:
        return information.space.from_vector(vector)
    except TypeError as error:
        raise information.refusal(f"{information.what} {information.uid}: {error}") from error


class Objective(Part, ABC):
    """Judge each decision of one muscle, in its process.

    The constructor takes the document's parameters by keyword, or all of them as one map named `params`.
    """

    takes_params: ClassVar[bool] = True
    batched: ClassVar[bool] = False  # whether `internal_rewards` judges the decisions of many bodies at once
    reward_ids: Sequence[str] = ()  # the columns of `internal_rewards`' rewards; set by the bus in a phase with bodies

    def internal_rewards(self, batch: Transitions) -> Array:
        """Return the objectives of the decisions of many bodies, (k,) numbers; NaN is no value.

        Called instead of `internal_reward` if batched, with NaN as `objectives`; else each body has its own object.
        """
        raise NotImplementedError(f"{type(self).__name__} says batched = True and has no internal_rewards")

    def late_reward(self, uid: str, credit: float) -> float | None:
        """Return the objective of a credit after the end of a body; `uid` is the reward of its group (`LateCredit`)."""
        return credit

    @abstractmethod
    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | Awaitable[float | None] | None:
        """Return the objective of the newest decision, whose row is `memory.tail(1)`; called once per decision.

        Returns:
            A finite or infinite number, higher is better; an array of one element is a number. None is no value: null
            in the tables, in no window of a condition, NaN in the brain's memory. NaN, and any other value such as a
            list or text, are errors of the objective.
        """


def objective_value(result: Any) -> float | None:
    """Return a result of `internal_reward` as a float, or None.

    >>> objective_value(np.array([3])), objective_value(None)
    (3.0, None)

    AuthorError: The result is neither None nor one number, or is NaN.
    """
    if result is None or (type(result) is float and not math.isnan(result)):
        return result
    known = isinstance(result, int | float) or hasattr(result, "__array__")  # neither lists nor texts are numbers
    array = np.asarray(result if known else None)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise AuthorError(f"internal_reward: expected one number or None, found {result!r:.100}")
    number = float(array.reshape(()).item())
    if math.isnan(number):
        raise AuthorError("internal_reward: expected one number or None, found NaN")
    return number
