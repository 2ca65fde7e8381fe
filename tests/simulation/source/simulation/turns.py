"""An environment that says who decides when, on arrays and on objects: the bodies take turns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    RewardInformation,
    SensorInformation,
    StepBatch,
)

SEEN, MOVE, PAID = Box(0, 2**31 - 1, (2,), np.int64), Discrete(4), Box(-np.inf, np.inf, ())


class Turns(Environment):
    """Show [t, row]; after step t the body of row t mod n wants to decide, and no other; every third step says nothing.

    A body ends after `length` steps.
    """

    batched = True

    def __init__(self, length: int = 9) -> None:
        super().__init__()
        self.length, self.t = length, 0

    def start_environment(self) -> EnvironmentBaseline:
        """Declare one body."""
        self.t = 0
        sensors = [SensorInformation(np.array([0, i]), SEEN, "seen", body=(b.agent, b.b)) for i, b in self.numbered()]
        moves = [ActuatorInformation(0, MOVE, "move")]
        return EnvironmentBaseline(sensors, moves, rewards_available=[RewardInformation(None, PAID, "paid")])

    def numbered(self) -> list[Any]:
        """Return the bodies with their rows."""
        return list(enumerate(self.bodies))

    def begin_batch(self, rows: Any, seeds: Any) -> Any:
        """Begin at 0."""
        self.t = 0
        return {"seen": self.seen(rows)}

    def seen(self, rows: Any) -> Any:
        """Return what bodies see."""
        return np.stack([np.full(len(rows), self.t), rows], axis=1)

    def turn(self, rows: Any) -> Any:
        """Return who of these decides next, None if that is not said."""
        return None if self.t % 3 == 0 else rows == self.t % len(self.bodies)

    def update_batch(self, setpoints: Any) -> StepBatch:
        """Make a step."""
        self.t += 1
        paid = setpoints["move"] + self.rows / 10
        return StepBatch(
            {"seen": self.seen(self.rows)}, {"paid": paid}, self.t == self.length, wants=self.turn(self.rows)
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make a step."""
        raise NotImplementedError


class ObjectTurns(Turns):
    """Do the same on objects."""

    batched = False

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make a step."""
        self.t += 1
        rows = {(b.agent, b.b): i for i, b in self.numbered()}
        sensors = [SensorInformation(np.array([self.t, rows[it.body]]), SEEN, "seen", body=it.body) for it in actuators]
        paid = [RewardInformation(it.value + rows[it.body] / 10, PAID, "paid", body=it.body) for it in actuators]
        turn = self.turn(np.arange(len(rows)))
        wants = None if turn is None else {body: bool(turn[row]) for body, row in rows.items()}
        return EnvironmentState(sensors, paid, terminated=self.t == self.length, wants=wants)
