from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ganglion.sdk.controller import Controller, EpisodeEnded, Setpoints, StepResult
from ganglion.sdk.flow import Signal


class Bus:
    """Keep what is asked of it; the episode ends after three steps."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    async def act(self, agents: Sequence[str]) -> Setpoints:
        self.calls.append(("act", list(agents)))
        return {agent: [1] for agent in agents}

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        self.calls.append(("update", dict(setpoints), list(agents)))
        steps = sum(1 for call in self.calls if isinstance(call, tuple) and call[0] == "update")
        if steps == 3:
            raise EpisodeEnded("terminated")
        return StepResult(steps, {}, {})

    def signal(self, signal: Signal, reason: str) -> None:
        self.calls.append((signal, reason))


class Reversed(Controller):
    async def advance(self) -> None:
        agents = list(reversed(self.agents))
        await self.update(await self.act(agents), agents)


def test_signals_go_to_the_bus() -> None:
    """A number stands for the signal of that force."""
    controller = Reversed()
    controller.bus = Bus()
    controller.signal(Signal.RESET, "tired")
    controller.signal(Signal(5))

    assert [(Signal.RESET, "tired"), (Signal.STOP_PHASE, "")] == controller.bus.calls


def test_a_controller_without_a_step_says_so() -> None:
    """A class that overrides neither method is named."""

    class Idle(Controller):
        pass

    with pytest.raises(NotImplementedError, match="Idle"):
        asyncio.run(Idle().simulate())
