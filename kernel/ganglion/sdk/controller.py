"""Controller: the order in which agents act, within one worker."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ganglion.sdk.flow import Signal
from ganglion.sdk.part import Part

Setpoints = Mapping[str, Sequence[Any]]  # agent -> the values of its actuators in declared order


class EpisodeEnded(Exception):
    """End `advance` and `simulate`: the episode is over. Do not catch this exception."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class StepResult:
    """Give a controller the result of a step."""

    step: int  # its number in the episode, from 1
    readings: Mapping[str, Sequence[Any]]  # agent -> the values of its sensors in declared order
    rewards: Mapping[str, Sequence[Any]]  # agent -> the values of its rewards in declared order
    terminated: Mapping[str, bool] = field(default_factory=dict)  # environment -> whether it has no future
    truncated: Mapping[str, bool] = field(default_factory=dict)  # environment -> whether its episode was cut off


class ControllerBus(Protocol):
    """Carry out the requests of a controller."""

    async def act(self, agents: Sequence[str]) -> Setpoints:
        """Return the decisions of agents."""

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        """Apply setpoints, advance all environments and complete the step."""

    def signal(self, signal: Signal, reason: str) -> None:
        """Request flow control at the next boundary."""


class Controller(Part, ABC):
    """Decide which agents act in which order; the bus does the rest.

    Override `advance` (one step, repeated until the episode ends), or `simulate` (one episode).
    """

    # Whether its phases have bodies, each with timelines: then the bus makes the ticks, and neither `advance` nor
    # `simulate` is called.
    multiplicity: ClassVar[bool] = False
    agents: Sequence[str] = ()  # their names, in document order
    environments: Sequence[str] = ()  # their uids, in document order
    # Agent -> the full ids of its sensors, in declared order: those of `readings`.
    sensors: Mapping[str, Sequence[str]] = {}
    readings: Mapping[str, Sequence[Any]] = {}  # agent -> the values of its sensors, as of the last step or reset
    # Agent -> the values of its rewards of the last step; empty before the first one.
    rewards: Mapping[str, Sequence[Any]] = {}
    step: int = 0  # steps that have been made in this episode
    episode: int = 0  # number of the episode in this worker, from 0
    bus: ControllerBus  # carries out `act`, `update` and `signal`; set by the bus

    async def advance(self) -> None:
        """Make one step; repeated until the episode ends."""
        raise NotImplementedError(f"{type(self).__name__} has neither advance nor a simulate of its own")

    async def simulate(self) -> None:
        """Run one episode; the default repeats `advance` until `EpisodeEnded`, which passes through."""
        while True:
            await self.advance()

    def turn(self, step: int) -> Sequence[str]:
        """Return the agents that act after `step` steps of an episode; the default names all.

        With several workers a brain awaits the rows of all agents that act in a round. A controller that overrides this
        must act accordingly. Without an override the agents of the first `act` in a step act; the others pass.
        """
        return self.agents

    async def act(self, agents: Sequence[str]) -> Setpoints:
        """Return the setpoints of these agents, which decide at the same time. Each acts once in a step."""
        return await self.bus.act(agents)

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        """Apply setpoints, advance all environments, deliver the result to the agents that acted in this step.

        Environments get no other setpoints than these, each a value of its actuator's space. A decision takes the
        rewards of the first step that names its agent; one that none has named when its agent acts again, or when the
        episode ends, those of the newest step. EpisodeEnded: the episode is over; let it pass through.
        """
        return await self.bus.update(setpoints, agents)

    def signal(self, signal: Signal, reason: str = "") -> None:
        """Request flow control for this worker at the next step boundary."""
        self.bus.signal(Signal(signal), reason)
