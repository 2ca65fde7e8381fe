"""Spaces: those of Gymnasium from ours, and ours from those of Gymnasium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces as theirs

from ganglion.sdk import Box, Dict, Discrete, Mask, MultiBinary, MultiDiscrete, Space, SpaceError, Tuple

__all__ = ["from_gymnasium", "to_gymnasium", "value_to_gymnasium"]


def to_gymnasium(space: Space) -> theirs.Space[Any]:
    """Return Gymnasium's space of the same values.

    Raises:
        TypeError: There is none: a Ragged has no fixed shape. A Mask is a MultiBinary.
    """
    if isinstance(space, Box):
        return theirs.Box(space.low, space.high, space.shape, space.dtype.type)
    if isinstance(space, Discrete):
        return theirs.Discrete(space.n, start=space.start)
    if isinstance(space, MultiDiscrete):
        return theirs.MultiDiscrete(space.nvec, start=space.start)
    if isinstance(space, MultiBinary):
        return theirs.MultiBinary(space.shape)
    if isinstance(space, Tuple):
        return theirs.Tuple([to_gymnasium(part) for part in space.spaces])
    if isinstance(space, Dict):
        return theirs.Dict({name: to_gymnasium(part) for name, part in space.spaces.items()})
    raise TypeError(f"expected a space that Gymnasium has too, found {space!r:.200}")


def from_gymnasium(space: theirs.Space[Any]) -> Space:
    """Return our space of the same values.

    Raises:
        SpaceError: There is none: Text, Graph, Sequence and OneOf have no fixed number of columns. The message names
            kind and, in a Tuple or Dict, place.
    """
    return _from_gymnasium(space, "")


def _from_gymnasium(space: theirs.Space[Any], at: str) -> Space:
    if isinstance(space, theirs.Box):
        return Box(space.low, space.high, space.shape, space.dtype)
    if isinstance(space, theirs.Discrete):
        return Discrete(int(space.n), start=int(space.start))
    if isinstance(space, theirs.MultiDiscrete):
        return MultiDiscrete(space.nvec, start=space.start)
    if isinstance(space, theirs.MultiBinary):
        return MultiBinary(space.shape)
    if isinstance(space, theirs.Tuple):
        return Tuple([_from_gymnasium(part, f"{at}[{i}]") for i, part in enumerate(space.spaces)])
    if isinstance(space, theirs.Dict):
        return Dict({name: _from_gymnasium(part, f"{at}.{name}") for name, part in space.spaces.items()})
    raise SpaceError(
        f"Gymnasium's {type(space).__name__}{f' at {at}' if at else ''} has no counterpart; expected Box, Discrete, "
        "MultiDiscrete, MultiBinary, Tuple or Dict"
    )


def value_to_gymnasium(space: Space, value: Any) -> Any:
    """Return a value of our `space` in the form that Gymnasium's counterpart contains, of its own memory."""
    convert = _CONVERT.get(type(space))
    if convert is None:
        raise TypeError(f"expected a space of ganglion.sdk, found {space!r}")
    return convert(space, value)


def _array(space: Any, value: Any) -> np.ndarray[Any, Any]:
    return np.array(value, dtype=space.dtype).reshape(space.shape)


def _parts(space: Any, value: Any) -> tuple[Any, ...]:
    return tuple(value_to_gymnasium(part, item) for part, item in zip(space.spaces, value, strict=True))


def _named(space: Any, value: Any) -> dict[str, Any]:
    return {name: value_to_gymnasium(part, value[name]) for name, part in space.spaces.items()}


_CONVERT: dict[type[Space], Callable[[Any, Any], Any]] = {
    Box: _array,
    Discrete: lambda _, value: np.int64(value),
    MultiDiscrete: _array,
    MultiBinary: _array,
    Mask: _array,
    Tuple: _parts,
    Dict: _named,
}
