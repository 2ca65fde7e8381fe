"""Aggregated rewards: an objective that makes one number of an agent's rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ganglion.sdk import Memory, Objective, Transitions

__all__ = ["AggregateRewards"]

# One number after the other: Python's own sum rounds otherwise from 3.12 on, numpy's from eight numbers on.
AGGREGATIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": lambda values: reduce(add, values, 0.0),
    "min": min,
    "max": max,
    "mean": lambda values: reduce(add, values, 0.0) / len(values),
}


class AggregateRewards(Objective):
    """Sum the rewards of a decision, or take their least, greatest or mean, times a factor.

    A reward that the decision does not have (as under taking turns) counts nothing; without any there is no objective.

    Params:
        rewards: Ids of the rewards, full (`field.reward`) or local (`reward`: that of every connected environment).
            None, the default, is all.
        aggregation: `sum` (default), `min`, `max` or `mean`.
        factor: What the result is multiplied by; default 1.0.
    """

    batched = True

    def __init__(self, rewards: Sequence[str] | None = None, aggregation: str = "sum", factor: float = 1.0) -> None:
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation: expected one of {', '.join(AGGREGATIONS)}, found {aggregation!r}")
        if isinstance(rewards, str):
            raise ValueError(f"rewards: expected a list of ids, found {rewards!r}")
        if isinstance(factor, bool) or not isinstance(factor, int | float):
            raise ValueError(f"factor: expected a number, found {factor!r}")
        self.rewards = None if rewards is None else list(rewards)
        self.aggregation = aggregation
        self.factor = float(factor)
        self._chosen: list[str] | None = None

    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | None:
        """Return the aggregate of the newest row's rewards, None if it has none of them.

        Raises:
            ValueError: An id of `rewards` fits no reward that the agent gets; told at the first row.
        """
        table = memory.tail(1).rewards
        if self.rewards is not None:
            if self._chosen is None:
                self._chosen = _choose(self.rewards, table.columns)
            table = table[self._chosen]
        values = [value for value in table.flat[0].tolist() if value == value]  # NaN: not in this row
        return self.factor * float(AGGREGATIONS[self.aggregation](values)) if values else None

    def late_reward(self, uid: str, credit: float) -> float:
        """Return what fell due after an end times the factor; 0 if it is none of the rewards that are aggregated."""
        chosen = self.rewards is None or any(_fits(one, uid) for one in self.rewards)
        return self.factor * credit if chosen else 0.0

    def internal_rewards(self, batch: Transitions) -> np.ndarray[Any, Any]:
        """Return the aggregates of many bodies' rewards; raises as `internal_reward`."""
        rewards = batch.rewards
        if self.rewards is not None:
            chosen = _choose(self.rewards, self.reward_ids)
            rewards = rewards[:, [list(self.reward_ids).index(uid) for uid in chosen]]
        if self.aggregation in ("min", "max"):
            extreme = np.fmin if self.aggregation == "min" else np.fmax  # which pass over NaN
            return np.asarray(self.factor * extreme.reduce(rewards, axis=1, initial=np.nan))
        missing = np.isnan(rewards)
        total = np.zeros(len(rewards))
        for column in np.where(missing, 0.0, rewards).T:
            total += column
        counts = rewards.shape[1] - np.add.reduce(missing, axis=1)
        divisor = np.maximum(counts, 1) if self.aggregation == "mean" else 1
        return np.where(counts > 0, self.factor * (total / divisor), np.nan)


def _choose(wanted: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the columns that the ids mean, in the order of the columns."""
    for uid in wanted:
        if not any(_fits(uid, column) for column in columns):
            raise ValueError(f"rewards: {uid!r} fits none of this agent's rewards: {', '.join(columns) or 'none'}")
    return [column for column in columns if any(_fits(uid, column) for uid in wanted)]


def _fits(uid: str, column: str) -> bool:
    return column == uid or column.endswith(f".{uid}")
