"""Information: one reading, setpoint or reward with its space and id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, overload

from ganglion.errors import (
    OutOfActionSpaceError,
    OutOfObservationSpaceError,
    OutOfRewardSpaceError,
    SpaceError,
)
from ganglion.sdk.spaces.space import Space

__all__ = ["ActuatorInformation", "Information", "RewardInformation", "SensorInformation", "Template"]

Coordinate = tuple[str, int]
I = TypeVar("I", bound="Information")  # noqa: E741 - stands for Information

_UNGIVEN: Any = object()


class Information:
    """Hold a value that its space contains.

    `x()` reads the value and `x(v)` sets it; the attribute `value` does both too.

    Args:
        value: None is "not set", which is refused when it is sent.
        space: What the value can be.
        uid: Local inside an environment (`3`), full outside (`grid.3`); an integer becomes its text.
        value_ids: Names of the components of an array value, in C order; None where they have none.
        body: `(agent, number)` in a phase with bodies, else None.

    Raises:
        SpaceError: The space does not contain the value, or is none; the class of it says what was set. On setting,
            the value before stays.
    """

    __slots__ = ("_value", "body", "space", "uid", "value_ids")

    what: ClassVar[str] = "value"
    refusal: ClassVar[type[SpaceError]] = SpaceError

    _value: Any
    space: Space
    uid: str
    value_ids: Sequence[str] | None
    body: Coordinate | None

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
            try:
                contained = space.contains(value)
            except AttributeError:  # no check of its own: this runs for each value of each step
                self._check_space()
                raise
            if not contained:
                raise self._refuse(value)
        self._value = value

    def _check_space(self) -> None:
        if not isinstance(self.space, Space):
            raise self.refusal(f"{self.what} {self.uid}: expected a space, found {self.space!r:.200}")

    @property
    def value(self) -> Any:
        """The value; setting one that the space does not contain raises."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        if value is not None and not self.space.contains(value):
            raise self._refuse(value)
        self._value = value

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
        where = self.uid if self.body is None else f"{self.uid} of body {self.body[0]}[{self.body[1]}]"
        return self.refusal(
            f"{self.what} {where}: expected a value of {self.space!r:.200}, found {value!r:.200}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r}, {self.space!r}, uid={self.uid!r})"


class SensorInformation(Information):
    """Hold one reading of a sensor.

    Raises:
        OutOfObservationSpaceError: The space does not contain the value.
    """

    __slots__ = ()
    what = "reading"
    refusal = OutOfObservationSpaceError


class ActuatorInformation(Information):
    """Hold one setpoint of an actuator.

    Raises:
        OutOfActionSpaceError: The space does not contain the value.
    """

    __slots__ = ()
    what = "setpoint"
    refusal = OutOfActionSpaceError


class RewardInformation(Information):
    """Hold one reward.

    Raises:
        OutOfRewardSpaceError: The space does not contain the value.
    """

    __slots__ = ()
    what = "reward"
    refusal = OutOfRewardSpaceError


class Template(Generic[I]):
    """Make the informations of each step from values in declared order.

    Args:
        declared: One information per declaration; class, space, uid, value_ids and body are taken from it.
    """

    __slots__ = ("_rows", "uids")

    def __init__(self, declared: Iterable[I]) -> None:
        self._rows = [
            (type(it), it.space, it.space.contains, it.uid, it.value_ids, it.body) for it in declared
        ]
        self.uids: tuple[str, ...] = tuple(row[3] for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def fill(self, values: Sequence[Any]) -> list[I]:
        """Return new informations with these values (None is not set), each checked against its space.

        Raises:
            SpaceError: A space does not contain its value, or the number of values is another.
        """
        if len(values) != len(self._rows):
            raise SpaceError(f"expected {len(self._rows)} values in declared order, found {len(values)}")
        found: list[I] = []
        # Not by the constructor: this runs for each value of each step.
        for (kind, space, contains, uid, value_ids, body), value in zip(self._rows, values, strict=True):
            information = kind.__new__(kind)
            information.space = space
            information.uid = uid
            information.value_ids = value_ids
            information.body = body
            if value is None or contains(value):
                information._value = value  # noqa: SLF001 - checked in the line above
            else:
                information.value = value
            found.append(information)
        return found

    def empty(self) -> list[I]:
        """Return new informations whose values are not set."""
        return self.fill((None,) * len(self._rows))
