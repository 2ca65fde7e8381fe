"""Models from phase to phase: what each agent begins one with, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ganglion.run.effect import Effect, Event, Record
from ganglion.run.plan import AgentPlan, PhasePlan
from ganglion.run.services import Services
from ganglion.wire.messages import BrainStore, BrainStored

__all__ = ["Inheritance"]


class Inheritance:
    """Know the models of a run's agents.

    `first` is agent -> folder of the model that it begins this phase with; who begins afresh is not in it. `place`
    gives the folder of an agent's models: of a phase of this run, or below the agent's own shelf.
    """

    def __init__(self, services: Services, place: Callable[..., str]) -> None:
        self.first: dict[str, str] = {}
        self._services, self._place = services, place
        self._phase: PhasePlan
        self._shelves: dict[str, str] = {}  # agent -> folder below its `models`
        self._own: dict[tuple[int, str], str] = {}  # (phase, agent) -> folder of the model that it left with
        self._stored: dict[str, BrainStored] = {}  # answers to `brain.store` until the last has come

    def restore(self, models: Iterable[Sequence[Any]]) -> None:
        """Know again what `left` has told."""
        self._own = {(phase, agent): folder for phase, agent, folder in models}

    def left(self) -> list[list[Any]]:
        """Return phase, agent and folder of all models that agents have left phases with."""
        return [[*key, folder] for key, folder in self._own.items()]

    def enter(self, phase: PhasePlan) -> None:
        """Find out what every agent begins a phase with, before anybody is started for it.

        DocumentError: what `load` asks for was not found. StoreError: it is damaged.
        """
        services, self._phase = self._services, phase
        found = {agent.name: services.model(phase, agent, self._own) for agent in phase.agents}
        self.first = {name: folder for name, folder in found.items() if folder is not None}
        second = [agent for agent in phase.agents if agent.models and agent.brain is not None]
        self._shelves = {agent.name: services.shelf(agent) for agent in second}

    def hand_on(self, agents: Iterable[AgentPlan]) -> None:
        """Let agents without brains leave the phase with what they began it with."""
        for agent in agents:
            if agent.brain is None and agent.name in self.first:
                self._own[self._phase.index, agent.name] = self.first[agent.name]

    def request(self, agent: AgentPlan) -> BrainStore:
        """Return what tells a brain to store; where nobody learns it is the model that the phase began with."""
        shelf = self._shelves.get(agent.name)
        second = None if shelf is None else self._place(self._phase, agent.name, shelf)
        if self._phase.mode == "train":
            return BrainStore(second=second)
        models = self._place(self._phase, agent.name)
        return BrainStore(source=self.first[agent.name], models=models, second=second)

    def stored(self, agent: str, reply: BrainStored) -> None:
        """Hear what a brain has stored."""
        self._stored[agent] = reply

    def keep(self, agents: Sequence[str], episodes: int) -> list[Effect]:
        """Record what all brains have stored after so many episodes; the next phases begin with it.

        `agents` stand in document order, not in that of arrival: equal runs have equal tables.
        """
        stored, self._stored = self._stored, {}
        effects: list[Effect] = []
        for agent in agents:
            effects += self._keep(agent, stored[agent], episodes)
        return effects

    def _keep(self, agent: str, stored: BrainStored, episodes: int) -> list[Effect]:
        phase = self._phase
        effects: list[Effect] = []
        for file in stored.files:
            row = ["brain", phase.index, agent, file["tag"], episodes, file["updates"]]
            effects.append(Record([*row, self._services.now(), file["bytes"], file["sha256"], file["path"]]))
        if stored.files:
            self._own[phase.index, agent] = self._place(phase, agent)
            effects.append(Event("brain.stored", {"agent": agent, "files": len(stored.files)}))
        return effects
