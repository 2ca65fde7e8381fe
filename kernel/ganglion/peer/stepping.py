"""Stepping: what environments that step many bodies at once are given and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.peer.layout import Layout
from ganglion.peer.matrix import shape_of
from ganglion.sdk.environment import EnvironmentState, StepBatch
from ganglion.sdk.information import RewardInformation, SensorInformation
from ganglion.sdk.spaces import Box, Space

Array = NDArray[Any]
_BODIES = 1  # that an environment has in a run


def arrays_of(layout: Layout, values: Sequence[Any]) -> dict[str, Array]:
    """Return setpoints by id, `[bodies, *shape]`; a Tuple or Dict as its vector, None is left out."""
    return {
        uid: space.to_vector(value).reshape(_BODIES, *shape_of(space))
        for (uid, space), value in zip(layout.pairs(), values, strict=True)
        if value is not None
    }


def values_of(what: str, layout: Layout, given: Any) -> list[Any]:
    """Return the contained values of a map from ids to arrays; AuthorError names what is strange, missing or wrong."""
    if not isinstance(given, Mapping):
        raise AuthorError(f"{what}s: expected a map from ids to arrays, found {type(given).__name__}")
    strange = [uid for uid in given if uid not in layout.index]
    if strange:
        raise AuthorError(f"{what} {strange[0]!r} was not declared")
    return [_value(what, uid, space, given) for uid, space in layout.pairs()]


def _value(what: str, uid: str, space: Space, given: Mapping[str, Any]) -> Any:
    if uid not in given:
        raise AuthorError(f"{what} {uid!r} is missing")
    array = np.asarray(given[uid])
    shape = (_BODIES, *shape_of(space))
    if array.shape != shape:
        raise AuthorError(f"{what} {uid!r}: expected an array of shape {shape}, found {array.shape}")
    if space.kind in ("tuple", "dict"):
        return space.from_vector(array[0])
    value = array[0].item() if space.scalar else array[0]
    if not space.contains(value):
        kind = SensorInformation if what == "sensor" else RewardInformation
        kind(value, space, uid)  # refuses it by its id
    return space.canonical(value)


def reward_layout(rewards: Any) -> Layout:
    """Return the layout of rewards that are declared by the first step: boxes without bounds, of the arrays' dtypes."""
    if not isinstance(rewards, Mapping):
        raise AuthorError(f"rewards: expected a map from ids to arrays, found {type(rewards).__name__}")
    arrays = {str(uid): np.asarray(array) for uid, array in rewards.items()}
    for uid, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise AuthorError(f"reward {uid!r}: expected an array [bodies, *shape] of numbers, found {array!r:.80}")
    boxes = [Box(-np.inf, np.inf, a.shape[1:], a.dtype if a.dtype.kind == "f" else np.float64) for a in arrays.values()]
    return Layout(list(arrays), boxes)


def flag_of(name: str, flag: Any) -> bool:
    """Return a flag of the one body, which may be an array."""
    found = np.asarray(flag)
    if found.dtype.kind != "b" or found.size != 1:
        raise AuthorError(f"{name}: expected a boolean, or one per body, found {flag!r:.80}")
    return bool(found.item())


def state_of(batch: StepBatch, sensors: Layout, rewards: Layout) -> EnvironmentState:
    """Return a step as who computes rewards and transforms states wants it."""
    readings = values_of("sensor", sensors, batch.readings)
    earned = values_of("reward", rewards, batch.rewards)
    return EnvironmentState(
        [SensorInformation(v, s, u) for (u, s), v in zip(sensors.pairs(), readings, strict=True)],
        [RewardInformation(v, s, u) for (u, s), v in zip(rewards.pairs(), earned, strict=True)],
        simtime=batch.simtime,
        terminated=flag_of("terminated", batch.terminated),
        truncated=flag_of("truncated", batch.truncated),
    )
