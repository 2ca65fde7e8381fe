"""Host of a muscle: completes decisions, calls the brain, makes the next decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgpack
import numpy as np

from ganglion.errors import DocumentError, GanglionError, NotSetUp, RemoteProtocolError, SpaceError
from ganglion.limits import BODIES_MEMORY_ROWS, BODY_MEMORY_ROWS_MIN, INTEGER_MAX
from ganglion.peer.agent.acting import Acting, ActingGroups
from ganglion.peer.agent.decision import Decision, Policy, Seen, alike, deserialized, finite
from ganglion.peer.agent.filters import UNKNOWN, ActingFilters, ArrayFilters, BodyFilters, GroupFilters
from ganglion.peer.agent.host import AgentHost, shown_behind
from ganglion.peer.agent.transitions import joined
from ganglion.peer.author import Loader, Tolerated, identity
from ganglion.peer.journal.snapshot import Snapshot, State
from ganglion.peer.step.arrays import Readings, takes_arrays
from ganglion.peer.step.layout import Array, Field, Masks, is_blocks
from ganglion.peer.values import SIMPLE, deserialize, serialize
from ganglion.run.plan import span_s
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, Template
from ganglion.sdk.memory import Memory
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Batch, Muscle, Objective, objective_value, read_batch_proposal, read_proposal
from ganglion.sdk.seed import derive
from ganglion.sdk.topic import Topics
from ganglion.wire.conversation import Request, episode_of
from ganglion.wire.envelope import Position
from ganglion.wire.messages import (
    Act,
    Acted,
    BrainJoin,
    BrainLeave,
    Done,
    MuscleReady,
    MuscleReset,
    MuscleSetup,
    PolicyAsked,
    Swap,
    Swapped,
    Think,
    Thought,
    UpdateAsked,
)

_Read = tuple[list[Any], Any]
"""Setpoints, the data."""
_KEPT_MAX = 256  # decisions that go to the brain in one message
_KEPT_BYTES_MAX = 256 * 1024  # a quarter of the limit of a body
_ACTUATORS = {ActuatorInformation}
_OURS = ("memory", "topics", "bodies", "groups", "sensors", "actuators", "static_world_models", "model_reader")
_STEPS = np.arange(1024)  # a slice costs half as much as an array of one number
_STEPS.setflags(write=False)

_NOTHING = Think(0, 0, 0, [], [], [], [], [], rows=b"", flags=b"", decisions=b"", episodes=b"")  # no decision


class MuscleHost(AgentHost):
    """Host one muscle per phase, with its objective and its memory."""

    kind = "muscle"
    calls = ("setup", "act", "swap", "reset", "shutdown")

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        self._muscle: Muscle | None = None
        self._quiescent = False  # whether the last request left no decision open

    # -- a phase ------------------------------------------------------------------------------------------------------
    def setup(self, request: Request, setup: MuscleSetup) -> MuscleReady:
        """Make muscle and objective, join the brain, load the first update or the stored policy."""
        self._quiescent = True
        self._worker, self._mode = setup.worker, Mode(setup.mode)
        self._uid = uid = f"{setup.agent}/{setup.worker}"
        where, given = f"{setup.agent} (worker {setup.worker})", {"uid": uid, "worker": setup.worker}
        sensors, actuators, attributes = self._begin(request, setup, where, given)
        self._sensors, self._actuators = Template(sensors), Template(actuators)
        noops = [it.value for it in actuators]
        self._memory = Memory()
        self._memory.declare(sensors, actuators)
        self._told_rewards = False
        self._acting: Acting | ActingGroups | None = None
        self._rows = [(str(row[0]), int(row[1])) for row in setup.bodies or ()]
        self._rows += [(str(row[0]), -1 - i) for i, row in enumerate(setup.dynamic or ())]
        coordinates = [(setup.agent, str(row[0]), int(row[1])) for row in setup.bodies or ()]
        own = getattr(self._loader.load("muscle", str(setup.plugin["name"])), "TOPICS", ())
        self._topics: Topics = self._hooks("TOPICS", Topics, own)
        self._topics.hear(setup.topics)
        attributes |= {"memory": self._memory, "model_reader": self._model_reader(setup), "bodies": coordinates}
        attributes["topics"] = self._topics
        if setup.rewards is not None:
            self._declare_rewards(setup.rewards)
        self._judging = self._hooks_of("objective", setup.objective, f"objective of {where}")
        own = {**self._given, **identity(setup.objective_stream)}
        self._objective: Objective = self._judging("__init__", self._loader.make, "objective", setup.objective, own)
        hooks = self._hooks
        if setup.bodies:
            attributes |= identity(setup.bodies[0][3])
        muscle: Muscle = hooks("__init__", lambda: self._loader.make("muscle", setup.plugin, attributes))
        self._filters = None
        self._seen_layout, self._own_layout = self._sensor_layout, self._actuator_layout
        if setup.bodies is not None:
            self._act_by_bodies(muscle, attributes)
        elif setup.filters:
            filters = self._filters = self._make_filters(ActingFilters, setup.filters)
            sensors, actuators = filters.declare(muscle, sensors, actuators, setup.stream)
            muscle.sensors, muscle.actuators = sensors, actuators
            self._seen_layout, self._own_layout = filters.seen, filters.moved
            self._sensors = Template(sensors)
        self._noops, self._own_noops = noops, [it.value for it in actuators]
        # Masks of the muscle's own actuators, and of the applied ones; None, the usual case: no masks.
        self._masks = Masks(self._seen_layout, self._own_layout) or None
        self._rules = Masks(self._sensor_layout, self._actuator_layout) or None
        if setup.bodies is None:
            self._tells_proposals = alike(self._own_layout, self._actuator_layout)
        self._unset = (None,) * len(self._actuators)
        self._actuator_list, self._bodies = actuators, [(setup.agent, 0)]
        self._canonical = [space.canonical for space in self._own_layout.spaces]
        self._plain_shape = (1, len(self._own_layout)) if self._own_layout.scalar else None
        self._takes_arrays = takes_arrays(type(muscle))
        self._takes_updates = getattr(muscle.update, "__func__", None) is not Muscle.update
        self._think_s = span_s("brain.think", setup.deadlines_s or {})
        self._muscle = muscle
        for one in self._muscles():
            hooks("setup", one.setup)
        self._begin_episode(episode_of(request))
        self._due: Thought | None = None  # an update received at the end of an episode
        self._newest: Any = None  # the update for muscles of bodies that are spawned later
        self._kept: list[Think] = []  # decisions not sent to the brain yet, all of the open episode
        self._kept_bytes = 0
        self._together = 1  # decisions that may go to the brain in one message
        self._learned: dict[str, Any] = {}  # statistics of the brain, for the next decision that is completed
        self._follows = setup.follows
        self._version = 0  # version of the update by which bodies decide
        if setup.brain is not None:
            thought = self._ask("brain.join", BrainJoin(setup.worker, setup.source, setup.follows), None)
            self._receive(thought.filters)
            self._update(thought)
            self._learned |= thought.statistics or {}
        if setup.brain is None or not setup.follows:
            self._prepare(muscle)
        count = None if setup.bodies is None else len(self._rows)
        return MuscleReady(blocks=True, bodies=count, topics=self._topics.pop())

    def swap(self, request: Request, swap: Swap) -> Swapped:
        """Decide by another model of the pool from now on, or by the current model."""
        self._running()
        self._quiescent = True
        if self._setup.pool is None or self._acting is None:
            raise RemoteProtocolError("muscle.swap: this muscle plays by no pool")
        ask = self.participant.ask(self._setup.pool, "brain.policy", PolicyAsked(swap.draw), self._think_s)
        thought: Thought = deserialized(*self.participant.gather([ask], blobs=True)[0])
        self._follows = not swap.draw
        self._acting.learning = swap.learns
        self._due = None
        self._receive(thought.filters)
        self._update(thought)
        self._version = thought.version or 0
        return Swapped(self._version)

    def _act_by_bodies(self, muscle: Muscle, attributes: dict[str, Any]) -> None:
        """Create the muscles of many bodies, one object for all of them or one for each."""
        setup, arrays = self._setup, takes_arrays(type(muscle))
        self._check_groups(muscle.takes_groups or not arrays)
        together = arrays and self._objective.batched
        self._memory_rows = max(BODIES_MEMORY_ROWS // (len(self._rows) or 1), BODY_MEMORY_ROWS_MIN)
        self._memory.size_limit = self._memory_rows
        parts = []
        self._shown: list[tuple[Any, Any]] = []  # sensors and actuators of each group, behind its filters
        self._tells_proposals = True
        for number, part in enumerate(self._parts):
            bodies = [row for row in setup.bodies if not setup.groups or setup.groups[row[0]] == number]
            muscles, objectives, memories = [] if number else [muscle], [] if number else [self._objective], []
            if not together:
                memories = [] if number else [self._memory]
            for row in bodies[len(objectives) : 1 if together else None]:
                streams = identity(derive(setup.objective_stream, "body", row[0], row[1]))
                own = {**self._given, **streams}
                objectives.append(self._judging("__init__", self._loader.make, "objective", setup.objective, own))
            for _ in [] if together else bodies[len(memories) :]:
                memory = Memory(self._memory_rows)
                memory.declare(part.sensors, part.actuators)
                memories.append(memory)
            for row in [] if arrays else bodies[len(muscles) :]:
                of_body = {"memory": memories[len(muscles)], "sensors": part.sensors, "actuators": part.actuators}
                own = attributes | identity(row[3]) | of_body
                muscles.append(self._hooks("__init__", self._loader.make, "muscle", setup.plugin, own))
            layouts, noops = (part.sensor_layout, part.actuator_layout), [it.value for it in part.actuators]
            shown = (part.sensors, part.actuators)
            own_setup, acts_by = replace(setup, bodies=bodies), [muscle] if arrays else muscles
            filters: BodyFilters | None = None
            if setup.filters:
                rows = [row for row in self._rows if not setup.groups or setup.groups[row[0]] == number]
                filters, shown = self._filters_of_bodies(number, acts_by or [muscle], rows or [("", 0)])
                self._tells_proposals &= alike(filters.moved, part.actuator_layout)
            self._shown.append(shown)
            informations, hooks = (Template(shown[0]), shown[1]), (self._hooks, self._judging)
            if setup.episodes is not None:
                told = zip(setup.bodies, setup.episodes, strict=False)
                own_setup = replace(own_setup, episodes=[it for row, it in told if row in bodies])
            if setup.dynamic is not None:
                mine = [row for row in setup.dynamic if not setup.groups or setup.groups[row[0]] == number]
                own_setup = replace(own_setup, dynamic=mine)
            comes = partial(self._come, number, None if together else attributes)
            made = (own_setup, layouts, informations, hooks, acts_by, objectives, memories, noops, comes, filters)
            parts.append(Acting(*made, number))
        self._acting, self._actings = parts[0], parts
        if self._of_group is not None:
            self._acting = ActingGroups(
                parts,
                self._of_group,
                [part.sensor_layout for part in self._parts],
                [part.actuator_layout for part in self._parts],
            )
        if self._rewards is not None:
            self._acting.declare(self._reward_layouts)
        if setup.filters:
            self._filters = GroupFilters([part.filters for part in parts if part.filters is not None])
            shown_groups = attributes["groups"] = shown_behind(muscle.groups, self._shown)
            for one in {id(it): it for part in parts for it in part.muscles if it is not None}.values():
                one.groups = shown_groups
                one.sensors, one.actuators = self._shown[next(i for i, p in enumerate(parts) if one in p.muscles)]

    def _filters_of_bodies(self, number: int, muscles: Sequence[Muscle], rows: Any) -> tuple[BodyFilters, Any]:
        """Create the filters of the bodies of a group; return the filters, and the declarations behind the filters."""
        setup, part, stacks, shown = self._setup, self._parts[number], [], []
        whole = all(self._loader.load("filter", str(plugin["name"])).batched for plugin in setup.filters)
        for i, row in enumerate(rows[:1] if whole else rows):

            def own(stream: bytes, row: Any = row) -> bytes:
                return derive(stream, "body", *row) if row is not self._rows[0] else stream

            plugins = [{**plugin, "stream": own(plugin["stream"])} for plugin in setup.filters]
            stack = self._make_filters(ActingFilters, plugins, first=number * len(plugins))
            muscle = muscles[min(i, len(muscles) - 1)]
            shown.append(stack.declare(muscle, part.sensors, part.actuators, own(setup.stream)))
            stacks.append(stack)
        names, outer = [f"{row[0]}/{row[1]}" for row in rows], (part.sensor_layout, part.actuator_layout)
        return ArrayFilters(stacks[0], names, outer) if whole else BodyFilters(stacks, names, outer), shown[0]

    def _come(self, number: int, given: dict[str, Any] | None, place: int, environment: str, b: int) -> None:
        """Create the objects of a spawned body of a group; they replace those of the former body of its row.

        `given` are the attributes of muscles, None if one muscle and objective serve all bodies.
        """
        acting, part, setup, hooks = self._actings[number], self._parts[number], self._setup, self._hooks
        sensors, actuators = self._shown[number]
        if given is None:
            return
        snapshot = None if self._compaction is None else self._snapshot
        if not acting.arrays and acting.muscles[place] is not None:
            hooks("teardown", acting.muscles[place].teardown)
        memory = acting.memories[place] = Memory(self._memory_rows)
        memory.declare(part.sensors, part.actuators)
        own = {**self._given, **identity(derive(setup.objective_stream, "body", environment, b))}
        acting.objectives[place] = self._judging("__init__", self._loader.make, "objective", setup.objective, own)
        acting.declare_at(place)
        if snapshot is not None:
            snapshot.add(f"objective of {environment}, row {place}", acting.objectives[place], ("reward_ids",))
        if acting.arrays:
            return
        of_body = {"memory": memory, "sensors": sensors, "actuators": actuators}
        attributes = given | identity(derive(setup.stream, "body", environment, b)) | of_body
        muscle = acting.muscles[place] = hooks("__init__", self._loader.make, "muscle", setup.plugin, attributes)
        hooks("setup", muscle.setup)
        if setup.brain is None or not setup.follows:
            hooks("prepare_model", muscle.prepare_model)
        elif self._newest is not None:
            hooks.excused(None, "update", muscle.update, self._newest)
        if snapshot is not None:
            snapshot.add(f"muscle of {environment}, row {place}", muscle, _OURS)

    def _declare_rewards(self, declarations: list[dict[str, Any]]) -> None:
        super()._declare_rewards(declarations)
        if self._acting is not None and self._rewards is not None:
            self._acting.declare(self._reward_layouts)

    def _muscles(self) -> Sequence[Muscle]:
        """Return the objects that act: one, or one per body."""
        assert self._muscle is not None
        return [self._muscle] if self._acting is None else [one for one in self._acting.muscles if one is not None]

    def _prepare(self, muscle: Muscle) -> None:
        """Let the muscle load the stored policy; errors name the model's folder."""
        try:
            if self._filters is not None:
                self._prepare_filters(self._filters)
            for one in self._muscles():
                self._hooks("prepare_model", one.prepare_model)
        except GanglionError as error:
            if self._setup.models is not None:
                error.add_note(f"model {self._setup.models}")
            raise

    def reset(self, request: Request, reset: MuscleReset) -> Done:
        """Begin the next episode."""
        muscle = self._running()
        if self._kept:  # decisions of an episode that was given up
            self._send_kept(None)
        self._quiescent = True
        self._topics.hear(reset.topics)
        self._begin_episode(reset.episode)
        if reset.prepare:
            self._prepare(muscle)
        if self._acting is None:  # otherwise bodies begin their episodes with their first decisions
            self._hooks("reset", muscle.reset)
        return Done()

    def shutdown(self, request: Request, _: Any) -> Done:
        """End the phase for this muscle."""
        if self._muscle is not None:
            if self._setup.brain is not None:
                brain = self._setup.brain
                if self._kept:
                    self._send_kept(None)
                self.participant.call(
                    brain, "brain.leave", BrainLeave(self._worker, self._setup.source), span_s("brain.leave", {})
                )
            for one in self._muscles():
                self._hooks("teardown", one.teardown)
            self._hooks.close()
            self._judging.close()
            if self._filters is not None:
                self._filters.close()
            self._muscle = None
        return Done()

    def _model_reader(self, setup: MuscleSetup) -> Policy | Models | None:
        """Return the source of `Muscle.load`: the files that the phase began with; in an evaluation also the brain."""
        files = None if setup.models is None else Models(self.place.read(setup.models))
        return files if setup.policy is None else Policy(self._policy, files)

    def _policy(self) -> tuple[bool, Any]:
        """Ask the brain for its newest update; return whether there is one, and the update."""
        thought = self._newest_of_brain()
        return thought.fresh, thought.update

    def _newest_of_brain(self) -> Thought:
        assert self._setup.policy is not None
        pending = self.participant.ask(self._setup.policy, "brain.policy", PolicyAsked(), self._think_s)
        return deserialized(*self.participant.gather([pending], blobs=True)[0])

    # -- the journal --------------------------------------------------------------------------------------------------
    def tick(self) -> None:
        """Compact the journal after a set-up, reset or act of bodies, if due; called between two requests."""
        if self._quiescent and self._muscle is not None:
            self._quiescent = False
            self._restore_or_compact()

    def _snapshot_of(self, filters: dict[str, Any]) -> Snapshot:
        parts: dict[str, Any] = {"muscle": (self._muscle, _OURS), "objective": (self._objective, ()), **filters}
        if self._acting is not None:
            parts |= {f"muscle {i}": (one, _OURS) for i, one in enumerate(self._acting.muscles) if i and one}
            objectives = enumerate(self._acting.objectives)
            parts |= {f"objective {i}": (one, ("reward_ids",)) for i, one in objectives if i and one}
        layouts = [layout for part in self._parts for layout in part[:2]] + [self._seen_layout, self._own_layout]
        layouts += self._filters.layouts if isinstance(self._filters, GroupFilters) else []
        spaces = [space for layout in layouts for space in layout.spaces]
        return Snapshot(parts, self._memory, spaces, given=self._topics.parts())

    def _books(self) -> dict[str, Any]:
        """Return the state of this host, which has no open decision."""
        due = None if self._due is None else [self._due.update, self._due.signal, self._due.filters, self._due.version]
        return {
            "rewards": self._reward_ids,
            "told": self._told_rewards,
            "episode": self._episode,
            "due": due,
            "learned": self._learned,
            "together": self._together,
            "topics": self._topics.state(),
            "acting": None if self._acting is None else self._acting.state(),
            "follows": [self._follows, self._version],
            "memories": [] if self._acting is None else [one and one.export() for one in self._acting.memories[1:]],
            "newest": self._newest,
        }

    def _read_books(self, books: Mapping[str, Any]) -> None:
        self._told_rewards = books["told"]
        self._learned, self._together = dict(books["learned"]), books["together"]
        self._follows, self._version = books["follows"]
        self._begin_episode(books["episode"])
        self._topics.restore(books["topics"])
        if self._acting is not None:
            self._acting.restore(books["acting"])
            for memory, rows in zip(self._acting.memories[1:], books["memories"], strict=True):
                if memory is not None:
                    memory.restore(rows)
        self._newest = books["newest"]
        due = books["due"]
        self._due = None if due is None else Thought(due[0], True, due[1], filters=due[2], version=due[3])

    def _go_on(self, state: State) -> None:
        if self._acting is not None and self._setup.dynamic:
            self._acting.come_back(self._snapshot.books(state)["acting"])
        super()._go_on(state)

    # -- filters ------------------------------------------------------------------------------------------------------
    def _prepare_filters(self, filters: ActingFilters | GroupFilters) -> None:
        """Pass filters the newest arrays of the training brain, else those of the model."""
        if self._setup.policy is not None:
            self._receive(self._newest_of_brain().filters)
        elif self._setup.models is not None:
            filters.received_from(Models(self.place.read(self._setup.models)))

    def _receive(self, published: dict[str, Any] | None) -> None:
        """Pass filters the arrays that their other halves published."""
        found = self._published(published)
        if self._acting is not None:
            self._acting.receive(found)
            return
        for number, arrays in found.items():
            assert self._filters is not None
            self._filters.receive(number, arrays)

    def _published(self, published: dict[str, Any] | None) -> dict[int, Any]:
        """Return published arrays by the number of the filter; RemoteProtocolError for an unknown filter."""
        for number in published or ():
            count = len(self._setup.filters or ()) * len(self._parts)
            if not (number.isdecimal() and int(number) < count):
                raise RemoteProtocolError(f"thought.filters: there is no filter {number:.20}")
        return {int(number): arrays for number, arrays in (published or {}).items()}

    def _look(self, filters: ActingFilters, readings: list[Any]) -> Seen:
        values, available = filters.view(readings)
        return Seen(values, filters.seen.field([values]), available)

    def _begin_episode(self, episode: int) -> None:
        self._episode = episode
        self._episodes = np.array([episode])
        self._episodes.flags.writeable = False
        self._decision: Decision | None = None
        self._applied: tuple[list[Any], Field] | None = None  # setpoints of this episode, as values and in wire form
        self._decisions = 0
        self._hooks.step = None
        if isinstance(self._filters, ActingFilters):  # each body begins separately
            self._filters.show_step(None)
            self._filters.reset()

    # -- a decision ---------------------------------------------------------------------------------------------------
    def act(self, request: Request, act: Act) -> Acted:
        """Complete the previous decision, let the brain think, make the next decision."""
        muscle = self._muscle
        if muscle is None:
            raise NotSetUp("expected muscle.setup first")
        if act.passing:
            return self._pass(act, request.head.position)
        if act.topics is not None or self._topics.heard:
            self._topics.hear(act.topics)
        if self._acting is not None:
            return self._act_for(self._acting, act, request.head.position)
        readings = self._sensor_layout.values(act.readings, "act.readings")
        if act.reward_ids is not None and self._rewards is None:
            self._declare_rewards(act.reward_ids)
        open_decision = self._decision
        objective: list[Any] | None = None
        if open_decision is not None and act.rewards is not None and not open_decision.settled:
            if act.forced is not None:
                self._force(open_decision, act.forced)
            objective = [self._complete(open_decision, act, readings)]
        settles_only = not act.decide and not act.closing
        if settles_only:
            return Acted(objective=objective, excused=self._tolerated_errors.pop())
        self._seen: Seen | None = None
        self._blind = False  # filters raised a tolerated error for these readings; a second pass would count twice
        thought = self._think(open_decision, act, readings, request.head.position)
        self._decision = None
        signal = None if thought is None else thought.signal
        if thought is not None and thought.fresh:
            self._due = thought
        learned = None
        if self._learned or (thought is not None and thought.statistics):
            learned = self._take_learned(open_decision, thought)
        if not act.decide:
            topics = self._topics.pop() if self._topics.due else None
            excused = self._excused(thought)
            return Acted(objective=objective, signal=signal, excused=excused, learned=learned, topics=topics)
        if self._due is not None:
            due, self._due = self._due, None
            if self._takes_updates:
                self._update(due)
        try:
            made = self._decide(muscle, readings, act.readings)
            if self._rules is not None:
                hook = "propose_batch" if self._takes_arrays else "propose_actions"
                runs = self._sensor_layout.matrices(act.readings, 1)
                given = self._actuator_layout.matrices(made.told_setpoints, 1)
                self._hooks.tolerate(hook, self._rules.check, runs, given)
        except Tolerated:
            made = self._same_again(readings, act.readings)
        finally:
            self._decisions += 1
        self._decision = made
        self._applied = (made.setpoints, made.told_setpoints)
        return Acted(
            setpoints=made.told_setpoints,
            proposed=None
            if made.proposed is None or not self._tells_proposals
            else self._own_layout.rows(made.proposed),
            objective=objective,
            signal=signal,
            statistics=muscle.pop_statistics() or None,
            excused=self._excused(thought) if self._tolerated_errors.due or (thought and thought.excused) else None,
            learned=learned,
            topics=self._topics.pop() if self._topics.due else None,
        )

    def _act_for(self, acting: Acting | ActingGroups, act: Act, position: Position | None) -> Acted:
        """Complete and make the decisions of many bodies."""
        self._quiescent = True
        if act.reward_ids is not None and self._rewards is None:
            self._declare_rewards(act.reward_ids)
        objectives, think = acting.complete(act)
        if act.late and self._setup.brain is not None:
            late = acting.credit(act.late)
            if late:
                think = replace(think or _NOTHING, worker=self._worker, late=late)
        thought = None
        if self._setup.brain is not None:
            if think is None:
                thought = self._ask_newest(act, position)
            else:
                reward_ids = None if self._told_rewards else self._reward_ids
                self._told_rewards = True
                source = (self._setup.source, self._follows)
                think = replace(think, round=act.round, workers=act.workers, reward_ids=reward_ids)
                think = think if source == (0, True) else replace(think, source=source[0], follows=source[1])
                thought = self._ask("brain.think", think, position)
            acting.receive(self._published(thought.filters))
            if thought.fresh:
                self._due = thought
            self._learned |= thought.statistics or {}
        learned = None
        if objectives and self._learned:
            learned, self._learned = self._learned, {}
        if self._due is not None:
            due, self._due = self._due, None
            self._version = due.version or 0
            if self._takes_updates:
                self._update(due)
        setpoints, statistics = acting.decide(act)
        told = self._filters is not None and setpoints is not None and self._tells_proposals
        versioned = self._setup.pool is not None or (self._setup.brain is not None and self._follows)
        return Acted(
            setpoints=setpoints,
            proposed=acting.proposed if told else None,
            objective=list(objectives),
            signal=None if thought is None else thought.signal,
            statistics=statistics,
            excused=self._excused(thought),
            learned=learned,
            version=self._version if versioned else None,
            topics=self._topics.pop() if self._topics.due else None,
        )

    def _take_learned(self, completed: Decision | None, thought: Thought | None) -> dict[str, Any] | None:
        """Return the brain's statistics, once a completed decision has a row for them."""
        if thought is not None:
            self._learned |= thought.statistics or {}
        if completed is None or completed.rewards is None:
            return None
        learned, self._learned = self._learned, {}
        return learned or None

    def _excused(self, thought: Thought | None) -> list[dict[str, Any]] | None:
        """Return the errors that were tolerated here and in the brain since the last reply."""
        theirs = None if thought is None else thought.excused
        if not theirs and not self._tolerated_errors.due:
            return None
        return [*(theirs or ()), *(self._tolerated_errors.pop() or ())]

    def _pass(self, act: Act, position: Position | None) -> Acted:
        """Report to the brain that this round has no row of this muscle; keep a new update."""
        if self._setup.brain is None:
            return Acted()
        thought = self._ask_newest(act, position)
        self._receive(thought.filters)
        self._take_in(thought)
        return Acted(signal=thought.signal, excused=self._excused(thought))

    def _take_in(self, thought: Thought) -> None:
        """Keep update and statistics of a reply of the brain until the next decision."""
        if thought.fresh:
            self._due = thought
        self._learned |= thought.statistics or {}

    def _force(self, decision: Decision, forced: Field) -> None:
        """Replace the setpoints of a decision by those that an environment applied; raises like `Acting`."""
        if decision.proposed is not None:
            if not alike(self._own_layout, self._actuator_layout) or decision.proposed != decision.told_setpoints:
                raise DocumentError(UNKNOWN.format(self._setup.agent))
            decision.proposed = forced
        decision.setpoints = self._actuator_layout.values(forced, "act.forced")
        decision.told_setpoints = forced

    def _complete(self, decision: Decision, act: Act, readings: list[Any]) -> float | None:
        """Write the decision's row into the memory and let the objective judge it."""
        assert act.rewards is not None
        if self._rewards is None:
            raise RemoteProtocolError("act.rewards: they were not declared")
        judging = self._judging
        judging.step = decision.index
        decision.rewards = act.rewards
        self._memory.append(
            self._uid,
            sensor_readings=decision.readings,
            actuator_setpoints=decision.setpoints,
            applied_setpoints=decision.setpoints,
            rewards=self._rewards.values(act.rewards, "act.rewards"),
            next_readings=readings,
            dones=act.terminated or act.truncated,
            terminated=act.terminated,
            truncated=act.truncated,
            decision_index=decision.index,
            episode=self._episode,
            additional_data=decision.data,
        )
        if judging.tolerated_errors is None:
            result = judging("internal_reward", self._objective.internal_reward, self._memory)
        else:
            result = judging.excused(None, "internal_reward", self._objective.internal_reward, self._memory)
        if type(result) is not float or result != result:
            result = judging.excused(None, "internal_reward", objective_value, result)
        decision.objective = result
        self._memory.complete(decision.objective)
        decision.settled = True
        return decision.objective

    def _think(
        self, decision: Decision | None, act: Act, readings: list[Any], position: Position | None
    ) -> Thought | None:
        if decision is not None and act.closing:
            self._memory.close(act.terminated, act.truncated)
        if self._setup.brain is None:
            return None
        if decision is None or decision.rewards is None:
            if self._kept:
                self._send_kept(position)
            thought = self._ask_newest(act, position)
            self._receive(thought.filters)
            return thought
        filters = self._filters
        kept = None if filters is None else filters.keep()
        if filters is not None:
            filters.show_step(decision.index + 1)
            try:
                self._seen = self._look(filters, readings)
            except Tolerated:
                self._blind = True
            if self._blind or decision.seen is None:  # there is no row to send to the brain
                thought = self._ask_newest(act, position)
                self._go_back(filters, kept, thought)
                return thought
        reward_ids = None if self._told_rewards else self._reward_ids
        self._told_rewards = True
        think = Think(
            worker=self._worker,
            episode=self._episode,
            decision=decision.index,
            readings=decision.told_readings,
            applied=decision.told_setpoints,
            rewards=decision.rewards,
            objective=[decision.objective],
            next_readings=act.readings,
            terminated=act.terminated,
            truncated=act.truncated,
            proposed=decision.proposed,
            data=decision.frozen,
            round=act.round,
            workers=act.workers,
            reward_ids=reward_ids,
            observations=decision.seen,
            next_observations=None if self._seen is None else self._seen.told,
        )
        if self._together > 1:
            if not act.closing and not decision.blobs and self._keep(think):
                return None
            think = self._with_kept(think)
        thought = self._ask("brain.think", think, position, decision.blobs)
        if filters is not None:
            self._go_back(filters, kept, thought)
        return thought

    def _keep(self, think: Think) -> bool:
        """Keep a completed decision that need not be sent yet; False if it must be sent now."""
        kept, fields = self._kept, (think.readings, think.applied, think.rewards)
        blocks = all(map(is_blocks, fields))
        if len(kept) + 1 >= min(self._together, _KEPT_MAX) or not blocks or self._filters is not None:
            return False
        self._kept_bytes += len(msgpack.packb(think.data)) + sum(len(block) for field in fields for block in field)
        if self._kept_bytes > _KEPT_BYTES_MAX:
            return False
        kept.append(think)
        return True

    def _with_kept(self, think: Think) -> Think:
        """Return a message with the kept decisions before it, and keep none."""
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        if not kept:
            return think
        return replace(think, before=joined(kept), reward_ids=think.reward_ids or kept[0].reward_ids)

    def _send_kept(self, position: Position | None) -> None:
        """Send the kept decisions at once."""
        think = self._kept.pop()
        self._take_in(self._ask("brain.think", self._with_kept(think), position))

    def _go_back(self, filters: ActingFilters, kept: list[Any] | None, thought: Thought) -> None:
        """Restore the filters' state before the readings if new arrays were published."""
        if thought.filters:
            if kept is not None:  # otherwise no filter takes arrays, and the filtered readings stay
                filters.go_back(kept)
                self._seen, self._blind = None, False
            self._receive(thought.filters)

    def _ask_newest(self, act: Act, position: Position | None) -> Thought:
        """Ask for the newest update, without a row."""
        asked = UpdateAsked(self._worker, act.round, act.workers, self._setup.source, self._follows)
        return self._ask("brain.update", asked, position)

    def _ask(self, call: str, message: Any, position: Position | None, blobs: Sequence[bytes] = ()) -> Thought:
        assert self._setup.brain is not None
        participant, span_s = self.participant, self._think_s
        if span_s is not None and self._together > 1:  # the brain may think about each decision kept so far
            span_s *= min(self._together, _KEPT_MAX)
        pending = participant.ask(self._setup.brain, call, message, span_s, position, blobs)
        thought: Thought
        thought, parts = participant.gather([pending], blobs=True)[0]
        self._together = thought.together
        if thought.filters is None and type(thought.update) in SIMPLE:
            return thought
        return deserialized(thought, parts)

    def _update(self, thought: Thought) -> None:
        self._version = self._version if thought.version is None else thought.version
        if thought.fresh and self._muscle is not None:
            if self._setup.dynamic:
                self._newest = thought.update
            for one in self._muscles():
                self._hooks.excused(None, "update", one.update, thought.update)

    def _same_again(self, readings: list[Any], told: Field) -> Decision:
        """Return a decision that repeats the last setpoints after a tolerated error."""
        layout = self._actuator_layout
        values, setpoints = self._applied or (self._noops, layout.field([self._noops]))
        if self._rules is not None:
            runs = self._sensor_layout.matrices(told, 1)
            setpoints = self._rules.allowed(runs, layout.matrices(setpoints, 1))
            values = layout.values(setpoints, "setpoints")
        return Decision(
            index=self._hooks.step or 0,
            readings=readings,
            told_readings=told,
            setpoints=values,
            told_setpoints=setpoints,
            seen=None if self._filters is None or self._seen is None else self._seen.told,
            proposed=None if self._filters is None else self._own_layout.field([self._own_noops]),
        )

    def _decide(self, muscle: Muscle, readings: list[Any], told: Field) -> Decision:
        index = self._decisions
        self._hooks.step = index
        seen, filters = None, self._filters
        if filters is not None:
            filters.show_step(index)
            if self._blind:
                raise Tolerated
            seen = self._seen = self._seen or self._look(filters, readings)
        if self._takes_arrays:
            matrix = self._seen_layout.matrix([told if seen is None else seen.told], "act.readings")
            batch = self._batch(matrix, index)
            if self._masks is not None:
                batch.masks = self._masks.of(self._seen_layout.matrices(told if seen is None else seen.told, 1))
            result = self._hooks.tolerate("propose_batch", muscle.propose_batch, batch)
            plain = None if filters is not None else self._plain(result)
            if plain is not None:
                return Decision(index, readings, told, plain, self._own_layout.field([plain]))
            return self._made(index, readings, told, seen, "propose_batch", self._read_batch, result)
        if seen is None:  # the host of the environment has checked the values
            offered, sensors = self._actuators.hold(self._unset), self._sensors.hold(readings)
        else:
            offered, sensors = seen.available, self._sensors.fill(seen.values)
        if self._masks is not None:
            self._masks.offer(offered, self._seen_layout.matrices(told if seen is None else seen.told, 1))
        result = self._hooks.tolerate("propose_actions", muscle.propose_actions, sensors, offered)
        return self._made(index, readings, told, seen, "propose_actions", self._read, result)

    def _made(
        self,
        index: int,
        readings: list[Any],
        told: Field,
        seen: Seen | None,
        hook: str,
        read: Callable[[Any], _Read],
        result: Any,
    ) -> Decision:
        """Return the decision that a proposal makes."""
        actuators, data = result if type(result) is tuple and len(result) == 2 else (result, None)
        given = type(actuators) is list and {*map(type, actuators)} == _ACTUATORS
        layout = self._own_layout
        values = layout.values_set(actuators) if given else None
        if values is not None and layout.pack is not None:
            setpoints = [layout.pack(*values)]  # the usual case: the offered actuators, each set to a number
        else:
            if values is None:
                values, data = self._hooks.tolerate(hook, read, result)
            setpoints = self._hooks.tolerate(hook, layout.field, [values])
        frozen: Any = None
        blobs: Sequence[bytes] = ()
        if type(data) is int and -INTEGER_MAX <= data <= INTEGER_MAX:
            frozen = data
        elif data is not None:  # a copy: the author may change the original later
            blobs = []
            frozen = self._hooks.tolerate(hook, serialize, data, blobs, f"{hook}[1]")
            if frozen is not data:
                data = deserialize(frozen, blobs, hook)
        proposed, filters = None, self._filters
        if filters is not None:
            proposed = setpoints
            values, sent = filters.apply(filters.informed(values), data)
            self._hooks.tolerate("filters", finite, self._actuator_layout, values)
            setpoints = self._actuator_layout.field([values])
            blobs = []
            frozen = None if sent is None else self._hooks.tolerate(hook, serialize, sent, blobs, f"{hook}[1]")
        if self._setup.brain is None:
            frozen, blobs = None, ()
        return Decision(
            index=index,
            readings=readings,
            told_readings=told,
            setpoints=values,
            told_setpoints=setpoints,
            data=data,
            frozen=frozen,
            blobs=blobs,
            seen=None if seen is None else seen.told,
            proposed=proposed,
        )

    def _batch(self, matrix: Array, index: int) -> Batch:
        readings = Readings(self._seen_layout, matrix)
        steps = _STEPS[index : index + 1] if index < len(_STEPS) else np.array([index])
        return Batch(
            observations=matrix,
            readings=readings,
            bodies=self._bodies,
            step=steps,
            episode=self._episodes,
            mode=self._mode,
        )

    def _read(self, result: Any) -> _Read:
        """Return setpoints and data of a proposal of `propose_actions`."""
        layout = self._own_layout
        values, data = read_proposal(result, layout.ids)
        for it in result[0] if isinstance(result, tuple) and len(result) == 2 else result:
            space = layout.spaces[layout.index[it.uid]]
            # The author set another space, or changed an array after it was set.
            if (it.space is not space or not space.scalar) and not space.contains(it.value):
                ActuatorInformation(it.value, space, it.uid)  # raises an error that names the id
        return finite(layout, values), data

    def _read_batch(self, result: Any) -> _Read:
        """Return setpoints and data of a proposal of `propose_batch`."""
        rows, data = read_batch_proposal(result, self._actuator_list, 1)
        return finite(self._own_layout, rows[0]), data[0]

    def _plain(self, result: Any) -> list[Any] | None:
        """Return the setpoints of an array of contained numbers; None for anything else."""
        if type(result) is not np.ndarray or result.shape != self._plain_shape:
            return None
        row: list[Any] = result.tolist()[0]
        if not self._own_layout.holds(row):
            try:
                row = [make(value) for make, value in zip(self._canonical, row, strict=True)]
            except SpaceError:
                return None  # `_read_batch` names the value
        return row if self._own_layout.infinite(row) is None else None

    def _running(self) -> Muscle:
        if self._muscle is None:
            raise NotSetUp("expected muscle.setup first")
        return self._muscle
