"""Compaction: when the state of a process replaces its journal, and what that state is within a phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ganglion.errors import AuthorError, LimitExceeded, RemoteProtocolError
from ganglion.limits import JOURNAL_BEGIN_BYTES, JOURNAL_BEGIN_S
from ganglion.peer.journal.snapshot import NotPlain, Snapshot, State
from ganglion.peer.models import ModelStore
from ganglion.peer.participant import Participant
from ganglion.peer.results.records import Ordinals, Records
from ganglion.peer.worker.world import Phase, World
from ganglion.run.governor import Governor
from ganglion.wire.messages import FlowSignal, Verdict

_TIMES_SIZE = 2  # the length at which a journal is compacted, in lengths of the state with which it begins
_TIMES_COST = 50.0  # the work between two compactions, in durations of the last one: 2 % of the time
_STATE_BYTES_PER_S = 4 * 1024 * 1024  # of states written because of the age of a journal: at most 14 GiB in an hour


class Compaction:
    """Replace a journal by the state of its process once the journal is long, in bytes or in time.

    The larger a state is, and the longer a compaction takes, the longer the journal becomes before the next one.
    A state that cannot be taken is no error: the process warns once and keeps its whole journal.
    """

    def __init__(self, participant: Participant, whose: str, check: Callable[[], None]) -> None:
        self._participant, self._whose, self._check = participant, whose, check
        self.refused = False  # whether a state could not be taken
        self._first = True  # whether no boundary has been reached yet
        self._begin()

    def _begin(self, cost_s: float = 0.0) -> None:
        since_s, base_bytes = self._participant.clock(), self._participant.journal_bytes
        self._base_bytes = base_bytes
        self._until_bytes = base_bytes + max(JOURNAL_BEGIN_BYTES, _TIMES_SIZE * base_bytes)
        self._until_s = since_s + max(JOURNAL_BEGIN_S, _TIMES_COST * cost_s, base_bytes / _STATE_BYTES_PER_S)

    def restore_or_compact(self, take: Callable[[], State], put: Callable[[State], None]) -> bool:
        """Restore a predecessor's state by `put`, or compact the journal by `take` if due; call this at a boundary.

        Returns whether a state was restored; the caller then skips the work that leads to this boundary.
        """
        participant = self._participant
        if not self._first and participant.is_short(self._until_bytes, self._until_s):
            return False
        if not participant.recorded:
            return False
        first, self._first = self._first, False
        state = participant.state_of_predecessor(first)
        if state is not None:
            self.restore(state, put)
            return True
        if first:
            self._try(self._check)
        if self.due:
            began_s = participant.clock()
            self._try(lambda: participant.begin_journal(None, take()))
            self._begin(participant.clock() - began_s)
        return False

    @property
    def due(self) -> bool:
        """Return whether the journal is long and nothing is open."""
        participant = self._participant
        if not participant.journals:
            self._begin()
            return False
        size_bytes = participant.journal_bytes
        old = participant.clock() >= self._until_s and size_bytes > self._base_bytes
        return (size_bytes > self._until_bytes or old) and participant.idle and not self.refused

    def restore(self, state: Any, put: Callable[[Any], None]) -> None:
        """Restore a state; a process that cannot do so ends like one whose replay differs."""
        try:
            put(state)
        except (AuthorError, RemoteProtocolError) as error:
            raise self._participant.differs(f"the predecessor's state cannot be restored: {error};") from error
        self._begin()

    def _try(self, act: Callable[[], object]) -> None:
        """Take or check a state; on failure keep the journal and warn."""
        try:
            act()
        except (NotPlain, AuthorError, LimitExceeded) as error:
            self.refused = True
            text = "without save_state and load_state the whole journal is kept, and a loss costs more in a long phase"
            self._participant.warn(f"{self._whose}: {error}; {text}")


_OURS = ("agents", "environments")
_PASSING = [f"controller.{name}" for name in ("bus", "readings", "rewards", "step", "episode")]  # set for each episode
_BOOKS = ("tick", "heeded", "steps_left", "evaluation")
_SEEN = ("rewards", "readings", "earned", "ticks", "timestamp", "terminated", "truncated", "state", "history")
_SEEDS = ("episode_seed", "episode_stream")  # of the messages that open an environment again


class WorkerCompaction:
    """Compact a worker's journal at the begin of an episode, once the journal is long.

    Make the object at the begin of a phase's first episode, before the first call of the controller.
    """

    def __init__(self, participant: Participant, phase: Phase, records: Records) -> None:
        self._participant, self._phase, self._records = participant, phase, records
        parts: dict[str, Any] = {"controller": (phase.controller, _OURS)}
        for i, (name, condition) in enumerate(phase.conditions):
            parts[f"condition {i} ({name})"] = (condition, ())
        self._snapshot = Snapshot(parts, passing=_PASSING)
        self._compaction = Compaction(participant, phase.hooks.where, self._snapshot.check)

    def restore_or_compact(
        self, verdict: Verdict, mine: Callable[[], list[Any]], loose: bool
    ) -> tuple[Verdict, list[Any]] | None:
        """Return the verdict and the host's state that a predecessor saved at this episode; None without them.

        Args:
            verdict: With which the episode begins.
            mine: Returns the state of the host that is not part of the phase.
            loose: Whether tasks of the controller outlive its episode; such a state cannot be taken.
        """
        found: list[tuple[Verdict, list[Any]]] = []

        def take() -> State:
            if loose:
                raise NotPlain("tasks of the controller outlive its episode")
            phase = self._phase
            books = {name: getattr(phase, name) for name in _BOOKS}
            books |= {"verdict": verdict, "signals": list(phase.signals), "records": self._records.state()}
            books |= {"mine": mine(), "worlds": [_world(phase, world) for world in phase.worlds]}
            books["topics"] = phase.topics.state()
            books["actors"] = [[actor.told_rewards, actor.earned] for actor in phase.actors]
            return self._snapshot.take(books, self._participant.takes_attributes)

        def put(state: State) -> None:
            read = self._snapshot.read(state)
            self._snapshot.put(read)
            books = read["books"]
            self._records.restore(books["records"])
            _cross(self._phase, books)
            found.append((books["verdict"], books["mine"]))

        self._compaction.restore_or_compact(take, put)
        return found[0] if found else None


def _cross(phase: Phase, books: Mapping[str, Any]) -> None:
    """Restore the state of a worker."""
    phase.signals.clear()
    phase.signals.extend(books["signals"])
    for name in _BOOKS:
        setattr(phase, name, books[name])
    connected = all(world.rewards is not None for world in phase.worlds)
    phase.topics.restore(books["topics"])
    for world, seen in zip(phase.worlds, books["worlds"], strict=True):
        _look(world, seen)
    if not connected and all(world.rewards is not None for world in phase.worlds):
        phase.connect_rewards(declare=False)
    for actor, (told, earned) in zip(phase.actors, books["actors"], strict=True):
        actor.told_rewards, actor.earned = told, earned


def _world(phase: Phase, world: World) -> dict[str, Any]:
    if phase.ticks is None and world.history is not None and world.history.steps:  # usual with bodies
        raise NotPlain(f"environment {world.uid} is within an episode")
    seeds = {name: world.setup[name] for name in _SEEDS if name in world.setup}
    return {"seeds": seeds, **{name: getattr(world, name) for name in _SEEN}}


def _look(world: World, seen: Mapping[str, Any]) -> None:
    declares = world.rewards is None and seen["rewards"] is not None
    for name in _SEEN:
        setattr(world, name, seen[name])
    world.setup.update(seen["seeds"])
    if declares:
        world.checks.declare("rewards", world.rewards or [])
    world.checks.begin()
    world.checks.pass_time(world.ticks, world.timestamp)


Signals = dict[str, list[FlowSignal]]


class GovernorCompaction:
    """Compact a governor's journal within a phase, once the journal is long.

    Make the object when the phase's episodes run; no call is open then or at later boundaries.
    """

    def __init__(
        self,
        participant: Participant,
        governor: Governor,
        conditions: Mapping[str, Any],
        ordinals: Ordinals,
        records: Records,
        models: ModelStore,
    ) -> None:
        self._participant, self._records, self._models = participant, records, models
        self._governor, self._ordinals = governor, ordinals
        parts = {f"condition {name}": (condition, ("phase",)) for name, condition in conditions.items()}
        self._snapshot = Snapshot(parts)
        self._compaction = Compaction(participant, "governor", self._snapshot.check)
        self._note = models.note()

    def restore_or_compact(
        self, numbers: Mapping[str, int], said: Signals, put: Callable[[Any, Signals], None]
    ) -> None:
        """Restore a predecessor's state by `put`, or compact the journal if due; call this at a boundary.

        `numbers` has the last number of a signal to each controller, `said` the signals of this phase.
        """

        def take() -> State:
            ordinals = [self._ordinals.note(), self._ordinals.orders]
            books = {"governor": self._governor.state(), "ordinals": ordinals, "numbers": dict(numbers)}
            books |= {"records": self._records.state(), "said": dict(said), "rows": self._fresh_rows()}
            return self._snapshot.take(books, self._participant.takes_attributes)

        def go_on(state: State) -> None:
            read = self._snapshot.read(state)
            self._snapshot.put(read)
            books = read["books"]
            self._governor.restore(books["governor"])
            note, self._ordinals.orders = books["ordinals"]
            self._ordinals.restore(note)
            self._records.restore(books["records"])
            for row in books["rows"]:
                self._models.take(row)
            put(books["numbers"], books["said"])

        self._compaction.restore_or_compact(take, go_on)

    def _fresh_rows(self) -> list[list[Any]]:
        """Return the rows of phases recorded since the last call: those of evaluations, with their first one."""
        note = self._models.note()
        fresh = [row for row in note if row not in self._note]
        if any(row[0] != "phase" for row in fresh):
            raise NotPlain("models were stored within a phase")
        return fresh
