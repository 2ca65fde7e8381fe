"""Arrays: the values that batched objects of authors receive and return, by id or as matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from ganglion.errors import AuthorError
from ganglion.peer.step.layout import Array, Field, Layout
from ganglion.sdk.brain import Brain
from ganglion.sdk.environment import EnvironmentState, StepBatch
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.spaces import Box, Space
from ganglion.wire.messages import TERMINATED, TRUNCATED

_SHAPE, _ITEM = attrgetter("shape"), methodcaller("item")


def takes_arrays(muscle: type[Muscle]) -> bool:
    """Return whether a muscle decides on arrays; the default `propose_batch` decides body by body."""
    return muscle.batched and muscle.propose_batch is not Muscle.propose_batch


def learns_arrays(brain: Brain) -> bool:
    """Return whether a brain learns from arrays; the default `learn` takes row by row."""
    return brain.batched and type(brain).learn is not Brain.learn


class Readings(Mapping[str, Array]):
    """Map ids to their columns of a matrix, sliced when read."""

    __slots__ = ("_layout", "_matrix")

    def __init__(self, layout: Layout, matrix: Array) -> None:
        self._layout = layout
        self._matrix = matrix

    def __getitem__(self, uid: str) -> Array:
        return self._layout.column(self._matrix, uid)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.ids)

    def __len__(self) -> int:
        return len(self._layout)


def field_of(what: str, layout: Layout, given: Any, bodies: int = 1, names: Sequence[str] = ()) -> Field:
    """Return a map from ids to arrays in wire form; AuthorError: an entry is unknown, missing or wrong."""
    if not isinstance(given, Mapping):
        raise AuthorError(f"{what}s: expected a map from ids to arrays, found {type(given).__name__}")
    if bodies == 1 and layout.scalar and list(given) == list(layout.ids):  # the usual case: one number in each array
        arrays = list(given.values())
        if {*map(type, arrays)} == {np.ndarray} and {*map(_SHAPE, arrays)} == {(1,)}:
            values = list(map(_ITEM, arrays))
            if layout.holds(values) and (not layout.open or all(map(math.isfinite, values))):
                return layout.field([values])
    strange = [uid for uid in given if uid not in layout.index]
    if strange:
        raise AuthorError(f"{what} {strange[0]!r} was not declared")
    columns = [_values(what, uid, space, given, bodies, names) for uid, space in layout.pairs()]
    return layout.field([[column[body] for column in columns] for body in range(bodies)])


def batch_field(what: str, layout: Layout, given: Any, names: Sequence[str]) -> Field:
    """Return a map from ids to arrays of many bodies in wire form, checked against their spaces block by block.

    Raises:
        AuthorError: An entry is unknown, missing or wrong; it names entry and body.
    """
    count = len(names)
    if (type(given) is dict or isinstance(given, Mapping)) and given.keys() == layout.index.keys():
        blocks = list(_blocks(layout, given, count))
        if len(blocks) == len(layout.runs) and layout.contains(blocks, finite=what == "reward", count=count):
            return blocks
    return field_of(what, layout, given, count, names)


_KINDS = {"sensor": SensorInformation, "reward": RewardInformation, "setpoint": ActuatorInformation}


def _blocks(layout: Layout, given: Mapping[str, Any], count: int) -> Iterator[bytes]:
    """Yield the blocks of a layout, up to one whose array has another shape or cannot be cast without loss."""
    for run in layout.runs:
        parts = []
        for uid, space in zip(layout.ids[run.first : run.end], layout.spaces[run.first : run.end], strict=True):
            part = np.asarray(given[uid])
            if part.shape != (count, *space.shape):
                return
            if part.dtype != run.dtype and not np.can_cast(part.dtype, run.dtype, "safe"):
                return
            parts.append(part if len(part.shape) == 2 else part.reshape(count, -1))
        block = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        yield block.astype(run.dtype, copy=False).tobytes()


def flags_of(terminated: Any, truncated: Any, names: Sequence[str]) -> Array:
    """Return the flags of bodies as bytes; one flag counts for every body. AuthorError: a body has both flags."""
    count, found = len(names), []
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        array = np.asarray(flag)
        if array.dtype.kind != "b" or array.shape not in ((), (count,)):
            raise AuthorError(f"{name}: expected a boolean, or one for each of {count} bodies, found {flag!r:.80}")
        found.append(array.view(np.uint8))
    flags: Array = found[0] * TERMINATED + found[1] * TRUNCATED
    if not flags.ndim:
        flags = np.full(count, flags, np.uint8)
    if TERMINATED | TRUNCATED in flags.tobytes():
        name = names[int(np.flatnonzero(flags == TERMINATED | TRUNCATED)[0])]
        raise AuthorError(f"terminated and truncated exclude each other: found both true of body {name}")
    return flags


def wants_of(wants: Any, count: int) -> bytes | None:
    """Return in wire form which bodies decide before the next step; None if not given."""
    if wants is None:
        return None
    found = np.asarray(wants)
    if found.dtype.kind != "b" or found.shape != (count,):
        raise AuthorError(f"wants: expected a boolean for each of {count} bodies, found {wants!r:.80}")
    return found.astype(np.uint8).tobytes()


def _values(
    what: str, uid: str, space: Space, given: Mapping[str, Any], bodies: int, names: Sequence[str]
) -> list[Any]:
    """Return the contained value of each body."""
    if uid not in given:
        raise AuthorError(f"{what} {uid!r} is missing")
    array = np.asarray(given[uid])
    shape = (bodies, *space.shape)
    if array.shape != shape:
        raise AuthorError(f"{what} {uid!r}: expected an array of shape {shape}, found {array.shape}")
    if space.composite:
        values: list[Any] = [space.from_vector(vector) for vector in array]
    else:
        values = array.tolist() if space.scalar else list(array)
    for body, value in enumerate(values):
        if not space.contains(value):
            kind = _KINDS[what]
            whose = names[body] if names else body
            kind(value, space, uid if bodies == 1 and not names else f"{uid} of body {whose}")  # refuses it by its id
    if what == "reward" and not np.isfinite(array).all():
        raise AuthorError(f"reward {uid!r}: expected a finite number, found {array!r:.80}")
    return values


def reward_layout(rewards: Any) -> Layout:
    """Return the layout of rewards that the first step declares: unbounded boxes of the arrays' dtypes."""
    if not isinstance(rewards, Mapping):
        raise AuthorError(f"rewards: expected a map from ids to arrays, found {type(rewards).__name__}")
    arrays = {str(uid): np.asarray(array) for uid, array in rewards.items()}
    for uid, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise AuthorError(f"reward {uid!r}: expected an array [bodies, *shape] of numbers, found {array!r:.80}")
    boxes = [Box(-np.inf, np.inf, a.shape[1:], a.dtype if a.dtype.kind == "f" else np.float64) for a in arrays.values()]
    return Layout(list(arrays), boxes)


def flag_of(name: str, flag: Any) -> bool:
    """Return the flag of the one body, given as a boolean or an array."""
    found = np.asarray(flag)
    if found.dtype.kind != "b" or found.size != 1:
        raise AuthorError(f"{name}: expected a boolean, or one per body, found {flag!r:.80}")
    return bool(found.item())


def state_of(batch: StepBatch, sensors: Layout, rewards: Layout) -> EnvironmentState:
    """Return a step as rewards and transformers take it."""
    readings = sensors.values(field_of("sensor", sensors, batch.readings), "readings")
    earned = rewards.values(field_of("reward", rewards, batch.rewards), "rewards")
    return EnvironmentState(
        [SensorInformation(v, s, u) for (u, s), v in zip(sensors.pairs(), readings, strict=True)],
        [RewardInformation(v, s, u) for (u, s), v in zip(rewards.pairs(), earned, strict=True)],
        simtime=batch.simtime,
        terminated=flag_of("terminated", batch.terminated),
        truncated=flag_of("truncated", batch.truncated),
        over=batch.over,
    )
