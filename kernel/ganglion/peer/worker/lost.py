"""Lost environments: what an environment was told in its open episode, and how a successor is led through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ganglion.errors import CallFailed, GanglionError, Nondeterministic, PeerLost
from ganglion.limits import LOSSES_AT_ONE_STEP
from ganglion.peer.author import is_loss, is_unreachable
from ganglion.peer.conversation import Pending
from ganglion.wire.codec import codec_of
from ganglion.wire.journal import digest
from ganglion.wire.messages import EnvironmentReset, EnvironmentStart, EnvironmentUpdate, Rebuild, Rebuilt
from ganglion.wire.name import label
from ganglion.wire.parcel import encoded

if TYPE_CHECKING:
    from ganglion.peer.worker.world import Phase, World


@dataclass(frozen=True, slots=True)
class Told:
    """One step: what the environment was given, and what stands for its answer."""

    update: EnvironmentUpdate
    answer: bytes


@dataclass(slots=True)
class CommandHistory:
    """Keep the open episode of one environment, whose object `start` made in episode `made`.

    `reset` opened the episode, with the state of the generators before that; None if the start opened it.
    """

    start: Any
    made: int
    started: bytes
    reset: EnvironmentReset | None = None
    opened: bytes = b""
    steps: list[Told] = field(default_factory=list)
    losses: dict[int, int] = field(default_factory=dict)  # step -> how often it was lost there

    @property
    def episode(self) -> int:
        """Return the number of the open episode."""
        return self.made if self.reset is None else self.reset.episode

    def began(self, reset: EnvironmentReset, answer: bytes) -> None:
        """Begin the next episode; what was before is not needed any more."""
        self.reset, self.opened = reset, answer
        self.steps, self.losses = [], {}


def await_successor(phase: Phase, peer: str, error: GanglionError) -> None:
    """Wait until a lost peer, or its successor, has joined; raises `error` if the run does not wait for this peer."""
    report = Rebuild(phase.setup.worker, peer, is_unreachable(error))
    answer: Rebuilt = phase.participant.call(phase.governor, "governor.rebuild", report, None)
    if not answer.joined:
        raise error


class Replayer:
    """Mend the calls of one step, or of one reset: `messages` are what these worlds were asked, in their order.

    The successor is told again what the lost one was told since its object was made, and must give the same answers;
    then it is asked what the lost one did not answer.
    """

    def __init__(self, phase: Phase, worlds: Sequence[World], messages: Sequence[Any]) -> None:
        self._phase, self._worlds, self._messages = phase, worlds, messages
        self._doubted: set[int] = set()  # places whose environment was led once because of an error of its own

    def __call__(self, place: int, error: GanglionError) -> Pending:
        """Return the call asked anew of a successor; raises the error if there is none, or no more."""
        world = self._worlds[place] if place < len(self._worlds) else None
        history = None if world is None else world.history
        if world is None or history is None:
            raise error
        if not is_loss(error) and (place in self._doubted or not isinstance(error, CallFailed)):
            raise error  # the environment's own, if it comes again after the environment was led here
        while True:
            if is_loss(error):
                if not is_unreachable(error):  # else no process has died: a broker was lost
                    self._count(world, history, error)
                await_successor(self._phase, world.peer, error)
            else:  # it may come of a successor that has joined unnoticed, while a broker was replaced
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
        """Lead a successor of an environment that was lost since it was asked last; return what it is asked then."""
        if world.history is None or world.peer not in self._phase.missing:
            return None
        return self(place, PeerLost(world.peer, "it was lost between two calls"))

    def _count(self, world: World, history: CommandHistory, error: GanglionError) -> None:
        """Note one more loss at this step; a process that dies too often at one place is given up."""
        step = len(history.steps) + 1
        losses = history.losses[step] = history.losses.get(step, 0) + 1
        if losses >= LOSSES_AT_ONE_STEP:
            text = f"poison: {label(world.peer)} died {losses} times at episode {history.episode}, step {step}"
            raise PeerLost(world.peer, f"{text}: {getattr(error, 'reason', error)}") from error

    def _lead(self, world: World, history: CommandHistory) -> None:
        """Ask what was asked before, and refuse another answer."""
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
    """Say whether an answer differs only in that it declares rewards: an object does so in its first update."""
    if getattr(found, "reward_ids", None) is None:
        return False
    body, blobs = encoded(codec_of(type(found)), replace(found, reward_ids=None))
    return digest([body, *blobs]) == answer


_CALLS: dict[type[Any], str] = {
    EnvironmentStart: "environment.start",
    EnvironmentReset: "environment.reset",
    EnvironmentUpdate: "environment.update",
}
