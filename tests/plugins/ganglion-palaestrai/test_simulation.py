from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ganglion.sdk import Setpoints, Signal, StepResult
from ganglion_palaestrai.simulation import FlowControlChange, SimulationController

Make = Callable[..., Any]


class Bus:
    """Answer a controller, and end the episode in the third step."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def act(self, agents: Sequence[str]) -> Setpoints:
        """Give two setpoints for each agent."""
        assert all(type(agent) is str for agent in agents)
        return {agent: [agent, len(agent)] for agent in agents}

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        """Remember what was set."""
        self.heard.append((dict(setpoints), list(agents)))
        if len(self.heard) % 3 == 0:
            raise FlowControlChange("over")
        return StepResult(len(self.heard), {}, {})

    def signal(self, signal: Signal, reason: str) -> None:
        """Hear nothing."""


class AllAtOnce(SimulationController):
    """Let all act, step by step."""

    async def advance(self) -> None:
        responses = await self.act(self.agents)
        await self.step(self.agents, [a for response in responses for a in response.actuators])


class Turns(SimulationController):
    """Run the loop of an episode, and catch its end."""

    async def simulate(self) -> None:
        turn = 0
        while self.is_running:
            agent = list(self._agents.values())[turn % 2]
            try:
                response = (await self.act([agent]))[0]
                assert response.sender == agent.uid == agent.name
                await self.step([agent], response.actuators)
            except FlowControlChange:
                pass
            turn += 1
        await self.flow_control()


def test_a_step_of_all(make: Make) -> None:
    """`act` and `step` carry the setpoints of every agent to the bus, in order; the end passes through."""
    controller, bus = make(AllAtOnce), Bus()
    controller.bus, controller.agents = bus, ["One", "Three"]
    with pytest.raises(FlowControlChange, match="over"):
        asyncio.run(controller.simulate())

    assert [({"One": ["One", 3], "Three": ["Three", 5]}, ["One", "Three"])] * 3 == bus.heard


def test_a_loop_that_catches_the_end(make: Make) -> None:
    """A loop over `is_running` ends with its episode, and runs again in the next one."""
    controller, bus = make(Turns), Bus()
    controller.bus, controller.agents = bus, ("One", "Three")
    asyncio.run(controller.simulate())
    first = len(bus.heard)
    asyncio.run(controller.simulate())

    assert (3, 6) == (first, len(bus.heard))
    assert [["One"], ["Three"], ["One"]] * 2 == [agents for _, agents in bus.heard]


def test_step_is_a_number_too(make: Make) -> None:
    """`step` is what the bus has set, as a number."""
    controller = make(AllAtOnce)
    controller.step = 4

    assert (4, 5) == (controller.step, controller.step + 1)
