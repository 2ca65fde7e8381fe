"""Transitions: rows of several muscles as arrays, for brains that learn from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.peer.values import Columns, Layout, copied
from ganglion.sdk.brain import Transitions
from ganglion.sdk.memory import Memory
from ganglion.wire.messages import Think

Array = NDArray[Any]
Layouts = tuple[Layout, Layout, Layout]
"""Of an agent's sensors, of its actuators, and of those behind its filters."""


@dataclass(frozen=True, slots=True)
class Row:
    """One completed decision: values as they travel, in declared order, but for `data`."""

    muscle: str
    readings: list[Any]
    proposed: list[Any]
    rewards: list[Any]
    objective: float | None
    next_readings: list[Any]
    terminated: bool
    truncated: bool
    decision: int
    episode: int
    data: Any


def remember(memory: Memory, row: Row, think: Think, layouts: Layouts, rewards: Layout) -> None:
    """Write a row into a memory."""
    sensors, actuators, behind = layouts
    applied = behind.from_row(think.applied[0], "think.applied")
    proposed = applied
    if think.proposed is not None:
        proposed = actuators.from_row(row.proposed, "think.proposed")
    memory.append(
        row.muscle,
        sensor_readings=sensors.from_row(row.readings, "think.readings"),
        actuator_setpoints=proposed,
        applied_setpoints=applied,
        rewards=rewards.from_row(row.rewards, "think.rewards"),
        objective=row.objective,
        next_readings=sensors.from_row(row.next_readings, "think.next_readings"),
        dones=row.terminated or row.truncated,
        terminated=row.terminated,
        truncated=row.truncated,
        decision_index=row.decision,
        episode=row.episode,
        additional_data=copied(row.data),  # what the brain is given is its own
    )


class Stack:
    """Stack rows into transitions; `agent` is whose they are."""

    def __init__(self, agent: str, sensors: Layout, actuators: Layout) -> None:
        self._body = (agent, 0)
        self._sensors, self._actuators = Columns(sensors), Columns(actuators)
        self._rewards: Columns | None = None

    def declare(self, rewards: Layout) -> None:
        """Take the layout of the rewards, which may be known only now."""
        self._rewards = Columns(rewards)

    def __call__(self, rows: Sequence[Row]) -> Transitions:
        """Return rows, at least one, in their order."""
        assert self._rewards is not None
        terminated = np.array([row.terminated for row in rows])
        truncated = np.array([row.truncated for row in rows])
        objectives = [np.nan if row.objective is None else row.objective for row in rows]
        return Transitions(
            observations=self._sensors.matrix([row.readings for row in rows], "think.readings"),
            actions=self._actuators.matrix([row.proposed for row in rows], "think.proposed"),
            objectives=np.array(objectives, dtype=np.float64),
            rewards=self._rewards.matrix([row.rewards for row in rows], "think.rewards"),
            next_observations=self._sensors.matrix([row.next_readings for row in rows], "think.next_readings"),
            terminated=terminated,
            truncated=truncated,
            bootstrap=1.0 - terminated,  # `bootstrap_mask` where both flags are known, at a tenth of its cost
            muscle=[row.muscle for row in rows],
            body=[self._body] * len(rows),
            episode=np.array([row.episode for row in rows]),
            step=np.array([row.decision for row in rows]),
            data=[row.data for row in rows],
        )
