"""Simulation: controllers written for `palaestrai.simulation`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.sdk import Controller, Setpoints, StepResult
from ganglion.sdk import EpisodeEnded as FlowControlChange

__all__ = ["Agent", "AgentUpdateResponse", "FlowControlChange", "Setpoint", "SimulationController"]


class Agent(str):
    """Be an agent's name, which is also its `uid` and `name`."""

    __slots__ = ()

    @property
    def uid(self) -> str:
        """The agent's name."""
        return str(self)

    @property
    def name(self) -> str:
        """The agent's name."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Setpoint:
    """Hold one setpoint on its way from an agent to the environments; its place in `actuators` says which it is."""

    agent: str
    value: Any


@dataclass(frozen=True, slots=True)
class AgentUpdateResponse:
    """Answer for one agent: its setpoints, in the order of its actuators."""

    agent: Agent
    actuators: list[Setpoint]

    @property
    def sender(self) -> str:
        """The agent's name."""
        return str(self.agent)


class _Step(int):
    """Be the number of steps that were made, and when called make the next one: both are called `step`."""

    controller: SimulationController

    def __call__(self, agents: Sequence[str], setpoints: Sequence[Setpoint]) -> Coroutine[Any, Any, StepResult]:
        return self.controller.make_step(agents, setpoints)


class SimulationController(Controller, ABC):
    """Steer an episode by `act` and `step`; override `advance` or `simulate`.

    With several workers in lockstep a controller in which not every agent acts in every step overrides `turn`, too.

    Attributes:
        is_running: Whether the episode goes on. `FlowControlChange` ends it; catching that is allowed.
    """

    _agents_here: Sequence[Agent] = ()
    _running = True
    _steps = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "simulate" in cls.__dict__:
            theirs = cls.simulate

            async def simulate(self: SimulationController) -> None:
                self._running = True
                await theirs(self)

            cls.simulate = simulate  # type: ignore[assignment,method-assign]  # of a subclass

    @property
    def agents(self) -> Sequence[Agent]:
        """The agents, in document order."""
        return self._agents_here

    @agents.setter
    def agents(self, names: Sequence[str]) -> None:
        self._agents_here = [Agent(name) for name in names]

    @property
    def _agents(self) -> dict[str, Agent]:
        return {str(agent): agent for agent in self._agents_here}

    @property
    def is_running(self) -> bool:
        """Whether the episode goes on."""
        return self._running

    async def act(self, agents: Sequence[str]) -> Any:
        """Ask these agents for their decisions, all at once; return an `AgentUpdateResponse` for each."""
        found = await super().act([str(agent) for agent in agents])
        return [
            AgentUpdateResponse(Agent(agent), [Setpoint(str(agent), value) for value in found[str(agent)]])
            for agent in agents
        ]

    @property
    def step(self) -> _Step:
        """The steps made in this episode; called with agents and setpoints it makes the next one (`make_step`)."""
        step = _Step(self._steps)
        step.controller = self
        return step

    @step.setter
    def step(self, steps: int) -> None:
        self._steps = int(steps)

    async def make_step(self, agents: Sequence[str], setpoints: Sequence[Setpoint]) -> StepResult:
        """Apply setpoints of these agents and advance all environments.

        Raises:
            FlowControlChange: The episode is over; after that `is_running` is false.
        """
        chosen: dict[str, list[Any]] = {str(agent): [] for agent in agents}
        for setpoint in setpoints:
            chosen.setdefault(setpoint.agent, []).append(setpoint.value)
        return await self.update(chosen, list(chosen))

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        """Do as `step`, with values by agent."""
        try:
            return await super().update(setpoints, agents)
        except FlowControlChange:
            self._running = False
            raise

    async def flow_control(self) -> None:
        """Do nothing: at the end of an episode all agents are told by the bus."""
