"""Race: bodies on a track, of which the first at its end wins; a game for agents that play themselves."""

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
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    StepBatch,
)

__all__ = ["Race"]

_TOGETHER = "bodies begin and end a race together: `episode_end: each` is not supported"

OBSERVATION = Box(0.0, 1.0, (2,), np.float32)
MOVE = Discrete(3)
STAY = 1
REWARD = Box(-1.0, 1.0, ())

Array = NDArray[Any]


class Race(Environment):
    """Let bodies run along a track of their own; the episode ends as soon as one is at its end.

    Sensor `observation`, float32 (2,): the place of the body and that of the best of the others, as shares of the
    track; 0 where there are no others. Actuator `move`: 0 is a step back, 1 none, 2 a step forward; no-op 1. Reward
    `reward` is 0, but for the last step: 1 for each body that is at the end, -1 for each that is not, 0 for all if all
    are. Terminated for all then; truncated for all after `longest` steps, with 0 for each. Ticks are steps.

    A body may begin ahead of others by the numbers of `ahead`, one for each body in its own order. Without bodies one
    runs alone.

    Params:
        length: Steps from begin to end, >= 1; default 6.
        longest: Steps after which an episode is truncated, >= 1; default 24.
        ahead: How many steps each body begins ahead, 0 <= n < length; default none.
    """

    def __init__(self, length: int = 6, longest: int = 24, ahead: Sequence[int] | None = None) -> None:
        super().__init__()
        if length < 1 or longest < 1:
            raise ValueError(f"length and longest are at least 1, found {length} and {longest}")
        if ahead is not None and not all(0 <= steps < length for steps in ahead):
            raise ValueError(f"ahead: expected numbers from 0 to {length - 1}, found {list(ahead)}")
        self.length, self.longest, self.ahead = length, longest, ahead
        self.places, self.steps = np.zeros(1, np.int64), 0

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether there are bodies, which run together."""
        return bool(self.bodies)

    @classmethod
    def longest_episode(cls, length: int = 6, longest: int = 24, **params: Any) -> int | None:
        """Return the number of steps after which an episode is truncated."""
        return longest

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode."""
        if self.each:
            raise ValueError(_TOGETHER)
        count = len(self.bodies) or 1
        if self.ahead is not None and len(self.ahead) != count:
            raise ValueError(f"ahead: expected a number for each of {count} bodies, found {len(self.ahead)}")
        return self._begin()

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin a later episode; nothing is drawn."""
        return self._begin()

    def _begin(self) -> EnvironmentBaseline:
        self.places, self.steps = np.zeros(len(self.bodies) or 1, np.int64), 0
        if self.ahead is not None:
            self.places += np.array(self.ahead, np.int64)
        return EnvironmentBaseline(
            sensors_available=[SensorInformation(self._observations()[0], OBSERVATION, "observation")],
            actuators_available=[ActuatorInformation(STAY, MOVE, "move")],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0.0, REWARD, "reward")],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make one step alone."""
        found = self._step(np.array([actuators[0].value if actuators else STAY]), np.zeros(1, np.int64))
        return EnvironmentState(
            sensor_information=[SensorInformation(self._observations()[0], OBSERVATION, "observation")],
            rewards=[RewardInformation(float(found.rewards["reward"][0]), REWARD, "reward")],
            terminated=bool(found.terminated),
            truncated=bool(found.truncated),
            simtime=found.simtime,
        )

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of all bodies.

        Raises:
            ValueError: Only some are to begin: with episodes of their own nobody could win.
        """
        if len(rows) < len(self.bodies):
            raise ValueError(_TOGETHER)
        self._begin()
        return {"observation": self._observations()}

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch:
        """Make one step of the bodies that take part."""
        return self._step(setpoints["move"], self.rows)

    def _step(self, moves: Array, rows: Array) -> StepBatch:
        """Move these bodies; the others stay where they are."""
        self.steps += 1
        self.places[rows] = np.clip(self.places[rows] + moves.astype(np.int64) - STAY, 0, self.length)
        there = self.places == self.length
        over = bool(there.any())
        rewards = np.where(there, 1.0, -1.0) if over and not (there.all() and len(there) > 1) else np.zeros(len(there))
        return StepBatch(
            readings={"observation": self._observations()[rows]},
            rewards={"reward": rewards[rows]},
            terminated=over,
            truncated=not over and self.steps >= self.longest,
            simtime=SimTime(simtime_ticks=self.steps),
        )

    def save_state(self) -> dict[str, Any]:
        """Return where all are."""
        return {"places": self.places, "steps": self.steps}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where `save_state` was called."""
        self.places, self.steps = np.array(state["places"]), int(state["steps"])

    def _observations(self) -> Array:
        """Return what each body sees."""
        places = self.places
        found = np.zeros((len(places), 2), np.float32)
        found[:, 0] = places
        if len(places) > 1:
            first = int(places.argmax())
            found[:, 1] = places[first]
            found[first, 1] = np.delete(places, first).max()
        return found / np.float32(self.length)
