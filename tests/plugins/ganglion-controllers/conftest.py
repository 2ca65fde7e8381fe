from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ganglion.sdk import Controller, EpisodeEnded, Setpoints, StepResult


class RecordingBus:
    """Do what a controller asks, write it down, and end the episode after so many steps."""

    def __init__(self, controller: Controller, steps: int) -> None:
        self.controller, self.steps = controller, steps
        self.asked: list[Any] = []

    async def act(self, agents: Sequence[str]) -> Setpoints:
        self.asked.append(("act", list(agents)))
        return {agent: [self.controller.step] for agent in agents}

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        self.asked.append(("update", dict(setpoints), list(agents)))
        self.controller.step += 1
        if self.controller.step == self.steps:
            raise EpisodeEnded("max_steps")
        return StepResult(self.controller.step, {}, {})

    def signal(self, signal: Any, reason: str) -> None:
        raise AssertionError("no signal is expected")


@pytest.fixture
def simulate(make: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return a function that runs episodes of a controller and returns what it asked for."""

    def _simulate(cls: type[Controller], agents: list[str], *lengths: int) -> list[Any]:
        controller = make(cls)
        controller.agents = agents
        asked = []
        for length in lengths:
            controller.step = 0
            controller.bus = RecordingBus(controller, length)
            with pytest.raises(EpisodeEnded):
                asyncio.run(controller.simulate())
            asked.append(controller.bus.asked)
        return asked

    return _simulate
