"""Environment: the world in which agents act, with its rewards and transformers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.sdk.flow import SimTime
from ganglion.sdk.information import (
    ActuatorInformation,
    Coordinate,
    RewardInformation,
    SensorInformation,
    resolve_flags,
)
from ganglion.sdk.part import Part
from ganglion.sdk.topic import Topics

Array = NDArray[Any]
Started = tuple[list[SensorInformation], list[ActuatorInformation]]
Stepped = tuple[list[SensorInformation], list[RewardInformation], bool]
End = Literal["terminated", "truncated"]
ENDS: tuple[str, ...] = get_args(End)
"""The two kinds of an end."""


@dataclass(slots=True)
class EnvironmentBaseline:
    """Declare an environment and give the readings of decision 0."""

    sensors_available: list[SensorInformation]  # all sensors with their first readings, in declared order, ids local
    actuators_available: list[ActuatorInformation]  # all actuators, each with its no-op as value
    simtime: SimTime = field(default_factory=lambda: SimTime(0, None))  # when the episode begins
    # Properties that do not change during a phase; sent once to the store, muscles and brains. None is none.
    static_world_model: Mapping[str, Any] | None = None
    rewards_available: list[RewardInformation] | None = None  # all rewards; None: the first update declares them


class EnvironmentState:
    """Answer an update: all declared sensors, the rewards, and whether the episode continues.

    Args:
        sensor_information: All declared sensors with their readings, any order.
        rewards: Of this step.
        done: Alone means terminated. The attribute follows from the two others.
        world_state: For reward and transformer; stored unless a transformer removes it.
        simtime: None counts the updates of this episode as ticks.
        terminated: No future exists; None is not given. With bodies a map (agent, b) -> boolean, or one for all.
        truncated: Cut off from outside; likewise.
        over: `terminated` or `truncated`: the episode of the environment has ended, for all bodies without a flag of
            their own. None: the flags of bodies decide.
        retired: With bodies (agent, b) -> `terminated` or `truncated`, for each body whose last step this is. A body of
            the document returns with the next reset, a spawned one never.
        spawned: With bodies (agent, b) -> the sensors of each body that takes part from the next step on. The document
            bounds them (`dynamic`); b is greater than `used` of the environment.
        wants: With bodies (agent, b) -> whether the body decides before the next step; one without an entry follows its
            `decision`.
        group_rewards: With bodies group -> a finite number, the reward of the group's name of each body of the group
            (`Body.group`) that takes part in this step. After the end of a body they come to its brain by `Brain.late`.

    Raises:
        AuthorError: Terminated and truncated are both true, or `done` contradicts them; `over` is another word.
    """

    __slots__ = (
        *("group_rewards", "over", "retired", "rewards", "sensor_information", "simtime", "spawned", "terminated"),
        "truncated",
        "wants",
        "world_state",
    )

    def __init__(
        self,
        sensor_information: list[SensorInformation],
        rewards: list[RewardInformation],
        done: bool | None = None,
        world_state: Any = None,
        simtime: SimTime | None = None,
        terminated: bool | dict[Any, bool] | None = None,
        truncated: bool | dict[Any, bool] | None = None,
        over: End | None = None,
        retired: Mapping[Coordinate, End] | None = None,
        spawned: Mapping[Coordinate, Sequence[SensorInformation]] | None = None,
        wants: Mapping[Any, bool] | None = None,
        group_rewards: Mapping[str, float] | None = None,
    ) -> None:
        self.sensor_information = sensor_information
        self.rewards = rewards
        self.world_state = world_state
        self.simtime = simtime
        self.over, self.retired, self.spawned = over, retired, spawned
        self.wants, self.group_rewards = wants, group_rewards
        self.terminated: Any
        self.truncated: Any
        if over is not None:
            terminated, truncated = flags_of_end(over, terminated, truncated)
        if type(terminated) is dict or type(truncated) is dict:
            self.terminated, self.truncated = terminated or False, truncated or False
        else:
            flags: Any = (terminated, truncated)
            self.terminated, self.truncated = resolve_flags(done, *flags)

    @property
    def done(self) -> bool:
        """Whether the episode has ended, for either reason."""
        return bool(self.terminated or self.truncated)

    def __repr__(self) -> str:
        return (
            f"EnvironmentState({self.sensor_information!r}, {self.rewards!r}, terminated={self.terminated}, "
            f"truncated={self.truncated}, simtime={self.simtime!r})"
        )


def flags_of_end(over: Any, terminated: Any, truncated: Any) -> tuple[Any, Any]:
    """Return the flags of an ended episode; flags of bodies, in maps or arrays, do not change."""
    if over not in ENDS:
        raise AuthorError(f"over: expected one of {', '.join(ENDS)} or None, found {over!r:.60}")
    if isinstance(terminated, Mapping) or isinstance(truncated, Mapping):
        return terminated, truncated
    return terminated or over == ENDS[0], truncated or over == ENDS[1]


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """Request the next episode: its number in this worker, from 0, and its own seed in [0, 2**63)."""

    episode: int
    seed: int


@dataclass(frozen=True, slots=True)
class Body:
    """Name one body of an environment: an incarnation of an agent."""

    agent: str  # the name of the agent
    a: int  # its place in the phase, from 0
    b: int  # the number of the body within agent and environment, from 0
    role: str | None = None  # a tag of the document, likewise `team` and `group`; None is none
    team: str | None = None
    group: str | None = None


@dataclass(slots=True)
class StepBatch:
    """Answer an update of many bodies at once; axis 0 is the body."""

    readings: Mapping[str, Array]  # sensor id -> array `[bodies, *shape]`
    rewards: Mapping[str, Array]  # reward id -> array `[bodies, *shape]`
    # One boolean, or one per body; with several bodies one alone is the environment's own, and means all.
    terminated: Array | bool = False
    truncated: Array | bool = False  # likewise
    simtime: SimTime | None = None  # None counts the updates of this episode as ticks
    over: End | None = None  # as of EnvironmentState, likewise `retired`
    retired: Mapping[Coordinate, End] | None = None  # (agent, b) -> `terminated` or `truncated`
    # (agent, b) of each body that takes part from the next step on, as of EnvironmentState; `begin_batch` is asked for
    # its first readings behind this step.
    spawned: Sequence[Coordinate] = ()
    # Whether bodies decide before the next step, (bodies,) bool, whatever their `decision` says; None leaves it to
    # that.
    wants: Array | None = None
    group_rewards: Mapping[str, float] | None = None  # as of EnvironmentState
    # Actuator id -> array `[bodies, *shape]`, the values applied in place of the given setpoints: these are stored, and
    # count as the setpoints for muscles, memories and brains; a muscle's own proposal is stored beside them. None: the
    # given setpoints.
    applied: Mapping[str, Array] | None = None
    # With `applied`, in a phase with bodies: the policy and version that chose each, None and -1 if unknown.
    policies: Sequence[tuple[str | None, int]] | None = None


class Reward(Part, ABC):
    """Compute rewards from the state of an environment, in its process.

    Called once after each update; the result replaces the rewards. If the environment itself called `self.reward`
    during the update, that result counts and there is no second call.

    In a phase with bodies there is one object for each body, which receives the body's readings and rewards, or, if
    `batched` is true, one object for all; the environment has no `self.reward` then.
    """

    batched: ClassVar[bool] = False  # whether `rewards_batch` is called instead, in a phase with bodies
    # Which bodies of the environment take part in a step, or begin an episode with `reset`.
    rows: Array = np.zeros(0, np.int64)

    def declare(self, rewards: list[RewardInformation]) -> list[RewardInformation]:
        """Return the rewards of one body without values, in a phase with bodies.

        `rewards` are the environment's own, and the default.
        """
        return rewards

    def rewards_batch(self, step: StepBatch) -> Mapping[str, Array]:
        """Return the rewards of many bodies, id -> `[bodies, *shape]`; flags of the step are one per body."""
        raise NotImplementedError(f"{type(self).__name__} says batched = True and has no rewards_batch")

    @abstractmethod
    def __call__(self, state: EnvironmentState) -> RewardInformation | list[RewardInformation]:
        """Return the rewards of the step that led to `state`, one or several; the same ids in every step."""

    def reset(self) -> None:
        """Begin the next episode; called with the environment's `reset`."""


class StateTransformer(Part, ABC):
    """Change an environment's state after its reward, for agents, conditions and the store.

    A transformer may not change the flags. With bodies there is, as of `Reward`, one object for each, or a `batched`
    one for all; the world's state as objects leave it is stored by body.
    """

    baseline: ClassVar[bool] = False  # whether the state of decision 0 is transformed, too
    batched: ClassVar[bool] = False
    rows: Array = np.zeros(0, np.int64)

    def transform_batch(self, step: StepBatch) -> StepBatch:
        """Return the transformed step of many bodies, with the same ids; at a begin the step has no rewards."""
        raise NotImplementedError(f"{type(self).__name__} says batched = True and has no transform_batch")

    @abstractmethod
    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        """Return the transformed state: a new one, or the given one, of which all but the flags may be changed."""

    def reset(self) -> None:
        """Begin the next episode; called with the environment's `reset`."""


class Environment(Part, ABC):
    """The world of one worker for one phase.

    `start_environment` opens the first episode of a phase, `reset` each later one. `update` is called once per step,
    and not after an episode has ended. Declarations (ids, spaces, order) must not change between episodes. Every method
    may be a plain function or `async def`.

    With `save_state() -> Mapping[str, Array]` and `load_state(state)` (both or neither, see `Part`) a lost environment
    is restored within an episode; without them its successor replays the episode from its beginning. `save_state` may
    be called after any `update`, `reset` or `start_environment` and changes nothing; a value that is not plain ends the
    run with its path. `load_state` is called after `start_environment`; the bus restores `episode`, `done`, `rng`, the
    generators of `random` and numpy, and the streams of the declared spaces. A later difference is detected and named.

    An episode is a function of the parameters, the request of `reset`, and `rng`, whose stream continues over episodes.
    A successor gets `rng` as before the `reset`, and the same request; state that an object keeps from earlier episodes
    is lost. `reset.same-seed` of `ganglion env test` and `check_environment` repeat a reset that way.

    Attributes:
        topics: Messages beside the steps: `self.topics["parameters"].get("gravity", 9.8)`,
            `self.topics["stats"].add("height", 1.5)`; see `Topics`. Available in `__init__`; messages of `shutdown` are
            dropped.
    """

    batched: ClassVar[bool] = False  # whether `update_batch` is called instead of `update`
    TOPICS: ClassVar[Sequence[str]] = ()  # names of topics of its own
    # The bodies in a phase with bodies, by agents and b: the rows of all arrays. Without: empty. Rows of bodies
    # that were spawned in this episode follow those of the document: an ended body keeps its row until the row is
    # needed again, and b is -1 for a row without a body so far.
    bodies: Sequence[Body] = ()
    # Agent -> the greatest number of its bodies here in this run; a spawned body has a greater one.
    used: Mapping[str, int] = MappingProxyType({})
    each: bool = False  # whether each body has episodes of its own
    # In `update_batch`, the bodies that take part, (m,) int64 ascending. Informations name theirs by `body`.
    rows: Array = np.zeros(0, np.int64)
    index: int = 0  # the place of the environment in the phase, from 0
    episode: int = 0  # number of the running episode in this worker, from 0
    # The reward of the document, which may be called during `update`; None if there is none.
    reward: Reward | None = None
    sensors: Sequence[SensorInformation] = ()  # the declared sensors, once `start_environment` has returned
    actuators: Sequence[ActuatorInformation] = ()  # the declared actuators, likewise
    done: bool = False  # whether the running episode has ended

    @cached_property
    def topics(self) -> Topics:
        """Return topics for an object made by hand; the bus sets its own."""
        return Topics(type(self).TOPICS)

    @abstractmethod
    def start_environment(self) -> EnvironmentBaseline | Started | Awaitable[EnvironmentBaseline | Started]:
        """Open the first episode; return the declarations with the readings of decision 0.

        A tuple of sensors and actuators counts as a baseline. An id that is declared twice, a reading outside its
        space and an actuator without a value are errors of the environment.
        """

    @abstractmethod
    def update(
        self, actuators: list[ActuatorInformation]
    ) -> EnvironmentState | Stepped | Awaitable[EnvironmentState | Stepped]:
        """Apply the setpoints and advance by one step.

        Args:
            actuators: The setpoints of this step in declared order, without actuators that no agent sets in this step.

        Returns:
            The state after the step; a tuple of sensors, rewards and a boolean stands for one that is terminated if the
            boolean is true. A sensor or reward that is missing, undeclared or without value, a value outside its space,
            an infinite reward and a time that falls are errors of the environment.
        """

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch | Awaitable[StepBatch]:
        """Apply the setpoints of many bodies; called instead of `update` if `batched` is true.

        Args:
            setpoints: Actuator id -> array `[bodies, *shape]` of the dtype of its space, a Tuple or Dict as its vector;
                an actuator that is not set in this step is left out.

        Returns:
            The state after the step, with all declared sensors.
        """
        raise NotImplementedError(f"{type(self).__name__} says batched = True and has no update_batch")

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array] | Awaitable[Mapping[str, Array]]:
        """Begin an episode of each of these bodies; called in a phase with bodies if `batched` is true.

        A call for all bodies follows `start_environment`, whose readings are ignored, and replaces `reset`. With
        `episode_end: each` a call for some bodies is within the step in which they ended. A call for spawned bodies
        follows the step: `bodies` names them, and arrays of the object may have to grow.

        Args:
            rows: The bodies that begin, (k,) int64 ascending; spawned ones in the order in which they were named.
            seeds: One per row, in [0, 2**63): an episode is a function of the parameters and its seed.

        Returns:
            Sensor id -> first readings, `[k, *shape]`.
        """
        raise NotImplementedError(f"{type(self).__name__} has several bodies and no begin_batch")

    def reset(self, request: ResetRequest) -> EnvironmentBaseline | Started | Awaitable[EnvironmentBaseline | Started]:
        """Open the next episode; the default is `shutdown` and then `start_environment`.

        Returns:
            As `start_environment`; a changed declaration is an error that names the difference.
        """
        closed = self.shutdown()
        if isawaitable(closed):
            return self._start_after(closed)
        _check_closed(closed)
        return self.start_environment()

    async def _start_after(self, closed: Awaitable[Any]) -> EnvironmentBaseline | Started:
        _check_closed(await closed)
        started = self.start_environment()
        return await started if isawaitable(started) else started

    def shutdown(self) -> bool | Awaitable[bool | None] | None:
        """Release resources; called at the end of a phase, and by the default `reset`.

        Returns:
            True or None. False means failure, and is an error of the environment.
        """
        return None

    @classmethod
    def longest_episode(cls, **params: Any) -> int | None:
        """Return the most steps of an episode with these parameters; None is unknown.

        Called without an object, to warn of conditions that can never fire.
        """
        return None


def _check_closed(result: Any) -> None:
    if result is not None and not result:
        raise AuthorError(f"shutdown: expected None or True, found {result!r:.80}: it says that it failed")
