from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import Any

import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.environment import (
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    EnvironmentStateTransformer,
    ResetRequest,
    Reward,
    StateTransformer,
    StepBatch,
)
from ganglion.sdk.information import ActuatorInformation, RewardInformation
from ganglion.sdk.simtime import SimTime
from ganglion.sdk.spaces import Discrete


class Plain(Environment):
    calls: list[str]

    def start_environment(self) -> EnvironmentBaseline:
        self.calls.append("start")
        return EnvironmentBaseline([], [])

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        return EnvironmentState([], [], terminated=True)

    def shutdown(self) -> bool:
        self.calls.append("shutdown")
        return True


class Async(Plain):
    async def start_environment(self) -> EnvironmentBaseline:  # type: ignore[override]
        self.calls.append("start")
        return EnvironmentBaseline([], [])

    async def shutdown(self) -> bool:  # type: ignore[override]
        self.calls.append("shutdown")
        return True


class Half(Plain):
    async def shutdown(self) -> bool:  # type: ignore[override]
        self.calls.append("shutdown")
        return True


@pytest.mark.parametrize("cls", [Plain, Async, Half])
def test_the_default_reset_shuts_down_and_starts(cls: type[Plain]) -> None:
    """In this order, whether the hooks are plain, async, or one of each."""
    environment = cls()
    environment.calls = []
    result: Any = environment.reset(ResetRequest(1, 5))

    async def wait() -> Any:
        return await result if isawaitable(result) else result

    assert isinstance(asyncio.run(wait()), EnvironmentBaseline)
    assert ["shutdown", "start"] == environment.calls


def test_a_baseline_begins_at_tick_0() -> None:
    """Without a time of its own an environment counts from 0."""
    assert SimTime(0, None) == EnvironmentBaseline([], []).simtime


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, (False, False, False)),
        ({"done": True}, (True, True, False)),
        ({"done": False}, (False, False, False)),
        ({"truncated": True}, (True, False, True)),
        ({"terminated": True, "truncated": False}, (True, True, False)),
    ],
)
def test_done_follows_from_the_flags(flags: dict[str, bool], expected: tuple[bool, bool, bool]) -> None:
    """`done` alone means terminated; the attribute follows from the two others."""
    state = EnvironmentState([], [], **flags)

    assert expected == (state.done, state.terminated, state.truncated)


@pytest.mark.parametrize(
    "flags", [{"terminated": True, "truncated": True}, {"done": True, "terminated": False, "truncated": False}]
)
def test_contradicting_flags_raise(flags: dict[str, bool]) -> None:
    """Terminated and truncated exclude each other, and `done` needs one of them."""
    with pytest.raises(AuthorError):
        EnvironmentState([], [], **flags)


def test_positions_are_those_that_authors_know() -> None:
    """Sensors, rewards, done, world state, time: in this order."""
    reward = RewardInformation(1, Discrete(2), "r")
    state = EnvironmentState([], [reward], True, {"x": 1}, SimTime(3))

    assert ([reward], True, {"x": 1}, SimTime(3)) == (state.rewards, state.done, state.world_state, state.simtime)


def test_a_batched_environment_needs_its_method() -> None:
    """The message says what lacks."""
    with pytest.raises(NotImplementedError, match="update_batch"):
        Plain().update_batch({})


def test_defaults_of_the_optional_hooks() -> None:
    """Without overrides: unknown length, no shutdown result, nothing to reset, no call for the baseline."""

    class Same(StateTransformer):
        def __call__(self, state: EnvironmentState) -> EnvironmentState:
            return state

    class Nought(Reward):
        def __call__(self, state: EnvironmentState) -> list[RewardInformation]:
            return []

    assert Plain.longest_episode(anything=1) is None
    assert Environment.shutdown(Plain()) is None
    assert (Same().reset(), Nought().reset(), Same.baseline) == (None, None, False)
    assert EnvironmentStateTransformer is StateTransformer


def test_a_step_batch_goes_on_by_default() -> None:
    """Flags that are not given are false."""
    batch = StepBatch({}, {})

    assert (False, False, None) == (batch.terminated, batch.truncated, batch.simtime)
