"""The state of a phase in one worker: environments and agents, open decisions, the agents that act in a step."""

from __future__ import annotations

import datetime as dt
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ganglion.errors import AuthorError, RemoteProtocolError, SpaceError
from ganglion.limits import STEPS_REPORT_FIRST_S, STEPS_REPORT_FIRST_SPAN_S, STEPS_REPORT_S
from ganglion.peer.author import Hooks, wrong_answer
from ganglion.peer.environment.contract import Declared, difference
from ganglion.peer.participant import Participant
from ganglion.peer.results.records import Records, declaration_rows
from ganglion.peer.step.layout import Cut, Field, Layout, Masks, mask_fault, of_group
from ganglion.peer.worker.recovery import CommandHistory
from ganglion.peer.worker.topics import TopicBoard
from ganglion.run.agents import full_ids, with_groups
from ganglion.run.plan import span_s
from ganglion.sdk.controller import Controller
from ganglion.sdk.flow import SimTime
from ganglion.sdk.information import ActuatorInformation
from ganglion.sdk.seed import derive
from ganglion.wire.messages import (
    ControllerSetup,
    ControllerStart,
    EnvironmentDeclared,
    EnvironmentUpdate,
    EnvironmentUpdated,
    FlowSignal,
)

if TYPE_CHECKING:
    from ganglion.peer.worker.episode import Episode
    from ganglion.peer.worker.ticks import Ticks


class Turn:
    """Check which agents act in the steps of an episode: each agent once in a step, and as announced.

    A controller that overrides `turn` announces which agents act. Otherwise the agents of the first call of a step act,
    and the others pass.
    """

    def __init__(self, controller: Controller, agents: Sequence[str], hooks: Hooks) -> None:
        self._controller, self._hooks = controller, hooks
        self._agents = dict.fromkeys(agents)
        self._announces = getattr(controller.turn, "__func__", None) is not Controller.turn
        self._acted: set[str] = set()
        self._passed: set[str] = set()
        self._acting: frozenset[str] | None = None  # the agents announced for the running step
        self._step = 0  # steps made so far

    @property
    def full(self) -> bool:
        """Return whether all agents have acted in this step."""
        return len(self._acted) == len(self._agents)

    def announced(self, step: int) -> list[str]:
        """Return the agents that the controller announces for the step after `step`; AuthorError names unknown ones."""
        if not self._announces:
            return list(self._agents)
        named: list[str] = self._hooks("turn", lambda: list(self._controller.turn(step)))
        self.check(named)
        return named

    def check(self, agents: Iterable[str]) -> None:
        """Raise AuthorError for a name that no agent has."""
        for name in agents:
            if name not in self._agents:
                raise AuthorError(f"there is no agent {name!r}, expected some of {', '.join(self._agents)}")

    def call(self, agents: Sequence[str]) -> None:
        """Record the agents of the controller's call; AuthorError names an agent that may not act now, and why."""
        self.check(agents)
        number = self._step + 1
        for name in agents:
            if name in self._acted:
                raise AuthorError(f"agent {name} is asked twice in step {number}: an agent acts once in a step")
            if name in self._passed:
                raise AuthorError(
                    f"agent {name} is asked in step {number} after others: with several workers those who act in a "
                    "step are asked at once, or announced by turn()"
                )
            if self._announces and name not in self._announced():
                raise AuthorError(f"agent {name} is asked in step {number}, but turn({self._step}) did not say so")
            self._acted.add(name)

    def passing(self, awaited: Iterable[str], complete: bool = False) -> list[str]:
        """Return the participants of the round that will not act in this step, each once.

        With `complete` the controller calls no other agent in this step.
        """
        acting = self._announced() if self._announces and not complete else self._acted
        found = [n for n in awaited if n not in acting and n not in self._acted and n not in self._passed]
        self._passed.update(found)
        return found

    def end(self) -> None:
        """Begin the next step."""
        self._step += 1
        self._acted.clear()
        self._passed.clear()
        self._acting = None

    def _announced(self) -> frozenset[str]:
        if self._acting is None:
            self._acting = frozenset(self.announced(self._step))
        return self._acting


@dataclass(slots=True)
class World:
    """One environment of this worker: its declarations and its newest reply.

    An invalid reply raises CallFailed, which names the environment.

    Attributes:
        program: Whether the environment has no class of ours: it is a program, or was started from outside.
        blocks: Whether the environment declared that it receives blocks.
        checks: Layouts of the environment, by which its replies are checked.
        update_s: The deadline of `environment.update`.
        noops: The values of actuators that no agent sets, for a program, which always receives all values.
        state: The world's state for the store, as returned by a transformer.
        history: Commands of the open episode, if the successor of a lost environment is replayed.
        bodies: Number of bodies.
        groups: The groups of these; `rewards` has one entry for each after those that the environment declares.
    """

    uid: str
    peer: str
    setup: dict[str, Any]
    sensors: list[dict[str, Any]] = field(default_factory=list)
    actuators: list[dict[str, Any]] = field(default_factory=list)
    rewards: list[dict[str, Any]] | None = None
    static_model: dict[str, Any] | None = None
    readings: Field = field(default_factory=list)
    earned: Field = field(default_factory=list)
    program: bool = False
    noops: list[Any] | None = None
    blocks: bool = False
    ticks: int | None = 0
    timestamp: str | None = None
    terminated: bool = False
    truncated: bool = False
    update_s: float | None = None
    state: Any = None
    checks: Declared = field(default_factory=Declared)
    history: CommandHistory | None = None
    bodies: int = 1
    groups: Sequence[str] = ()

    @property
    def ended(self) -> bool:
        """Return whether the environment waits for its reset."""
        return self.terminated or self.truncated

    @property
    def simtime(self) -> SimTime:
        """Return the simulated time."""
        timestamp = self.timestamp
        return SimTime(self.ticks, None if timestamp is None else dt.datetime.fromisoformat(timestamp))

    def declare(self, declared: EnvironmentDeclared) -> None:
        """Record the reply of `environment.start`."""
        self.sensors, self.actuators, self.rewards = declared.sensors, declared.actuators, declared.rewards
        self.static_model, self.blocks = declared.static_model, declared.blocks
        self.program = self.setup.get("plugin") is None
        self.checks = Declared(self.program)
        if self.program and (declared.bodies or 1) != self.bodies:
            text = f"environment {self.uid} has {self.bodies} bodies, its program {declared.bodies or 'knows of one'}"
            raise wrong_answer(self.peer, "environment.start", RemoteProtocolError(text))
        self._begin("environment.start", declared, declare=True)
        if self.program:
            self.noops = [it.value for it in self.checks.layouts["actuators"].noops(self.actuators)]

    def began(self, answer: EnvironmentUpdated) -> None:
        """Record the reply of `environment.reset`."""
        self._begin("environment.reset", answer)

    def updated(self, answer: EnvironmentUpdated, step: int) -> bool:
        """Record the reply of `environment.update`; return whether it declared rewards."""
        checks, declared = self.checks, self.rewards is None
        try:
            if declared:
                self.rewards = answer.reward_ids or []
                checks.declare("rewards", self.rewards)
            self.readings, self.earned = checks.fields(answer.readings, answer.rewards)
            self.ticks = step if answer.ticks is None else answer.ticks
            self.timestamp = answer.timestamp
            if self.program:
                checks.pass_time(self.ticks, self.timestamp)
            if answer.terminated and answer.truncated:
                raise RemoteProtocolError("terminated and truncated exclude each other")
        except RemoteProtocolError as error:
            raise wrong_answer(self.peer, "environment.update", error) from error
        self.terminated, self.truncated = answer.terminated, answer.truncated
        self.state = answer.world_state
        return declared

    def declares(self, what: str, before: Sequence[Mapping[str, Any]]) -> None:
        """Compare the declarations of a new object with those of the phase; raises CallFailed."""
        old, new = ([(row["id"], row["space"]) for row in rows] for rows in (before, getattr(self, what)))
        found = difference(old, new)
        if found is not None:
            error = RemoteProtocolError(f"{what} changed between episodes: {found}")
            raise wrong_answer(self.peer, "environment.start", error)

    def rest(self) -> None:
        """Clear the rewards for a step in which the environment waits for its reset."""
        self.earned = [[None] * len(self.rewards)] if self.rewards else []

    def _begin(self, call: str, answer: EnvironmentDeclared | EnvironmentUpdated, declare: bool = False) -> None:
        try:
            for what in ("sensors", "actuators", "rewards") if declare else ():
                if getattr(self, what) is not None:
                    self.checks.declare(what, getattr(self, what))
            fault = mask_fault(self.checks.layouts["sensors"], self.checks.layouts["actuators"]) if declare else None
            if fault is not None:
                raise RemoteProtocolError(fault)
            if declare and self.rewards is not None and self.groups:
                self.rewards = with_groups(self.uid, self.rewards, self.groups)
            self.readings = self.checks.field("sensors", answer.readings, "readings", self.bodies)
            self.ticks, self.timestamp = answer.ticks, answer.timestamp
            self.terminated = self.truncated = False
            self.checks.begin()
            self.checks.pass_time(self.ticks, self.timestamp)
        except RemoteProtocolError as error:
            raise wrong_answer(self.peer, call, error) from error

    def declarations(self) -> dict[str, Any]:
        """Return the declarations for the governor."""
        return {
            "sensors": self.sensors,
            "actuators": self.actuators,
            "rewards": self.rewards,
            "static_model": self.static_model,
        }


@dataclass(slots=True)
class Decision:
    """A decision that becomes a row of `actions`."""

    index: int
    tick: int
    readings: Field
    setpoints: Field
    proposed: Field | None
    statistics: Mapping[str, Any] | None
    rewards: Field | None = None
    objective: float | None = None
    settled: bool = False
    forced: Field | None = None  # the setpoints applied by an environment instead

    def force(self, setpoints: Field) -> None:
        """Replace the setpoints by those that were applied; the former count as proposed."""
        self.proposed = self.setpoints if self.proposed is None else self.proposed
        self.setpoints = self.forced = setpoints


@dataclass(slots=True)
class Actor:
    """One agent in this worker: its columns, and its open decision.

    Attributes:
        sensors: Cuts the agent's readings out of those of the environments.
        actuators: The layout of the agent's setpoints.
        targets: Targets of the setpoints: environment and place in it.
        rewards: Cuts the agent's rewards out of those of the environments; None until rewards are declared.
        program: Whether the muscle is a program, whose replies are checked.
        blocks: Whether the muscle declared that it receives blocks.
        act_s: The deadline of `muscle.act`.
    """

    name: str
    peer: str
    setup: dict[str, Any]
    sensors: Cut
    actuators: Layout
    targets: list[tuple[int, int]]
    rewards: Cut | None = None
    program: bool = False
    masks: Masks | None = None  # checks of the setpoints of a program
    reward_declarations: list[dict[str, Any]] | None = None
    blocks: bool = False
    told_rewards: bool = False
    decision: Decision | None = None
    decisions: int = 0
    given: list[float] = field(default_factory=list)  # the non-missing objectives of this episode
    row: Field = field(default_factory=list)  # the agent's newest readings
    earned: Field = field(default_factory=list)
    act_s: float | None = None

    def earn(self, earned: Sequence[Field]) -> None:
        """Record the agent's rewards of a step; the open decision keeps the first rewards that it receives."""
        cut, decision = self.rewards, self.decision
        if cut is None:
            return
        self.earned = cut(earned) if cut.whole is None else earned[cut.whole]
        if decision is not None and decision.rewards is None:
            decision.rewards = self.earned

    def owed(self, worlds: Sequence[World]) -> Field | None:
        """Return the rewards of the open decision that the muscle has not received; None if there are none.

        A decision that no update has named takes the rewards of the newest step.
        """
        decision = self.decision
        if decision is None or decision.settled:
            return None
        if decision.rewards is None:
            self.earn(list(map(_EARNED, worlds)))
        return decision.rewards

    def tell(self, rewards: Field | None) -> tuple[Field, Field | None]:
        """Return the newest readings and rewards in the form that the muscle takes."""
        if self.blocks:
            return self.row, rewards
        if rewards is not None:
            assert self.rewards is not None
            rewards = self.rewards.layout.rows(rewards)
        return self.sensors.layout.rows(self.row), rewards

    @property
    def summary(self) -> dict[str, float | None]:
        """Return sum and mean of the agent's objectives in this episode; None if there are none."""
        if not self.given:
            return {"sum": None, "mean": None}
        total = math.fsum(self.given)
        return {"sum": total, "mean": total / len(self.given)}


class Given(NamedTuple):
    """The setpoints of an environment in a step: the actuators (None: all), and the cut out of agents' setpoints."""

    indices: list[int] | None
    cut: Cut

    def recorded(self, setpoints: Field, width: int) -> Field:
        """Return setpoints in recorded form: None for actuators that no agent sets."""
        return [self._over([None] * width, row) for row in self.cut.layout.rows(setpoints)]

    def message(self, setpoints: Field, world: World) -> EnvironmentUpdate:
        """Return the request of a step; a program receives the no-ops of actuators that no agent sets."""
        if self.indices is None or world.noops is None:
            return EnvironmentUpdate(setpoints if world.blocks else self.cut.layout.rows(setpoints), self.indices)
        layout = world.checks.layouts["actuators"]
        rows = [self._over(layout.to_row(world.noops), row) for row in self.cut.layout.rows(setpoints)]
        return EnvironmentUpdate(layout.checked(rows, "setpoints") if world.blocks else rows)

    def _over(self, row: list[Any], given: Sequence[Any]) -> list[Any]:
        for i, value in zip(self.indices or (), given, strict=True):
            row[i] = value
        return row


Places = Mapping[str, tuple[int, int]]
"""Full id -> (environment, position)."""

_NOTHING = Layout((), ())
_READINGS, _EARNED, _SETPOINT_LAYOUT = attrgetter("readings"), attrgetter("earned"), attrgetter("actuators")


class Phase:
    """The state of a phase in this worker that outlives its episodes."""

    def __init__(self, participant: Participant, records: Records, setup: ControllerSetup, worlds: list[World]) -> None:
        self.participant, self.records, self.setup, self.worlds = participant, records, setup, worlds
        self.governor = setup.governor
        self.hooks = Hooks(f"controller (worker {setup.worker})")
        self.conditions: list[tuple[str, Any]] = []
        self.controller: Controller
        self.start: ControllerStart | None = None
        self.actors: list[Actor] = []
        self.by_name: dict[str, Actor] = {}
        self.episode: Episode | Ticks | None = None
        self.ticks: Ticks | None = None  # set in a phase with bodies
        self.signals: deque[FlowSignal] = deque()
        self.tick = self.heeded = 0  # steps of this worker, which are rounds; number of the last signal carried out
        self.common = self.settle = self.patient = False
        self.evaluation: tuple[int, int] | None = None  # round of training, and `tick` when it began
        self.missing: set[str] = set()  # lost environments whose successors are not replayed yet
        self.steps_left: int | None = None  # boundaries left before the next PAUSE
        self.tell_s = self.settled_s = 0.0
        self.programs = False  # whether any muscle is a program, whose answers are checked
        self.known: dict[tuple[str, ...], list[Given]] = {}  # results of `given`
        self._spans_s: dict[tuple[str, str], float | None] = {}
        place = (setup.phase, setup.mode, setup.worker)
        self.topics = TopicBoard(records, place, {world.peer: world.uid for world in worlds}, lambda: self.now)
        self._tables = {world.peer: world.setup.get("deadlines_s") for world in worlds}

    def begin(self, start: ControllerStart, actors: list[Actor]) -> None:
        """Set the agents of the phase."""
        self.start, self.actors = start, actors
        self.by_name = {actor.name: actor for actor in actors}
        self.topics.join({actor.peer: actor.name for actor in actors})
        self.sensor_layouts = {actor.name: actor.sensors.layout for actor in actors}
        self.actuator_layouts = {actor.name: actor.actuators for actor in actors}
        self.reward_layouts = dict.fromkeys(self.by_name, _NOTHING)  # empty until rewards are declared
        self.programs, self.known = any(actor.program for actor in actors), {}
        self._tables |= {actor.peer: actor.setup.get("deadlines_s") for actor in actors}
        for world in self.worlds:
            world.update_s = self.span_s("environment.update", world.peer)
        for actor in actors:
            actor.act_s = self.span_s("muscle.act", actor.peer)
        self.common, self.settle, self.patient = start.common, start.settle, start.patient
        if self.setup.bodies is not None:
            self._take_rewards()
        elif all(world.rewards is not None for world in self.worlds):
            self.connect_rewards()
            for actor in actors:
                actor.told_rewards = True

    def _take_rewards(self) -> None:
        """Check that all rewards of a phase with bodies are declared before they are earned."""
        late = next((world for world in self.worlds if world.rewards is None), None)
        if late is not None:
            text = "in a phase with bodies an environment declares its rewards at its start: rewards_available"
            raise wrong_answer(late.peer, "environment.start", RemoteProtocolError(text))
        for actor in self.actors:
            actor.told_rewards = True

    def look(self) -> None:
        """Cut the agents' readings out of the newest readings of the environments."""
        shown = list(map(_READINGS, self.worlds))
        for actor in self.actors:
            whole = actor.sensors.whole
            actor.row = actor.sensors(shown) if whole is None else shown[whole]

    def cut(self, ids: Sequence[str], what: str, places: Places) -> Cut:
        """Return the cut of these full ids out of all environments' values; `what` is sensors or rewards."""
        sources = [world.checks.layouts.get(what, _NOTHING) for world in self.worlds]
        return Cut(ids, sources, [places[uid] for uid in ids], missing=what == "rewards")

    def given(self, agents: tuple[str, ...]) -> list[Given]:
        """Return what each environment receives from these agents; the later agent in document order wins."""
        actors = [self.by_name[name] for name in agents]
        layouts = list(map(_SETPOINT_LAYOUT, actors))
        found = self.known[agents] = [self._given_to(i, actors, layouts) for i in range(len(self.worlds))]
        return found

    def _given_to(self, number: int, actors: Sequence[Actor], layouts: Sequence[Layout]) -> Given:
        found: dict[int, tuple[int, int]] = {}
        for source, actor in enumerate(actors):
            found |= {place: (source, i) for i, (world, place) in enumerate(actor.targets) if world == number}
        indices, ids = sorted(found), [str(row["id"]) for row in self.worlds[number].actuators]
        cut = Cut([ids[i] for i in indices], layouts, [found[i] for i in indices])
        return Given(None if len(indices) == len(ids) else indices, cut)

    def topics_of(self, actor: Actor, episode: int) -> list[Any] | None:
        """Return the settings of a muscle at the begin of an episode."""
        stream = derive(actor.setup["stream"], "episode", episode)
        return self.topics.opening(actor.peer, actor.setup.get("topics"), stream)

    def tell_steps(self, at: Mapping[str, Any], now_s: float) -> None:
        """Publish the progress of the worker once `tell_s` has passed; more often at the begin of a phase.

        `at` are `episode` and its `steps`; with bodies `tick`, the `steps` so far, and the `episodes` that have ended.
        """
        if self.tell_s == 0.0:
            self.tell_s, self.settled_s = now_s + STEPS_REPORT_FIRST_S, now_s + STEPS_REPORT_FIRST_SPAN_S
            return
        self.tell_s = now_s + (STEPS_REPORT_FIRST_S if now_s < self.settled_s else STEPS_REPORT_S)
        setup = self.setup
        fields: dict[str, Any] = {"phase": setup.phase, "worker": setup.worker, **at, "taken": self.tick}
        if setup.evaluation:
            fields["mode"] = setup.mode
        self.participant.tell_event("steps.taken", fields)

    @property
    def now(self) -> int:
        """Return the tick for a row that is recorded now."""
        return self.tick if self.ticks is None else self.ticks.core.tick

    @property
    def moment(self) -> tuple[int, int]:
        """Return the place of a row that is recorded now: the round, and the steps of the evaluation within it."""
        if self.evaluation is None:
            return self.tick, 0
        round_, began = self.evaluation
        return round_, self.tick - began

    def places(self, what: str) -> Places:
        """Return the places of all sensors, actuators or rewards."""
        return {
            f"{world.uid}.{declared['id']}": (i, position)
            for i, world in enumerate(self.worlds)
            for position, declared in enumerate(getattr(world, what) or [])
        }

    def connect_rewards(self, declare: bool = True) -> None:
        """Assign the declared rewards to each agent; RemoteProtocolError names an unknown reward."""
        places = self.places("rewards")
        for actor in self.actors:
            wanted = _wanted_rewards(actor, self.worlds, places)
            actor.rewards = self.cut(wanted, "rewards", places)
            self.reward_layouts[actor.name] = actor.rewards.layout
            actor.reward_declarations = [self._reward(uid, places[uid]) for uid in wanted]
            if declare:
                self._declare(None, actor.name, actor.reward_declarations)
        for world in self.worlds if declare else ():
            self._declare(world.uid, None, full_ids(world.uid, world.rewards or []))

    def declare_rewards(self, agents: Iterable[Actor]) -> None:
        """Record the rewards of agents and environments."""
        for actor in agents:
            groups = actor.setup.get("groups")
            for uid in groups or [None]:  # with several groups each environment has its own rows
                self._declare(uid, actor.name, of_group(actor.reward_declarations or [], groups[uid] if groups else 0))
        for world in self.worlds:
            self._declare(world.uid, None, full_ids(world.uid, world.rewards or []))

    def _declare(self, environment: str | None, agent: str | None, rewards: Sequence[Mapping[str, Any]]) -> None:
        """Record the declared rewards, which may be declared late."""
        rows = declaration_rows(rewards)
        self.records.add(["declare", self.setup.phase, environment, agent, "reward", rows])

    def _reward(self, uid: str, place: tuple[int, int]) -> dict[str, Any]:
        rewards = self.worlds[place[0]].rewards
        assert rewards is not None
        return {**rewards[place[1]], "id": uid}

    def span_s(self, call: str, peer: str = "") -> float | None:
        """Return a call's deadline: the document's number for this peer first, then that for all."""
        key = (call, peer)
        if key not in self._spans_s:
            own = self._tables.get(peer)
            self._spans_s[key] = span_s(call, self.setup.deadlines_s if own is None else own)
        return self._spans_s[key]


def _wanted_rewards(actor: Actor, worlds: Sequence[World], places: Places) -> list[str]:
    given = actor.setup.get("rewards")
    if given is None:
        touched = set(actor.setup["environments"])
        return [uid for uid, (world, _) in places.items() if worlds[world].uid in touched]
    uids = {world.uid for world in worlds}
    wanted: list[str] = []
    for name in given:
        if name in places:
            wanted.append(name)
        elif name in uids:
            wanted += [uid for uid, (world, _) in places.items() if worlds[world].uid == name]
        else:
            raise RemoteProtocolError(f"agent {actor.name}: rewards: {name!r} is no reward of {', '.join(places)}")
    return wanted


Layouts = Mapping[str, Layout]
"""Agent -> the layout of its values."""


class Values(MutableMapping[str, Sequence[Any]]):
    """Map agents to their values in declared order: numbers, and arrays of a space's shape.

    Values are converted when they are read: most controllers pass them on unread. A value that is read is a copy.
    """

    __slots__ = ("_layouts", "_shown", "rows")

    def __init__(self, rows: dict[str, Field], layouts: Layouts) -> None:
        self.rows, self._layouts = rows, layouts
        self._shown: dict[str, Sequence[Any]] = {}

    def __getitem__(self, name: str) -> Sequence[Any]:
        if name not in self._shown:
            self._shown[name] = list(self._layouts[name].values(self.rows[name], name))
        return self._shown[name]

    def __setitem__(self, name: str, values: Sequence[Any]) -> None:
        self.rows.setdefault(name, [])
        self._shown[name] = values

    def __delitem__(self, name: str) -> None:
        del self.rows[name]
        self._shown.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return repr(dict(self))

    def travel(self) -> dict[str, Field]:
        """Return the values in wire form; values that were read may have been changed, and are checked."""
        if not self._shown:
            return self.rows
        changed = {name: _field(name, self._layouts[name], values) for name, values in self._shown.items()}
        return {**self.rows, **changed}


def fields_of(setpoints: Mapping[str, Sequence[Any]], layouts: Layouts) -> dict[str, Field]:
    """Return the setpoints of an author in wire form; AuthorError names the one that does not fit."""
    if isinstance(setpoints, Values):
        return setpoints.travel()
    return {name: _field(name, layouts[name], values) for name, values in setpoints.items()}


def _field(name: str, layout: Layout, values: Sequence[Any]) -> Field:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or len(values) != len(layout):
        found = len(values) if hasattr(values, "__len__") else type(values).__name__
        raise AuthorError(f"setpoints of agent {name}: expected {len(layout)} values, found {found}")
    if layout.holds(list(values)):
        return layout.field([values])
    try:
        for (uid, space), value in zip(layout.pairs(), values, strict=True):
            if not space.contains(value):
                ActuatorInformation(value, space, uid)  # raises an error that names the id
        return layout.field([values])
    except SpaceError as error:
        raise AuthorError(f"setpoints of agent {name}: {error}") from None
