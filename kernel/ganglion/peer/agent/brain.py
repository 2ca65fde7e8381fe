"""Host of a brain: collects rows in canonical order, calls the brain, sends updates to muscles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from ganglion.errors import AuthorError, DocumentError, GanglionError, RemoteProtocolError
from ganglion.peer.agent.decision import Notes, evaluated, signal_of
from ganglion.peer.agent.filters import LearningFilters
from ganglion.peer.agent.host import AgentHost, Part, shown_behind
from ganglion.peer.agent.replay import Learner, provider
from ganglion.peer.agent.table import Tables
from ganglion.peer.agent.transitions import (
    Row,
    RowWriter,
    Stack,
    by_groups,
    joined_transitions,
    matrix,
    parted,
    taken,
    taken_blocks,
)
from ganglion.peer.author import Loader, Tolerated, continues, failure_of
from ganglion.peer.journal.snapshot import Checkpoints, Generators, Snapshot, State, export, restore, streams_of
from ganglion.peer.models import files_of
from ganglion.peer.participant import DEFERRED
from ganglion.peer.step.arrays import learns_arrays
from ganglion.peer.step.layout import ROW_NUMBER, Groups, Layout
from ganglion.peer.step.opponents import Opponents
from ganglion.peer.values import SIMPLE, copied, deserialize, serialize
from ganglion.sdk.brain import (
    Brain,
    CheckpointableBrain,
    EpisodeSummary,
    Evaluation,
    LateCredit,
    Transitions,
    Update,
    carries_update,
)
from ganglion.sdk.information import RewardInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.models import Models
from ganglion.wire.conversation import Request
from ganglion.wire.messages import (
    TERMINATED,
    TRUNCATED,
    BrainEvaluate,
    BrainEvaluated,
    BrainJoin,
    BrainLeave,
    BrainPretrain,
    BrainPretrained,
    BrainSetup,
    BrainStore,
    BrainStored,
    Done,
    PolicyAsked,
    Think,
    Thought,
    UpdateAsked,
)

_LOOK_EVERY = 16  # requests: between two checks whether the journal is to be compacted
_WORKER = attrgetter("worker")
_OURS = (
    "memory",
    "bodies",
    "groups",
    "sensors",
    "actuators",
    "muscles",
    "static_world_models",
    "models",
    "phase",
    "tables",
)


@dataclass(slots=True)
class Round:
    """The messages of one round so far: worker -> its request and message."""

    awaited: tuple[int, ...]
    rows: dict[int, tuple[Request, Think | UpdateAsked]] = field(default_factory=dict)


@dataclass(slots=True)
class Newest:
    """An update in wire form; `version` counts the updates of the phase."""

    version: int
    data: Any
    blobs: list[bytes]


class BrainHost(AgentHost):
    """Host one brain per phase.

    A row names the workers whose rows belong to the same round. Once all of them have arrived, the brain thinks about
    them in the order of workers. In lockstep all rows are then answered. Pipelined, each row is answered at once with
    the update of the round before, and the next round acts while the brain thinks about this one. The order of arrival
    does not matter in both cases. In async each row is a round of its own, answered at once.
    """

    kind = "brain"
    calls = ("setup", "pretrain", "join", "think", "update", "leave", "policy", "evaluate", "store", "shutdown")

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        self._brain: Brain | None = None
        self._checkpoints: Checkpoints | None = None
        self._answered: int | None = None  # digest of the reply to the set-up
        self._requests = 0  # since the last check for compaction
        self._live = False  # whether all requests of a predecessor have been replayed

    # -- a phase ------------------------------------------------------------------------------------------------------
    def setup(self, request: Request, setup: BrainSetup) -> Done:
        """Make the brain and load its model."""
        sensors, actuators, attributes = self._begin(request, setup, setup.agent, {"uid": setup.agent})
        self._began, self._answered, self._brain, self._checkpoints = request, None, None, None
        self._notes = Notes(self._tolerated_errors)
        self._bodies = [(setup.agent, str(row[0]), int(row[1])) for row in setup.bodies or ()]
        known = list(self._bodies)
        self._bodies += [(setup.agent, str(row[0]), -1) for row in setup.dynamic or ()]
        self._outer = list(self._parts)  # declarations before filters, by groups
        own, hooks = attributes["rng"], self._hooks
        self._memory = Memory(rng=own)
        place = self.place
        self._models = Models(place.write(setup.models), None if setup.load is None else place.read(setup.load))
        attributes |= {
            "memory": self._memory,
            "bodies": known,
            "muscles": list(setup.muscles),
            "models": self._models,
            "phase": setup.phase,
        }
        self._tables = Tables(self._loader, setup.agent, setup.tables or (), self.participant)
        self._made_by: dict[int, int] = {}  # worker -> version of the update behind the decision in question
        if setup.tables:
            attributes["tables"] = self._tables.faces
            if setup.groups:
                text = "tables of an agent with bodies of several groups are not built yet"
                raise DocumentError(f"agent {setup.agent}: {text}")
        cls, params = (self._loader.load("brain", str(setup.plugin["name"])), setup.plugin.get("params") or {})
        self._check_groups(cls.takes_groups)
        if not setup.filters:  # filters declare other spaces
            for part in self._parts:
                hooks("check_spaces", partial(cls.check_spaces, **params), part.sensors, part.actuators)
        brain: Brain = hooks("__init__", lambda: self._loader.make("brain", setup.plugin, attributes))
        self._arrays = learns_arrays(brain)
        self._filters = None
        if setup.filters:
            count = len(self._parts)
            filters = self._filters = self._make_filters(LearningFilters, setup.filters, groups=count)
            declared = [filters.declare(brain, *part[2:], i) for i, part in enumerate(self._outer)]
            self._parts = [
                Part(
                    Layout([s.uid for s in seen], [s.space for s in seen]),
                    Layout([a.uid for a in moved], [a.space for a in moved]),
                    seen,
                    moved,
                )
                for seen, moved in declared
            ]
            sensors, actuators = brain.sensors, brain.actuators = declared[0]
            self._sensor_layout, self._actuator_layout = self._parts[0][:2]
            if setup.bodies:
                brain.groups = shown_behind(brain.groups, declared)
        # The objects of each group of bodies; those of the first serve an agent without groups.
        self._memories = [self._memory, *(Memory(rng=own) for _ in self._parts[1:])]
        for memory, part, outer in zip(self._memories, self._parts, self._outer, strict=True):
            memory.declare(part.sensors, part.actuators, applied=outer.actuators if setup.filters else None)
        self._stacks = [Stack(setup.agent, part[0], part[1], i) for i, part in enumerate(self._parts)]
        self._stack = self._stacks[0]
        if setup.rewards is not None:
            self._declare_rewards(setup.rewards)
        others = {} if self._filters is None else self._filters.generators
        streams = streams_of([*sensors, *actuators], setup.stream)
        self._generators = Generators({"rng": own, **others, **streams})
        self._learn_every = 0  # set by the brain; 0 until the first muscle joins
        self._rehearsed = False  # whether rows have passed filters before they arrive
        self._has_filters: dict[str, int] = {}  # muscle -> version of the arrays that the muscle has
        self._rounds: dict[int, Round] = {}
        self._round = -1  # the newest round that was thought about
        self._updates: dict[str, Newest] = {}  # muscle -> update for this muscle only; "" -> update for all
        self._version = 0
        self._has: dict[str, int] = {}
        self._thoughts = 0
        self._last_update: Any = None
        self._signals: dict[int, dict[str, Any]] = {}
        self._opponents = Opponents(setup.pools, setup.opponents) if setup.pools else None
        self._sources = [np.array(places) for places in setup.sources or ()]
        self._answers_first = setup.sync in ("pipelined", "async")
        self._late: Exception | None = None  # raised without an open request: the next request is answered with it
        hooks("setup", brain.setup)
        for memory in self._memories[1:]:
            memory.size_limit = self._memory.size_limit
        if setup.load is not None:
            self._load(brain, setup.load)
        checkpoint = self.participant.take_base()
        if checkpoint is not None:
            self._go_on_from(brain, checkpoint)
        self._checkpoints = (
            Checkpoints(setup.checkpoint_s, self.participant.clock)
            if setup.checkpoint_s is not None
            and isinstance(brain, CheckpointableBrain)
            and (self._filters is None or self._filters.can_be_kept)
            else None
        )
        self._brain = brain  # not set before the set-up is complete
        return Done()

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def tick(self) -> None:
        """Take a checkpoint if one is due; called between two requests."""
        brain, participant = self._brain, self.participant
        if brain is None:
            return
        if self._answered is None:
            self._answered = participant.answer_digest(self._began)
        checkpoints = self._checkpoints
        if self._rounds or self._late is not None:
            return
        if checkpoints is None:
            self._requests += 1
            # A state that a predecessor took follows a certain request; a state of this process may follow any.
            if not self._live or self._compaction is None or self._requests % _LOOK_EVERY == 0:
                self._live = not participant.playing
                self._restore_or_compact()
            return
        if not participant.journals or not checkpoints.due or not participant.idle:
            return
        began_s = participant.clock()
        assert isinstance(brain, CheckpointableBrain)
        state = self._hooks("export_checkpoint_state", export, brain, self._memory, self._generators, self._books())
        participant.begin_journal([(self._began, self._answered)], state)
        checkpoints.taken(began_s)

    def _snapshot_of(self, filters: dict[str, Any]) -> Snapshot:
        layouts = [layout for part in (*self._parts, *self._outer) for layout in part[:2]]
        spaces = [space for layout in layouts for space in layout.spaces]
        return Snapshot({"brain": (self._brain, _OURS), **filters}, self._memory, spaces, ("brain.last_update",))

    def _books(self) -> dict[str, Any]:
        """Return the state of this host besides the brain's."""
        newest = {  # encoded, so that a snapshot stores them as bytes
            muscle: [one.version, msgpack.packb(one.data), one.blobs] for muscle, one in self._updates.items()
        }
        return {
            "rewards": self._reward_ids,
            "updates": newest,
            "version": self._version,
            "round": self._round,
            "has": self._has,
            "thoughts": self._thoughts,
            "last_update": self._last_update,
            "signals": [[worker, signal] for worker, signal in self._signals.items()],
            "filters": None if self._filters is None else self._filters.export(),
            "has_filters": self._has_filters,
            "learn_every": self._learn_every,
            "notes": self._notes.export(),
            "opponents": None if self._opponents is None else self._opponents.state(),
            "memories": [memory.export() for memory in self._memories[1:]],
        }

    def _go_on(self, state: State) -> None:
        super()._go_on(state)
        self._running().last_update = self._last_update

    def _go_on_from(self, brain: Brain, checkpoint: Any) -> None:
        """Restore the exported state of a predecessor."""
        if not isinstance(brain, CheckpointableBrain):
            raise RemoteProtocolError("checkpoint: the brain is none that can go on from one")
        tree = checkpoint[0]["books"]["rewards"]
        if tree is not None:
            self._declare_rewards(tree)
        books = self._hooks("restore_checkpoint_state", restore, brain, self._memory, self._generators, checkpoint)
        self._read_books(books)
        brain.last_update = self._last_update

    def _read_books(self, books: Mapping[str, Any]) -> None:
        self._updates = {
            muscle: Newest(version, msgpack.unpackb(data), list(blobs))
            for muscle, (version, data, blobs) in books["updates"].items()
        }
        self._version, self._has, self._thoughts = books["version"], dict(books["has"]), books["thoughts"]
        self._round = books["round"]
        self._last_update = books["last_update"]
        self._signals = dict(books["signals"])
        self._has_filters = dict(books["has_filters"])
        self._learn_every = books["learn_every"]
        self._notes.restore(books["notes"])
        if self._opponents is not None:
            self._opponents.restore(books["opponents"])
        for memory, rows in zip(self._memories[1:], books["memories"], strict=True):
            memory.restore(rows)
        if self._filters is not None:
            self._filters.restore(books["filters"])

    def _load(self, brain: Brain, folder: str) -> None:
        """Let the brain load a model with its policy; errors name the model's folder."""
        try:
            self._last_update = brain.last_update = self._models.load("policy")
            if self._filters is not None:
                self._filters.load(self._models)
            self._hooks("load", brain.load)
        except GanglionError as error:
            error.add_note(f"model {folder}")
            raise

    def pretrain(self, request: Request, pretrain: BrainPretrain) -> BrainPretrained:
        """Let the brain learn from recorded episodes, before any muscle joins."""
        brain = self._running()
        learner = Learner(self._setup, brain, self._hooks, self._loader, self._filters, self._tolerated_errors)
        lesson = provider().lesson(pretrain, learner)
        if lesson.is_own:
            self._take(lesson.teach(self._last_update is not None))
            brain.pop_statistics()  # these belong to no decision, like a signal
            brain.pop_signal()
            return lesson.reply(self._tolerated_errors.pop())
        self._rehearsed = True
        for think in lesson.rows():
            if self._bodies:
                self._think_of_bodies([(request, self._of_body(think))])
            elif (row := self._row(request, think)) is not None:
                self._think([row])
            lesson.note(self._notes.pop(think.worker)[0] or [])
        self._rehearsed, self._hooks.step = False, None
        self._signals.clear()  # no muscle acts yet
        return lesson.reply()

    def _of_body(self, think: Think) -> Think:
        """Return a recorded decision in the form in which a body's muscle would send it."""
        if think.reward_ids is not None and think.reward_ids != self._reward_ids:
            self._declare_rewards(think.reward_ids)
        if None in think.rewards[0]:
            raise RemoteProtocolError("replay: a reward was not recorded, of which bodies have all")
        group = self._group_of(think)
        sensors, actuators = self._parts[group][:2]
        layouts = (sensors, actuators, self._reward_layouts[group], sensors)
        rows = (think.readings[0], think.applied[0], think.rewards[0], think.next_readings[0])
        fields = [one.field([one.from_row(row, "replay")]) for one, row in zip(layouts, rows, strict=True)]
        numbers = (np.array([number], "<i8").tobytes() for number in (think.decision, think.episode))
        flags = TERMINATED * think.terminated | TRUNCATED * think.truncated
        names = ("readings", "applied", "rewards", "next_readings", "decisions", "episodes")
        given: dict[str, Any] = dict(zip(names, (*fields, *numbers), strict=True))
        return replace(think, flags=bytes([flags]), data=None, **given)

    def _group_of(self, think: Think) -> int:
        """Return the group of the one body of a recorded decision."""
        return 0 if self._of_group is None else int(self._of_group[np.frombuffer(think.rows or b"", ROW_NUMBER)[0]])

    def join(self, request: Request, join: BrainJoin) -> Any:
        """Register a muscle; the reply is the newest update, or the initial one."""
        brain = self._running()
        if not self._learn_every:
            self._learn_every = self._told_every(brain)
        muscle = self._muscle(join.worker)
        if muscle not in self._updates and "" not in self._updates:
            with suppress(Tolerated):
                self._take(self._hooks.tolerate("initial_update", brain.initial_update, muscle))
            self._notes.take(join.worker, brain)
        self._has.pop(self._seat_name(join), None)
        self._has_filters.pop(self._seat_name(join), None)
        self._reply(request, join, None)
        return DEFERRED

    def _told_every(self, brain: Brain) -> int:
        """Return how often the brain learns; 1 if each of its replies is awaited."""
        every = brain.learn_every
        if type(every) is not int or every < 1:
            raise self._hooks.blame("setup", AuthorError(f"learn_every: expected an integer >= 1, found {every!r:.60}"))
        setup = self._setup
        alone = not setup.bodies and len(setup.muscles) == 1 and not self._answers_first and self._filters is None
        return every if alone and self._tables.alone and not continues(setup.plugin) else 1

    def leave(self, request: Request, leave: BrainLeave) -> Done:
        """Remove a muscle."""
        self._has.pop(self._seat_name(leave), None)
        self._has_filters.pop(self._seat_name(leave), None)
        return Done()

    def policy(self, request: Request, asked: PolicyAsked) -> Any:
        """Return the newest update to a muscle that evaluates or plays by it, or a drawn model.

        The reply does not count as an update that a training muscle has.
        """
        self._running()
        drawn = None if self._opponents is None or not asked.draw else self._opponents.draw(request.peer)
        version, packed, blobs = drawn or self._model()
        update, fresh, arrays = msgpack.unpackb(packed)
        self.participant.reply(request, Thought(update, fresh, filters=arrays, version=version), list(blobs))
        return DEFERRED

    def _model(self) -> list[Any]:
        """Return the newest update with its number, and the published arrays of filters, in wire form."""
        blobs: list[bytes] = []
        update = None if self._last_update is None else serialize(self._last_update, blobs, "update")
        filters = self._filters
        arrays = filters.travelling(blobs) if filters is not None and filters.version else None
        return [self._version, msgpack.packb([update, self._last_update is not None, arrays]), blobs]

    # -- filters ------------------------------------------------------------------------------------------------------
    def _filtered(self, row: Row) -> Row:
        """Return the newest row of the memory as changed by filters, and update the memory accordingly."""
        filters = self._filters
        if filters is None or self._rehearsed:
            return row
        filters.show_step(row.decision)
        data = filters.data(row.muscle, row.data)
        objective = filters.objective(row.muscle, row.objective)
        self._memory.annotate(copied(data))
        self._memory.complete(objective)
        return replace(row, data=data, objective=objective)

    def evaluate(self, request: Request, evaluate: BrainEvaluate) -> BrainEvaluated:
        """Let the brain evaluate an evaluation's episodes."""
        brain = self._running()
        evaluation = Evaluation(evaluate.number, tuple(EpisodeSummary(**row) for row in evaluate.episodes))
        found = self._hooks.excused(None, "evaluate", brain.evaluate, evaluation)
        reply: BrainEvaluated = self._hooks.excused(BrainEvaluated({}), "evaluate", evaluated, found)
        return replace(reply, excused=self._tolerated_errors.pop())

    def store(self, request: Request, store: BrainStore) -> BrainStored:
        """Store model and policy, or copy the model of `source` if none is learned; return the written files."""
        place, second = self.place, store.second
        if store.source is not None and store.models is not None:
            files = files_of(Path(place.read(store.source)))
            rows = place.copied(files, store.models)
            if second is not None:
                place.copied(files, second)
            return BrainStored([{**row, "updates": 0} for row in rows])
        brain = self._running()
        self._hooks("store", brain.store)
        if self._last_update is not None:
            self._hooks("store", self._models.save_value, self._last_update, "policy")
        if self._filters is not None:
            self._filters.store(self._models)
        written = self._models.written()
        rows = place.stored(written, self._setup.models)
        if second is not None:
            place.copied([Path(row["path"]) for row in written], second)
        return BrainStored([{**row, "updates": self._version} for row in rows], self._notes.left())

    def shutdown(self, request: Request, _: Any) -> Done:
        """End the phase for this brain."""
        if self._brain is not None:
            self._hooks.close()
            if self._filters is not None:
                self._filters.close()
            self._brain = None
        return Done()

    # -- thinking -----------------------------------------------------------------------------------------------------
    def think(self, request: Request, message: Think | UpdateAsked) -> Any:
        """Accept a row, or a request for the newest update; reply when the round is complete."""
        if self._brain is None or self._late is not None:
            self._running()
        seat = (
            message.worker * len(self._sources or "-") + message.source
        )  # its number among the muscles of all workers
        workers = message.workers or [seat]
        if seat not in workers:
            what = "worker" if not self._sources else "muscle"
            raise RemoteProtocolError(f"think.workers: {what} {seat} is not among {list(workers)}")
        if self._tables.feeds and not message.source:
            self._made_by[message.worker] = self._has.get(self._seat_name(message), 0)
        if self._answers_first:
            self._answer(request, message)
        if len(workers) == 1:
            self._think_together(request, [(request, message)])
            return DEFERRED
        awaited = tuple(workers)
        if message.round <= self._round and isinstance(message, UpdateAsked):
            if not self._answers_first:  # the round was completed without the caller, the successor of a lost muscle
                self._answer(request, message)
            return DEFERRED
        found = self._rounds.setdefault(message.round, Round(awaited))
        if found.awaited != awaited:
            text = f"think.workers: round {message.round} awaits {list(found.awaited)}, found {list(awaited)}"
            raise RemoteProtocolError(text)
        former = found.rows.get(seat)
        if former is not None and isinstance(message, UpdateAsked):
            found.rows[seat] = (request, former[1])  # from a successor: the row of the lost muscle counts
        else:
            found.rows[seat] = (request, message)
        if len(found.rows) == len(awaited):
            del self._rounds[message.round]
            self._round = message.round
            self._think_together(request, [found.rows[one] for one in awaited])
        return DEFERRED

    update = think  # the request for the newest update

    def _think_together(self, last: Request, rows: list[tuple[Request, Think | UpdateAsked]]) -> None:
        """Think about the rows of a round; `last` completed the round, and its errors are answered by the caller."""
        if self._setup.tables:
            place = last.head.position
            self._tables.at = [rows[0][1].round] if self._setup.workers > 1 or place is None else list(place[2:])
        try:
            if self._bodies:
                thinks = [(request, message) for request, message in rows if isinstance(message, Think)]
                before = self._thoughts
                decided = [one for one in thinks if one[1].objective or not one[1].late]
                if decided:
                    self._think_of_bodies(decided)
                if any(think.late for _, think in thinks):
                    self._credit([think for _, think in thinks if think.late])
                if self._opponents is not None and self._last_update is not None:
                    self._opponents.learned(self._thoughts - before, self._model)
                rows_left: list[tuple[Request, Think | UpdateAsked]] = []
            else:
                rows_left = rows
            together: list[Row] = []
            for request, message in rows_left:
                for think in parted(message) if isinstance(message, Think) else ():
                    row = self._row(request, think)
                    if row is None:
                        continue
                    if not self._arrays or len(rows) == 1:  # one by one, as if each had arrived alone
                        self._think([row])
                    else:
                        together.append(row)
            if together:
                self._think(together)
            if self._setup.tables:
                self._tables.settle()
                self._tables.at = None
        except Exception as error:
            if self._answers_first:
                self._late = error
                return
            for request, _ in rows:
                if request is not last:
                    self.participant.fail(request, failure_of(error))
            raise
        if not self._answers_first:
            for request, message in rows:
                self._answer(request, message)

    def _think_of_bodies(self, rows: Sequence[tuple[Request, Think]]) -> None:
        """Think about the decisions of many bodies, worker by worker."""
        brain, filtered = self._running(), self._filters is not None and not self._rehearsed
        if self._sources and not self._rehearsed:
            rows = [(request, self._numbered(think)) for request, think in rows]
        for _, think in rows:
            if think.reward_ids is not None and think.reward_ids != self._reward_ids:
                self._declare_rewards(think.reward_ids)
            if self._rewards is None:
                raise RemoteProtocolError("think.rewards: they were not declared")
        parts: list[list[tuple[Request, Think]]] = [[] for _ in self._stacks]
        for request, think in rows:
            if self._rehearsed:
                parts[self._group_of(think)].append((request, think))
                continue
            groups = by_groups(think, *self._group_layouts) if self._setup.groups else [think]
            for part, mine in zip(parts, groups, strict=True):
                part += [] if mine is None else [(request, mine)]
        each: list[tuple[int, int, int, Transitions, Think]] = []  # number of the worker, row; index and chunk
        numbers = {worker: i for i, worker in enumerate(dict.fromkeys(think.worker for _, think in rows))}
        workers = [think.worker for _, think in rows]
        for stack, memory, part in zip(self._stacks, self._memories, parts, strict=True):
            chunks = [stack.bodies(think, self._bodies, request.blobs) for request, think in part]
            if len(part) > 1 and self._sources:
                part, chunks = self._in_view(part, chunks)
            self._thoughts += sum(map(len, chunks))
            brain.memory = memory
            if not self._arrays:
                for chunk, (_, think) in zip(map(self._fed, chunks), part, strict=True):
                    places = enumerate(np.frombuffer(think.rows or b"", ROW_NUMBER).tolist())
                    each += [(numbers[think.worker], row, i, chunk, think) for i, row in places]
                continue
            if filtered:
                chunks = [self._filtered_bodies(chunk, think) for chunk, (_, think) in zip(chunks, part, strict=True)]
            elif memory.size_limit > 0:
                for chunk, (_, think) in zip(chunks, part, strict=True):
                    self._recall(chunk, think, slice(None))
            if any(map(len, chunks)):
                batch = self._fed(joined_transitions(chunks))
                self._hooks.step = int(batch.step[0])
                self._hear("learn", brain.learn, (batch,), workers)
        for _, _, i, chunk, think in sorted(each, key=lambda one: one[:2]) if self._setup.groups else each:
            self._recall(chunk, think, slice(i, i + 1))
            data = chunk.data[i]
            if filtered:
                try:
                    data, _ = self._filtered_row(chunk, i)
                except Tolerated:
                    self._memories[chunk.group].annotate(None)
                    self._notes.take(think.worker, brain)
                    continue
            self._hooks.step = int(chunk.step[i])
            self._hear("thinking", brain.thinking, (chunk.muscle[i], data), [think.worker])
        brain.memory = self._memory

    def _fed(self, batch: Transitions) -> Transitions:
        """Insert decisions into the tables that the agent feeds, and return them."""
        if self._tables.feeds and not self._rehearsed:
            workers = [int(muscle.rpartition("/")[2]) for muscle in batch.muscle]
            self._tables.feed(batch, [-1 if self._sources else self._made_by.get(worker, 0) for worker in workers])
        return batch

    def _credit(self, thinks: Sequence[Think]) -> None:
        """Pass the late rewards of bodies to the brain."""
        credits_ = []
        for think in thinks:
            places = self._sources[think.source].tolist() if self._sources else range(len(self._bodies))
            for one in think.late or ():
                if len(one) != 7 or type(one[0]) is not int or not 0 <= one[0] < len(places):
                    raise RemoteProtocolError(
                        f"think.late: expected lists of seven, of bodies there are, found {one!r:.80}"
                    )
                agent, uid, _ = self._bodies[places[one[0]]]
                credits_.append(LateCredit(self._muscle(think.worker), (agent, uid, one[1]), *one[2:]))
        brain = self._running()
        self._hear("late", brain.late, (credits_,), [think.worker for think in thinks])

    def _filtered_row(self, chunk: Transitions, i: int) -> tuple[Any, float | None]:
        """Return data and objective of the newest row in the memory as changed by filters."""
        objective, filters = float(chunk.objectives[i]), self._filters
        assert filters is not None
        filters.show_step(int(chunk.step[i]))
        data = filters.data(chunk.muscle[i], chunk.data[i], chunk.group)
        found = filters.objective(chunk.muscle[i], None if objective != objective else objective, chunk.group)
        self._memories[chunk.group].annotate(copied(data))
        self._memories[chunk.group].complete(found)
        return data, found

    def _filtered_bodies(self, chunk: Transitions, think: Think) -> Transitions:
        """Write rows into the memory; return the rows as changed by filters, without rows of tolerated errors."""
        kept: list[int] = []
        data: list[Any] = []
        objectives: list[float] = []
        memory = self._memories[chunk.group]
        for i in range(len(chunk)):
            if memory.size_limit > 0:
                self._recall(chunk, think, slice(i, i + 1))
            try:
                one, objective = self._filtered_row(chunk, i)
            except Tolerated:
                memory.annotate(None)
                self._notes.take(think.worker, self._running())
                continue
            kept.append(i)
            data.append(one)
            objectives.append(np.nan if objective is None else objective)
        some = chunk if len(kept) == len(chunk) else taken(chunk, kept)
        return replace(some, data=data, objectives=np.array(objectives, np.float64))

    def _numbered(self, think: Think) -> Think:
        """Return the message of a muscle of one source with the agent's numbers of its bodies."""
        places = self._sources[think.source] if think.source < len(self._sources) else np.zeros(0, np.int64)
        rows = np.frombuffer(think.rows or b"", ROW_NUMBER)
        if len(rows) and int(rows.max()) >= len(places):
            raise RemoteProtocolError(f"think.rows: expected numbers below {len(places)}, found {int(rows.max())}")
        return replace(think, rows=places[rows].astype(ROW_NUMBER).tobytes())

    def _in_view(
        self, rows: Sequence[tuple[Request, Think]], chunks: Sequence[Transitions]
    ) -> tuple[list[tuple[Request, Think]], list[Transitions]]:
        """Return the messages of each worker's muscles as one, in the agent's order of bodies."""
        told: list[tuple[Request, Think]] = []
        found: list[Transitions] = []
        for _, mine in groupby(zip(rows, chunks, strict=True), lambda pair: pair[0][1].worker):
            pairs = list(mine)
            numbers = np.concatenate([np.frombuffer(think.rows or b"", ROW_NUMBER) for (_, think), _ in pairs])
            order = np.argsort(numbers)
            request, think = pairs[0][0]
            think = replace(think, rows=numbers[order].tobytes())
            if think.proposed is not None:  # otherwise the proposals were applied
                given = [(one.applied, len(chunk)) for (_, one), chunk in pairs]
                think = replace(think, applied=taken_blocks(given, order))
            told.append((request, think))
            found.append(taken(joined_transitions([chunk for _, chunk in pairs]), order.tolist()))
        return told, found

    def _recall(self, chunk: Transitions, think: Think, part: slice) -> None:
        """Write some rows into the memory of their group, which becomes the brain's."""
        memory = self._running().memory = self._memories[chunk.group]
        data: Any = chunk.data[part]
        applied = chunk.actions
        if think.proposed is not None:
            applied = matrix(self._outer[chunk.group].actuator_layout, think.applied, len(chunk), "applied")
        terminated, truncated = chunk.terminated[part], chunk.truncated[part]
        memory.extend(
            chunk.muscle[part],
            sensor_readings=chunk.observations[part],
            actuator_setpoints=chunk.actions[part],
            applied_setpoints=applied[part],
            rewards=chunk.rewards[part],
            objective=chunk.objectives[part],
            next_readings=chunk.next_observations[part],
            dones=terminated | truncated,
            terminated=terminated,
            truncated=truncated,
            decision_index=chunk.step[part],
            episode=chunk.episode[part],
            # The brain receives a copy of its own.
            additional_data=list(data.copy()) if isinstance(data, np.ndarray) else list(map(copied, data)),
            body=np.frombuffer(think.rows or b"", ROW_NUMBER)[part],
        )

    def _answer(self, request: Request, message: Think | UpdateAsked) -> None:
        self._reply(request, message, self._signals.pop(message.worker, None))

    def _row(self, request: Request, think: Think) -> Row | None:
        """Write a row into the memory; None if a filter raised a tolerated error: the row does not count then."""
        # Recorded rows have rewards of their own.
        if think.reward_ids is not None and think.reward_ids != self._reward_ids:
            self._declare_rewards(think.reward_ids)
        if self._rewards is None:
            raise RemoteProtocolError("think.rewards: they were not declared")
        data = think.data
        row = Row(
            muscle=f"{self._setup.agent}/{think.worker}",
            worker=think.worker,
            readings=think.readings if think.observations is None else think.observations,
            proposed=think.applied if think.proposed is None else think.proposed,
            rewards=think.rewards,
            objective=think.objective[0],
            next_readings=think.next_readings if think.next_observations is None else think.next_observations,
            terminated=think.terminated,
            truncated=think.truncated,
            decision=think.decision,
            episode=think.episode,
            data=data if type(data) in SIMPLE else deserialize(data, request.blobs, "think.data"),
        )
        if not self._arrays or self._memory.size_limit > 0:
            self._remember(row, think)
        self._thoughts += 1
        if self._filters is None:
            return row
        try:
            return self._filtered(row)
        except Tolerated:
            self._memory.annotate(None)
            self._notes.take(think.worker, self._running())
            return None

    def _think(self, rows: Sequence[Row]) -> None:
        """Let the brain think about a row, or learn from those of a round; its signal applies to all their workers."""
        brain = self._brain
        assert brain is not None
        self._hooks.step = rows[0].decision
        batch = self._fed(self._stack(rows)) if self._arrays or self._tables.feeds else None
        hook, args = ("learn", (batch,)) if self._arrays else ("thinking", (rows[0].muscle, rows[0].data))
        self._hear(hook, getattr(brain, hook), args, list(map(_WORKER, rows)))

    def _hear(self, hook: str, function: Callable[..., Any], args: tuple[Any, ...], workers: list[int]) -> None:
        """Call a hook of the brain, and process its update, published arrays, statistics and signal."""
        brain = self._brain
        assert brain is not None
        try:
            result = self._hooks.tolerate(hook, function, *args)
            if result is not None:
                self._take(result)
        except Tolerated:
            pass
        if self._filters is not None:
            self._filters.publish()
        self._notes.take(workers[0], brain)
        wish = brain.pop_signal()
        if wish is not None:
            self._signals |= dict.fromkeys(workers, self._hooks(hook, signal_of, *wish))

    def _take(self, result: Any) -> None:
        """Keep the result of the newest hook as the newest update, unless the result is no update."""
        if not carries_update(result):
            return
        brain, hook = self._brain, self._hooks.hook
        assert brain is not None
        only: list[str] | None = None
        if isinstance(result, Update):
            only = None if result.only is None else self._hooks.tolerate(hook, self._known, result.only)
            result = result.data
        if self._filters is not None:
            result = self._filters.update(result)
        blobs: list[bytes] = []
        data = self._hooks.tolerate(hook, serialize, result, blobs, "update")
        self._version += 1
        newest = Newest(self._version, data, blobs)
        if only is None:
            self._updates = {"": newest}  # this update replaces those for single muscles
        else:
            self._updates |= dict.fromkeys(only, newest)
        # A copy: the author may later change the arrays of the update.
        self._last_update = brain.last_update = data if type(data) in SIMPLE else deserialize(data, blobs, "update")

    def _known(self, muscles: Sequence[str]) -> list[str]:
        each = [muscles] if isinstance(muscles, str) else list(muscles)
        strange = [muscle for muscle in each if muscle not in self._setup.muscles]
        if strange or isinstance(muscles, str):
            found = (strange or each)[0]
            raise AuthorError(
                f"Update.only: expected a list of some of {', '.join(self._setup.muscles)}, found {found!r}"
            )
        return each

    def _reply(self, request: Request, message: BrainJoin | Think | UpdateAsked, signal: dict[str, Any] | None) -> None:
        worker = message.worker
        muscle = seat = self._muscle(worker)
        if message.source:
            seat = self._seat_name(message)
        newest = self._updates.get(muscle) or self._updates.get("")
        if not message.follows or (newest is not None and newest.version <= self._has.get(seat, 0)):
            newest = None
        if message.follows:
            self._has[seat] = self._version
        excused, noted = (None, None) if not self._notes.due else self._notes.pop(worker)
        blobs: list[bytes] = [] if newest is None else newest.blobs
        filters, published = self._filters, None
        if filters is not None and message.follows and filters.version > self._has_filters.get(seat, 0):
            self._has_filters[seat] = filters.version
            blobs = list(blobs)
            published = filters.travelling(blobs)
        thought = Thought(
            update=None if newest is None else newest.data,
            fresh=newest is not None,
            signal=signal,
            filters=published,
            excused=excused,
            statistics=noted,
            together=1 if self._learn_every < 2 else self._learn_every - self._thoughts % self._learn_every,
            version=None if newest is None or not self._bodies else newest.version,
        )
        self.participant.reply(request, thought, blobs)

    def _muscle(self, worker: int) -> str:
        return f"{self._setup.agent}/{worker}"

    def _seat_name(self, message: BrainJoin | BrainLeave | Think | UpdateAsked) -> str:
        """Return the name of one of the muscles of a worker."""
        muscle = self._muscle(message.worker)
        return f"{muscle}/{message.source}" if message.source else muscle

    def _declare_rewards(self, declarations: list[dict[str, Any]]) -> None:
        super()._declare_rewards(declarations)
        assert self._rewards is not None
        layouts = (self._sensor_layout, self._actuator_layout, self._outer[0].actuator_layout, self._rewards)
        self._remember = RowWriter(self._memory, *layouts)
        for stack, rewards in zip(self._stacks, self._reward_layouts, strict=True):
            stack.declare(rewards)
        if len(self._parts) > 1:
            kinds = [
                [part[0] for part in self._outer],
                [part[1] for part in self._outer],
                self._reward_layouts,
                [part[0] for part in self._parts],
                [part[1] for part in self._parts],
            ]
            self._group_layouts = [Groups(layouts, self._of_group) for layouts in kinds]
            for memory, rewards in zip(self._memories[1:], self._reward_layouts[1:], strict=True):
                memory.declare(rewards=[RewardInformation(None, space, uid) for uid, space in rewards.pairs()])

    def _running(self) -> Brain:
        if self._brain is None:
            raise RemoteProtocolError("expected brain.setup first")
        if self._late is not None:
            late, self._late = self._late, None
            raise late
        return self._brain
