"""Recovery: the command history by which an environment is replayed; episodes given up after a loss or RESTART."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ganglion.errors import CallFailed, GanglionError, Nondeterministic, PeerLost
from ganglion.limits import LOSSES_AT_ONE_STEP
from ganglion.peer.author import is_loss, is_unreachable
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Pending
from ganglion.wire.journal import digest
from ganglion.wire.messages import (
    Act,
    EnvironmentDeclared,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
    Rebuild,
    Rebuilt,
)
from ganglion.wire.name import label
from ganglion.wire.parcel import encoded

if TYPE_CHECKING:
    from ganglion.peer.worker.controller import ControllerHost
    from ganglion.peer.worker.ticks import ActRequest, Ticks, _Agent, _World
    from ganglion.peer.worker.world import Phase, World


@dataclass(frozen=True, slots=True)
class Command:
    """One step: the update that the environment received, and the digest of its reply."""

    update: EnvironmentUpdate
    answer: bytes


@dataclass(slots=True)
class CommandHistory:
    """Keep the commands of the open episode of one environment, whose object `start` made in episode `made`.

    `reset` began the episode, with the state of the generators before it; None if the start began it.
    """

    start: Any
    made: int
    started: bytes
    reset: EnvironmentReset | None = None
    opened: bytes = b""
    steps: list[Command] = field(default_factory=list)
    losses: dict[int, int] = field(default_factory=dict)  # step -> number of losses there

    @property
    def episode(self) -> int:
        """Return the number of the open episode."""
        return self.made if self.reset is None else self.reset.episode

    def began(self, reset: EnvironmentReset, answer: bytes) -> None:
        """Begin the next episode; earlier commands are dropped."""
        self.reset, self.opened = reset, answer
        self.steps, self.losses = [], {}


def await_successor(phase: Phase, peer: str, error: GanglionError) -> None:
    """Wait until a lost peer, or its successor, has joined; raises `error` if the run does not wait for this peer."""
    report = Rebuild(phase.setup.worker, peer, is_unreachable(error))
    answer: Rebuilt = phase.participant.call(phase.governor, "governor.rebuild", report, None)
    if not answer.joined:
        raise error


class Replayer:
    """Repeat the calls of one step, or reset, to successors; `messages` are the requests to these worlds, in order.

    The successor receives all commands that the lost process received since its object was made, and must give the same
    replies; then it receives the call that was not answered.
    """

    def __init__(self, phase: Phase, worlds: Sequence[World], messages: Sequence[Any]) -> None:
        self._phase, self._worlds, self._messages = phase, worlds, messages
        self._doubted: set[int] = set()  # places whose environment was replayed once after an error of its own

    def __call__(self, place: int, error: GanglionError) -> Pending:
        """Return the call to a successor; raises `error` if there is no successor, or too many were lost."""
        world = self._worlds[place] if place < len(self._worlds) else None
        history = None if world is None else world.history
        if world is None or history is None:
            raise error
        if not is_loss(error) and (place in self._doubted or not isinstance(error, CallFailed)):
            raise error  # a repeated error after a replay is the environment's own
        while True:
            if is_loss(error):
                if not is_unreachable(error):  # otherwise no process has died: a broker was lost
                    self._count(world, history, error)
                await_successor(self._phase, world.peer, error)
            else:  # the error may come from a successor that joined unnoticed, while a broker was replaced
                self._doubted.add(place)
            self._phase.missing.discard(world.peer)
            try:
                self._lead(world, history)
            except GanglionError as again:
                if not is_loss(again) or str(getattr(again, "peer", "")) != world.peer:
                    raise
                error = again
                continue
            return self._ask(world, history, self._messages[place], len(history.steps) + 1)

    def between(self, world: World, place: int) -> Pending | None:
        """Replay the successor of an environment that was lost between two calls; return its next call."""
        if world.history is None or world.peer not in self._phase.missing:
            return None
        return self(place, PeerLost(world.peer, "it was lost between two calls"))

    def _count(self, world: World, history: CommandHistory, error: GanglionError) -> None:
        """Count one more loss at this step; raises PeerLost if a process dies too often at one step."""
        step = len(history.steps) + 1
        losses = history.losses[step] = history.losses.get(step, 0) + 1
        if losses >= LOSSES_AT_ONE_STEP:
            text = f"poison: {label(world.peer)} died {losses} times at episode {history.episode}, step {step}"
            raise PeerLost(world.peer, f"{text}: {getattr(error, 'reason', error)}") from error

    def _lead(self, world: World, history: CommandHistory) -> None:
        """Send the earlier commands again; raises Nondeterministic for another reply."""
        asked = [(0, history.start, history.started)]
        if history.reset is not None:
            asked.append((0, history.reset, history.opened))
        asked += ((step, told.update, told.answer) for step, told in enumerate(history.steps, 1))
        for step, message, answer in asked:
            pending = self._ask(world, history, message, step)
            found = self._phase.participant.gather([pending])[0]
            if digest(pending.answer) != answer and not _equal_but_for_rewards(found, answer):
                where = f"{label(world.peer)}, episode {history.episode}, step {step}"
                call = _CALLS[type(message)]
                raise Nondeterministic(f"{where}: {call} is answered otherwise than before it was lost")

    def _ask(self, world: World, history: CommandHistory, message: Any, step: int) -> Pending:
        phase, call = self._phase, _CALLS[type(message)]
        position = (phase.setup.phase, phase.setup.worker, history.episode, 0, step, 0)
        return phase.participant.ask(world.peer, call, message, phase.span_s(call, world.peer), position)


def _equal_but_for_rewards(found: Any, answer: bytes) -> bool:
    """Return whether a reply differs only by its declaration of rewards, which an object gives in its first update."""
    if getattr(found, "reward_ids", None) is None:
        return False
    body, blobs = encoded(codec_of(type(found)), replace(found, reward_ids=None))
    return digest([body, *blobs]) == answer


_CALLS: dict[type[Any], str] = {
    EnvironmentStart: "environment.start",
    EnvironmentReset: "environment.reset",
    EnvironmentUpdate: "environment.update",
}


class EpisodeRecovery:
    """Close the open episodes of lost processes and start the successor's next one; make new objects for RESTART.

    The loss of an environment costs its open episode. The loss of a muscle costs the open episodes of all environments
    in which its agent has a body. Such an episode is `lost`: budgets and conditions do not count it. A decision that
    led to no step does not count. Other processes are not affected.
    """

    def __init__(self, ticks: Ticks, host: ControllerHost) -> None:
        self._ticks, self._host = ticks, host

    # -- environments -------------------------------------------------------------------------------------------------
    def replace_environment(self, world: _World, error: GanglionError) -> Pending:
        """Let a lost environment's successor begin its next episode; raises `error` if the run does not continue."""
        peer = world.world.peer
        self._host.await_again(self._ticks.phase, peer, error)
        self.close_lost(world, peer)
        return self.start_new_object(world)

    def start_new_object(self, world: _World) -> Pending:
        """Ask an environment to begin its next episode with a new object."""
        number, seed, words = self._ticks.seeds_of(world)
        world.world.setup |= {"episode_seed": seed, "episode_stream": words}
        return self._host.ask_start(self._ticks.phase, world.world, number)

    def took_new_object(self, world: _World, answer: Any) -> bool:
        """Say whether an answer is that of a new object; if so, record the answer."""
        if type(answer) is not EnvironmentDeclared:
            return False
        self._host.started(world.world, answer)
        world.is_new = True
        return True

    def close_lost(self, world: _World, peer: str) -> None:
        """Close the open episode of an environment after the loss of a peer."""
        ticks = self._ticks
        if not ticks.core.open(world.number):
            return
        for link in world.links:
            agent, places = link.agent, link.places
            vain = places[agent.tick[places] == ticks.core.tick]  # decisions for a step that was not made
            agent.decided[vain] = False
            for place in vain.tolist() if agent.noted else ():
                agent.noted.pop(place, None)
        ticks.close(world, f"lost: {label(peer).partition(' (')[0]}", lost=True)

    # -- muscles ------------------------------------------------------------------------------------------------------
    def replace_muscle(self, asked: ActRequest, error: GanglionError, lost: list[_Agent], leg: int) -> Pending:
        """Let the successor of a lost muscle pass on the lost call; raises `error` if the run does not continue."""
        agent = asked.agent
        self.set_up_successor(agent, error, lost)
        if self._ticks.play is not None:
            self._ticks.play.again(agent)
        message = Act([], decide=False, round=asked.message.round, workers=asked.message.workers, passing=True)
        return self._ticks.ask(agent, message, leg)

    def set_up_successor(self, agent: _Agent, error: GanglionError, lost: list[_Agent]) -> None:
        """Set up the successor of a lost muscle; raises `error` if the run does not continue."""
        self._host.set_up_again(self._ticks.phase, agent.actor.peer, error)
        if agent not in lost:
            lost.append(agent)

    def drop(self, lost: Sequence[_Agent]) -> None:
        """Drop the open decisions of these agents, whose muscles were lost, and close their episodes."""
        for agent in sorted(lost, key=self._ticks.agents.index):
            agent.decided[:] = False
            agent.ends, agent.late = [], []
            agent.dues = {place: due for place, due in agent.dues.items() if due[1] is not None}
            agent.noted.clear()
            for link in agent.links:
                self._ticks.give_up(link.world, agent.actor.peer)

    def next_episodes(self, agent: _Agent) -> list[int] | None:
        """Return the numbers of the next episodes of an agent's bodies; None while all are in their first episode."""
        core = self._ticks.core
        found = core.episode[agent.rows].copy()
        for link in agent.links:
            if core.clocks[link.world.number].end != "each":
                found[link.places] = core.episodes[link.world.number]
        found += core.alive[agent.rows]
        return found.tolist() if np.any(found) else None

    # -- all of them --------------------------------------------------------------------------------------------------
    def replace_all(self) -> None:
        """Create new muscles and new objects of the unfinished environments, after closing their open episodes."""
        ticks = self._ticks
        worlds = [world for world in ticks.worlds if not ticks.core.spent[world.number]]
        self._host.rebuild(
            ticks.phase, [world.world for world in worlds], lambda: list(map(self.start_new_object, worlds))
        )
        for world in worlds:
            world.is_new = True
        if ticks.play is not None:
            for agent in ticks.agents:
                ticks.play.again(agent)
