"""Values: spaces, informations and times of palaestrAI from ours, and ours from those of palaestrAI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from palaestrai import types as theirs
from palaestrai.agent import ActuatorInformation as TheirActuator
from palaestrai.agent import RewardInformation as TheirReward
from palaestrai.agent import SensorInformation as TheirSensor

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Information,
    MultiBinary,
    MultiDiscrete,
    RewardInformation,
    SensorInformation,
    SimTime,
    Space,
    SpaceError,
    Tuple,
)

__all__ = ["local", "our_information", "our_space", "our_time", "our_value", "their_information", "their_space"]

I = TypeVar("I", bound=Information)  # noqa: E741 - stands for Information


def our_space(space: Any) -> Space:
    """Return our space of the same values as one of palaestrAI.

    Raises:
        SpaceError: There is none.
    """
    if isinstance(space, theirs.Box):
        return Box(space.low, space.high, space.shape, space.dtype)
    if isinstance(space, theirs.Discrete):
        return Discrete(int(space.n), start=int(space.start))
    if isinstance(space, theirs.MultiDiscrete):
        return MultiDiscrete(space.nvec, start=space.start)
    if isinstance(space, theirs.MultiBinary):
        return MultiBinary(space.shape)
    if isinstance(space, theirs.Tuple):
        return Tuple([our_space(part) for part in space.spaces])
    raise SpaceError(f"expected a space of palaestrai.types, found {space!r:.200}")


def their_space(space: Space) -> Any:
    """Return palaestrAI's space of the same values as one of ours.

    Raises:
        SpaceError: There is none: palaestrAI has no Dict, and no MultiDiscrete that does not begin with 0.
    """
    if isinstance(space, Box):
        return theirs.Box(np.asarray(space.low), np.asarray(space.high), space.shape, space.dtype.type)
    if isinstance(space, Discrete):
        return theirs.Discrete(space.n, start=space.start)
    if isinstance(space, MultiDiscrete) and not np.any(space.start):
        return theirs.MultiDiscrete(np.asarray(space.nvec))
    if isinstance(space, MultiBinary):
        return theirs.MultiBinary(space.shape)
    if isinstance(space, Tuple):
        return theirs.Tuple([their_space(part) for part in space.spaces])
    raise SpaceError(f"expected a space that palaestrAI has too, found {space!r:.200}")


def our_value(value: Any) -> Any:
    """Return a value of palaestrAI's as ours take it: arrays of one element stay arrays."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.shape == ()):
        return value.item()
    if isinstance(value, tuple | list):
        return type(value)(our_value(part) for part in value)
    return value


def their_value(space: Any, value: Any) -> Any:
    """Return a value of ours in the form that their counterpart of a space has, of its own memory."""
    if value is None:
        return None
    if isinstance(space, theirs.Tuple):
        return tuple(their_value(part, item) for part, item in zip(space.spaces, value, strict=True))
    if space.shape == ():
        return space.dtype.type(value)
    return np.array(value, dtype=space.dtype).reshape(space.shape)


_KINDS: dict[type[Any], type[Information]] = {
    TheirSensor: SensorInformation,
    TheirActuator: ActuatorInformation,
    TheirReward: RewardInformation,
}


def local(uid: Any, prefix: str = "") -> str:
    """Return an id as text, without the uid of its environment."""
    return str(uid).removeprefix(prefix)


def our_information(kind: type[I], given: Iterable[Any], prefix: str, spaces: dict[str, Space]) -> list[I]:
    """Return informations of palaestrAI as ours.

    Args:
        kind: Which of ours.
        given: Theirs, or ours, which stay.
        prefix: Taken off from ids.
        spaces: By id; the first one that comes stays.
    """
    found: list[I] = []
    for it in given:
        if isinstance(it, kind):
            found.append(it)
            continue
        if _KINDS.get(type(it)) is not kind and not any(isinstance(it, t) for t, k in _KINDS.items() if k is kind):
            raise TypeError(f"expected {kind.__name__}s, found a {type(it).__name__}: {it!r:.100}")
        uid = local(it.uid, prefix)
        space = spaces.get(uid)
        if space is None:
            space = spaces[uid] = our_space(it.space)
        names = getattr(it, "value_ids", None)
        found.append(kind(our_value(it.value), space, uid, None if names is None else [str(name) for name in names]))
    return found


def their_information(
    kind: Callable[..., Any], given: Iterable[Information], spaces: dict[str, Any], values: Sequence[Any] | None = None
) -> list[Any]:
    """Return informations of ours as those of palaestrAI.

    Args:
        kind: Class of theirs.
        given: Ours.
        spaces: Theirs by id; made where one lacks.
        values: In place of those of `given`.
    """
    found = []
    for i, it in enumerate(given):
        space = spaces.get(it.uid)
        if space is None:
            space = spaces[it.uid] = their_space(it.space)
        value = it.value if values is None else values[i]
        names = getattr(it, "value_ids", None)
        found.append(kind(value=their_value(space, value), space=space, uid=it.uid, **_named(kind, names)))
    return found


def _named(kind: Callable[..., Any], names: Sequence[str] | None) -> dict[str, Any]:
    return {} if names is None or kind is TheirReward else {"value_ids": list(names)}


def our_time(time: Any) -> SimTime | None:
    """Return a simulated time of palaestrAI as ours; None is none."""
    return None if time is None else SimTime(time.simtime_ticks, time.simtime_timestamp)
