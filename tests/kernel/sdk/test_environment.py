from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import Any

import pytest

from ganglion.sdk.environment import Environment, EnvironmentBaseline, EnvironmentState, ResetRequest, StepBatch
from ganglion.sdk.information import ActuatorInformation


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


def test_a_batched_environment_needs_its_method() -> None:
    """The message says what lacks."""
    with pytest.raises(NotImplementedError, match="update_batch"):
        Plain().update_batch({})


def test_a_step_batch_goes_on_by_default() -> None:
    """Flags that are not given are false."""
    batch = StepBatch({}, {})

    assert (False, False, None) == (batch.terminated, batch.truncated, batch.simtime)
