"""Anew: environments and muscles of a phase with bodies that are made anew: for RESTART, or for their loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ganglion.peer.conversation import Pending
from ganglion.wire.messages import Act, EnvironmentDeclared
from ganglion.wire.name import label

if TYPE_CHECKING:
    from ganglion.errors import GanglionError
    from ganglion.peer.worker.controller import ControllerHost
    from ganglion.peer.worker.ticks import Asked, Ticks, _Agent, _World


class Anew:
    """Give up the open episodes of lost processes, and have its successor go on; make all anew for RESTART.

    The loss of an environment costs its open episode, that of a muscle those of all environments in which its agent
    has a body. Such an episode is `lost`: budgets and conditions do not count it. A decision that led to no step is
    none; no other process notices.
    """

    def __init__(self, ticks: Ticks, host: ControllerHost) -> None:
        self._ticks, self._host = ticks, host

    # -- environments -------------------------------------------------------------------------------------------------
    def environment(self, world: _World, error: GanglionError) -> Pending:
        """Have the successor of a lost environment begin its next episode; raises the error if it costs more."""
        peer = world.world.peer
        self._host.await_again(self._ticks.phase, peer, error)
        self.lose(world, peer)
        return self.start(world)

    def start(self, world: _World) -> Pending:
        """Ask an environment to begin its next episode with a new object."""
        number, seed, words = self._ticks.seeds_of(world)
        world.world.setup |= {"episode_seed": seed, "episode_stream": words}
        return self._host.ask_start(self._ticks.phase, world.world, number)

    def is_anew(self, world: _World, answer: Any) -> bool:
        """Take the answer of a new object; any other is not taken."""
        if type(answer) is not EnvironmentDeclared:
            return False
        self._host.started(world.world, answer)
        world.anew = True
        return True

    def lose(self, world: _World, peer: str) -> None:
        """Give up the open episode of an environment for the loss of a peer."""
        ticks = self._ticks
        if not ticks.core.open(world.number):
            return
        for link in world.links:
            agent, places = link.agent, link.places
            vain = places[agent.tick[places] == ticks.core.tick]  # they were to act in a step that was not made
            agent.decided[vain] = False
            for place in vain.tolist() if agent.noted else ():
                agent.noted.pop(place, None)
        ticks.close(world, f"lost: {label(peer).partition(' (')[0]}", lost=True)

    # -- muscles ------------------------------------------------------------------------------------------------------
    def muscle(self, asked: Asked, error: GanglionError, lost: list[_Agent], leg: int) -> Pending:
        """Have the successor of a lost muscle pass what the lost one was asked; raises the error if it costs more."""
        agent = asked.agent
        self.set_up(agent, error, lost)
        if self._ticks.play is not None:
            self._ticks.play.again(agent)
        message = Act([], decide=False, round=asked.message.round, workers=asked.message.workers, passing=True)
        return self._ticks.ask(agent, message, leg)

    def set_up(self, agent: _Agent, error: GanglionError, lost: list[_Agent]) -> None:
        """Have the successor of a lost muscle take part; raises the error if it costs more."""
        self._host.set_up_again(self._ticks.phase, agent.actor.peer, error)
        if agent not in lost:
            lost.append(agent)

    def forget(self, lost: Sequence[_Agent]) -> None:
        """Give up what the lost muscles of these agents had in hand."""
        for agent in sorted(lost, key=self._ticks.agents.index):
            agent.decided[:] = False
            agent.ends, agent.late = [], []
            agent.dues = {place: due for place, due in agent.dues.items() if due[1] is not None}
            agent.noted.clear()
            for link in agent.links:
                self._ticks.give_up(link.world, agent.actor.peer)

    def numbers(self, agent: _Agent) -> list[int] | None:
        """Return the numbers of the next episodes of an agent's bodies; None as long as all are the first."""
        core = self._ticks.core
        found = core.episode[agent.rows].copy()
        for link in agent.links:
            if core.clocks[link.world.number].end != "each":
                found[link.places] = core.episodes[link.world.number]
        found += core.alive[agent.rows]
        return found.tolist() if np.any(found) else None

    # -- all of them --------------------------------------------------------------------------------------------------
    def rebuild(self) -> None:
        """Make muscles anew, and the environments that go on; their open episodes have been closed."""
        ticks = self._ticks
        worlds = [world for world in ticks.worlds if not ticks.core.spent[world.number]]
        self._host.rebuild(ticks.phase, [world.world for world in worlds], lambda: list(map(self.start, worlds)))
        for world in worlds:
            world.anew = True
        if ticks.play is not None:
            for agent in ticks.agents:
                ticks.play.again(agent)
