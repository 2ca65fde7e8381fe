"""Ticks: a worker of a phase with bodies: in each tick act, update, take, close, record, renew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ganglion.errors import DocumentError, GanglionError, OutOfActionSpaceError, RemoteProtocolError
from ganglion.peer.agent.decision import heard
from ganglion.peer.author import wrong_answer
from ganglion.peer.environment.contract import declared_layout
from ganglion.peer.environment.trial import WIRE_BITS
from ganglion.peer.participant import Retry
from ganglion.peer.results.records import pack
from ganglion.peer.step.layout import (
    ROW_NUMBER,
    Field,
    Groups,
    Layout,
    Masks,
    blocks_of,
    declaration,
    of_group,
    writable_copy,
    zero_outside,
)
from ganglion.peer.step.tick import BETWEEN, Array, Clock, EndedEpisode, Timelines, closed_flags
from ganglion.peer.worker.boundary import Boundaries, Ending, WorkerRounds
from ganglion.peer.worker.play import Play, play_of
from ganglion.peer.worker.recovery import Command, EpisodeRecovery, Replayer
from ganglion.peer.worker.world import Actor, Phase, World
from ganglion.sdk.condition import EpisodeView
from ganglion.sdk.flow import Signal
from ganglion.sdk.seed import derive, integer_from_words
from ganglion.sdk.spaces import Box
from ganglion.wire.conversation import Pending
from ganglion.wire.envelope import Position
from ganglion.wire.journal import digest
from ganglion.wire.messages import (
    BY_CLOCK,
    DECIDE,
    FIRST,
    TERMINATED,
    TRUNCATED,
    Act,
    Acted,
    ControllerSetup,
    EnvironmentReset,
    EnvironmentUpdate,
    EnvironmentUpdated,
    Go,
    MuscleReset,
    Swap,
    Swapped,
    Verdict,
)
from ganglion.wire.messages import EpisodeEnded as EpisodeReport

if TYPE_CHECKING:
    from ganglion.peer.worker.controller import ControllerHost

_ROWS_OPEN_MAX = 250
_ROWS_OPEN_BYTES = 256 * 1024
_ROWS_PER_WEIGHT = 16  # rows in columns that take as long to send as one row of another kind
_ROW_BYTES = 32  # numbers and flags of a row besides the values
_NEWS_S = 0.2  # between two events about episodes, of which thousands may end in a second
_PHASE_END = "truncated: phase end"
_ENDS = 1  # the second round of brains in a tick, in which brains receive ends
_FLAGS, _WANTS = bytes(range(TRUNCATED + 1)), bytes(range(BY_CLOCK + 1))  # all valid bytes of these fields
_NONE = np.zeros(0, np.int64)
_PAIR_BITS = 32  # bits of a spawned body's number, below those of its agent and environment

Runs = list[Array]
"""The values of many bodies: one matrix `[bodies, columns]` for each block of a layout."""
Sums = dict[str, list[Any]]
"""Results of bodies in an episode, per agent: decisions, sum and count of their objectives."""


def _joined(runs: Runs) -> bytes:
    return runs[0].tobytes() if len(runs) == 1 else b"".join([run.tobytes() for run in runs])


class _Columns:
    """Copy the values of some ids of one layout to ids of another, for many bodies at once.

    `begin` and `to` are the numbers of the first matrices of each layout, if layouts are concatenated.
    """

    def __init__(
        self, source: Layout, target: Layout, places: Sequence[tuple[int, int]], begin: int = 0, to: int = 0
    ) -> None:
        found: list[tuple[int, int, int, int, int]] = []  # runs and first columns of both, count
        for one, other in places:
            (i, start, end, _), (k, at, _, _) = source.place(one), target.place(other)
            size = source.runs[i].dtype.itemsize
            piece = (i, start // size, k, at // target.runs[k].dtype.itemsize, (end - start) // size)
            if found and found[-1][0] == i and found[-1][2] == k:
                _, first, _, end_of, count = found[-1]
                if (first + count, end_of + count) == (piece[1], piece[3]):
                    found[-1] = (i, first, k, end_of, count + piece[4])
                    continue
            found.append(piece)
        self._pieces = [
            (begin + i, slice(a, a + n), to + k, slice(b, b + n), n == source.runs[i].width == target.runs[k].width)
            for i, a, k, b, n in found
        ]

    def __call__(self, source: Runs, rows: Array | None, target: Runs, to: Array | None) -> None:
        """Copy rows of the source (None: all) to rows of the target (None: all)."""
        for i, begin, k, end, whole in self._pieces:
            part = source[i] if rows is None else source[i][rows]
            if not whole:
                part = part[:, begin]
            if to is None:
                target[k][:, end] = part
            elif whole:
                target[k][to] = part
            else:
                target[k][to, end] = part


class _World:
    """One environment: its bodies, the setpoints applied to them, its rows that are not sent yet."""

    def __init__(self, number: int, world: World, rows: Array, clock: Clock, between: Array, first: Array) -> None:
        self.number, self.world, self.rows, self.clock = number, world, rows, clock
        self.static = first  # rows of the bodies with which an episode begins
        self.begin = None if len(first) == len(rows) else np.arange(len(first))  # their seats, None: all
        layouts = world.checks.layouts
        self.sensors, self.actuators, self.rewards = layouts["sensors"], layouts["actuators"], layouts["rewards"]
        # Group -> run and column of its reward among the rewards of a body, after the environment's own.
        self.shares: dict[str, tuple[int, int]] = {}
        if world.groups:
            self.rewards = layout = declared_layout(world.rewards or [], "rewards")
            own = [(i, i) for i in range(len(layout) - len(world.groups))]
            self.widen = _Columns(layouts["rewards"], layout, own)
            for i, group in enumerate(world.groups, len(own)):
                run, start, _, _ = layout.place(i)
                self.shares[group] = run, start // layout.runs[run].dtype.itemsize
        self.count = len(rows)
        self.each = clock.end == "each"
        declared = zip(world.actuators, self.actuators.spaces, strict=True)
        noops = [row.get("value", space.default()) for row, space in declared]
        field = self.actuators.field([self.actuators.from_row(noops, "setup.actuators")])
        self.noop = [matrix[0] for matrix in self.actuators.matrices(field, 1)]
        self.given = self.actuators.zeros(self.count)
        self.between = between
        self.sparse = bool(between.any())
        self.links: list[_Link] = []
        self.is_new = False  # the next episode was begun by a new object
        self.entries: list[list[Any]] = []
        self.shown: list[list[Any]] = []  # first readings, not sent yet
        self.weight = self.size_bytes = 0
        self.row_bytes = _ROW_BYTES + sum((*self.sensors.sizes, *self.actuators.sizes, *self.rewards.sizes))

    def rest(self, places: Array | None = None) -> None:
        """Apply the no-ops to these bodies; None: to all."""
        for run, value in zip(self.given, self.noop, strict=True):
            run[slice(None) if places is None else places] = value

    def setpoints(self, deciding: Array) -> Runs:
        """Return the setpoints of this step; `deciding` holds for each body whether it decided in this tick."""
        if not self.sparse:
            return self.given
        found = [run.copy() for run in self.given]
        for run, value in zip(found, self.noop, strict=True):
            run[~deciding & (self.between == BETWEEN["noop"])] = value
            run[~deciding & (self.between == BETWEEN["zero"])] = 0
        return found


class _Link:
    """The connection of an agent and one environment: the agent's bodies in it, and the corresponding columns."""

    def __init__(
        self, agent: _Agent, world: _World, group: int, places: Mapping[str, Sequence[tuple[int, int]]]
    ) -> None:
        self.agent, self.world = agent, world
        mine = np.isin(world.rows, agent.rows)
        self.seats = np.flatnonzero(mine)  # seats of the agent's bodies among the rows of the environment
        self.places = np.searchsorted(agent.rows, world.rows[mine])  # and among those of the agent
        self.whole = len(self.seats) == world.count and not agent.dynamic
        sensors, rewards, actuators = agent.sensors, agent.rewards, agent.actuators
        self.sensors = _Columns(world.sensors, sensors.layouts[group], places["sensors"], to=sensors.firsts[group])
        self.rewards = _Columns(world.rewards, rewards.layouts[group], places["rewards"], to=rewards.firsts[group])
        setpoints = [(i, k) for k, i in places["actuators"]]
        self.actuators = _Columns(actuators.layouts[group], world.actuators, setpoints, actuators.firsts[group])
        to = actuators.firsts[group]
        self.applied = _Columns(world.actuators, actuators.layouts[group], places["actuators"], to=to)

    def between(self, seats: Array | None) -> tuple[Array, Array]:
        """Return which of these bodies of the environment (None: all) are the agent's, and their places there."""
        if seats is None:
            return self.seats, self.places
        source = np.searchsorted(seats, self.seats)
        found = source < len(seats)
        found[found] = seats[source[found]] == self.seats[found]
        return source[found], self.places[found]


class _Agent:
    """One agent: the readings, rewards and open decisions of its bodies, in its own order.

    If bodies decide by models of several sources, each source has its own object with its bodies.
    """

    def __init__(
        self,
        actor: Actor,
        rows: Array,
        table: Sequence[Mapping[str, Any]],
        rewards: Sequence[Layout],
        uids: Sequence[str],
    ) -> None:
        self.actor, self.rows, self.count = actor, rows, len(table)
        self.dynamic = any(body["b"] < 0 for body in table)
        self._dense = len(rows) == rows[-1] - rows[0] + 1  # the rows are contiguous in the table of the worker
        self.numbers: Array | None = None  # numbers of the bodies among all those of the agent
        if "places" in actor.setup:
            self.numbers = np.array(actor.setup["places"], ROW_NUMBER)
        self.policy, self.versioned = str(table[0]["policy"]), False  # whether a reply has contained a version
        self.version = np.zeros(self.count, np.int64)  # version of the model that made the open decision
        self.sources, self.source = int(actor.setup.get("sources", 1)), int(actor.setup.get("source", 0))
        groups = actor.setup.get("groups")
        of = None if groups is None else np.array([groups[body["environment"]] for body in table])
        self.several = of is not None
        self.rewards = Groups(rewards, of)
        self.sensors, self.actuators = (
            Groups([Layout.of(of_group(actor.setup[what], number)) for number in range(len(rewards))], of)
            for what in ("sensors", "actuators")
        )
        masks = [Masks(*pair) for pair in zip(self.sensors.layouts, self.actuators.layouts, strict=True)]
        self._masks = masks if actor.program and any(masks) else None
        self.brain = actor.setup.get("brain")
        n = self.count
        self.readings, self.seen = self.sensors.zeros(n), self.sensors.zeros(n)
        self.setpoints = self.actuators.zeros(n)
        self.applied: Runs = []  # the last applied setpoints, if these may differ from the requested ones
        self.proposed: Runs = []  # the muscle's own proposal, if filters change it
        self.forced = False  # whether an environment replaces setpoints
        self.policies: list[str] | None = None  # policies of open decisions, if an environment reports them
        self.earned = self.rewards.zeros(n)
        self.number, self.tick = np.zeros(n, np.int32), np.zeros(n, np.int32)  # number and tick of the open decision
        self.episode, self.decisions = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.decided = np.zeros(n, bool)
        self.given = np.zeros(n)  # sum and count of the objectives of the episode
        self.counted = np.zeros(n, np.int64)
        self.returns: Array | None = None  # returns in the episode, if sides are rated
        # Ends not sent yet: places, flags, readings, rewards, applied setpoints.
        self.ends: list[tuple[Array, Array, Runs, Runs, Runs]] = []
        self.noted: dict[int, Any] = {}  # statistics of open decisions, by place
        # Of bodies that ended before their episode, by place: [rewards due since then, None: none; their last row, None
        # until it is complete; whether more may fall due; b, episode, number of their last decision].
        self.dues: dict[int, list[Any]] = {}
        self.late: list[list[Any]] = []  # late rewards not sent yet, see Act
        self.shares: list[str | None] = [None] * n  # the group of each body with shared rewards; the reward's full id
        self.share_ids: list[str] = [""] * n
        self.links: list[_Link] = []
        self.changes = _transform(table)
        self.foreign: list[Array] = []  # for each matrix of rewards: whether a column belongs to another group
        # If bodies may be spawned: the environment of each place, and the number of the body that decided last.
        self.homes, self.whose = np.array([uids.index(body["environment"]) for body in table]), np.full(n, -1)
        self.gone = np.zeros(len(uids), np.int64)  # decisions in an environment's episode of removed bodies
        self.entries: list[list[Any]] = []
        self.weight = self.size_bytes = 0
        self.row_bytes = _ROW_BYTES + sum(
            groups.size_bytes() for groups in (self.sensors, self.actuators, self.rewards)
        )

    def check(self, places: Array, setpoints: Runs) -> None:
        """Compare the setpoints of a program with the masks of its bodies; raises OutOfActionSpaceError."""
        if self._masks is None:
            return
        parts = zip(self._masks, self.sensors.parts(places), self.actuators.parts(places), strict=True)
        for masks, (_, seen, span), (_, moved, _) in parts:
            mine = places[span]
            names = [f"{self.actor.setup['bodies'][place][0]}/{self.actor.setup['bodies'][place][1]}" for place in mine]
            masks.check([run[mine] for run in self.readings[seen]], [run[span] for run in setpoints[moved]], names)

    def spans(self, places: Array) -> list[slice]:
        """Return the slice of each group that has bodies, for bodies sorted by groups."""
        return [span for _, _, span in self.sensors.parts(places) if span.start < span.stop]

    def among(self, rows: Array) -> Any:
        """Return which of these ascending rows belong to the agent: a slice, or a mask."""
        if self._dense:
            return slice(*np.searchsorted(rows, (self.rows[0], self.rows[-1] + 1)).tolist())
        return np.isin(rows, self.rows)

    def places_of(self, rows: Array) -> Array:
        """Return the places of rows that belong to the agent."""
        found: Array = rows - self.rows[0] if self._dense else np.searchsorted(self.rows, rows)
        return found

    STATE = (
        *("readings", "seen", "setpoints", "applied", "proposed", "earned", "ends", "decided"),
        *("number", "tick", "episode", "decisions", "given", "counted", "noted", "returns", "version", "versioned"),
        *("whose", "gone", "dues", "late", "forced", "policies"),
    )

    @property
    def owed(self) -> bool:
        """Return whether ends or late rewards must still be sent to the agent."""
        return bool(self.ends or self.late)

    def changed(self, place: int, value: float) -> float:
        """Return a reward as the body receives it: scaled, shifted and bounded."""
        if self.changes is None:
            return value
        scale, shift, low, high = (float(part[place, 0]) for part in self.changes)
        return min(max(value * scale + shift, low), high)


class ActRequest(NamedTuple):
    """A call of a muscle: the message, the places and flags of its bodies, and which bodies decide."""

    agent: _Agent
    message: Act
    places: Array
    flags: Array
    earned: Runs
    deciding: Array


class UpdateRequest(NamedTuple):
    """A call of an environment: which bodies take part (None: all), and the setpoints applied to them."""

    world: _World
    pending: Pending
    places: Array | None
    setpoints: Runs
    message: EnvironmentUpdate | None = None


class _Spawned(NamedTuple):
    """Bodies that an environment spawns: their seats, numbers and first readings."""

    seats: Array
    b: Array
    readings: Runs


def _table(setup: ControllerSetup) -> list[dict[str, Any]]:
    """Return the rows of all bodies by agents: those of the document, then those that may be spawned.

    `position` is the index of a body in the list of all, or the first part of the index of a `pair`, from 1 on.
    """
    known = [{**body, "position": i} for i, body in enumerate(setup.bodies or ())]
    agents = list(dict.fromkeys(body["agent"] for body in known))
    for i, body in enumerate(setup.dynamic or ()):
        known += [{**body, "b": -1, "pair": i, "position": i + 1} for _ in range(body["most"])]
    return sorted(known, key=lambda body: agents.index(body["agent"]))


def _foreign(layout: Layout, table: Sequence[Mapping[str, Any]], shared: Mapping[int, Mapping[str, str]]) -> Array:
    """Return for each body which columns of rewards belong to other groups: nothing is added there."""
    groups = {uid: group for known in shared.values() for group, uid in known.items()}
    found = np.zeros((len(table), layout.width), bool)
    for i, uid in enumerate(layout.ids):
        _, start, end, _ = layout.place(i)
        others = [uid in groups and body["group"] != groups[uid] for body in table]
        found[:, start // 8 : end // 8] = np.array(others)[:, None]
    return found


def _transform(table: Sequence[Mapping[str, Any]]) -> tuple[Array, Array, Array, Array] | None:
    """Return scale, shift and bounds of the rewards of each body; None if nothing is changed."""
    infinite = {"low": -np.inf, "high": np.inf}
    found = [
        np.array([infinite.get(key) if body[key] is None else body[key] for body in table], np.float64)[:, None]
        for key in ("scale", "shift", "low", "high")
    ]
    same = (found[0] == 1).all() and (found[1] == 0).all() and np.isinf(found[2]).all() and np.isinf(found[3]).all()
    return None if same else (found[0], found[1], found[2], found[3])


class _Boundaries(Boundaries):
    """The boundary of a tick: conditions are evaluated per environment; ended episodes are reported to the governor."""

    def __init__(self, phase: Phase, ticks: Ticks) -> None:
        super().__init__(phase)
        self._ticks = ticks

    def _conditions(self, episode: Any) -> list[dict[str, Any]]:
        return []

    def _ask(self, episode: Any, causes: list[dict[str, Any]]) -> Go:
        told = self._telling()
        go = super()._ask(episode, causes)
        if told and go.signal == Signal.CONTINUE.name:
            causes += self._ticks.tell_together(go.participants or {})
            go = super()._ask(episode, causes)
        return go

    def _telling(self) -> list[str] | None:
        return self._ticks.telling()

    def _ended(self) -> list[dict[str, Any]] | None:
        return self._ticks.take_reports()

    def _ends(self, signal: Signal) -> bool:
        return signal.effect.stops

    def keep(self, causes: list[dict[str, Any]], step: int) -> None:
        """Keep causes for the final report of the worker, with the tick of their effect."""
        self._pauses += [{**cause, "steps": step} for cause in causes]

    def ask(self, uid: str, number: int, step: int, flags: tuple[bool, bool]) -> list[dict[str, Any]]:
        """Evaluate the conditions for the running episode of one environment."""
        if not self._asked:
            return []
        setup, world = self._phase.setup, next(w for w in self._phase.worlds if w.uid == uid)
        view = EpisodeView(
            setup.worker, self._mode, number, step, {uid: flags[0]}, {uid: flags[1]}, {uid: world.simtime}
        )
        causes = []
        for name, condition, hook in self._asked:
            if "ended" in condition.reads:
                continue
            signal = Signal(self._phase.hooks(hook, condition.episode, view))
            if signal is not Signal.CONTINUE:
                issuer = f"condition:{condition.issuer or name}"
                causes.append({"signal": signal.name, "issuer": issuer, "reason": condition.reason or name})
        return causes


class Ticks(WorkerRounds):
    """Run the ticks of one worker's part of a phase with bodies.

    The boundary and the controller's host treat this object as an episode: of number 0, or of the number of an
    evaluation, and with ticks as steps.
    """

    def __init__(self, phase: Phase, verdict: Verdict, host: ControllerHost) -> None:
        super().__init__(phase, verdict)
        self._recovery = EpisodeRecovery(self, host)
        self._leg = 0
        setup = phase.setup
        self.table = table = _table(setup)
        self.position = np.array([body["position"] for body in table])  # index in the list of all bodies
        self._tags = np.array([body["group"] for body in table], object)
        uids = [world.uid for world in phase.worlds]
        environment = np.array([uids.index(body["environment"]) for body in table])
        clocks = [_clock(world, table) for world in phase.worlds]
        period, offset = (np.array([body[key] for body in table]) for key in ("period", "offset"))
        numbers = np.array([body["b"] for body in table])
        self.core = core = Timelines(clocks, environment, period, offset, setup.end or "all", numbers)
        between = np.array([BETWEEN[body["between"]] for body in table])
        self.worlds = [
            _World(e, world, core.rows[e], clocks[e], between[core.rows[e]], core.static[e])
            for e, world in enumerate(phase.worlds)
        ]
        self.agents: list[_Agent] = []
        owners = np.array([str(body["agent"]) for body in table])
        for actor in phase.actors:
            rows = np.flatnonzero(owners == actor.name)
            rows = rows[actor.setup["places"]] if "places" in actor.setup else rows
            if len(rows):
                self.agents.append(self._agent(actor, rows, [table[row] for row in rows.tolist()]))
        self.owner = {row: agent for agent in self.agents for row in agent.rows.tolist()}
        self._boundaries = _Boundaries(phase, self)
        self._shown = np.full(len(table), -1)  # the last episode whose first readings were recorded
        self._check_zero()
        self._over: list[EndedEpisode] = []  # episodes whose ends are not sent to their agents yet
        self._reports: list[dict[str, Any]] = []
        self._untold, self._news_s = [0, 0], 0.0  # episodes and steps not reported yet, and the time of the next report
        self._newest: dict[str, Any] = {}
        # Ends are sent at once if conditions read the means of episodes. If the rows of several workers enter one round
        # of a brain, ends have a round of their own: their order must not vary.
        self._at_once = phase.common and phase.settle
        self._learning = any(agent.brain is not None for agent in self.agents)
        self._base = (setup.phase, setup.worker, self.number, 0)
        others = any("k" in agent.actor.setup for agent in self.agents)  # with other models than the current one
        self.play = play_of(self.agents, table, self.core) if others else None
        self._sourced, self._wave = any(agent.sources > 1 for agent in self.agents), 0
        self._apart = self._several or phase.start is None or phase.start.sync == "async"  # see _seated

    @property
    def _brain_round(self) -> int:
        """Return the number of the round of brains: the round of a tick's ends follows that of its decisions."""
        return 2 * self.round + self._leg

    @property
    def _several(self) -> bool:
        return self.participants is not None and any(len(workers) > 1 for workers in self.participants.values())

    # -- the set-up ---------------------------------------------------------------------------------------------------
    def _agent(self, actor: Actor, rows: Array, table: list[Mapping[str, Any]]) -> _Agent:
        groups = actor.setup.get("groups")
        worlds = [self.worlds[e] for e in dict.fromkeys(self.core.environment[rows].tolist())]
        mine = [world for world in self.worlds if world.world.uid in actor.setup["environments"]]
        layouts: list[Layout] = []
        places: dict[int, dict[str, list[tuple[int, int]]]] = {}
        shared: dict[int, dict[str, str]] = {}  # environment -> groups whose rewards the agent gets, and their ids
        actor.reward_declarations = []
        for number, local in enumerate(actor.setup["locals"]):
            members = [world for world in mine if groups is None or groups[world.world.uid] == number]
            rewards = list(members[0].rewards.ids if local["rewards"] is None else local["rewards"])
            for world in members:
                for uid in rewards:
                    if uid not in world.rewards.index:
                        known = ", ".join(world.rewards.ids) or "none"
                        text = f"{uid!r} is no reward of environment {world.world.uid}: {known}"
                        raise DocumentError(f"agent {actor.name}: rewards: {text}")
                places[world.number] = {
                    "sensors": [(world.sensors.index[uid], i) for i, uid in enumerate(local["sensors"])],
                    "rewards": [(world.rewards.index[uid], i) for i, uid in enumerate(rewards)],
                    "actuators": [(world.actuators.index[uid], i) for i, uid in enumerate(local["actuators"])],
                }
            spaces = [members[0].rewards.spaces[members[0].rewards.index[uid]] for uid in rewards]
            prefix = f"{members[0].world.uid}." if len(members) == 1 else ""
            boxes = [Box(-np.inf, np.inf, space.shape, np.float64) for space in spaces]
            layouts.append(Layout([f"{prefix}{uid}" for uid in rewards], boxes))
            for world in members:
                shared[world.number] = {uid: f"{prefix}{uid}" for uid in rewards if uid in world.shares}
            own = {} if groups is None else {"group": number}
            actor.reward_declarations += [{**declaration(uid, space), **own} for uid, space in layouts[-1].pairs()]
        found = _Agent(actor, rows, table, layouts, [world.world.uid for world in self.worlds])
        for world in worlds:
            group = 0 if groups is None else int(groups[world.world.uid])
            link = _Link(found, world, group, places[world.number])
            found.links.append(link)
            world.links.append(link)
            found.applied = found.applied or (found.actuators.zeros(found.count) if world.sparse else [])
            for place in link.places.tolist() if not world.each else ():
                tag = table[place]["group"]
                if tag in shared[world.number]:
                    found.shares[place], found.share_ids[place] = tag, shared[world.number][tag]
        if any(shared.values()) and found.changes is not None:
            found.foreign = [_foreign(layout, table, shared) for layout in layouts]
        return found

    def _check_zero(self) -> None:
        for row, body in enumerate(self.table):
            if body["between"] != "zero":
                continue
            world = self.worlds[int(self.core.environment[row])]
            b = None if body["b"] < 0 else int(body["b"])
            text = zero_outside(body["agent"], body["environment"], b, world.actuators.pairs())
            if text is not None:
                raise DocumentError(text)

    def declare(self) -> None:
        """Record the bodies and the rewards."""
        records, setup = self.phase.records, self.phase.setup
        self.phase.declare_rewards(agent.actor for agent in self.agents)
        keys = ("agent", "environment", "b", "role", "team", "group", "learn")
        each = {world.world.uid: world.each for world in self.worlds}
        rows = [
            [*(body[key] for key in keys), each[body["environment"]], body["policy"]] for body in setup.bodies or ()
        ]
        records.add(["bodies", setup.phase, rows])  # every worker records these rows: the order of arrival is not known

    @property
    def _parts(self) -> list[_World | _Agent]:
        """Return the parts that keep rows until these are sent."""
        return [*self.worlds, *self.agents]

    # -- state --------------------------------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """Return the state that a successor needs at the begin of a tick."""
        return {
            "core": self.core.state(),
            "agents": [{name: getattr(agent, name) for name in _Agent.STATE} for agent in self.agents],
            "given": [world.given for world in self.worlds],
            "begun": self._shown,
            "shown": [world.shown for world in self.worlds],
            "rows": [[part.entries, part.weight, part.size_bytes] for part in self._parts],
            "used": [pair["used"] for pair in self.phase.setup.dynamic or ()],
            "over": [list(one) for one in self._over],
            "reports": self._reports,
            "wishes": self._wishes,
            "worker": [self.step, self.number, self.round, self.participants, self._tolerated, self._wave],
            "play": None if self.play is None else self.play.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.core.restore(state["core"])
        for agent, known in zip(self.agents, state["agents"], strict=True):
            for name in _Agent.STATE:
                setattr(agent, name, writable_copy(known[name]))
        for world, given, shown in zip(self.worlds, state["given"], state["shown"], strict=True):
            world.given, world.shown = writable_copy(given), list(shown)
        for part, rows in zip(self._parts, state["rows"], strict=True):
            part.entries, part.weight, part.size_bytes = list(rows[0]), rows[1], rows[2]
        self._shown = writable_copy(state["begun"])
        for pair, used in zip(self.phase.setup.dynamic or (), state["used"], strict=True):
            pair["used"] = used
        self._over = [EndedEpisode(*one) for one in state["over"]]
        self._reports, self._wishes = list(state["reports"]), list(state["wishes"])
        self.step, self.number, self.round, self.participants, self._tolerated, self._wave = state["worker"]
        self._base = (*self._base[:2], self.number, 0)
        if self.play is not None:
            self.play.restore(state["play"])

    # -- a tick -------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Record the first readings of all environments, which are started already."""
        for world in self.worlds:
            if world.count:
                self._begin(world)

    def again(self, verdict: Verdict) -> None:
        """Begin one more evaluation: every environment has its budget once more; ticks are counted on."""
        self.step, self.number, self.round = 0, verdict.episode, verdict.round
        number = verdict.episode
        self._base = (*self._base[:2], self.number, 0)
        self._ending, self._closed = None, False
        self.core.tick += 1  # the last one has been made
        self.core.grant()
        phase = self.phase

        def ask(agent: _Agent) -> Pending:
            peer, reset = agent.actor.peer, MuscleReset(number, True, phase.topics_of(agent.actor, number))
            return phase.participant.ask(peer, "muscle.reset", reset, phase.span_s("muscle.reset", peer))

        def ask_again(place: int, error: GanglionError) -> Pending:
            self._recovery.set_up_successor(self.agents[place], error, [])  # the agent has no open decisions
            return ask(self.agents[place])

        phase.participant.gather([ask(agent) for agent in self.agents], ask_again)
        self._renew()

    def tick(self) -> bool:
        """Run one tick; return whether the phase continues in this worker."""
        core = self.core
        if not self._several:  # otherwise workers share each tick
            core.skip()
        lost = self.play is not None and self._swap(self.play)
        due = core.due()
        deciding = core.deciding(due)
        if self._act(deciding) or lost:
            due = [e for e in due if core.open(e)]
        self._update(due, deciding)
        if self._at_once and self._over and not self.telling():
            self._tell_ends()
        self._finish_tick()
        return self._ending is None

    def _act(self, deciding: Array) -> bool:
        """Let agents decide; return whether muscles, and episodes with them, were lost."""
        asked: list[ActRequest] = []
        for agent in self.agents:
            mine = deciding if len(self.agents) == 1 else deciding[agent.among(deciding)]
            if len(mine) or agent.owed:
                asked.append(self._asked(agent, agent.places_of(mine)))
        if self._sourced:
            asked = self._seated(asked)
        passing = self._passing([one.agent for one in asked])
        answers, lost = self._gather([*asked, *passing], 0)
        for one, answer in zip(passing, answers[len(asked) :], strict=True):
            self._wish(one.agent.actor.name, one.agent.actor.peer, answer)
        for one, answer in zip(asked, answers, strict=False):
            self._complete(one, answer, one.agent in lost)
        self._seal_over()
        for one, answer in zip(asked, answers, strict=False):
            if len(one.deciding) and one.agent not in lost:
                self._decide(one.agent, one.deciding, answer)
        self._recovery.drop(lost)
        return bool(lost)

    def _gather(self, asked: Sequence[ActRequest], leg: int, apart: bool = False) -> tuple[list[Acted], list[_Agent]]:
        """Call muscles; return their replies, and the agents whose muscles were lost: their successors pass.

        With `apart` the calls are made one after the other, so that a brain receives them in this order.
        """
        answers: list[Acted] = []
        lost: list[_Agent] = []
        for part in [[one] for one in asked] if apart else [asked]:
            pendings = [self.ask(one.agent, one.message, leg) for one in part]
            answers += self.phase.participant.gather(
                pendings,
                lambda place, error, part=part: self._recovery.replace_muscle(part[place], error, lost, leg),  # type: ignore[misc]
            )
        if self.phase.programs:
            counts = [0 if one.agent in lost else len(one.deciding) for one in asked]
            answers = heard([one.agent.actor for one in asked], answers, counts)
        return answers, lost

    def _asked(self, agent: _Agent, deciding: Array) -> ActRequest:
        """Return the next call of an agent's muscle: ends not sent yet, then the bodies that decide."""
        spawned = None
        if agent.dynamic:
            deciding = deciding[np.lexsort((self.core.b[agent.rows[deciding]], agent.homes[deciding]))]
            spawned = self._newcomers(agent, deciding)
        if agent.several:
            deciding = deciding[agent.sensors.sorted(deciding)]
        places, fresh = deciding, self.core.fresh[agent.rows[deciding]]
        flags = np.where(fresh, DECIDE | FIRST, DECIDE).astype(np.uint8)
        earned = [run[places] for run in agent.earned]
        if 1 in fresh.tobytes():
            for run in earned:
                run[fresh] = 0
        readings = [run[places] for run in agent.readings]
        applied = [run[places] for run in agent.applied] if agent.applied else []
        if agent.ends:
            ends, agent.ends = agent.ends, []
            places = np.concatenate([*(end[0] for end in ends), places])
            flags = np.concatenate([*(end[1] for end in ends), flags])
            order = np.argsort(places, kind="stable")  # in agent view; an end precedes a new begin
            if agent.dynamic:
                told = places[: len(places) - len(deciding)]
                numbers = np.concatenate([agent.whose[told], self.core.b[agent.rows[deciding]]])
                order = np.lexsort((numbers, agent.homes[places]))
            if agent.several:
                order = order[agent.sensors.sorted(places[order])]
            places, flags = places[order], flags[order]
            readings, earned, applied = (
                [np.concatenate(runs)[order] for runs in zip(*(end[place] for end in ends), now, strict=True)]
                for place, now in ((2, readings), (3, earned), (4, applied))
            )
        workers = self._workers(agent.actor.name)
        as_rows = not agent.actor.blocks
        blocks, rewards = agent.sensors.blocks(readings, places, as_rows), agent.rewards.blocks(earned, places, as_rows)
        waiting = self.phase.topics.waiting
        topics = waiting.pop(agent.actor.peer, None) if waiting else None
        rows = places.astype(ROW_NUMBER).tobytes()
        late, agent.late = agent.late, []
        message = Act(
            blocks,
            rewards,
            round=self._brain_round,
            workers=workers,
            ticks=self.core.tick,
            rows=rows,
            flags=flags.tobytes(),
            topics=topics,
            applied=agent.actuators.blocks(applied, places, as_rows) if applied else None,
            spawned=spawned,
            late=late or None,
            decided=None if agent.brain is None else agent.tick[places].astype("<i8").tobytes(),
        )
        if agent.forced:
            forced = [run[places] for run in agent.setpoints]
            message = replace(message, forced=agent.actuators.blocks(forced, places, as_rows))
        return ActRequest(agent, message, places, flags, earned, deciding)

    def _complete(self, asked: ActRequest, answer: Acted, lost: bool) -> None:
        """Record the decisions that a call completed; a lost muscle completes none."""
        agent, _, places, flags, earned, _ = asked
        self._wish(agent.actor.name, agent.actor.peer, answer)
        if lost:
            return
        done = (flags & FIRST) == 0
        count = done.tobytes().count(1)
        objectives = answer.objective or []
        if len(objectives) != count:
            error = RemoteProtocolError(f"objective: expected {count} entries, found {len(objectives)}")
            raise wrong_answer(agent.actor.peer, "muscle.act", error)
        if not count:
            return
        values = np.array([np.nan if value is None else value for value in objectives], "<f8")
        if count < len(places):
            places, flags, earned = places[done], flags[done], [run[done] for run in earned]
        if agent.returns is not None:
            agent.returns[places] += sum(run.sum(axis=1) for run in earned)
        known = ~np.isnan(values)
        np.add.at(agent.given, places[known], values[known])
        np.add.at(agent.counted, places[known], 1)
        agent.decided[places] = False
        learned = answer.learned
        noted: list[Any] = [agent.noted.pop(place, None) for place in places.tolist()] if agent.noted else []
        if learned:
            noted = noted or [None] * count
            noted[0] = {**(noted[0] or {}), **learned}
        for span in [slice(0, count)] if not agent.several else agent.spans(places):
            for part in self._parted(agent, places, span, flags) if agent.dues else [span]:
                entry = self._actions_of(agent, places, part, earned, values, flags, noted)
                due = agent.dues.get(int(places[part.start])) if agent.dues and part.stop - part.start == 1 else None
                if due is None or not flags[part.start] & (TERMINATED | TRUNCATED):
                    agent.entries.append(entry)
                    continue
                due[1] = entry
                if not due[2]:
                    self._note_due(agent, int(places[part.start]))
        agent.weight += count
        agent.size_bytes += count * agent.row_bytes
        if agent.weight >= _ROWS_OPEN_MAX or agent.size_bytes >= _ROWS_OPEN_BYTES:
            self._hand_on_actions(agent)

    def _actions_of(
        self, agent: _Agent, of: Array, span: slice, earned: Runs, values: Array, flags: Array, noted: list[Any]
    ) -> list[Any]:
        """Return the record of the decisions of one group of bodies, which lie in this span; empty without a store."""
        if not self.phase.records.kept:
            return []
        places = of[span]
        return [
            (places if agent.numbers is None else agent.numbers[places]).astype(ROW_NUMBER).tobytes(),
            agent.episode[places].astype("<i4").tobytes(),
            agent.number[places].astype("<i4").tobytes(),
            agent.tick[places].astype("<i4").tobytes(),
            agent.sensors.packed(agent.seen, places, places),
            agent.actuators.packed(agent.setpoints, places, places),
            agent.actuators.packed(agent.proposed, places, places) if agent.proposed else None,
            agent.rewards.packed(earned, places, span),
            values[span].tobytes(),
            (flags[span] & (TERMINATED | TRUNCATED)).tobytes(),
            noted[span] if any(noted[span]) else None,
            agent.policy if agent.policies is None else [agent.policies[place] for place in places.tolist()],
            agent.version[places].astype("<i8").tobytes() if agent.versioned else None,
            *([None, self._positions(agent.rows[places], agent.whose[places])] if agent.dynamic else []),
        ]

    # -- what groups of bodies earn -----------------------------------------------------------------------------------
    def _share(self, world: _World, answer: EnvironmentUpdated, rows: Array, earned: Runs) -> Runs:
        """Add the rewards of groups for bodies that took part; for bodies that had ended they fall due later."""
        found = world.rewards.zeros(len(rows))
        world.widen(earned, None, found, None)
        for group, value in _shared(answer, world.shares).items():
            run, column = world.shares[group]
            found[run][self._tags[rows] == group, column] = value
            for agent in (link.agent for link in world.links):
                for place, due in agent.dues.items():
                    if due[2] and agent.homes[place] == world.number and agent.shares[place] == group:
                        due[0] = (due[0] or 0.0) + agent.changed(place, value)
        return found

    def _credit(self, world: _World, seats: Array | None = None) -> None:
        """Queue the late rewards of bodies whose episode is over for their agents, and add them to their last rows.

        With `seats` only for these bodies, whose rows other bodies take.
        """
        for link in world.links:
            agent = link.agent
            for place in sorted(agent.dues):
                due = agent.dues[place]
                mine = due[2] and agent.homes[place] == world.number
                if not mine or (seats is not None and agent.rows[place] not in world.rows[seats]):
                    continue
                due[2] = False
                if due[0] is not None:
                    if agent.brain is not None:
                        agent.late.append([place, *due[3:], agent.share_ids[place], due[0]])
                    if agent.returns is not None:
                        agent.returns[place] += due[0]
                if due[1] is not None:
                    self._note_due(agent, place)

    def _note_due(self, agent: _Agent, place: int) -> None:
        """Record the last row of a body, with its late rewards."""
        value, entry, *_ = agent.dues.pop(place)
        late = None if value is None else np.array([value], "<f8").tobytes()
        agent.entries.append([*entry[:13], late, *entry[14:]])

    def _parted(self, agent: _Agent, places: Array, span: slice, flags: Array) -> Iterator[slice]:
        """Yield the parts of a span; an end whose row waits for late rewards is a part of its own."""
        begin = span.start
        for i in range(span.start, span.stop):
            if flags[i] & (TERMINATED | TRUNCATED) and int(places[i]) in agent.dues:
                if begin < i:
                    yield slice(begin, i)
                yield slice(i, i + 1)
                begin = i + 1
        if begin < span.stop:
            yield slice(begin, span.stop)

    def _decide(self, agent: _Agent, places: Array, answer: Acted) -> None:
        """Record the decisions of a reply, and pass them to the environments of these bodies."""
        count = len(places)
        try:
            setpoints = agent.actuators.matrices(answer.setpoints or [], places, "setpoints", finite=True)
            agent.check(places, setpoints)
        except (RemoteProtocolError, OutOfActionSpaceError) as error:
            raise wrong_answer(agent.actor.peer, "muscle.act", error) from error
        rows = agent.rows[places]
        fresh = self.core.fresh[rows]
        for kept, run in zip(agent.setpoints, setpoints, strict=True):
            kept[places] = run
        if answer.proposed is not None or agent.forced:
            own = answer.setpoints if answer.proposed is None else answer.proposed
            self._propose(agent, places, own or [])
        for kept, run in zip(agent.seen, agent.readings, strict=True):
            kept[places] = run[places]
        for run in agent.earned:
            run[places] = 0
        if agent.dynamic:
            begun = places[fresh]
            np.add.at(agent.gone, agent.homes[begun], agent.decisions[begun])
            agent.whose[places] = self.core.b[rows]
        agent.decisions[places[fresh]] = 0
        agent.number[places] = agent.decisions[places]
        agent.decisions[places] += 1
        agent.episode[places] = self.core.episode[rows]
        agent.tick[places] = self.core.tick
        if answer.version is not None:
            agent.version[places], agent.versioned = answer.version, True
        agent.decided[places] = True
        if answer.statistics:
            agent.noted |= {int(places[int(i)]): noted for i, noted in answer.statistics.items()}
        self.core.fresh[rows] = False
        if self.play is not None:
            self.play.decided(agent, count)
        for link in agent.links:
            if len(agent.links) == 1:
                seats, chosen = (None if link.whole and count == agent.count else link.seats[places]), None
            else:
                chosen = np.flatnonzero(self.core.environment[rows] == link.world.number)
                seats = link.seats[np.searchsorted(link.places, places[chosen])]
            link.actuators(setpoints, chosen, link.world.given, seats)

    def _propose(self, agent: _Agent, places: Array, given: Field) -> None:
        """Keep a muscle's own proposal for the records."""
        try:
            proposed = agent.actuators.matrices(given, places, "proposed")
        except RemoteProtocolError as error:
            raise wrong_answer(agent.actor.peer, "muscle.act", error) from error
        agent.proposed = agent.proposed or agent.actuators.zeros(agent.count)
        for kept, run in zip(agent.proposed, proposed, strict=True):
            kept[places] = run

    def _update(self, due: Sequence[int], deciding: Array) -> None:
        """Step these environments, and handle their replies."""
        phase = self.phase
        self.step += 1
        phase.hooks.step = self.step
        position = (*self._base, self.step, 0)
        sent = [self._step(self.worlds[e], deciding, position) for e in due]
        worlds, pendings = [one.world for one in sent], [one.pending for one in sent]
        answers = phase.participant.gather(pendings, self._retrying(worlds, [one.message for one in sent]))
        for one, answer in zip(sent, answers, strict=True):
            if self._recovery.took_new_object(one.world, answer):
                continue
            self._take(one, answer, self.step)
            history = one.world.world.history
            if history is not None and one.message is not None:
                history.steps.append(Command(one.message, digest(one.pending.answer)))
        phase.tick += 1
        now_s = sent[-1].pending.since_s if sent else phase.participant.clock()
        if now_s >= phase.tell_s:
            phase.tell_steps(self._reached(), now_s)

    def _reached(self) -> dict[str, Any]:
        """Return the progress of the worker, with the ended episodes of environments whose bodies share an episode."""
        core = self.core
        shared = [world for world in self.worlds if core.clocks[world.number].end != "each"]
        ended = {world.world.uid: core.episodes[world.number] for world in shared}
        return {"tick": core.tick, "steps": self.step, "episodes": ended}

    def _step(self, world: _World, deciding: Array, position: Position) -> UpdateRequest:
        """Call an environment for a step in which these bodies decided."""
        living = self.core.living(world.number)
        places = None if len(living) == world.count else living
        setpoints = world.setpoints(np.isin(world.rows, deciding)) if world.sparse else world.given
        setpoints = [run.copy() if places is None else run[places] for run in setpoints]
        field = blocks_of(setpoints)
        if not world.world.blocks:
            field = world.actuators.rows(field, len(living))
        rows = None if places is None else places.astype(ROW_NUMBER).tobytes()
        waiting = self.phase.topics.waiting
        topics = waiting.pop(world.world.peer, None) if waiting else None
        message, span_s = EnvironmentUpdate(field, None, rows, topics), world.world.update_s
        pending = self.phase.participant.ask(world.world.peer, "environment.update", message, span_s, position)
        return UpdateRequest(world, pending, places, setpoints, message)

    def _take(self, sent: UpdateRequest, answer: EnvironmentUpdated, now: int) -> None:
        """Handle the reply of a step; `now` is the time of an environment that returns none."""
        world, places, setpoints = sent.world, sent.places, sent.setpoints
        core, told = self.core, world.world
        count = world.count if places is None else len(places)
        rows = world.rows if places is None else world.rows[places]
        try:
            readings = told.checks.matrices("sensors", answer.readings, count)
            earned = told.checks.matrices("rewards", answer.rewards, count)
            if world.shares or answer.group_rewards:
                earned = self._share(world, answer, rows, earned)
            flags, own = _flags(answer, count)
            begun, first = (_NONE, []) if answer.first_rows is None else self._first(world, answer, answer.first_rows)
            born = self._born(world, answer, rows[flags != 0], world.rows[begun]) if answer.spawned else None
            wants = None if answer.wants is None else _wants(answer.wants, count)
            if answer.applied is not None:
                setpoints = self._force(world, places, answer, count)
        except RemoteProtocolError as error:
            raise wrong_answer(told.peer, "environment.update", error) from error
        told.ticks = now if answer.ticks is None else answer.ticks
        told.timestamp = answer.timestamp
        if answer.excused:
            self._note_tolerated(answer.excused)
        if answer.topics is not None:
            self.phase.topics.take(told.peer, "environment.update", answer.topics)
        episode: int | bytes = core.episodes[world.number]
        step: int | bytes = core.steps[world.number] + 1
        if world.each:
            episode, step = core.episode[rows].astype("<i4").tobytes(), (core.step[rows] + 1).astype("<i4").tobytes()
        for link in world.links:
            self._deliver(link, places, readings, earned, setpoints)
        core.want(world.number, rows, wants)
        where = [self._positions(rows, core.b[rows])] if core.dynamic else []
        over = core.take(world.number, rows, flags, own, world.rows[begun], born and (world.rows[born.seats], born.b))
        effective = closed_flags(flags, rows, over) if over else flags
        met = not world.each and bool(over) and over[0].reason in ("terminated", "truncated: environment")
        if not over and not world.each:
            over = self._ask_conditions(world, rows, flags)
            effective = closed_flags(flags, rows, over)
        ended = (effective & (TERMINATED | TRUNCATED)) != 0
        if 1 in ended.tobytes():
            self._end(rows[ended], effective[ended], goes_on=bool(world.shares) and not over)
        if over and world.shares:
            self._credit(world)
        if over and self.play is not None:
            self.play.ended[world.number] = core.tick
        self._over += over
        if over:
            self.phase.topics.flush((told.peer,))
        if len(begun):
            self._began(world, first, begun)
            self._shown[world.rows[begun]] = core.episode[world.rows[begun]]
            self._show(world, first, begun, core.tick + 1)
        if born is not None:
            self._spawned(world, born)
        terminated = met and over[0].terminated
        entry: list[Any] = []  # stays empty without a store
        if self.phase.records.kept:
            entry = [
                episode,
                step,
                core.tick,
                told.ticks,
                told.timestamp,
                (np.arange(world.count) if places is None else places).astype(ROW_NUMBER).tobytes(),
                _joined(readings),
                _joined(setpoints),
                _joined(earned),
                flags.tobytes(),
                terminated,
                met and not terminated,
                None if answer.world_state is None else pack(answer.world_state),
                *where,
            ]
        world.entries.append(entry)
        world.weight += count if world.each else 1
        world.size_bytes += count * world.row_bytes
        if world.weight >= _ROWS_OPEN_MAX or world.size_bytes >= _ROWS_OPEN_BYTES:
            self._hand_on_steps(world)

    def _force(self, world: _World, places: Array | None, answer: EnvironmentUpdated, count: int) -> Runs:
        """Replace setpoints by those that an environment applied; return the latter."""
        layout = world.actuators
        field = answer.applied or []
        applied = layout.matrices(field if layout.fits(field, count) else layout.checked(field, "applied"), count)
        policies = answer.policies or [[None, -1]] * count
        if len(policies) != count:
            raise RemoteProtocolError(f"policies: expected one for each of {count} bodies, found {len(policies)}")
        for link in world.links:
            agent = link.agent
            source, to = link.between(places)
            now = agent.decided[to] & (agent.tick[to] == self.core.tick)
            source, to = source[now], to[now]
            if not agent.forced:
                agent.forced = True
                agent.proposed = agent.proposed or [run.copy() for run in agent.setpoints]
                agent.policies = [agent.policy] * agent.count
            link.applied(applied, source, agent.setpoints, to)
            told = [policies[place] for place in source.tolist()]
            assert agent.policies is not None
            for place, (policy, version) in zip(to.tolist(), told, strict=True):
                agent.policies[place], agent.version[place] = policy or agent.policy, version
            agent.versioned = all(version >= 0 for _, version in told)
        return applied

    def _first(self, world: _World, answer: EnvironmentUpdated, rows: bytes) -> tuple[Array, Runs]:
        """Return the bodies that began a new episode within the step, with their first readings."""
        begun = np.frombuffer(rows, ROW_NUMBER).astype(np.int64)
        if not world.each or (len(begun) and int(begun.max()) >= world.count):
            kind = f"rows below {world.count}" if world.each else "none without episode_end: each"
            raise RemoteProtocolError(f"first_rows: expected {kind}, found {begun.tolist()!r:.60}")
        return begun, world.world.checks.matrices("sensors", answer.first_readings or [], len(begun))

    def _began(self, world: _World, readings: Runs, seats: Array | None = None) -> None:
        """Record the first readings of bodies that begin an episode; None: of all."""
        world.rest(seats)
        for link in world.links:
            self._deliver(link, seats, readings, None)

    def _begin(self, world: _World) -> None:
        """Begin an episode of all bodies of an environment with the environment's current readings."""
        self.core.begin(world.number)
        readings = world.sensors.matrices(world.world.readings, len(world.static))
        self._began(world, readings, world.begin)
        seats = self.core.living(world.number)
        rows = world.rows[seats]
        seats = seats[self._shown[rows] != self.core.episode[rows]]  # otherwise an episode without a step begins again
        self._shown[rows] = self.core.episode[rows]
        if len(seats):
            self._show(world, [run[seats] for run in readings], seats, self.core.tick)

    def _show(self, world: _World, readings: Runs, seats: Array, tick: int, step: int = 0) -> None:
        """Record the first readings of these bodies, after this many steps of the episode and from this tick on."""
        core, told = self.core, world.world
        rows = world.rows[seats]
        episode = core.episode[rows].astype("<i4").tobytes() if world.each else core.episodes[world.number]
        bodies = seats.astype(ROW_NUMBER).tobytes()
        where = [self._positions(rows, core.b[rows])] if core.dynamic else []
        world.shown.append([episode, step, tick, told.ticks, told.timestamp, bodies, _joined(readings), *where])
        world.size_bytes += len(seats) * world.row_bytes

    # -- bodies that are spawned --------------------------------------------------------------------------------------
    def _born(self, world: _World, answer: EnvironmentUpdated, ended: Array, begun: Array) -> _Spawned:
        """Return the spawned bodies of an answer, given the rows that ended and the rows that began a new episode."""
        free = set(self.core.free(world.number, ended, begun).tolist())
        dynamic, uid = self.phase.setup.dynamic or [], world.world.uid
        for one in answer.spawned or ():
            if len(one) != 2 or not 0 <= one[0] < world.count or int(world.rows[one[0]]) not in free:
                text = f"expected a free row of a body that may be spawned, and its number, found {one!r:.60}"
                raise RemoteProtocolError(f"spawned: {text}")
            row = int(world.rows[one[0]])
            free.discard(row)
            pair = dynamic[self.table[row]["pair"]]
            if one[1] <= pair["used"]:
                where = f"body {pair['agent']}/{uid}/{one[1]}"
                raise RemoteProtocolError(f"spawned: {where}: expected a number above {pair['used']}")
            pair["used"] = one[1]
        seats, numbers = np.array(answer.spawned).T
        readings = world.world.checks.matrices("sensors", answer.spawned_readings or [], len(seats))
        order = np.argsort(seats)
        return _Spawned(seats[order], numbers[order], [run[order] for run in readings])

    def _spawned(self, world: _World, born: _Spawned) -> None:
        """Record spawned bodies, and deliver their readings to their agents."""
        rows, phase = world.rows[born.seats], self.phase.setup.phase
        if world.shares:
            self._credit(world, born.seats)
        keys = ("role", "team", "group", "learn")
        numbers = np.frombuffer(self._positions(rows, born.b) or b"", "<i8").tolist()
        told = []
        for row, number, b in zip(rows.tolist(), numbers, born.b.tolist(), strict=True):
            body = self.table[row]
            shown = [world.world.uid, b, *(body[key] for key in keys), world.each, body["policy"]]
            told.append([number, body["agent"], *shown])
        self.phase.records.add(["spawned", phase, told], len(told))
        if self.core.alive[rows].all():  # otherwise the environment's episode has ended with this step
            self._began(world, born.readings, born.seats)
            self._shown[rows] = self.core.episode[rows]
            step = 0 if world.each else self.core.steps[world.number]
            self._show(world, born.readings, born.seats, self.core.tick + 1, step)

    def _newcomers(self, agent: _Agent, deciding: Array) -> list[list[int]] | None:
        """Return place, number and episode of spawned bodies that decide for the first time."""
        rows = agent.rows[deciding]
        fresh = np.flatnonzero(self.core.spare[rows] & (self.core.b[rows] != agent.whose[deciding]))
        if not len(fresh):
            return None
        found: list[list[int]] = np.stack([deciding, self.core.b[rows], self.core.episode[rows]], 1)[fresh].tolist()
        return found

    def _positions(self, rows: Array, numbers: Array) -> bytes | None:
        """Return the positions of bodies in the list of all bodies; None if none was spawned."""
        found = self.position[rows]
        spare = self.core.spare[rows]
        if not spare.any():
            return None
        positions: bytes = np.where(spare, found << _PAIR_BITS | numbers, found).astype("<i8").tobytes()
        return positions

    def _deliver(
        self, link: _Link, seats: Array | None, readings: Runs, earned: Runs | None, applied: Runs | None = None
    ) -> None:
        """Deliver readings, rewards and applied setpoints of an environment's bodies to an agent."""
        agent = link.agent
        source: Array | None
        source, places = link.between(seats)
        if seats is None and link.whole:
            source = None
        to = None if len(places) == agent.count else places
        link.sensors(readings, source, agent.readings, to)
        if earned is None:
            return
        if agent.applied and applied is not None:
            link.applied(applied, source, agent.applied, to)
        fresh = agent.rewards.zeros(len(places))
        link.rewards(earned, source, fresh, None)
        for i, (run, more) in enumerate(zip(agent.earned, fresh, strict=True)):
            if agent.changes is not None:
                scale, shift, low, high = (part[places] for part in agent.changes)
                more = np.clip(more * scale + shift, low, high)
                if agent.foreign:
                    more[agent.foreign[i][places]] = 0
            if to is None:
                run += more
            else:
                run[to] += more

    def _end(self, rows: Array, flags: Array, goes_on: bool = False) -> None:
        """Keep the ends of bodies for their agents, except of bodies that have not decided.

        With `goes_on` the episode of the environment continues: late rewards may follow.
        """
        if self.core.dynamic:
            order = np.argsort(rows)
            rows, flags = rows[order], flags[order]
        for agent in self.agents:
            own = agent.among(rows)
            places = agent.places_of(rows[own])
            if not len(places):
                continue
            open_ones = agent.decided[places]
            places, mine = places[open_ones], flags[own][open_ones]
            if len(places):
                ends = mine & np.uint8(TERMINATED | TRUNCATED)
                kept = (agent.readings, agent.earned, agent.applied)
                readings, earned, applied = ([run[places] for run in runs] for runs in kept)
                agent.ends.append((places, ends, readings, earned, applied))
                agent.decided[places] = False
            for place in places.tolist() if goes_on else ():
                if agent.shares[place] is not None:
                    b = agent.whose[place] if agent.dynamic else self.core.b[agent.rows[place]]
                    last = int(agent.episode[place]), int(agent.number[place])
                    agent.dues[place] = [None, None, True, int(b), *last]

    def telling(self) -> list[str] | None:
        """Return the agents whose brains receive ends in a round with other workers; None if there are none."""
        if not (self._at_once and self._over and self._learning and self._several):
            return None
        found = [agent.actor.name for agent in self.agents if agent.owed and agent.brain is not None]
        return list(dict.fromkeys(found)) or None

    def tell_together(self, participants: dict[str, list[int]]) -> list[dict[str, Any]]:
        """Send agents their ends in a round of these workers; return the signals that brains request."""
        before, self.participants, self._leg = self.participants, participants, _ENDS
        self._tell_ends()
        self.participants, self._leg = before, 0
        wishes, self._wishes = self._wishes, []
        return wishes

    def _tell_ends(self) -> None:
        """Send agents the ends of episodes before their next decisions, and record these episodes."""
        asked = [self._asked(agent, np.zeros(0, np.int64)) for agent in self.agents if agent.owed]
        if self._sourced:
            asked = self._seated(asked)
        passing = self._passing([one.agent for one in asked]) if self._sourced else []
        answers, lost = self._gather([*asked, *passing], 2, apart=self._sourced and self._apart and not self._several)
        for one, answer in zip(asked, answers, strict=True):
            self._complete(one, answer, one.agent in lost)
        self._seal_over()
        self._recovery.drop(lost)

    # -- opponents ----------------------------------------------------------------------------------------------------
    def _swap(self, play: Play) -> bool:
        """Let muscles change their models if due, and record the models; return whether a muscle was lost."""
        due = play.due()
        if not due:
            return False
        lost: list[_Agent] = []

        def ask_again(i: int, error: GanglionError) -> Pending:
            self._recovery.set_up_successor(play.agents[due[i]], error, lost)
            return self._ask_swap(play, due[i])

        answers = self.phase.participant.gather([self._ask_swap(play, place) for place in due], ask_again)
        for place, answer in zip(due, answers, strict=True):
            self._swapped(play.agents[place], answer)
        self._recovery.drop(lost)
        return bool(lost)

    def _ask_swap(self, play: Play, place: int) -> Pending:
        peer, (draws, learns) = play.agents[place].actor.peer, play.wanted(place)
        position, span_s = (*self._base, self.step, 1), self.phase.span_s("muscle.swap", peer)
        return self.phase.participant.ask(peer, "muscle.swap", Swap(draws, learns), span_s, position)

    def _swapped(self, agent: _Agent, answer: Swapped) -> None:
        setup = self.phase.setup
        rows = [[self.core.tick, row, answer.version] for row in agent.rows.tolist()]
        self.phase.records.add(["opponents", setup.phase, setup.worker, rows])

    def _rate(self, play: Play, over: EndedEpisode) -> None:
        """Rate the sides of an environment whose episode is over, and record the ratings."""
        rows = play.rate(over.environment)
        if rows:
            setup = self.phase.setup
            self.phase.records.add(["ratings", setup.phase, setup.worker, rows])

    # -- what is said to agents ---------------------------------------------------------------------------------------
    def ask(self, agent: _Agent, message: Act, leg: int) -> Pending:
        """Call the muscle of an agent."""
        position = (*self._base, self.step, leg)
        return self.phase.participant.ask(agent.actor.peer, "muscle.act", message, agent.actor.act_s, position)

    def _passing(self, asked: Sequence[_Agent]) -> list[ActRequest]:
        """Return the calls of muscles that do not act but take part in rounds with other workers: they pass."""
        if not self._several:
            return []
        found, nobody = [], np.zeros(0, np.int64)
        for agent in self.agents:
            workers = self._workers(agent.actor.name)
            if agent not in asked and agent.brain is not None and self.phase.setup.worker in workers:
                seats = self._seats(agent) if agent.sources > 1 else workers
                message = Act([], decide=False, round=self._brain_round, workers=seats, passing=True)
                found.append(ActRequest(agent, message, nobody, nobody, [], nobody))
        return found

    def _seats(self, agent: _Agent) -> list[int]:
        """Return the numbers of all muscles that take part in a round of several workers."""
        mine = [other.source for other in self.agents if other.actor.name == agent.actor.name and other.brain]
        return [worker * agent.sources + source for worker in self._workers(agent.actor.name) for source in mine]

    def _seated(self, asked: Sequence[ActRequest]) -> list[ActRequest]:
        """Return calls with the participants of their round: all muscles of an agent, within one worker too.

        If workers are independent, or end one after the other, each muscle has a round of its own.
        """
        self._wave += 1
        setup, found = self.phase.setup, []
        for one in asked:
            agent, message = one.agent, one.message
            if agent.sources > 1 and self._several:
                message = replace(message, workers=self._seats(agent))
            elif agent.sources > 1:
                mates = [other.agent for other in asked if other.agent.actor.name == agent.actor.name]
                mates = [agent] if self._apart else [mate for mate in mates if mate.brain]
                seats = [setup.worker * mate.sources + mate.source for mate in mates]
                message = replace(message, workers=seats, round=self.round if self._apart else self._wave)
            found.append(one._replace(message=message))
        return found

    def numbers(self, actor: Actor) -> list[int] | None:
        """Return the numbers of the next episodes of an agent's bodies; None as long as all are the first."""
        return next((self._recovery.next_episodes(agent) for agent in self.agents if agent.actor is actor), None)

    # -- the end of a tick --------------------------------------------------------------------------------------------
    def _ask_conditions(self, world: _World, rows: Array, flags: Array) -> list[EndedEpisode]:
        """Evaluate the episode conditions for a running environment; return the episodes that they end."""
        core, e = self.core, world.number
        ended = bool((flags & TERMINATED).any()), bool((flags & TRUNCATED).any())
        causes = self._boundaries.ask(world.world.uid, core.episodes[e], core.steps[e], ended)
        if not causes:
            return []
        winner = max(causes, key=lambda cause: Signal[cause["signal"]])
        if Signal[winner["signal"]] is not Signal.RESET and not self.phase.setup.evaluation:
            self._wishes += causes
            return []
        self._boundaries.keep(causes, self.step)
        over = core.close(e, str(winner["reason"]))
        core.settle(e)
        return over

    def _finish_tick(self) -> None:
        """Check whether the phase is over, handle signals, and begin the next episodes."""
        core, wishes = self.core, self._wishes
        self._wishes = []
        evaluation = self.phase.setup.evaluation
        if core.finished:
            over = {"signal": Signal.STOP_SIMULATION.name, "issuer": "controller", "reason": "budget"}
            wishes.append({**over, "known": True} if evaluation else over)
        while self._decide_boundary(wishes):
            wishes = []
        if self._ending is not None:
            return
        core.tick += 1
        self._renew()
        if not self.phase.common and not evaluation:
            self._reports = []

    def _decide_boundary(self, wishes: list[dict[str, Any]]) -> bool:
        """Carry out the decision of the boundary; return whether to decide once more in this tick."""
        ending, go = self._boundaries.decide(self, wishes)  # type: ignore[arg-type]
        if go is not None:
            self.round, self.participants = max(go.round, self.round), go.participants
        if ending is None:
            return False
        winner = max(ending.causes, key=lambda cause: Signal[cause["signal"]])
        signal = Signal[winner["signal"]]
        if signal.effect.stops:
            budget = winner["issuer"] == "controller" and winner["reason"] == "budget"
            self._stop(ending, _PHASE_END if budget else ending.reason)
            return False
        self._boundaries.keep(ending.causes, self.step)
        self._reset("" if signal.effect.rebuilds else str(winner["issuer"]), signal)
        if signal.effect.rebuilds:
            self._tell_ends()
            self._recovery.replace_all()
        return go is not None and go.participants is None  # other workers wait until this is done

    def _reset(self, issuer: str, signal: Signal) -> None:
        """Close the open episodes of the environments of an agent, or of all."""
        agent = issuer.removeprefix("brain:") if issuer.startswith("brain:") else None
        for world in self.worlds:
            if agent is None or any(link.agent.actor.name == agent for link in world.links):
                self.close(world, f"truncated: signal {signal.name}")
                if not self.core.spent[world.number]:
                    self.core.settle(world.number)

    def close(self, world: _World, reason: str, lost: bool = False) -> None:
        """Close the open episodes of an environment; agents receive the ends with their next call."""
        over = self.core.close(world.number, reason, lost)
        rows = np.sort(np.concatenate([world.rows[:0], *(one.closed for one in over)]))
        if len(rows):
            self._end(rows, np.full(len(rows), TRUNCATED, np.uint8))
        self._credit(world)
        if over and self.play is not None:
            self.play.ended[world.number] = self.core.tick
        self._over += over
        if lost:  # losses may be noticed in any order
            self._over.sort(key=lambda one: (one.environment, one.episode if one.row is None else one.row))
        self.phase.topics.flush((world.world.peer,))

    def give_up(self, world: _World, peer: str) -> None:
        """Close the open episode of an environment after the loss of a muscle."""
        self._recovery.close_lost(world, peer)

    def _renew(self) -> None:
        """Begin the next episodes of the environments whose episode is over and whose budget is not spent."""
        due = [w for w in self.worlds if not self.core.spent[w.number] and not self.core.open(w.number)]
        if not due:
            return
        kept = [world for world in due if not world.is_new]
        resets = [self._reset_of(world) for world in kept]
        asked = [self._ask_reset(world, reset) for world, reset in zip(kept, resets, strict=True)]
        answers = self.phase.participant.gather(asked, self._retrying(kept, resets))
        told: dict[int, list[Any]] = {
            world.number: all_ for world, *all_ in zip(kept, resets, asked, answers, strict=True)
        }
        for world in due:
            if world.is_new or self._recovery.took_new_object(world, told[world.number][2]):
                self._begin_with_new_object(world)
                continue
            reset, pending, answer = told[world.number]
            self._take_reset(world, answer)
            if world.world.history is not None:
                world.world.history.began(replace(reset, state=answer.state), digest(pending.answer))

    def _retrying(self, worlds: Sequence[_World], messages: Sequence[Any]) -> Retry:
        """Return the function that replays a lost program, and lets any other successor begin its next episode."""
        lead: Replayer | None = None  # created at the first loss, and kept: it records the replayed environments

        def retry(place: int, error: GanglionError) -> Pending:
            nonlocal lead
            if worlds[place].world.history is None:
                return self._recovery.replace_environment(worlds[place], error)
            lead = lead or Replayer(self.phase, [world.world for world in worlds], messages)
            return lead(place, error)

        return retry

    def _begin_with_new_object(self, world: _World) -> None:
        """Begin the first episode of a new object."""
        world.is_new = False
        self._begin(world)

    def _take_reset(self, world: _World, answer: EnvironmentUpdated) -> None:
        world.world.began(answer)
        if answer.topics is not None:
            self.phase.topics.take(world.world.peer, "environment.reset", answer.topics)
        self._begin(world)

    def number_of(self, world: _World) -> int:
        """Return the number of the next episode of an environment, or the greatest of its bodies."""
        return int(self.core.episode[world.static].max()) if world.each else self.core.episodes[world.number]

    def seeds_of(self, world: _World) -> tuple[int, int, bytes]:
        """Return number, seed and stream of the next episode of an environment."""
        number = self.number_of(world)
        words = derive(world.world.setup["stream"], "episode", number)
        return number, integer_from_words(words) >> WIRE_BITS, words

    def _reset_of(self, world: _World) -> EnvironmentReset:
        number, seed, words = self.seeds_of(world)
        each = self.core.limits(world.number) if world.each else None
        topics = self.phase.topics.opening(world.world.peer, world.world.setup.get("topics"), words)
        return EnvironmentReset(number, seed, words, each=each, topics=topics)

    def _ask_reset(self, world: _World, message: EnvironmentReset) -> Pending:
        phase, peer = self.phase, world.world.peer
        span_s = phase.span_s("environment.reset", peer)
        return phase.participant.ask(peer, "environment.reset", message, span_s, (*self._base, self.step, 3))

    # -- the end ------------------------------------------------------------------------------------------------------
    def _stop(self, ending: Ending, reason: str) -> None:
        """End the phase in this worker: open episodes are closed as truncated."""
        for world in self.worlds:
            self.close(world, reason)
        self._tell_ends()
        self.phase.topics.flush()
        self._ending, self._closed = ending, True
        self._tell_news(now=True)
        self.hand_on()

    def cut(self, reason: str) -> None:
        """Record complete rows, and open episodes as cut short, for a worker that cannot continue."""
        if not self._closed:
            self._closed = True
            for world in self.worlds:
                self._over += self.core.close(world.number, reason)
                self._credit(world)
            self._seal_over()
            self.hand_on()
        self.phase.records.drain()

    def report(self) -> Verdict:
        """Report the end of the phase in this worker to the governor; return its verdict."""
        phase, ending = self.phase, self._ending
        assert ending is not None
        report = EpisodeReport(
            worker=phase.setup.worker,
            episode=self.number,
            steps=self.step,
            terminated=False,
            truncated=True,
            reason=ending.reason,
            agents={},
            causes=[*ending.causes, *self._wishes],
            ended=[],
            next=[],
            ticks=None,
            round=phase.tick,
            evaluation=phase.setup.evaluation,
            closed=self.take_reports() or [],
            used=[[pair["agent"], pair["environment"], pair["used"]] for pair in phase.setup.dynamic or ()] or None,
        )
        return self._tell_governor(report)

    def next_agents(self, step: int) -> list[str]:
        """Return the agents that act or pass in the next round: all of them."""
        return list(dict.fromkeys(agent.actor.name for agent in self.agents))

    def take_reports(self) -> list[dict[str, Any]] | None:
        """Return the episodes that have ended since the last call; None if there are none."""
        found, self._reports = self._reports, []
        return found or None

    # -- records ------------------------------------------------------------------------------------------------------
    def _seal_over(self) -> None:
        """Record the episodes that are over, after their rows."""
        if not self._over:
            return
        over, self._over = self._over, []
        self._record_over(over, map(self._sums, over))

    def _record_over(self, over: Sequence[EndedEpisode], sums_of: Iterable[Sums]) -> None:
        """Record these episodes, with the objectives of their bodies."""
        records, setup = self.phase.records, self.phase.setup
        for number in sorted({one.environment for one in over}):
            self._hand_on_steps(self.worlds[number])
        agents = dict.fromkeys(self.owner[one.row] for one in over if one.row is not None)
        agents |= dict.fromkeys(
            link.agent for one in over if one.row is None for link in self.worlds[one.environment].links
        )
        for agent in self.agents:
            if agent in agents:
                self._hand_on_actions(agent)
        self.phase.topics.flush(agent.actor.peer for agent in agents)
        for one, sums in zip(over, sums_of, strict=True):
            means = _means(sums)
            uid = self.worlds[one.environment].world.uid
            body = None if one.row is None else f"{self.table[one.row]['agent']}/{one.b}"
            label = uid if body is None else f"{uid}[{body}]"
            place = [setup.phase, setup.mode, setup.worker, label, one.episode, one.steps]
            records.add(["episode", *place, one.terminated, not one.terminated, one.reason, *self.phase.moment])
            told = {"environment": uid, "body": body, "episode": one.episode, "steps": one.steps}
            flags = {"terminated": one.terminated, "truncated": not one.terminated, "reason": one.reason}
            if self.play is not None and one.row is None:
                self._rate(self.play, one)
            if not one.lost:  # lost episodes do not count
                self._reports.append({**told, **flags, "agents": means})
            returns = {name: agent["sum"] for name, agent in means.items()}
            self._newest = {**told, "returns": returns, "reason": one.reason}
            self._untold[0] += 1
            self._untold[1] += one.steps
        self._tell_news(now=False)

    def _tell_news(self, now: bool) -> None:
        """Publish the newest episode and the number of episodes since the last event, a few times a second at most."""
        now_s = self.phase.participant.clock()
        if not self._untold[0] or not (now or now_s >= self._news_s):
            return
        episodes, steps = self._untold
        self._untold, self._news_s = [0, 0], now_s + _NEWS_S
        setup, newest = self.phase.setup, self._newest
        fields = {"phase": setup.phase, "worker": setup.worker, **newest, "episodes": episodes, "steps": steps}
        if setup.evaluation:
            fields["mode"] = setup.mode
        self.phase.participant.tell_event("episode.ended", fields)

    def _sums(self, over: EndedEpisode, whose: _Agent | None = None) -> Sums:
        """Return the sums of objectives of an episode's bodies, of one agent (None: of all), and reset them."""
        sums: Sums = {}
        for link in self.worlds[over.environment].links:
            agent = link.agent
            if whose is not None and agent is not whose:
                continue
            places = link.places
            if over.row is not None:
                if self.owner[over.row] is not agent:
                    continue
                places = agent.places_of(np.array([over.row]))
            decisions, counted = int(agent.decisions[places].sum()), int(agent.counted[places].sum())
            if over.row is None:
                decisions += int(agent.gone[over.environment])
                agent.gone[over.environment] = 0
            if decisions:
                mine = sums.setdefault(agent.actor.name, [0, 0.0, 0])
                mine[:] = mine[0] + decisions, mine[1] + float(agent.given[places].sum()), mine[2] + counted
            agent.given[places], agent.counted[places], agent.decisions[places] = 0.0, 0, 0
        return sums

    def hand_on(self) -> None:
        """Send all rows so far, so that the store shows a paused phase."""
        for world in self.worlds:
            self._hand_on_steps(world)
        for agent in self.agents:
            self._hand_on_actions(agent)
        self.phase.records.flush()

    def _hand_on_steps(self, world: _World) -> None:
        if world.shown:
            setup = self.phase.setup
            record = ["resets", setup.phase, setup.mode, setup.worker, world.world.uid, world.shown]
            self.phase.records.add(record, len(world.shown), sum(len(one[6]) + _ROW_BYTES for one in world.shown))
            world.shown = []
        self._hand_on(world, "body_steps", world.world.uid)

    def _hand_on_actions(self, agent: _Agent) -> None:
        self._hand_on(agent, "body_actions", agent.actor.name)

    def _hand_on(self, part: _World | _Agent, kind: str, name: str) -> None:
        if not part.entries:
            return
        setup = self.phase.setup
        record = [kind, setup.phase, setup.mode, setup.worker, name, part.entries]
        self.phase.records.add(record, 1 + part.weight // _ROWS_PER_WEIGHT, part.size_bytes)
        part.entries, part.weight, part.size_bytes = [], 0, 0


def _means(sums: Sums) -> dict[str, Any]:
    return {
        name: {"decisions": n, "sum": total if counted else None, "mean": total / counted if counted else None}
        for name, (n, total, counted) in sums.items()
    }


def _clock(world: World, table: Sequence[Mapping[str, Any]]) -> Clock:
    """Return the clock of an environment, from its set-up."""
    setup = world.setup
    end: str | int = setup["episode_end"]
    for row, body in enumerate(table):
        if body["environment"] == world.uid and f"{body['agent']}/{body['b']}" == end:
            end = row
    keys = ("period", "offset", "budget_steps", "budget_episodes", "max_steps")
    return Clock(world.uid, **{key: setup[key] for key in keys}, end=end)


def _shared(answer: EnvironmentUpdated, groups: Mapping[str, Any]) -> dict[str, float]:
    """Return the rewards that an environment gives groups of bodies."""
    found = answer.group_rewards or {}
    for group, value in found.items():
        if group not in groups:
            known = ", ".join(groups) or "none, since no body has a group"
            raise RemoteProtocolError(f"group_rewards: expected groups of bodies ({known}), found {group!r:.60}")
        if type(value) not in (int, float) or not np.isfinite(value):
            raise RemoteProtocolError(f"group_rewards: {group}: expected a finite number, found {value!r:.60}")
    return found


def _wants(wants: bytes, count: int) -> Array:
    """Return for each body the environment's request for a decision before the next step."""
    if len(wants) != count or wants.translate(None, _WANTS):
        raise RemoteProtocolError(f"wants: expected {count} bytes of at most {BY_CLOCK}, found {wants!r:.60}")
    return np.frombuffer(wants, np.uint8)


def _flags(answer: EnvironmentUpdated, count: int) -> tuple[Array, int]:
    """Return the flags of the bodies, and the environment's own; without flags of bodies its own apply to all."""
    if answer.terminated and answer.truncated:
        raise RemoteProtocolError("terminated and truncated exclude each other")
    own = TERMINATED * answer.terminated | TRUNCATED * answer.truncated
    if answer.flags is None:
        return np.full(count, own, np.uint8), own
    if len(answer.flags) != count or answer.flags.translate(None, _FLAGS):
        raise RemoteProtocolError(f"flags: expected {count} bytes of at most {TRUNCATED}, found {answer.flags!r:.60}")
    return np.frombuffer(answer.flags, np.uint8), own
