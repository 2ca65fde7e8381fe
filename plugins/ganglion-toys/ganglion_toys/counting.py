"""Counting environment: readings that say where and when they were made."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
)
from ganglion_toys.echo import MODULUS, checksum

__all__ = ["CountingEnvironment"]

OBSERVATION = Box(0, 2**31 - 1, (4,), np.int64)
ANSWER = Box(-1, MODULUS - 1, (), np.int64)
NO_OP = -1
REWARD = Box(-np.inf, np.inf, ())
CRASH_STATUS = 3


class CountingEnvironment(Environment):
    """Report position, episode and step, so that every reading and reward names its origin.

    Sensor `observation` is [e, episode, t, b]: e the environment's place in the phase, episode the resets so far, t
    the steps of this episode (0 after its start), b the body (0: there is one). Actuator `answer` has no influence,
    its no-op is -1. Reward `reward` of the step that made t is 10 e + t / 1000. Simulated time is t.

    Params:
        length: The episode terminates at t = length, >= 1; default 10.
        truncate_at: It is truncated at t = truncate_at; default None, never. At both it terminates.
        anonymous: True hides e: observation [0, episode, t, 0], reward t / 1000. Default False.
        verify: True raises ValueError where `answer` is not the checksum of the observation before. Default False.
        crash_at: {episode, step}: end the process with exit status 3 in this step, before it is made; for tests of
            lost processes. Default None.
    """

    def __init__(
        self,
        length: int = 10,
        truncate_at: int | None = None,
        anonymous: bool = False,
        verify: bool = False,
        crash_at: dict[str, int] | None = None,
    ) -> None:
        super().__init__()
        if length < 1 or (truncate_at is not None and truncate_at < 1):
            raise ValueError(f"length and truncate_at are at least 1, found {length} and {truncate_at}")
        self.length = length
        self.truncate_at = truncate_at
        self.anonymous = anonymous
        self.verify = verify
        self.crash_at = crash_at
        self.first = 0  # number of the episode that `start_environment` opened
        self.resets = 0
        self.t = 0

    @classmethod
    def longest_episode(cls, length: int = 10, truncate_at: int | None = None, **params: Any) -> int | None:
        """Return the step in which every episode ends."""
        return length if truncate_at is None else min(length, truncate_at)

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode."""
        self.first = self.episode
        return self._begin()

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin the next episode."""
        self.resets = request.episode - self.first  # not a count of our own: the same request again is the same episode
        return self._begin()

    def _begin(self) -> EnvironmentBaseline:
        self.t = 0
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=[ActuatorInformation(NO_OP, ANSWER, "answer")],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0.0, REWARD, "reward")],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make one step.

        Raises:
            ValueError: With `verify`: an answer is not the checksum of the observation that was sent last.
        """
        if self.crash_at == {"episode": self.resets, "step": self.t + 1}:
            os._exit(CRASH_STATUS)  # as a crash: nothing is said, nothing is cleaned up
        if self.verify:
            self._verify(actuators)
        self.t += 1
        reward = (0.0 if self.anonymous else 10.0 * self._place()) + self.t / 1000
        terminated = self.t >= self.length
        return EnvironmentState(
            sensor_information=self._readings(),
            rewards=[RewardInformation(reward, REWARD, "reward")],
            terminated=terminated,
            truncated=not terminated and self.t == self.truncate_at,
            simtime=SimTime(simtime_ticks=self.t),
        )

    def _place(self) -> int:
        return int(getattr(self, "index", 0))

    def _observation(self) -> np.ndarray[Any, Any]:
        return np.array([0 if self.anonymous else self._place(), self.resets, self.t, 0], dtype=np.int64)

    def _readings(self) -> list[SensorInformation]:
        return [SensorInformation(self._observation(), OBSERVATION, "observation")]

    def _verify(self, actuators: list[ActuatorInformation]) -> None:
        expected = checksum([self._observation()])
        for actuator in actuators:
            if actuator.value != expected:
                raise ValueError(
                    f"{self.uid}, episode {self.resets}, step {self.t + 1}: expected the answer {expected} to "
                    f"{self._observation().tolist()}, found {actuator.value}"
                )
