"""Codec: the flat vectors of the bus as observations and actions of Stable-Baselines3, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first

from ganglion.sdk import ActuatorInformation, Box, Discrete, MultiBinary, MultiDiscrete, Space
from ganglion_gymnasium import to_gymnasium
from ganglion_learners import Choices, refuse_outside

__all__ = ["Actions", "Observations"]

Array = NDArray[Any]
Convert = Callable[[Array], Array]


class Observations:
    """Turn rows of readings, each sensor as the vector of its space, into what a policy takes.

    One sensor is what it is: Box (0-d becomes (1,), images get their channels first), Discrete, MultiDiscrete,
    MultiBinary. Several are, for `MultiInputPolicy`, a Dict of these; else one flat Box of float32, Discrete
    and MultiDiscrete one-hot.

    Args:
        sensors: (id, space) in declared order.
        as_dict: Whether they are a Dict.

    Attributes:
        space: What the policy sees.

    Raises:
        ValueError: There is no sensor, or a Tuple or Dict; the message names it.
    """

    space: spaces.Space[Any]

    def __init__(self, sensors: Sequence[tuple[str, Space]], as_dict: bool) -> None:
        if not sensors:
            raise ValueError("sb3 needs at least one sensor")
        _check("sensor", sensors)
        self._slices = _slices([space for _, space in sensors])
        self._names: list[str] | None = None
        if as_dict:
            parts = [_part(space) for _, space in sensors]
            # By place: torch allows no dots in the names of modules.
            self._names = [f"sensor_{place}" for place in range(len(sensors))]
            self.space = spaces.Dict(dict(zip(self._names, [space for space, _ in parts], strict=True)))
        elif len(sensors) == 1:
            parts = [_part(sensors[0][1])]
            self.space = parts[0][0]
        else:
            parts = [_flat(space) for _, space in sensors]
            boxes = [space for space, _ in parts]
            low, high = (np.concatenate([getattr(box, side) for box in boxes]) for side in ("low", "high"))
            self.space = spaces.Box(low, high, dtype=np.float32)
        self._converts = [convert for _, convert in parts]

    def __call__(self, rows: Array) -> Any:
        """Return `[k, n]` as an array of observations or a dict of them, axis 0 the row."""
        parts = [convert(rows[:, at]) for convert, at in zip(self._converts, self._slices, strict=True)]
        if self._names is not None:
            return dict(zip(self._names, parts, strict=True))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


class Actions:
    """Turn actions into rows of setpoints, and back.

    One actuator is what it is (a 0-d Box becomes (1,), MultiDiscrete and MultiBinary flat). Several Boxes are one
    flat Box, several Discrete a MultiDiscrete.

    Attributes:
        space: What the policy chooses from.

    Raises:
        ValueError: There is no actuator, kinds are mixed, a Box has no finite bounds, or one is a Tuple or Dict.
    """

    space: spaces.Space[Any]

    def __init__(self, actuators: Sequence[tuple[str, Space]]) -> None:
        if not actuators:
            raise ValueError("sb3 needs at least one actuator")
        _check("actuator", actuators)
        found = [space for _, space in actuators]
        for name, space in actuators:
            if isinstance(space, Box) and not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
                raise ValueError(f"actuator {name}: sb3 needs finite bounds, found {space!r:.200}")
        self._low, self._high = (
            np.concatenate([np.ravel(getattr(space, side, 0.0)) for space in found]).astype(np.float64)
            for side in ("low", "high")
        )
        self.space = _choice(actuators)
        informations = [ActuatorInformation(None, space, name) for name, space in actuators]
        self._choices = None if isinstance(self.space, spaces.Box) else Choices(informations)

    def check(self, rows: Array) -> None:
        """Refuse setpoints, `[k, m]`, of which one is none of the actuators'; ValueError names the first."""
        if self._choices is not None:
            self._choices.check(rows)
        else:
            refuse_outside(rows, self._low, self._high)

    def setpoints(self, actions: Array) -> Array:
        """Return actions `[k, *shape]` as rows `[k, m]`."""
        rows = np.reshape(actions, (len(actions), -1))
        if self._choices is None:
            # Scaling may leave the bounds by the last bit, and ours are of 64 bits.
            return np.clip(rows.astype(np.float64), self._low, self._high)
        shifted: Array = rows + self._choices.starts
        return shifted

    def actions(self, rows: Array) -> Array:
        """Return rows of setpoints `[k, m]` as actions."""
        shift = 0 if self._choices is None else self._choices.starts
        found: Array = (rows - shift).astype(self.space.dtype)
        return found.reshape(len(rows), *(self.space.shape or ()))


def _check(what: str, informations: Sequence[tuple[str, Space]]) -> None:
    for name, space in informations:
        if not isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary):
            raise ValueError(
                f"{what} {name}: sb3 takes Box, Discrete, MultiDiscrete and MultiBinary, found {space!r:.200}"
            )


def _slices(found: Sequence[Space]) -> list[slice]:
    ends = np.cumsum([0, *(space.size for space in found)]).tolist()
    return [slice(begin, end) for begin, end in pairwise(ends)]


def _choice(actuators: Sequence[tuple[str, Space]]) -> spaces.Space[Any]:
    """Return the space of all actuators together."""
    found = [space for _, space in actuators]
    first = found[0]
    if len(found) == 1 and isinstance(first, Box | Discrete):
        return _part(first)[0]
    if len(found) == 1 and isinstance(first, MultiBinary):
        return spaces.MultiBinary(first.size)  # flat: algorithms take no other shape
    if len(found) == 1:
        return spaces.MultiDiscrete(np.ravel(first.nvec))  # type: ignore[attr-defined]
    if all(isinstance(space, Box) for space in found):
        low, high = (np.concatenate([np.ravel(getattr(it, side)) for it in found]) for side in ("low", "high"))
        return spaces.Box(low.astype(np.float32), high.astype(np.float32))
    if all(isinstance(space, Discrete) for space in found):
        return spaces.MultiDiscrete([int(space.n) for space in found])  # type: ignore[attr-defined]
    kinds = ", ".join(f"{name} {type(space).__name__}" for name, space in actuators)
    raise ValueError(f"several actuators of sb3 are all Box or all Discrete, found {kinds}")


def _part(space: Space) -> tuple[spaces.Space[Any], Convert]:
    """Return a space as it is alone, and how its columns become observations."""
    if isinstance(space, Box):
        found = to_gymnasium(space if space.shape else Box(space.low, space.high, (1,), space.dtype))
        assert isinstance(found, spaces.Box)
        shape, dtype = found.shape, found.dtype
        if is_image_space(found) and not is_image_space_channels_first(found):
            low, high = np.moveaxis(found.low, -1, 0), np.moveaxis(found.high, -1, 0)
            turned = spaces.Box(low, high, dtype=found.dtype.type)
            return turned, lambda rows: np.moveaxis(rows.reshape(-1, *shape), -1, 1).astype(dtype)
        return found, lambda rows: rows.reshape(-1, *shape).astype(dtype)
    start: Any = getattr(space, "start", 0)
    if isinstance(space, Discrete):
        return spaces.Discrete(int(space.n)), lambda rows: (rows[:, 0] - start).astype(np.int64)
    if isinstance(space, MultiDiscrete):
        shape = np.shape(space.nvec)
        return spaces.MultiDiscrete(space.nvec), lambda rows: (rows.reshape(-1, *shape) - np.asarray(start)).astype(
            np.int64
        )
    assert isinstance(space, MultiBinary)
    shape = space.shape
    return spaces.MultiBinary(shape if len(shape) > 1 else space.size), lambda rows: rows.reshape(-1, *shape).astype(
        np.int8
    )


def _flat(space: Space) -> tuple[spaces.Box, Convert]:
    """Return a space as columns of one flat Box."""
    if isinstance(space, Box):
        box = spaces.Box(np.ravel(space.low).astype(np.float32), np.ravel(space.high).astype(np.float32))
        return box, lambda rows: rows.astype(np.float32)
    if isinstance(space, MultiBinary):
        return spaces.Box(0.0, 1.0, (space.size,)), lambda rows: rows.astype(np.float32)
    counts = [int(space.n)] if isinstance(space, Discrete) else np.ravel(space.nvec).tolist()  # type: ignore[attr-defined]
    starts = np.ravel(getattr(space, "start", 0))
    return spaces.Box(0.0, 1.0, (sum(counts),)), lambda rows: _one_hot((rows - starts).astype(np.int64), counts)


def _one_hot(rows: Array, counts: Sequence[int]) -> Array:
    parts = [np.eye(count, dtype=np.float32)[rows[:, i]] for i, count in enumerate(counts)]
    return np.concatenate(parts, axis=1)
