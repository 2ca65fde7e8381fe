"""Information: a reading, setpoint or reward with its space and id; flags of an end; statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import NoneType
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import (
    AuthorError,
    OutOfActionSpaceError,
    OutOfObservationSpaceError,
    OutOfRewardSpaceError,
    SpaceError,
)
from ganglion.sdk.spaces import Discrete, Mask, Space

Coordinate = tuple[str, int]
I = TypeVar("I", bound="Information")  # noqa: E741 - stands for Information

_UNGIVEN: Any = object()


class Information:
    """Hold a value that its space contains.

    `x()` reads the value and `x(v)` sets it; so does the attribute `value`. None is "not set", which is refused when it
    is sent.

    Raises:
        SpaceError: The space does not contain the value, or is no space; the subclass depends on the kind of
        information. The earlier value stays.
    """

    __slots__ = ("_value", "body", "space", "uid", "value_ids")

    what: ClassVar[str] = "value"
    refusal: ClassVar[type[SpaceError]] = SpaceError

    _value: Any
    space: Space  # the possible values
    uid: str  # local inside an environment (`3`), full outside (`grid.3`); an integer becomes its text
    value_ids: Sequence[str] | None  # names of the components of an array value, in C order; None for none
    body: Coordinate | None  # (agent, number) in a phase with bodies, else None

    def __init__(
        self,
        value: Any,
        space: Space,
        uid: str | int,
        value_ids: Sequence[str] | None = None,
        body: Coordinate | None = None,
    ) -> None:
        self.space = space
        self.uid = uid if type(uid) is str else str(uid)
        self.value_ids = value_ids
        self.body = body
        if value is None:
            self._check_space()
        else:
            try:  # inlined `_set`: this runs for each value of each step
                if type(value) is not space._exact or not space._low <= value <= space._high:  # noqa: SLF001
                    contained = space.contains(value)
                else:
                    contained = True
            except AttributeError:
                self._check_space()
                raise
            if not contained:
                raise self._refuse(value)
        self._value = value

    def _check_space(self) -> None:
        if not isinstance(self.space, Space):
            raise self.refusal(f"{self.what} {self.uid}: expected a space, found {self.space!r:.200}")

    def _set(self, value: Any) -> None:
        space = self.space
        exact = type(value) is space._exact and space._low <= value <= space._high  # noqa: SLF001
        if not exact and value is not None and not space.contains(value):
            raise self._refuse(value)
        self._value = value

    # Reading calls no function: it happens for each value of each step.
    value = property(attrgetter("_value"), _set, doc="The value; setting one that the space does not contain raises.")

    @overload
    def __call__(self) -> Any: ...
    @overload
    def __call__(self, value: Any) -> None: ...
    def __call__(self, value: Any = _UNGIVEN) -> Any:
        """Return the value, or set it if one is given."""
        if value is _UNGIVEN:
            return self._value
        self.value = value
        return None

    def _refuse(self, value: Any) -> SpaceError:
        where = self.uid if self.body is None else f"{self.uid} of body {self.body[0]}/{self.body[1]}"
        return self.refusal(f"{self.what} {where}: expected a value of {self.space!r:.200}, found {value!r:.200}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r}, {self.space!r}, uid={self.uid!r})"


class SensorInformation(Information):
    """Hold one reading of a sensor; a value out of its space raises `OutOfObservationSpaceError`."""

    __slots__ = ()
    what = "reading"
    refusal = OutOfObservationSpaceError


class ActuatorInformation(Information):
    """Hold one setpoint of an actuator; a value out of its space raises `OutOfActionSpaceError`.

    Attributes:
        mask: The values of a Discrete space that the muscle may set now, (n,) bool; None: all.
    """

    __slots__ = ("_mask",)
    what = "setpoint"
    refusal = OutOfActionSpaceError
    _mask: NDArray[np.bool_]

    @property
    def mask(self) -> NDArray[np.bool_] | None:  # noqa: D102 - above
        return getattr(self, "_mask", None)

    @mask.setter
    def mask(self, mask: NDArray[np.bool_]) -> None:
        self._mask = mask

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a random value of the space that the mask allows."""
        if self.mask is None:
            return self.space.sample(rng)
        return int(self.space._low + rng.choice(np.flatnonzero(self.mask)))  # noqa: SLF001


class RewardInformation(Information):
    """Hold one reward; a value out of its space raises `OutOfRewardSpaceError`.

    >>> from ganglion.sdk import Box
    >>> RewardInformation(2.0, Box(0, 1), "gain")
    Traceback (most recent call last):
    ganglion.errors.OutOfRewardSpaceError: reward gain: expected a value of Box(low=0.0, ...), found 2.0
    """

    __slots__ = ()
    what = "reward"
    refusal = OutOfRewardSpaceError


class Template(Generic[I]):
    """Make the informations of each step from values in declared order."""

    __slots__ = ("_nothing", "_rows", "uids")

    def __init__(self, declared: Iterable[I]) -> None:
        self._rows = [(type(it), it.space, it.uid, it.value_ids, it.body) for it in declared]
        self.uids: tuple[str, ...] = tuple(row[2] for row in self._rows)
        self._nothing = (None,) * len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def fill(self, values: Sequence[Any]) -> list[I]:
        """Return new informations with these values (None is not set); SpaceError for a misfit or another number."""
        if len(values) != len(self._rows):
            raise SpaceError(f"expected {len(self._rows)} values in declared order, found {len(values)}")
        for (kind, space, uid, value_ids, body), value in zip(self._rows, values, strict=True):
            if value is not None and not space.contains(value):
                kind(value, space, uid, value_ids, body)  # refuses it by its id
        return self.hold(values)

    def hold(self, values: Sequence[Any]) -> list[I]:
        """Return new informations with values known to be contained, or None; nothing is checked."""
        found: list[I] = []
        for (kind, space, uid, value_ids, body), value in zip(self._rows, values, strict=True):
            information = kind.__new__(kind)
            information.space = space
            information.uid = uid
            information.value_ids = value_ids
            information.body = body
            information._value = value  # noqa: SLF001
            found.append(information)
        return found

    def empty(self) -> list[I]:
        """Return new informations whose values are not set."""
        return self.hold(self._nothing)


def mask_columns(sensors: Iterable[Information], actuators: Iterable[Information]) -> dict[str, slice]:
    """Return the columns of the actuators' masks in observations of these sensors: id -> columns, 1 for allowed values.

    A mask is a sensor whose space is the Mask of a Discrete actuator.
    """
    spaces = {it.uid: it.space for it in actuators}
    found: dict[str, slice] = {}
    begin = 0
    for it in sensors:
        if isinstance(it.space, Mask):
            of = it.space.of
            whose = [
                uid
                for uid, space in spaces.items()  # full ids have the environment's uid before the declared id
                if uid == of or (uid.endswith(f".{of}") and it.uid.startswith(uid.removesuffix(of)))
                if isinstance(space, Discrete) and space.n == it.space.size
            ]
            if whose:
                found[min(whose, key=len)] = slice(begin, begin + it.space.size)
        begin += it.space.size
    return found


Flag = bool | np.bool_ | None
FlagArray = NDArray[Any]


@overload
def bootstrap_mask(done: Flag, terminated: Flag = None, truncated: Flag = None) -> float: ...
@overload
def bootstrap_mask(
    done: FlagArray, terminated: FlagArray | None = None, truncated: FlagArray | None = None
) -> NDArray[np.float64]: ...
def bootstrap_mask(done: Any, terminated: Any = None, truncated: Any = None) -> Any:
    """Return 1.0 where the value of the next readings counts, 0.0 where no future exists.

    The target of a decision is `reward + discount * mask * V(next readings)`: a truncated decision, also one that was
    cut by a condition or a signal, bootstraps; a terminated one does not. Each flag is a boolean, or an array or list
    of booleans; None is unknown.

    Returns:
        A float for scalars, for arrays a float64 array of their common shape: 1.0 where not done; 0.0 where terminated;
        1.0 where truncated; 0.0 where done and neither is known.

    >>> bootstrap_mask([False, True, True], terminated=[False, True, False], truncated=[False, False, True])
    array([1., 0., 1.])

    Source: Pardo et al. (2018), Time limits in reinforcement learning, section 3.
    """
    if not any(isinstance(flag, np.ndarray | list | tuple) for flag in (done, terminated, truncated)):
        return 1.0 if not done or (truncated and not terminated) else 0.0
    shape = np.broadcast_shapes(*(np.shape(it) for it in (done, terminated, truncated) if it is not None))
    over = np.broadcast_to(np.asarray(done), shape).astype(bool)
    # None and NaN stand for unknown: they equal nothing.
    ended, cut = (np.broadcast_to(np.asarray(flags) == True, shape) for flags in (terminated, truncated))  # noqa: E712
    return np.where(~over | (cut & ~ended), 1.0, 0.0)


_PLAIN_FLAGS = {bool, NoneType}


@dataclass(frozen=True, slots=True)
class Group:
    """Name the bodies of an agent whose sensors and actuators have equal local ids and spaces, in one order.

    >>> group = Group(sensors=[], actuators=[], bodies=[("ada", "arena", 0), ("ada", "arena", 1)])
    >>> [number for agent, environment, number in group.bodies]
    [0, 1]
    """

    sensors: Sequence[SensorInformation]  # of each of them, without values
    actuators: Sequence[ActuatorInformation]  # likewise; each carries its no-op
    bodies: Sequence[Any]  # their coordinates (agent, environment, b)


def resolve_flags(done: bool | None, terminated: bool | None, truncated: bool | None) -> tuple[bool, bool]:
    """Return `(terminated, truncated)` from the flags that an environment gave.

    `done` alone means terminated. If one of the others is known to be False, it means the remaining one.

    >>> resolve_flags(True, None, None), resolve_flags(True, False, None), resolve_flags(None, False, False)
    ((True, False), (False, True), (False, False))

    Raises:
        AuthorError: Both are true; `done` is true and both others are false; `done` is false and one of them true; one
            is neither true nor false.
    """
    if type(done) not in _PLAIN_FLAGS or type(terminated) not in _PLAIN_FLAGS or type(truncated) not in _PLAIN_FLAGS:
        done, terminated = _flag("done", done), _flag("terminated", terminated)
        truncated = _flag("truncated", truncated)
    if terminated and truncated:
        raise AuthorError("terminated and truncated exclude each other: found both true")
    ended = terminated or truncated
    if ended and done is not None and not done:
        raise AuthorError(
            f"done follows from terminated and truncated: found done=False, terminated={terminated}, "
            f"truncated={truncated}"
        )
    if ended or not done:
        return bool(terminated), bool(truncated)
    if terminated is None:
        return True, False
    if truncated is None:
        return False, True
    raise AuthorError("done=True needs terminated or truncated: found both False")


def _flag(name: str, flag: Any) -> bool | None:
    """Return a flag that may be a number or an array of one."""
    if flag is None or flag is True or flag is False:
        return flag
    try:
        return bool(flag)
    except (TypeError, ValueError) as error:
        raise AuthorError(f"{name}: expected a boolean, found {flag!r:.80}") from error


class Statistics:
    """Collect numbers by key until the bus takes them."""

    _noted: dict[str, float] | None = None

    def add_statistics(self, key: str, value: float, allow_overwrite: bool = False) -> None:
        """Add a number, also infinity or NaN, for the table `actions`.

        A muscle's number is stored with its current decision, a brain's as `brain.<key>` with the decision of
        `thinking`: in `learn` with the first row of the round, if rounds overlap (`sync`: pipelined, async) with the
        next decision. A brain's numbers before its first row are stored with that row, those after its last answer are
        not stored.

        Raises:
            AuthorError: The key was added since the last `pop_statistics`, without `allow_overwrite`, or is no text;
                the value is no number. Earlier numbers stay.
        """
        if not isinstance(key, str):
            raise AuthorError(f"statistics: expected a text as key, found {key!r:.80}")
        if self._noted is None:
            self._noted = {}
        if key in self._noted and not allow_overwrite:
            raise AuthorError(f"statistics {key!r}: noted twice; allow_overwrite=True replaces the first")
        try:
            self._noted[key] = float(value)
        except (TypeError, ValueError) as error:
            raise AuthorError(f"statistics {key!r}: expected a number, found {value!r:.80}") from error

    def pop_statistics(self) -> dict[str, float]:
        """Return and remove the numbers added since the last call."""
        noted, self._noted = self._noted or {}, None
        return noted
