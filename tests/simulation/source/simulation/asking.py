"""Brains that ask tables and note what they are given, a world that is replayed, and a muscle that remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Brain,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Muscle,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    Transitions,
)


class Asker(Brain):
    """Draw from tables at each decision, as far as they allow it, and give priorities to what was drawn.

    With `rows` it learns from arrays; else it is asked by `thinking`, row by row. `insists` draws without asking
    whether it may.
    """

    batched = True

    def __init__(self, tables: list[str] | None = None, n: int = 2, insists: bool = False) -> None:
        super().__init__()
        self.names, self.n, self.insists, self.drawn = ["recent"] if tables is None else tables, n, insists, 0

    @classmethod
    def asks(cls, tables: list[str] | None = None, **params: Any) -> Sequence[str]:
        """Return its tables."""
        return ["recent"] if tables is None else tables

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Draw; the form for objects."""
        return self._draw() if self.memory.tail(1) is not None else None

    def learn(self, batch: Transitions) -> Any:
        """Draw."""
        return self._draw()

    def _draw(self) -> Any:
        for name in self.names:
            table = self.tables[name]
            if not self.insists and not table.can_sample(self.n):
                continue
            steps = table.sample_steps(self.n, alpha=0.5, beta=0.5)
            self.drawn += len(steps.ids)
            seen = [steps.ids, steps.ticks, steps.versions, steps.observations.sum(1), steps.next_observations.sum(1)]
            seen += [steps.rewards.sum(1), steps.weights]
            self.add_statistics(name, float(sum(np.sum(part * (i + 1)) for i, part in enumerate(seen))))
            table.set_priorities(steps.ids, 1.0 + steps.ids % 3)
            if table.state()["whole"] > 0 and self.drawn % 5 == 0:
                batch = table.sample_session_batch(1)
                slices = table.sample_slices(2, 2, partial="pad")
                told = float(batch.rewards.sum() + batch.versions.sum() + slices.ids.sum() + slices.starts.sum())
                self.add_statistics(f"{name}_batch", told)
        return self.drawn


class Plain(Asker):
    """Be asked by `thinking`."""

    batched = False


class Lesson(Environment):
    """Count the steps of an episode of three; `made` counts the objects, of which a replay makes none."""

    made = 0

    def __init__(self) -> None:
        Lesson.made += 1
        self.t, self.space = 0, Box(0, 99, (2,), np.int64)

    def _read(self) -> list[SensorInformation]:
        return [SensorInformation(np.array([self.episode, self.t]), self.space, "at")]

    def start_environment(self) -> EnvironmentBaseline:
        """Begin."""
        self.t = 0
        return EnvironmentBaseline(self._read(), [ActuatorInformation(-1, Box(-1, 99, (), np.int64), "answer")])

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin again."""
        return self.start_environment()

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make a step."""
        self.t += 1
        pay = RewardInformation(float(self.t), Box(-99.0, 99.0, ()), "pay")
        return EnvironmentState(self._read(), [pay], terminated=self.t == 3)


class Remembers(Muscle):
    """Set how many readings it has seen before in this episode, and what it was told to add."""

    def __init__(self, more: int = 0) -> None:
        self.more, self.seen = more, 0

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Set that number."""
        actuators_available[0].value = self.seen + self.more
        self.seen += 1
        return actuators_available

    def reset(self) -> None:
        """Forget them."""
        self.seen = 0

    def update(self, update: Any) -> None:
        """Learn nothing."""
