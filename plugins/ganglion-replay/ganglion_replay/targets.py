"""Targets: n-step targets of recorded sessions, and the decisions of a current policy on recorded sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ganglion_replay.pool import PoolMismatch, SessionBatchEnvironment

Array = NDArray[Any]
Policy = Callable[[list[Array], list[Array]], Any]
"""Takes observations and memories of k sessions, lists in declared order; returns (actions, memories, extras)."""


def n_step_targets(
    rewards: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float,
    n: int | None = None,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    is_alive: ArrayLike | None = None,
) -> Array:
    """Return for each tick the sum of its next n discounted rewards and the discounted value after them.

    Fewer than n count up to the first end, to the last tick that is alive, and to the end of the array. No value
    follows a terminated end; a value follows a truncated one. Ticks that are not alive have 0.

    Args:
        rewards: `[..., T]`.
        values: `[..., T + 1]`, of each observation and of the closing one.
        gamma: The discount of a tick.
        n: At least 1; None is all following ticks.
        terminated, truncated, is_alive: `[..., T]` bool; None is never, never, always.

    Raises:
        ValueError: The shapes do not fit, or `n` is below 1.

    Source: Sutton and Barto (2018), Reinforcement Learning, section 7.1.
    """
    earned, worth = np.asarray(rewards, np.float64), np.asarray(values, np.float64)
    if earned.ndim < 1 or worth.shape != (*earned.shape[:-1], earned.shape[-1] + 1):
        text = f"expected a value more than rewards, found shapes {worth.shape} and {earned.shape}"
        raise ValueError(f"n_step_targets: {text}")
    ticks = earned.shape[-1]
    if n is not None and n < 1:
        raise ValueError(f"n_step_targets: n: expected at least 1, found {n}")
    flags = []
    for name, given, default in (
        ("terminated", terminated, False),
        ("truncated", truncated, False),
        ("is_alive", is_alive, True),
    ):
        flag = np.full(earned.shape, default) if given is None else np.asarray(given, bool)
        if flag.shape != earned.shape:
            raise ValueError(f"n_step_targets: {name}: expected shape {earned.shape}, found {flag.shape}")
        flags.append(flag)
    dead_end, cut, alive = flags
    beyond = np.concatenate([~alive[..., 1:], np.ones((*earned.shape[:-1], 1), bool)], axis=-1)
    stops = dead_end | cut | beyond
    follows = np.where(dead_end, 0.0, worth[..., 1:])
    found = np.zeros(earned.shape)
    if n is None or n >= ticks:
        later = np.zeros(earned.shape[:-1])
        for t in reversed(range(ticks)):
            later = earned[..., t] + gamma * np.where(stops[..., t], follows[..., t], later)
            found[..., t] = later
        return np.where(alive, found, 0.0)
    going, factor = alive.copy(), 1.0
    for i in range(n):
        part = slice(0, ticks - i)
        here = going[..., part]
        found[..., part] += np.where(here, factor * earned[..., i:], 0.0)
        factor *= gamma
        last = here & (stops[..., i:] | (i == n - 1))
        found[..., part] += np.where(last, factor * follows[..., i:], 0.0)
        going[..., part] = here & ~last
    return found


@dataclass(frozen=True)
class ReplayedSessions:
    """The decisions of a policy on recorded sessions; row i of each array is session i of the batch.

    Attributes:
        actions: `[n, T, *shape]` of each item: the recorded ones if forced, else the policy's own.
        shadow_actions: The policy's own actions if the recorded ones are forced; else None.
        memories: `[n, T, *shape]` of each item, after each tick.
        extras: Further results of the policy, as arrays `[n, T, *shape]`, in its lists and maps.
        rewards: `[n, T]`, recorded, or those of the objective.
        is_alive: `[n, T]` bool; arrays are zero where a session is not alive.
    """

    actions: list[Array]
    shadow_actions: list[Array] | None
    memories: list[Array]
    extras: Any
    rewards: Array
    is_alive: Array

    def mean(self, values: ArrayLike) -> float:
        """Return the mean of `[n, T]` values over ticks that are alive."""
        return float((np.asarray(values) * self.is_alive).sum() / self.is_alive.sum())


def replay_sessions(
    batch: SessionBatchEnvironment,
    policy: Policy,
    *,
    force_actions: bool = True,
    objective: Callable[[list[Array], list[Array], list[Array], Array], ArrayLike] | None = None,
) -> ReplayedSessions:
    """Call a policy with recorded observations.

    The policy is called once per tick with all sessions that are alive. Observation i gives extras i and action i;
    memory i is the one after it. The first memories are the recorded ones, else zeros; they are zeros again at the
    first tick of each episode.

    Args:
        batch: The sessions.
        policy: Returns actions and memories as lists in declared order, one item of them bare or in a list, and extras.
        force_actions: Whether the recorded actions count.
        objective: Returns rewards, `[k]`, from observations, actions, next observations and the recorded rewards.

    Raises:
        PoolMismatch: The policy did not return a row per session.
    """
    n, ticks = batch.is_alive.shape
    kinds = [] if batch.preceding_agent_memories is None else batch.preceding_agent_memories
    memories = [array.copy() for array in kinds]
    made, kept, extras = _Series(n, ticks), _Series(n, ticks), _Series(n, ticks)
    rewards = batch.rewards.copy()
    for t in range(ticks):
        rows = np.flatnonzero(batch.is_alive[:, t])
        if not len(rows):
            continue
        begun = rows[batch.is_first[rows, t]] if t else rows[:0]
        for memory in memories:
            memory[begun] = 0
        result = policy([array[rows, t] for array in batch.observations], [memory[rows] for memory in memories])
        if not isinstance(result, tuple) or len(result) != 3:
            raise PoolMismatch(f"policy: tick {t}: expected actions, memories, extras, found {type(result).__name__}")
        actions, after = _listed(result[0], "actions", t, len(rows)), _listed(result[1], "memories", t, len(rows))
        if not memories:
            memories = [np.zeros((n, *one.shape[1:]), one.dtype) for one in after]
        for memory, one in zip(memories, after, strict=True):
            memory[rows] = one
        made.put(rows, t, actions)
        kept.put(rows, t, [memory[rows] for memory in memories])
        extras.put(rows, t, result[2])
        if objective is not None:
            taken = [array[rows, t] for array in batch.actions] if force_actions else actions
            seen = [[array[rows, at] for array in batch.observations] for at in (t, t + 1)]
            rewards[rows, t] = np.asarray(objective(seen[0], taken, seen[1], batch.rewards[rows, t]))
    own = made.whole or []
    forced = list(batch.actions) if force_actions else own
    return ReplayedSessions(
        forced, own if force_actions else None, kept.whole or [], extras.whole, rewards, batch.is_alive
    )


def _listed(given: Any, what: str, t: int, rows: int) -> list[Array]:
    parts = given if isinstance(given, list | tuple) else [] if given is None else [given]
    found = [np.asarray(part) for part in parts]
    for part in found:
        if part.ndim < 1 or len(part) != rows:
            raise PoolMismatch(f"policy: tick {t}: {what}: expected {rows} rows, found an array of shape {part.shape}")
    return found


class _Series:
    """Collect rows, tick by tick, in whole arrays."""

    def __init__(self, n: int, ticks: int) -> None:
        self._shape = (n, ticks)
        self.whole: Any = None

    def put(self, rows: Array, t: int, given: Any) -> None:
        """Put a tree of arrays, of the same form each time, at these rows of a tick."""
        self.whole = self._put(self.whole, rows, t, given)

    def _put(self, whole: Any, rows: Array, t: int, given: Any) -> Any:
        if given is None:
            return whole
        if isinstance(given, Mapping):
            whole = {} if whole is None else whole
            return {key: self._put(whole.get(key), rows, t, part) for key, part in given.items()}
        if isinstance(given, Sequence) and not isinstance(given, str):
            whole = [None] * len(given) if whole is None else whole
            return [self._put(one, rows, t, part) for one, part in zip(whole, given, strict=True)]
        array = np.asarray(given)
        if array.ndim < 1 or len(array) != len(rows):
            raise PoolMismatch(f"policy: tick {t}: extras: expected {len(rows)} rows, found shape {array.shape}")
        if whole is None:
            whole = np.zeros((*self._shape, *array.shape[1:]), array.dtype)
        whole[rows, t] = array
        return whole
