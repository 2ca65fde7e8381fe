"""Doors: each step some are open, and behind each is a prize; a mask says which may be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Mask,
    Ragged,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    StepBatch,
)

__all__ = ["Doors"]

REWARD = Box(0.0, 1.0, ())

Array = NDArray[Any]


class Doors(Environment):
    """Choose one of the doors that are open, and get what is behind it.

    Sensors `prizes`, float32 (doors,): what is behind each, in [0, 1]; `open`, Mask (doors,): which are open, about
    half, at least one; with `listed` also `list`, Ragged of float32 (doors, 2): number and prize of each open door, and
    of no other. Actuator `door`, Discrete(doors): the one that is chosen; no-op 0. Reward `prize`: what was behind it;
    0 of a closed one, to which a no-op or a repeat may come. All are drawn anew in each step, by a generator of the
    episode's seed. Truncated after `longest` steps. Simulated time: ticks are steps. Bodies do not meet: each has doors
    of its own.

    Params:
        doors: How many there are, >= 1; default 5.
        longest: Steps of an episode, >= 1; default 20.
        listed: Whether there is the sensor `list`. Default false.
    """

    def __init__(self, doors: int = 5, longest: int = 20, listed: bool = False) -> None:
        super().__init__()
        if doors < 1 or longest < 1:
            raise ValueError(f"doors and longest are at least 1, found {doors} and {longest}")
        self.doors, self.longest, self.listed = doors, longest, listed
        self.space = Ragged(Box(0.0, max(doors, 1), (doors, 2), np.float32))
        # Of each body: what each step shows, and which step it is.
        self.prizes, self.open = np.zeros((0, 0, 0), np.float32), np.zeros((0, 0, 0), bool)
        self.made = np.zeros(0, np.int64)

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether there are bodies, which make their steps together."""
        return bool(self.bodies)

    @classmethod
    def longest_episode(cls, longest: int = 20, **params: Any) -> int | None:
        """Return `longest`: every episode has exactly this many steps."""
        return longest

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode, by the environment's own seed."""
        return self._begin(self.seed)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin a later episode, by the seed of the request."""
        return self._begin(request.seed)

    def _begin(self, seed: int) -> EnvironmentBaseline:
        return EnvironmentBaseline(
            sensors_available=self._informed(self.begin_batch(np.zeros(1, np.int64), [seed])),
            actuators_available=[ActuatorInformation(0, Discrete(self.doors), "door")],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0.0, REWARD, "prize")],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Open a door; without a setpoint the first one."""
        chosen = actuators[0].value if actuators else 0
        step = self._step(np.zeros(1, np.int64), np.array([chosen]))
        return EnvironmentState(
            sensor_information=self._informed(step.readings),
            rewards=[RewardInformation(step.rewards["prize"].item(), REWARD, "prize")],
            terminated=False,
            truncated=np.asarray(step.truncated).item(),
            simtime=SimTime(simtime_ticks=int(self.made[0])),
        )

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of each of these bodies, by its seed."""
        count = max(len(self.bodies), 1)
        if len(self.made) < count:
            shape = (count - len(self.made), self.longest + 1, self.doors)
            self.prizes = np.concatenate([self.prizes.reshape(-1, *shape[1:]), np.zeros(shape, np.float32)])
            self.open = np.concatenate([self.open.reshape(-1, *shape[1:]), np.zeros(shape, bool)])
            self.made = np.concatenate([self.made, np.zeros(shape[0], np.int64)])
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            rng = np.random.default_rng(seed)
            self.prizes[row] = rng.random(self.prizes.shape[1:], np.float32)
            self.open[row] = rng.random(self.open.shape[1:]) < 0.5
            self.open[row, np.arange(self.longest + 1), rng.integers(self.doors, size=self.longest + 1)] = True
        self.made[rows] = 0
        return self._readings(rows)

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch:
        """Open a door of each of these bodies."""
        return self._step(self.rows, setpoints["door"])

    def _step(self, rows: Array, chosen: Array) -> StepBatch:
        made = self.made[rows]
        earned = np.where(self.open[rows, made, chosen], self.prizes[rows, made, chosen], 0.0).astype(np.float64)
        self.made[rows] += 1
        over = self.made[rows] >= self.longest
        return StepBatch(self._readings(rows), {"prize": earned}, np.zeros(len(rows), bool), over)

    def _readings(self, rows: Array) -> dict[str, Array]:
        prizes, is_open = self.prizes[rows, self.made[rows]], self.open[rows, self.made[rows]]
        found = {"prizes": prizes, "open": is_open}
        if self.listed:
            order = np.argsort(~is_open, axis=1, kind="stable")  # those that are open first
            listed = np.stack([order.astype(np.float32), np.take_along_axis(prizes, order, 1)], axis=2)
            found["list"] = self.space.vectors(listed, is_open.sum(1))
        return found

    def _informed(self, readings: Mapping[str, Array]) -> list[SensorInformation]:
        """Return the readings of the one body as objects."""
        found = [
            SensorInformation(readings["prizes"][0], Box(0.0, 1.0, (self.doors,), np.float32), "prizes"),
            SensorInformation(readings["open"][0], Mask(self.doors, of="door"), "open"),
        ]
        if self.listed:
            found.append(SensorInformation(self.space.from_vector(readings["list"][0]), self.space, "list"))
        return found

    def save_state(self) -> dict[str, Any]:
        """Return what all bodies are shown, and where they are."""
        return {"prizes": self.prizes, "open": self.open, "made": self.made}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where `save_state` was called."""
        self.prizes, self.open, self.made = (np.array(state[name]) for name in ("prizes", "open", "made"))
