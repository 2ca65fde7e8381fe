"""Acting bodies: open decisions, objectives and episodes of one agent's bodies in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ganglion.errors import AuthorError, DocumentError, RemoteProtocolError
from ganglion.peer.agent.filters import UNKNOWN, BodyFilters
from ganglion.peer.agent.transitions import FILTERED, matrix_of
from ganglion.peer.author import Hooks, Tolerated, naming
from ganglion.peer.step.arrays import Readings, batch_field, takes_arrays
from ganglion.peer.step.layout import ROW_NUMBER, Array, Field, Groups, Layout, Masks, blocks_of, writable_copy
from ganglion.peer.values import deserialize, serialize
from ganglion.sdk.brain import Transitions
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, RewardInformation, Template
from ganglion.sdk.memory import Memory
from ganglion.sdk.muscle import Batch, Muscle, Objective, objective_value, read_batch_proposal, read_proposal
from ganglion.wire.messages import DECIDE, FIRST, TERMINATED, TRUNCATED, Act, MuscleSetup, Think


class Acting:
    """Complete and make the decisions of many bodies at once.

    A muscle that takes arrays is one object for all bodies. Any other muscle, and any objective, has one object per
    body, each with its own memory. Rows are in the order of environments and `b`, followed by rows for spawned bodies,
    which are free until a message announces a body.

    Args:
        setup: Of the muscle, with its bodies.
        layouts: Of one body's sensors and actuators.
        informations: Sensors and actuators of the muscle, behind filters.
        noops: Of the actuators that are applied.
        muscles: One, or one per body.
        objectives: One that is `batched`, or one per body.
        memories: Of bodies whose muscle or objective has one; else empty.
        comes: Creates the objects of a spawned body at its place, given environment and number.
        filters: Between the muscles and the bus, if there are any.
        group: The number of the bodies' group.

    Attributes:
        filters: The argument.
    """

    def __init__(
        self,
        setup: MuscleSetup,
        layouts: tuple[Layout, Layout],
        informations: tuple[Template[Any], Sequence[ActuatorInformation]],
        hooks: tuple[Hooks, Hooks],
        muscles: Sequence[Muscle],
        objectives: Sequence[Objective],
        memories: Sequence[Memory],
        noops: Sequence[Any],
        comes: Callable[[int, str, int], None],
        filters: BodyFilters | None = None,
        group: int = 0,
    ) -> None:
        self._setup, (self._sensors, self._actuators), self._mode = setup, layouts, Mode(setup.mode)
        self.filters = filters
        self._views, self._moves = layouts if filters is None else (filters.seen, filters.moved)
        self._masks, self._rules = Masks(self._views, self._moves) or None, Masks(*layouts) or None
        self._readings_of, self._offered = informations[0], Template(informations[1])
        self._declared = list(informations[1])
        self._hooks, self._judging = hooks
        self.muscles: list[Any] = list(muscles)
        self.objectives: list[Any] = list(objectives)
        self.memories: list[Any] = list(memories)
        bodies, spare = list(setup.bodies or ()), setup.dynamic or []
        self.first, self._comes, self._group = len(bodies), comes, group  # the first row of bodies that may be spawned
        bodies += [[row[0], -1, row[1]] for row in spare]
        self.count = n = len(bodies)
        self.arrays = len(self.muscles) == 1 and (takes_arrays(type(muscles[0])) if spare else bool(muscles[0].batched))
        if not self.arrays:
            self.muscles += [None] * len(spare)
        if memories:
            self.objectives += [None] * len(spare)
            self.memories += [None] * len(spare)
        self._bodies = [(setup.agent, str(row[0]), int(row[1])) for row in bodies]
        self._names = [f"{row[0]}/{row[1]}" for row in bodies]
        self._b, self._numbered = np.array([row[1] for row in bodies], np.int64), setup.dynamic is not None
        self._learns = np.array([bool(row[2]) for row in bodies], bool)
        self.learning = True  # otherwise the brain receives no further decisions
        self._tells = self._learns.copy()  # whether the brain receives the open decision
        self._seen = [np.zeros((n, run.width), run.dtype) for run in self._sensors.runs]
        self._set = [np.zeros((n, run.width), run.dtype) for run in self._actuators.runs]
        self._noops = _row(self._actuators, noops)
        # Readings and setpoints behind filters; `_blind` marks open decisions for which a filter gave no readings.
        self._shown, self._own, self._rests = self._seen, self._set, self._noops
        self._blind = np.zeros(n, bool)
        self._sent: list[Any] = []  # data that filters add for the brain
        self._ahead, self._ahead_blind = (np.zeros(n, bool), np.zeros(n, bool))  # filters saw the next readings already
        if filters is not None:
            self._shown, self._own, self._next = self._views.zeros(n), self._moves.zeros(n), self._views.zeros(n)
            self._rests, self._sent = _row(self._moves, [it.value for it in self._declared]), [None] * n
        self._open, self._began = np.zeros(n, bool), np.zeros(n, bool)
        self._number, self._decisions, self._episode = np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, -1)
        if setup.episodes is not None:
            self._episode[: len(setup.episodes)] = np.array(setup.episodes, np.int64) - 1
        self._data: list[Any] | None = None  # data of muscles for the open decisions, None before the first
        self._last: list[Array] | None = None  # the last applied setpoints, within a message
        self._array: Array | None = None  # the same as `_data`, if all data are arrays of numbers
        self._rewards: Layout | None = None
        self._entered: tuple[Act, tuple[Array, Array, list[Array]]] | None = None

    STATE = (
        *("_seen", "_set", "_open", "_began", "_number", "_decisions", "_episode", "_data", "_array"),
        *("learning", "_tells", "_b"),
    )
    FILTERED = ("_shown", "_own", "_blind", "_sent")

    def state(self) -> dict[str, Any]:
        """Return the state that a successor needs, between two messages."""
        return {name: getattr(self, name) for name in self._names_of_state}

    @property
    def _names_of_state(self) -> tuple[str, ...]:
        return self.STATE if self.filters is None else (*self.STATE, *self.FILTERED)

    def nothing(self, field: str) -> Field:
        """Return a field of `Think` without bodies."""
        layouts = {"applied": self._actuators, "proposed": self._moves, "rewards": self._rewards}
        layout = layouts.get(field, self._views if "observations" in field else self._sensors)
        return [] if layout is None else [b""] * len(layout.runs)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        for name in self._names_of_state:
            setattr(self, name, writable_copy(state[name]))
        if self.filters is None:
            self._shown, self._own = self._seen, self._set

    def come_back(self, state: Mapping[str, Any]) -> None:
        """Create the objects of bodies that were spawned before `state` was taken."""
        for place, b in enumerate(state["_b"].tolist()[self.first :], self.first):
            if b >= 0:
                self._come(place, b)

    def _come(self, place: int, b: int) -> None:
        agent, environment, _ = self._bodies[place]
        self._b[place], self._bodies[place], self._names[place] = b, (agent, environment, b), f"{environment}/{b}"
        if self.filters is not None:
            self.filters.rename(place, self._names[place])
        self._comes(place, environment, b)

    def declare(self, layouts: Sequence[Layout]) -> None:
        """Set the layouts of the rewards of each group."""
        self._rewards = layouts[self._group]
        for place, objective in enumerate(self.objectives):
            if objective is not None:
                self.declare_at(place)

    def declare_at(self, place: int) -> None:
        """Declare the rewards to objective and memory of the body at a place."""
        rewards = self._rewards
        assert rewards is not None
        self.objectives[place].reward_ids = rewards.ids
        if self.memories:
            pairs = rewards.pairs()
            self.memories[place].declare(rewards=[RewardInformation(None, space, uid) for uid, space in pairs])

    # -- completed decisions ------------------------------------------------------------------------------------------
    def complete(self, act: Act) -> tuple[list[float | None], Think | None]:
        """Judge the decisions that a message completes; return their objectives, and the message for the brain.

        Raises:
            RemoteProtocolError: Rows, flags or values do not fit the bodies of this agent.
        """
        places, flags, readings = self._entries(act)
        ends = flags & FIRST == 0
        ended = ends.tobytes().count(1)
        if not ended:
            return [], None
        count = len(places)
        rewards = self._earned(act, count)
        applied = None if act.applied is None else self._matrices(self._actuators, act.applied, count, "applied")
        ticks = None if act.decided is None else np.frombuffer(act.decided, "<i8")
        if ticks is not None and len(ticks) != count:
            raise RemoteProtocolError(f"act.decided: expected {8 * count} bytes, found {8 * len(ticks)}")
        if ended < count:
            places, flags = places[ends], flags[ends]
            readings, rewards = [run[ends] for run in readings], [run[ends] for run in rewards]
            applied = None if applied is None else [run[ends] for run in applied]
            ticks = None if ticks is None else ticks[ends]
        if act.forced is not None:
            self._force(places, [run[ends] for run in self._matrices(self._actuators, act.forced, count, "forced")])
        if 0 in self._open[places].tobytes():
            name = self._names[int(places[~self._open[places]][0])]
            raise RemoteProtocolError(f"act.rows: body {name} has no open decision, expected the flag FIRST")
        self._open[places] = False
        objectives = self._judge(places, flags, readings, rewards, applied)
        return objectives, self._told(places, flags, readings, rewards, applied, objectives, ticks)

    def _force(self, places: Array, forced: list[Array]) -> None:
        """Replace the setpoints of decisions by those that an environment applied.

        Raises:
            DocumentError: Filters change the agent's setpoints, so that its own proposal is not known.
        """
        if self.filters is not None:
            pairs = zip(self._own, self._set, strict=False)
            same = all(np.array_equal(own[places], behind[places]) for own, behind in pairs)
            if not same or len(self._own) != len(self._set):
                raise DocumentError(UNKNOWN.format(self._setup.agent))
        for whole in (self._set,) if self._own is self._set else (self._set, self._own):
            for kept, run in zip(whole, forced, strict=True):
                kept[places] = run

    def credit(self, late: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the late rewards for the brain, each with its value by the objective."""
        found = []
        for one in late:
            if self._learns[one[0]] and self.learning:
                objective = self.objectives[one[0] if self.memories else 0]
                found.append([*one, self._judging.excused(None, "late_reward", objective.late_reward, *one[4:])])
        return found

    def _entries(self, act: Act) -> tuple[Array, Array, list[Array]]:
        """Return places, flags and readings of a message; `complete` and then `decide` read the same message."""
        if self._entered is not None and self._entered[0] is act:
            return self._entered[1]
        if act.rows is None or act.flags is None or len(act.rows) != 2 * len(act.flags):
            raise RemoteProtocolError("act: expected rows of two bytes and flags of one byte for each body")
        places, flags = np.frombuffer(act.rows, ROW_NUMBER).astype(np.int64), np.frombuffer(act.flags, np.uint8)
        if len(places) and (largest := int(np.maximum.reduce(places))) >= self.count:
            raise RemoteProtocolError(f"act.rows: expected numbers below {self.count}, found {largest}")
        readings = self._matrices(self._sensors, act.readings, len(places), "readings")
        self._entered = act, (places, flags, readings)
        return places, flags, readings

    def _matrices(self, layout: Layout, field: Field, count: int, what: str) -> list[Array]:
        if not layout.fits(field, count):
            field = layout.checked(field, f"act.{what}", count=count)  # raises, or converts rows
        return layout.matrices(field, count)

    def _earned(self, act: Act, count: int) -> list[Array]:
        if self._rewards is None:
            raise RemoteProtocolError("act.rewards: they were not declared")
        return self._matrices(self._rewards, act.rewards or [], count, "rewards")

    def _judge(
        self, places: Array, flags: Array, readings: list[Array], rewards: list[Array], applied: list[Array] | None
    ) -> list[float | None]:
        assert self._rewards is not None
        if not self.memories:
            batch = self._transitions(places, flags, readings, rewards)
            found = self._judging.excused(None, "internal_rewards", self._internal_rewards, batch)
            return [None] * len(places) if found is None else found
        objectives: list[float | None] = []
        following = self._sensors.bodies(blocks_of(readings), "act.readings", len(places))
        earned = self._rewards.bodies(blocks_of(rewards), "act.rewards", len(places))
        seen = self._sensors.bodies(blocks_of(self._seen, places), "act.readings", len(places))
        decided = self._actuators.bodies(blocks_of(self._set, places), "act.setpoints", len(places))
        last = decided
        if applied is not None:
            last = self._actuators.bodies(blocks_of(applied), "act.applied", len(places))
        for i, place in enumerate(places.tolist()):
            memory, flag = self.memories[place], int(flags[i])
            terminated, truncated = bool(flag & TERMINATED), bool(flag & TRUNCATED)
            self._judging.step = int(self._number[place])
            memory.append(
                f"{self._setup.agent}/{self._setup.worker}",
                sensor_readings=seen[i],
                actuator_setpoints=decided[i],
                applied_setpoints=last[i],
                rewards=earned[i],
                next_readings=following[i],
                dones=terminated or truncated,
                terminated=terminated,
                truncated=truncated,
                decision_index=int(self._number[place]),
                episode=int(self._episode[place]),
                additional_data=self._data_of(place),
            )
            objective = self.objectives[place]
            value = self._judging.excused(None, "internal_reward", objective.internal_reward, memory)
            value = self._judging.excused(None, "internal_reward", objective_value, value)
            memory.complete(value)
            if flag:
                memory.close(terminated, truncated)
            objectives.append(value)
        return objectives

    def _internal_rewards(self, batch: Any) -> list[float | None]:
        found = np.asarray(self.objectives[0].internal_rewards(batch))
        if found.shape != (len(batch),) or found.dtype.kind not in "fiub":
            text = f"expected an array of {len(batch)} numbers, found {found.dtype} {found.shape}"
            raise AuthorError(f"internal_rewards: {text}")
        return [None if value != value else value for value in found.astype(np.float64).tolist()]

    def _bodies_at(self, places: Array) -> Sequence[tuple[str, str, int]]:
        """Return the coordinates of the bodies at these places."""
        if len(places) == self.first == self.count:  # all bodies
            return self._bodies
        return [self._bodies[place] for place in places.tolist()]

    def _transitions(self, places: Array, flags: Array, readings: list[Array], rewards: list[Array]) -> Transitions:
        assert self._rewards is not None
        count = len(places)
        return Transitions(
            observations=matrix_of(self._sensors, [run[places] for run in self._seen], count),
            actions=matrix_of(self._actuators, [run[places] for run in self._set], count),
            objectives=np.full(count, np.nan),
            rewards=matrix_of(self._rewards, rewards, count),
            next_observations=matrix_of(self._sensors, readings, count),
            terminated=flags & TERMINATED != 0,
            truncated=flags & TRUNCATED != 0,
            muscle=[f"{self._setup.agent}/{self._setup.worker}"] * count,
            body=self._bodies_at(places),
            episode=self._episode[places],
            step=self._number[places],
            data=[None] * count,
            group=self._group,
        )

    def _told(
        self,
        places: Array,
        flags: Array,
        readings: list[Array],
        rewards: list[Array],
        applied: list[Array] | None,
        objectives: Sequence[float | None],
        ticks: Array | None,
    ) -> Think | None:
        """Return the message for the brain about completed decisions, None if there are none."""
        if self._setup.brain is None:
            return None
        learns = self._tells[places] & ~self._blind[places]
        views: list[Array] = []
        if self.filters is not None and learns.any():
            views, learns = self._look_ahead(self.filters, places, readings, learns)
        if not learns.all():
            if not learns.any():
                return None
            chosen = np.flatnonzero(learns)
            places, flags, views = places[chosen], flags[chosen], [run[chosen] for run in views]
            readings, rewards = [run[chosen] for run in readings], [run[chosen] for run in rewards]
            applied = None if applied is None else [run[chosen] for run in applied]
            objectives = [objectives[i] for i in chosen.tolist()]
            ticks = None if ticks is None else ticks[chosen]
        filtered: dict[str, Any] = {}
        if self.filters is not None:
            filtered = {"observations": blocks_of(self._shown, places), "next_observations": blocks_of(views)}
        if self.filters is not None or applied is not None:
            filtered["proposed"] = blocks_of(self._own, places)
        return Think(
            worker=self._setup.worker,
            episode=int(self._episode[places[0]]),
            decision=int(self._number[places[0]]),
            readings=blocks_of(self._seen, places),
            applied=blocks_of(self._set, places) if applied is None else blocks_of(applied),
            rewards=blocks_of(rewards),
            objective=list(objectives),
            next_readings=blocks_of(readings),
            data=self._data_at(places),
            rows=places.astype(ROW_NUMBER).tobytes(),
            flags=(flags & (TERMINATED | TRUNCATED)).tobytes(),
            decisions=self._number[places].astype("<i8").tobytes(),
            episodes=self._episode[places].astype("<i8").tobytes(),
            numbers=self._b[places].astype("<i8").tobytes() if self._numbered else None,
            ticks=None if ticks is None else ticks.tobytes(),
            **filtered,
        )

    # -- filters ------------------------------------------------------------------------------------------------------
    def _look_ahead(
        self, filters: BodyFilters, places: Array, readings: list[Array], learns: Array
    ) -> tuple[list[Array], Array]:
        """Return the outcome of decisions behind filters, and which decisions the brain can receive."""
        mine = np.flatnonzero(learns)
        chosen = places[mine].tolist()
        filters.keep(chosen)
        steps = (self._number[chosen] + 1).tolist()
        found, saw = filters.view(chosen, steps, [run[mine] for run in readings])
        views = self._views.zeros(len(places))
        for whole, kept, part in zip(views, self._next, found, strict=True):
            whole[mine] = kept[chosen] = part
        self._ahead[chosen], self._ahead_blind[chosen] = True, ~saw
        learns[mine] = saw
        return views, learns

    def receive(self, published: Mapping[int, Mapping[str, Any]]) -> None:
        """Pass filters the arrays that their other halves published; readings then pass through the filters again."""
        if self.filters is not None and published and self.filters.receive(published):
            self._ahead[:] = False

    def _look(self, filters: BodyFilters, places: Array, begun: Array) -> None:
        """Pass the readings of these bodies through filters; `begun` begin an episode."""
        self._ahead[begun] = False
        filters.begin(begun.tolist())
        ahead = places[self._ahead[places]]
        for kept, run in zip(self._shown, self._next, strict=True):
            kept[ahead] = run[ahead]
        self._blind[ahead] = self._ahead_blind[ahead]
        fresh = places[~self._ahead[places]]
        if len(fresh):
            views, saw = filters.view(
                fresh.tolist(), self._decisions[fresh].tolist(), [run[fresh] for run in self._seen]
            )
            for kept, run in zip(self._shown, views, strict=True):
                kept[fresh] = run
            self._blind[fresh] = ~saw
        self._ahead[:] = False
        filters.keep(())

    def _filtered(self, filters: BodyFilters, places: Array, fresh: Array) -> Field:
        """Return the setpoints to apply: proposals on filtered readings, passed through the filters."""
        for kept, value in zip(self._own, self._rests, strict=True):
            kept[places] = value
        self._keep_each(places, [None] * len(places))
        for place in places.tolist():
            self._sent[place] = None
        seeing = ~self._blind[places]
        looked, found = places[seeing], [run[places] for run in self._set]  # the last setpoints, unless replaced below
        if self._rules is not None:
            before = self._rules.allowed([run[places] for run in self._seen], found)
            found = [run.copy() for run in self._actuators.matrices(before, len(places))]
        if not len(looked):
            return blocks_of(found)
        blocks, excused = self._proposals(looked, fresh[seeing])
        own = np.ones(len(looked), bool) if excused is None else ~np.array(excused)  # others repeat their last
        mine, at = looked[own], np.flatnonzero(seeing)[own]
        moved = [run[own] for run in self._moves.matrices(blocks, len(looked))]
        applied, data, passed = filters.apply(mine.tolist(), moved, [self._data_of(place) for place in mine.tolist()])
        for i, place in enumerate(mine.tolist()):
            try:
                if passed[i] and data[i] is not None:
                    self._sent[place] = self._hooks.tolerate("filters", serialize, data[i], None, "data")
            except Tolerated:
                passed[i] = False
        self._keep_each(mine[~passed], [None] * int((~passed).sum()))
        for kept, run in zip(self._own, moved, strict=True):
            kept[mine[passed]] = run[passed]
        for whole, run in zip(found, applied, strict=True):
            whole[at[passed]] = run[passed]
        return blocks_of(found)

    @property
    def proposed(self) -> Field:
        """The muscles' own proposals in the newest decisions, before filters."""
        return blocks_of(self._own, self._deciding)

    # -- decisions ----------------------------------------------------------------------------------------------------
    def decide(self, act: Act) -> tuple[Field | None, dict[str, Any] | None]:
        """Make the decisions that a message asks for; return setpoints, and statistics by the number of the entry."""
        places, flags, readings = self._entries(act)
        self._entered = None
        for place, b, episode in act.spawned or ():
            if not self.first <= place < self.count:
                text = f"expected rows from {self.first} to {self.count - 1}, found {place}"
                raise RemoteProtocolError(f"act.spawned: {text}")
            self._come(place, b)
            self._episode[place], self._began[place], self._open[place] = episode - 1, False, False
        count = len(places)
        asked = flags & DECIDE != 0
        self._deciding = places[asked]
        if 1 not in asked.tobytes():
            return None, None
        fresh, self._last = flags & FIRST != 0, None
        if act.applied is not None:
            self._last = self._actuators.zeros(self.count)
            for kept, run in zip(
                self._last, self._matrices(self._actuators, act.applied, count, "applied"), strict=True
            ):
                kept[places[asked]] = run[asked]
        if 0 in asked.tobytes():
            places, fresh, readings = places[asked], fresh[asked], [run[asked] for run in readings]
        begun = places[fresh]
        self._episode[begun] += 1
        self._decisions[begun] = 0
        for kept, run in zip(self._seen, readings, strict=True):
            kept[places] = run
        for kept, value in zip(self._set, self._noops, strict=True):
            kept[begun] = value
        if not self.arrays:
            for place in begun.tolist():
                if self._began[place]:
                    self._hooks("reset", self.muscles[place].reset)
        self._began[begun] = True
        self._hooks.step = int(self._decisions[places[0]])
        if self.filters is None:
            blocks, _ = self._proposals(places, fresh)
        else:
            self._look(self.filters, places, begun)
            blocks = self._filtered(self.filters, places, fresh)
        matrices = [run.matrix(block, len(places)) for run, block in zip(self._actuators.runs, blocks, strict=True)]
        if self._rules is not None:
            hook, names = (
                "propose_batch" if self.arrays else "propose_actions",
                [self._names[place] for place in places],
            )
            self._hooks(hook, self._rules.check, readings, matrices, names)
        for kept, run in zip(self._set, matrices, strict=True):
            kept[places] = run
        self._number[places] = self._decisions[places]
        self._decisions[places] += 1
        self._open[places] = True
        if self._setup.pool is not None:
            self._tells[places] = self._learns[places] & self.learning
        return blocks, self._noted(places)

    def _proposals(self, places: Array, fresh: Array) -> tuple[Field, Sequence[bool] | None]:
        """Return proposals, and for which bodies the last one is repeated after a tolerated error."""
        return self._proposed(places, fresh) if self.arrays else self._proposed_by_each(places)

    def _proposed(self, places: Array, fresh: Array) -> tuple[Field, Sequence[bool] | None]:
        """Return the proposals of the one muscle of all bodies."""
        count, muscle = len(places), self.muscles[0]
        matrix = matrix_of(self._views, [run[places] for run in self._shown], count)
        fresh.flags.writeable = False
        batch = Batch(
            observations=matrix,
            readings=Readings(self._views, matrix),
            bodies=self._bodies_at(places),
            step=self._decisions[places],
            episode=self._episode[places],
            mode=self._mode,
            first=fresh,
            applied=None if self._last is None else self._applied_at(places, fresh),
            group=self._group,
        )
        if self._masks is not None:
            batch.masks = self._masks.of([run[places] for run in self._shown])
        try:
            result = self._hooks.tolerate("propose_batch", muscle.propose_batch, batch)
        except Tolerated:
            self._keep(None, places)
            return self._as_before(places), [True] * count
        setpoints, data = result if type(result) is tuple and len(result) == 2 else (result, None)
        hooks = self._hooks
        blocks: Field = hooks("propose_batch", self._blocks_of, setpoints, places)
        hooks("propose_batch", self._keep, data, places)
        return blocks, None

    def _as_before(self, places: Array) -> Field:
        """Return the last proposals of bodies, with allowed values in place of masked ones."""
        if self._masks is None:
            return blocks_of(self._own, places)
        return self._masks.allowed([run[places] for run in self._shown], [run[places] for run in self._own])

    def _applied_at(self, places: Array, fresh: Array) -> Array:
        """Return the last applied setpoints of these bodies; no-ops where an episode begins."""
        assert self._last is not None
        runs = [run[places] for run in self._last]
        for run, value in zip(runs, self._noops, strict=True):
            run[fresh] = value
        found: Array = matrix_of(self._actuators, runs, len(places))
        return found

    def _blocks_of(self, setpoints: Any, places: Array) -> Field:
        """Return proposals as blocks; AuthorError names the value that does not fit, and its body."""
        layout, count = self._moves, len(places)
        if isinstance(setpoints, Mapping):
            return batch_field("setpoint", layout, setpoints, [self._names[place] for place in places.tolist()])
        matrix = np.asarray(setpoints)
        if matrix.shape == (count, layout.width) and matrix.dtype.kind in "biuf":
            blocks: Field = []
            for run in layout.runs:
                part = matrix[:, run.columns]
                if part.dtype == run.dtype:
                    blocks.append(part.tobytes())
                    continue
                with np.errstate(invalid="ignore", over="ignore"):  # invalid results are rejected below
                    cast = part.astype(run.dtype, copy=False)
                if part.dtype.kind == "f" and run.dtype.kind != "f" and not (cast == part).all():
                    break
                blocks.append(cast.tobytes())
            else:
                if layout.contains(blocks, finite=True, count=count):
                    return blocks
        if matrix.shape != (count, layout.width):
            read_batch_proposal(setpoints, self._declared, count)  # raises AuthorError with the reason
        values: list[list[Any]] = []
        for place, vector in zip(places.tolist(), matrix, strict=True):
            with naming(self._names[place]):
                (row,), _ = read_batch_proposal(vector[None], self._declared, 1)
                self._refuse_infinite(row)
            values.append(row)
        return layout.field(values)

    def _refuse_infinite(self, row: Sequence[Any]) -> None:
        infinite = self._moves.infinite(row)
        if infinite is not None:
            raise AuthorError(f"setpoint {infinite}: expected a finite number, found {row!r:.80}")

    def _keep(self, data: Any, places: Array) -> None:
        """Keep the data that a muscle adds for the brain, one value per body."""
        count = len(places)
        if data is None or (type(data) is list and len(data) == count and all(it is None for it in data)):
            if self._array is None and self._data is None:
                return
            data = [None] * count
        sized = data.ndim > 0 if isinstance(data, np.ndarray) else isinstance(data, list | tuple)
        if not (sized and len(data) == count):
            raise AuthorError(f"propose_batch[1]: expected a list of {count} values, one per body, found {data!r:.200}")
        if isinstance(data, np.ndarray) and data.dtype.kind in "biuf":
            kept = self._array
            if kept is not None and kept.shape[1:] == data.shape[1:] and kept.dtype == data.dtype:
                kept[places] = data
                return
            if count == self.count or not self._open.any():  # no open decision has data of another form
                self._array, self._data = np.zeros((self.count, *data.shape[1:]), data.dtype), None
                self._array[places] = data
                return
        values = [deserialize(serialize(it, None, "propose_batch[1]"), (), "propose_batch[1]") for it in data]
        self._keep_each(places, values)

    def _keep_each(self, places: Array, values: Sequence[Any]) -> None:
        """Keep data of any type; they are copies that the muscle cannot change."""
        if self._data is None:
            self._data = [None] * self.count if self._array is None else list(self._array)
            self._array = None
        for place, value in zip(places.tolist(), values, strict=True):
            self._data[place] = value

    def _data_of(self, place: int) -> Any:
        if self._array is not None:
            return self._array[place]
        return None if self._data is None else self._data[place]

    def _data_at(self, places: Array) -> Any:
        """Return the data of bodies in wire form: an array of all, a list, or None without any."""
        if self.filters is not None:
            sent = [self._sent[place] for place in places.tolist()]
            return None if all(value is None for value in sent) else sent
        if self._array is not None:
            return serialize(self._array[places], None, "data")
        found = [] if self._data is None else [self._data[place] for place in places.tolist()]
        return None if all(value is None for value in found) else [serialize(v, None, "data") for v in found]

    def _proposed_by_each(self, places: Array) -> tuple[Field, Sequence[bool] | None]:
        """Return the proposals of these bodies' muscles, called one after the other."""
        count, hooks, layout = len(places), self._hooks, self._moves
        rows: list[list[Any]] = []
        told: list[Any] = []
        excused = [False] * count
        for i, (place, values) in enumerate(
            zip(places.tolist(), self._views.bodies(blocks_of(self._shown, places), "act.readings", count), strict=True)
        ):
            hooks.step = int(self._decisions[place])
            sensors, offered = self._readings_of.hold(values), self._offered.empty()
            if self._masks is not None:
                self._masks.offer(offered, [run[[place]] for run in self._shown])
            try:
                with naming(self._names[place]):
                    result = hooks.tolerate("propose_actions", self.muscles[place].propose_actions, sensors, offered)
                    row, data = hooks("propose_actions", self._read, result)
            except Tolerated:
                rows.append(layout.values(self._as_before(np.array([place])), "setpoints"))
                told.append(None)
                excused[i] = True
                continue
            rows.append(row)
            told.append(data)
        self._keep_each(places, told)
        return layout.field(rows), excused

    def _read(self, result: Any) -> tuple[list[Any], Any]:
        layout = self._moves
        values, data = read_proposal(result, layout.ids)
        for uid, space, value in zip(layout.ids, layout.spaces, values, strict=True):
            if not space.contains(value):
                ActuatorInformation(value, space, uid)  # raises an error that names the id
        self._refuse_infinite(values)
        if data is not None:
            data = deserialize(serialize(data, None, "propose_actions[1]"), (), "propose_actions[1]")
        return values, data

    def _noted(self, places: Array) -> dict[str, Any] | None:
        """Return the statistics of decisions by entry number; those of a shared muscle belong to the first entry."""
        if self.arrays:
            noted = self.muscles[0].pop_statistics()
            return {"0": noted} if noted else None
        found = {str(i): self.muscles[place].pop_statistics() for i, place in enumerate(places.tolist())}
        return {i: noted for i, noted in found.items() if noted} or None


class ActingGroups:
    """Complete and make the decisions of bodies of several groups, group by group.

    Args:
        parts: Of each group.
        of: The group of each body.
        sensors, actuators: The layouts of each group.
    """

    def __init__(
        self, parts: Sequence[Acting], of: Array, sensors: Sequence[Layout], actuators: Sequence[Layout]
    ) -> None:
        self._parts, self._of, self._sensors = list(parts), of, Groups(sensors, of)
        self._actuators = Groups(actuators, of)
        self._rewards: Groups | None = None
        self._rows = [np.flatnonzero(of == number) for number in range(len(parts))]
        self._local = np.zeros(len(of), np.int64)  # the place of each body in its group
        for rows in self._rows:
            self._local[rows] = np.arange(len(rows))

    @property
    def muscles(self) -> list[Any]:
        """The acting objects: one, or one of each body; None for a row without a body so far."""
        return list({id(one): one for part in self._parts for one in part.muscles}.values())

    @property
    def objectives(self) -> list[Any]:
        """The objectives, in the same form."""
        return [one for part in self._parts for one in part.objectives]

    @property
    def memories(self) -> list[Any]:
        """The memories, in the same form."""
        return [one for part in self._parts for one in part.memories]

    def come_back(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Create the objects of bodies that were spawned before `state` was taken."""
        for part, known in zip(self._parts, state, strict=True):
            part.come_back(known)

    def state(self) -> list[dict[str, Any]]:
        """Return the state that a successor needs, between two messages."""
        return [part.state() for part in self._parts]

    def restore(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Restore what `state` returned."""
        for part, known in zip(self._parts, state, strict=True):
            part.restore(known)

    def declare(self, layouts: Sequence[Layout]) -> None:
        """Set the layouts of the rewards of each group."""
        self._rewards = Groups(layouts, self._of)
        for part in self._parts:
            part.declare(layouts)

    @property
    def learning(self) -> bool:
        """Whether the brain receives decisions from now on."""
        return self._parts[0].learning

    @learning.setter
    def learning(self, learns: bool) -> None:
        for part in self._parts:
            part.learning = learns

    def receive(self, published: Mapping[int, Mapping[str, Any]]) -> None:
        """Pass filters the arrays that their other halves published."""
        for part in self._parts:
            part.receive(published)

    @property
    def proposed(self) -> Field:
        """The muscles' own proposals in the newest decisions."""
        return [block for part in self._parts for block in part.proposed]

    def complete(self, act: Act) -> tuple[list[float | None], Think | None]:
        """Judge the decisions that a message completes; see `Acting`."""
        objectives: list[float | None] = []
        thinks: list[Think | None] = []
        for part, mine in zip(self._parts, self._split(act), strict=True):
            found, think = part.complete(mine)
            objectives += found
            thinks.append(think)
        told = [think for think in thinks if think is not None]
        if not told:
            return objectives, None
        more: dict[str, Any] = {
            name: b"".join(getattr(think, name) for think in told) for name in ("flags", "decisions", "episodes")
        }
        pairs = [(rows, think) for rows, think in zip(self._rows, thinks, strict=True) if think is not None]
        local = [rows[np.frombuffer(think.rows or b"", ROW_NUMBER)] for rows, think in pairs]
        more["rows"] = np.concatenate(local).astype(ROW_NUMBER).tobytes()
        for name in ("numbers", "ticks"):
            if getattr(told[0], name) is not None:
                more[name] = b"".join(getattr(think, name) for think in told)
        more["data"] = [None if think is None else think.data for think in thinks]
        more["objective"] = [value for think in told for value in think.objective]
        more_fields = [name for name in FILTERED if getattr(told[0], name) is not None]
        for name in ("readings", "applied", "rewards", "next_readings", *more_fields):
            pieces = [
                part.nothing(name) if think is None else getattr(think, name)
                for part, think in zip(self._parts, thinks, strict=True)
            ]
            more[name] = [block for piece in pieces for block in piece]
        return objectives, replace(told[0], **more)

    def credit(self, late: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the late rewards for the brain; see `Acting`."""
        found: list[list[Any]] = []
        for place, *one in late:
            part = self._parts[int(self._of[place])]
            found += [[place, *told[1:]] for told in part.credit([[int(self._local[place]), *one]])]
        return found

    def decide(self, act: Act) -> tuple[Field | None, dict[str, Any] | None]:
        """Make the decisions that a message asks for; see `Acting`."""
        field: Field = []
        noted: dict[str, Any] = {}
        asked = 0
        for part, mine in zip(self._parts, self._split(act), strict=True):
            blocks, statistics = part.decide(mine)
            noted |= {str(asked + int(i)): one for i, one in (statistics or {}).items()}
            asked += int((np.frombuffer(mine.flags or b"", np.uint8) & DECIDE != 0).sum())
            field += part.nothing("applied") if blocks is None else blocks
        return (field, noted or None) if asked else (None, None)

    def _split(self, act: Act) -> list[Act]:
        """Return the part of a message for each group, with the bodies' numbers in the group."""
        if self._rewards is None:
            raise RemoteProtocolError("act.rewards: they were not declared")
        if act.rows is None or act.flags is None or len(act.rows) != 2 * len(act.flags):
            raise RemoteProtocolError("act: expected rows of two bytes and flags of one byte for each body")
        places = np.frombuffer(act.rows, ROW_NUMBER).astype(np.int64)
        if len(places) and int(places.max()) >= len(self._of):
            raise RemoteProtocolError(f"act.rows: expected numbers below {len(self._of)}, found {int(places.max())}")
        if (np.diff(self._of[places]) < 0).any():
            raise RemoteProtocolError("act.rows: expected the bodies of one group after those of another")
        fields = zip(
            self._sensors.fields(act.readings, places, "act.readings"),
            self._rewards.fields(act.rewards or [], places, "act.rewards"),
            self._sensors.parts(places),
            strict=True,
        )
        local = self._local[places].astype(ROW_NUMBER)
        found = [
            Act(
                readings, rewards, rows=local[span].tobytes(), flags=act.flags[span], decided=_eights(act.decided, span)
            )
            for readings, rewards, (_, _, span) in fields
        ]
        for place, b, episode in act.spawned or ():
            if not 0 <= place < len(self._of):
                raise RemoteProtocolError(f"act.spawned: expected numbers below {len(self._of)}, found {place}")
            group = int(self._of[place])
            told = [*(found[group].spawned or ()), [int(self._local[place]), b, episode]]
            found[group] = replace(found[group], spawned=told)
        if act.forced is not None:
            forced = self._actuators.fields(act.forced, places, "act.forced")
            found = [replace(one, forced=field) for one, field in zip(found, forced, strict=True)]
        if act.applied is None:
            return found
        applied = self._actuators.fields(act.applied, places, "act.applied")
        return [replace(one, applied=field) for one, field in zip(found, applied, strict=True)]


def _eights(numbers: bytes | None, span: slice) -> bytes | None:
    """Return a slice of integers of eight bytes."""
    return None if numbers is None else numbers[span.start * 8 : span.stop * 8]


def _row(layout: Layout, values: Sequence[Any]) -> list[Array]:
    """Return the values of one body as a row of each block."""
    return [matrix[0] for matrix in layout.matrices(layout.field([list(values)]), 1)]
