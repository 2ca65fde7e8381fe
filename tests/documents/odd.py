"""An environment with a calendar, a reward and transformers that count how often they are called."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Reward,
    RewardInformation,
    SensorInformation,
    SimTime,
    StateTransformer,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Clocked(Environment):
    """Count quarters of an hour.

    Args:
        ids: Of its sensors and of its actuators.
        asks: Whether it computes its reward itself.
    """

    def __init__(self, ids: Sequence[str] = ("0",), asks: bool = False) -> None:
        self.ids, self.asks = list(ids), asks
        self.step = 0

    def start_environment(self) -> EnvironmentBaseline:
        self.step = 0
        actuators = [ActuatorInformation(0, Discrete(10), uid) for uid in self.ids]
        return EnvironmentBaseline(self._sensors(), actuators, self._time())

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        self.step += 1
        rewards = [RewardInformation(0.5, Box(0.0, 1.0, ()), "plain")]
        state = EnvironmentState(self._sensors(), rewards, self.step == 3, {"step": self.step}, simtime=self._time())
        if self.asks:
            assert self.reward is not None
            found: Any = self.reward(state)
            state.rewards = [found]
        return state

    def _sensors(self) -> list[SensorInformation]:
        return [SensorInformation(self.step, Discrete(100), uid) for uid in self.ids]

    def _time(self) -> SimTime:
        return SimTime(900 * self.step, NOON + timedelta(minutes=15 * self.step))


class Calls(Reward):
    """Reward how often it was asked in this phase."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, state: EnvironmentState) -> RewardInformation:
        self.calls += 1
        return RewardInformation(self.calls, Discrete(1000), "calls")


class Shift(StateTransformer):
    """Add ten to every reading, the first of an episode too; leave how often it was called, and the state."""

    baseline = True

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        self.calls += 1
        for sensor in state.sensor_information:
            sensor.value = sensor.value + 10
        state.world_state = {"calls": self.calls, "was": state.world_state}
        return state


class Hide(StateTransformer):
    """Take the world's state away."""

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        state.world_state = None
        return state
