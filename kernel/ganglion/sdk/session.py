"""Session: one recorded episode of one agent, as arrays, to learn from without acting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.sdk.brain import Transitions
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import Information, mask_columns
from ganglion.sdk.spaces import Space
from ganglion.sdk.table import Layout

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Session:
    """Give the recorded stream of one agent in one episode of one worker.

    Row t is decision t: its readings, the applied setpoints, and the outcome. All arrays are read-only.
    The columns of observations are in the order of `sensors`, those of actions in the order of `actuators`, each as
    the vector of its space; dtypes are numpy's `result_type` of the spaces, as in the array form of muscles and brains.
    """

    run: str  # id of the recorded run
    phase: int  # index of its phase
    worker: int  # its worker
    agent: str  # the name that the agent had there
    environment: str  # uid of its environment; several are joined by commas
    body: int  # number of the body; 0 in a phase without bodies
    episode: int  # its number in the worker, from 0
    mode: Mode  # the mode of the episode
    # The declarations of the columns of `observations`, without values.
    sensors: Sequence[Information] = field(repr=False)
    actuators: Sequence[Information] = field(repr=False)  # the declarations of the columns of `actions`
    observations: Array = field(repr=False)  # `[T + 1, n]` if the closing readings are known, else `[T, n]`
    actions: Array = field(repr=False)  # `[T, m]`, the setpoints that were applied
    rewards: Array = field(repr=False)  # `[T, r]`, of the dtype of their spaces by the same rule; NaN is none
    reward_ids: Sequence[str] = field(repr=False)  # the full ids of the columns of `rewards`
    objectives: Array = field(repr=False)  # `[T]` float64; NaN is none
    terminated: Array = field(repr=False)  # `[T]` bool
    truncated: Array = field(repr=False)  # `[T]` bool
    # `[T]` int64, the tick of each decision's readings within its episode; -1 if not recorded.
    ticks: Array = field(repr=False)
    seed: int | None = None  # the seed of the environment's episode; None if unknown
    # `[T]` int64, the number of the update that chose each action; None if not recorded.
    policy_version: Array | None = field(default=None, repr=False)
    # `[T]` texts, the source of the model that chose each action; None if not recorded.
    policy: Sequence[str] | None = field(default=None, repr=False)
    # The spaces of the columns of `rewards`; empty if unknown.
    reward_spaces: Sequence[Space] = field(default=(), repr=False)
    phase_name: str = ""  # the name of its phase; empty if unknown
    group: int = 0  # its number in `Brain.groups`, for a brain

    def __post_init__(self) -> None:
        steps = len(self)
        rows = {name: len(getattr(self, name)) for name in _PER_STEP}
        strange = next((name for name, count in rows.items() if count != steps), None)
        if strange is not None:
            raise AuthorError(f"session: expected {steps} rows of {strange}, found {rows[strange]}")
        if len(self.observations) not in (steps, steps + 1):
            raise AuthorError(f"session: expected {steps} or {steps + 1} observations, found {len(self.observations)}")
        for name in (*_PER_STEP, "observations"):
            getattr(self, name).flags.writeable = False

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.actions)

    @property
    def has_final(self) -> bool:
        """Return whether the readings after the last decision are known: they are the last row of `observations`."""
        return len(self.observations) == len(self) + 1

    @property
    def muscle(self) -> str:
        """Return the uid of its muscle."""
        return f"{self.agent}/{self.worker}"

    @cached_property
    def readings(self) -> Mapping[str, Array]:
        """Map each sensor's id to its part of `observations`, `[rows, *shape]` of its space's dtype."""
        return _parts(self.sensors, self.observations)

    @cached_property
    def setpoints(self) -> Mapping[str, Array]:
        """Map each actuator's id to its part of `actions`, `[T, *shape]` of its space's dtype."""
        return _parts(self.actuators, self.actions)

    def transitions(self, start: int = 0, stop: int | None = None, muscle: str | None = None) -> Transitions:
        """Return decisions in the form that `Brain.learn` takes.

        A last decision without known closing readings is left out, unless it terminated: then its own readings replace
        the next ones. `start` and `stop` are as of a slice; `muscle` is the uid of the decisions, None for that of the
        session.
        """
        known = len(self)
        if not self.has_final and known and not self.terminated[-1]:
            known -= 1
        rows = range(known)[slice(start, stop)]
        part = slice(rows.start, rows.stop)
        return Transitions(
            observations=self.observations[part],
            actions=self.actions[part],
            objectives=self.objectives[part],
            rewards=self.rewards[part],
            next_observations=self._following[part],
            terminated=self.terminated[part],
            truncated=self.truncated[part],
            muscle=[self.muscle if muscle is None else muscle] * len(rows),
            body=[(self.agent, self.body)] * len(rows),
            episode=np.full(len(rows), self.episode, dtype=np.int64),
            step=np.arange(rows.start, rows.start + len(rows), dtype=np.int64),
            data=[None] * len(rows),
            group=self.group,
            mask_columns=mask_columns(self.sensors, self.actuators),
        )

    @cached_property
    def _following(self) -> Array:
        """Return the observation after each decision."""
        if self.has_final or not len(self):
            return self.observations[1:]
        return np.concatenate([self.observations[1:], self.observations[-1:]])


_PER_STEP = ("rewards", "objectives", "terminated", "truncated", "ticks", "actions")


def _parts(declared: Sequence[Information], matrix: Array) -> dict[str, Array]:
    """Return the columns of a matrix by the ids that they belong to."""
    layout = Layout([it.uid for it in declared], [it.space for it in declared])
    rows = len(matrix)
    return {
        it.uid: matrix[:, layout.span(i)].reshape(rows, *layout.shapes[i]).astype(it.space.dtype, copy=False)
        for i, it in enumerate(declared)
    }
