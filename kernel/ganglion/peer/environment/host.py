"""Host of an environment: the contract between an author's object and the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import index
from typing import Any

from ganglion.errors import AuthorError, LocalProtocolError, NotSetUp, RemoteProtocolError, SpaceError
from ganglion.peer.author import Hooks, Loader, ToleratedErrors, identity, seed_process, show_failure
from ganglion.peer.environment.bodies import Bodies, JudgedBodies
from ganglion.peer.environment.contract import Judgement, difference, field_set, layout_of, static_model
from ganglion.peer.host import Host
from ganglion.peer.journal.compaction import Compaction
from ganglion.peer.journal.snapshot import Generators, NotPlain, Snapshot, State
from ganglion.peer.participant import Participant
from ganglion.peer.step.arrays import field_of, flag_of, reward_layout, state_of
from ganglion.peer.step.layout import Field, Layout, declaration, mask_fault
from ganglion.peer.values import plain
from ganglion.sdk.environment import (
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    StepBatch,
    flags_of_end,
)
from ganglion.sdk.flow import Mode, SimTime
from ganglion.sdk.information import RewardInformation, SensorInformation, Template, resolve_flags
from ganglion.sdk.seed import derive, generator_from_words, integer_from_words
from ganglion.sdk.topic import Topics
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Request, episode_of
from ganglion.wire.messages import (
    Done,
    EnvironmentDeclared,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
    EnvironmentUpdated,
)

_JOURNAL_S = 5.0  # the replay of a shorter journal costs little
_NO_BODIES = "expected no bodies that come or go in a phase without bodies, found `spawned` or `retired`"
_SPOKEN = "expected a map of names and arrays, or other plain values"


class EnvironmentHost(Host):
    """Host one environment per phase; the process serves many phases.

    `plugin` is the class of a process started from outside, which no document names.
    """

    kind = "environment"
    calls = ("start", "update", "reset", "shutdown")

    def __init__(self, loader: Loader, plugin: str | None = None) -> None:
        self._loader = loader
        self._compaction: Compaction | None = None  # the journal's length
        self._own = plugin
        self._environment: Environment | None = None
        self._answered: int | None = None  # the digest of the reply to the start
        self._opened: Request | None = None  # the reset of this episode, for a successor
        self._snapshot: Snapshot | None = None  # of an environment that saves its own state
        self._late: AuthorError | None = None  # raised between two requests: the reply to the next one
        self.participant: Participant | None = None  # None in a trial

    # -- calls -------------------------------------------------------------------------------------------------------
    def start(self, request: Request, start: EnvironmentStart) -> EnvironmentDeclared:
        """Make the environment and open its first episode."""
        plugin = start.plugin if self._own is None else {"name": self._own}
        if plugin is None:
            raise RemoteProtocolError("environment.start.plugin: expected the name of a class, found nothing")
        self._start, self._started, self._opened = start, request, None
        self._answered = self._snapshot = self._compaction = self._late = None
        if self.participant is not None:
            self.participant.begin_journal([(request, None)])  # earlier records are not needed
            self._journal_s = self.participant.clock()
        loader = self._loader
        blame = loader.blame("environment", str(plugin["name"]))
        self._hooks = Hooks(f"environment {start.uid} (worker {start.worker}), {blame}")
        self._tolerated_errors = ToleratedErrors(lambda: self.participant, start.run)
        seed_process(start.stream)
        attributes = {
            "uid": start.uid,
            "name": start.uid,
            "worker": start.worker,
            "mode": Mode(start.mode),
            **identity(start.stream),
        }
        judged = None
        if start.bodies is None:
            self._judgement = Judgement(loader, start, self._tolerated_errors, attributes)
        else:  # with `each` the environment has no stream of its own
            none = replace(start, reward=None, transformer=None)
            self._judgement = Judgement(loader, none, self._tolerated_errors, attributes)
            paid = any(len(row) > 6 for row in start.bodies) or any(len(row) > 5 for row in start.dynamic or ())
            if start.reward or start.transformer or paid:
                judged = JudgedBodies(loader, start, self._tolerated_errors, attributes)
        self._judged = judged
        made = self._judgement.generators if judged is None else judged.generators
        self._generators = {"rng": attributes["rng"], **made}
        attributes["reward"] = self._judgement.once
        own = getattr(loader.load("environment", str(plugin["name"])), "TOPICS", ())
        self._topics = attributes["topics"] = self._hooks("TOPICS", Topics, own)
        self._topics.hear(start.topics)
        environment = self._hooks("__init__", lambda: loader.make("environment", plugin, attributes, start.params))
        self._environment = environment
        self._bodies: Bodies | None = None
        environment.index = start.index or 0
        if start.bodies is not None:
            self._bodies = self._read(Bodies, environment, start, self._hooks, judged)
        says_itself = self._read(speaks, type(environment))
        self._sensors: Layout  # known after the declaration
        self._setpoint_layout: Layout
        self._reward_ids: list[dict[str, Any]] | None = None  # as the first update told them
        self._rewards: Layout | None = None
        told = None if self.participant is None else self.participant.take_base()
        if told is not None:  # by a predecessor
            self._reward_ids = list(told)
            self._rewards = Layout.of(told, missing=True)
        self._begin_episode(environment, episode_of(request))
        baseline = self._baseline(self._hooks("start_environment", environment.start_environment))
        declared = self._declare(environment, baseline)
        self._drawn = Generators(self._generators)
        if says_itself:
            self._snapshot = self._snapshot_of(environment)
        return declared

    def update(self, request: Request, update: EnvironmentUpdate) -> EnvironmentUpdated:
        """Advance by one step."""
        environment = self._environment
        if environment is None or self._late is not None:
            environment = self._running()
        if update.topics is not None or self._topics.heard:
            self._topics.hear(update.topics)
        if self._bodies is not None:
            return self._update_bodies(self._bodies, update)
        if environment.done:
            raise LocalProtocolError(f"environment {self._start.uid}: update after the end of its episode")
        self._steps += 1
        judgement, hooks = self._judgement, self._hooks
        hooks.step = self._steps
        if not judgement.silent:
            judgement.show_step(self._steps)
        state: Any
        if environment.batched:
            state = self._step_batch(environment, update)
            if not judgement.silent:
                state = hooks("update_batch", self._state_of, state)
        else:
            setpoints = update.setpoints
            if update.actuators is None and setpoints and type(setpoints[0]) is bytes:  # checked above
                given = self._actuators.hold(self._setpoint_layout.values(setpoints, "update.setpoints"))
            else:
                given = self._setpoints(update)
            state = hooks("update", environment.update, given)
            if type(state) is not EnvironmentState:
                state = self._state(state)
            # The author may have set the flags after construction, which checks them.
            if type(state.terminated) is not bool or type(state.truncated) is not bool or state.terminated:
                state.terminated, state.truncated = self._read(resolve_flags, None, state.terminated, state.truncated)
            if state.spawned or state.retired:
                raise self._fault(_NO_BODIES)
        if state.wants is not None or state.group_rewards:
            what = "wants: there are bodies to decide" if state.wants is not None else "group_rewards: there are groups"
            raise self._hooks.blame("update", AuthorError(f"{what} in a phase with `bodies`"))
        if not judgement.silent:
            rewards = self._rewards
            check = None if rewards is None else lambda found: field_set("reward", rewards, found)
            state = judgement.finish(state, check)
        if type(state) is StepBatch:
            readings, earned, reward_ids, flags = hooks("update_batch", self._fields, state)
        else:
            flags = state.terminated, state.truncated
        environment.done = flags[0] or flags[1]
        ticks, timestamp = self._pass_time(state.simtime)
        applied: Field | None = None
        if type(state) is StepBatch:
            if state.applied is not None:
                applied = hooks("update_batch", field_of, "setpoint", self._setpoint_layout, state.applied)
        else:
            earned, reward_ids = self._earned(state.rewards)
            readings = self._readings(state.sensor_information)
        return EnvironmentUpdated(
            readings=readings,
            rewards=earned,
            terminated=flags[0],
            truncated=flags[1],
            ticks=ticks,
            timestamp=timestamp,
            reward_ids=reward_ids,
            world_state=None if judgement.transformer is None else self._left(state.world_state),
            excused=self._tolerated_errors.pop() if self._tolerated_errors.due else None,
            topics=self._topics.pop() if self._topics.due else None,
            applied=applied,
        )

    def reset(self, request: Request, reset: EnvironmentReset) -> EnvironmentUpdated:
        """Open the next episode in place."""
        environment = self._running()
        if reset.state is not None:
            self._drawn.restore(reset.state)
        state = self._drawn.save() or None
        self._topics.hear(reset.topics)
        self._begin_episode(environment, reset.episode)
        self._judgement.reset()
        ticks, timestamp, readings = self._reopen(environment, reset)
        body = codec_of(EnvironmentReset).encode(replace(reset, state=state))
        self._opened = Request(request.peer, request.head, body, request.blobs)
        return EnvironmentUpdated(
            readings=readings,
            rewards=[],
            ticks=ticks,
            timestamp=timestamp,
            state=state,
            excused=self._tolerated_errors.pop(),
            topics=self._topics.pop(),
        )

    def _reopen(self, environment: Environment, reset: EnvironmentReset) -> tuple[int | None, str | None, Field]:
        """Begin the next episode of the author's object; return its time and first readings."""
        bodies = self._bodies
        if bodies is not None and environment.batched:
            ticks, timestamp = self._pass_time(None)
            return ticks, timestamp, bodies.begin_again(reset, EnvironmentBaseline([], []))
        seed = integer_from_words(reset.stream) if reset.stream else reset.seed
        result = self._hooks("reset", environment.reset, ResetRequest(reset.episode, seed))
        baseline = self._judgement.baseline(self._baseline(result))
        self._same_declarations(baseline if bodies is None else self._of_one_body(bodies, baseline))
        ticks, timestamp = self._pass_time(baseline.simtime)
        if bodies is None:
            return ticks, timestamp, self._readings(baseline.sensors_available)
        return ticks, timestamp, self._read(bodies.begin_again, reset, baseline)

    def _of_one_body(self, bodies: Bodies, baseline: EnvironmentBaseline) -> EnvironmentBaseline:
        """Return the declarations of one body."""
        names = ("sensor", "actuator", "reward")
        parts = {f"{name}s_available": getattr(baseline, f"{name}s_available") for name in names}
        one = {key: self._read(bodies.one_of, key.partition("s_")[0], part) for key, part in parts.items()}
        return replace(baseline, **one)

    def _update_bodies(self, bodies: Bodies, update: EnvironmentUpdate) -> EnvironmentUpdated:
        """Advance by one step with these bodies."""
        self._steps += 1
        self._hooks.step = self._steps
        if self._judged is not None:
            self._judged.show_step(self._steps)
        rows = bodies.rows_of(update)
        made = bodies.step(rows, update.setpoints)
        flags, own, left = made.flags, made.own, made.world_state
        ticks, timestamp = self._pass_time(made.simtime)
        first_rows, first_readings = bodies.renew(rows, flags)
        spawned, spawned_readings = bodies.spawn()
        return EnvironmentUpdated(
            readings=made.readings,
            rewards=made.earned,
            terminated=own[0],
            truncated=own[1],
            ticks=ticks,
            timestamp=timestamp,
            flags=flags.tobytes(),
            first_rows=first_rows,
            first_readings=first_readings,
            spawned=spawned,
            spawned_readings=spawned_readings,
            wants=made.wants,
            applied=made.applied,
            policies=made.policies,
            group_rewards=made.shared,
            world_state=None if left is None or self._judged is None else self._left(left),
            excused=self._tolerated_errors.pop() if self._tolerated_errors.due else None,
            topics=self._topics.pop() if self._topics.due else None,
        )

    def tick(self) -> None:
        """Reduce the journal to the running episode once its earlier part is long; call this between two requests.

        A short journal stays whole, since an author may keep state between episodes. The journal of an environment
        that saves its own state is compacted when due, also within an episode.
        """
        opened, participant = self._opened, self.participant
        self._opened = None
        if participant is None:
            return
        if opened is None and self._answered is None and self._environment is not None:
            self._answered = participant.answer_digest(self._started)
        if self._snapshot is not None and self._restore_or_compact(participant):
            return
        if opened is None:
            return
        if participant.clock() - self._journal_s < _JOURNAL_S:
            return
        heard = [(self._started, self._answered), (opened, participant.answer_digest(opened))]
        if participant.begin_journal(heard, self._reward_ids):
            self._journal_s = participant.clock()

    def shutdown(self, request: Request, _: Any) -> Done:
        """End the phase for this environment."""
        self._snapshot = None
        if self._environment is not None:
            closed = self._hooks("shutdown", self._environment.shutdown)
            self._hooks.close()
            self._judgement.close()
            if self._judged is not None:
                self._judged.close()
            self._environment = None
            if closed is not None and not closed:
                raise self._fault(f"shutdown: expected None or True, found {closed!r:.80}: it says that it failed")
        return Done()

    # -- within an episode -------------------------------------------------------------------------------------------
    @property
    def speaks(self) -> bool:
        """Return whether the environment saves its own state."""
        return self._snapshot is not None

    def _restore_or_compact(self, participant: Participant) -> bool:
        """Restore a predecessor's state, or compact the journal if due; False if no state can be taken."""
        if self._compaction is None:
            assert self._snapshot is not None
            self._compaction = Compaction(participant, self._hooks.where, self._snapshot.check)
        self._compaction.restore_or_compact(self.take_state, self.go_on)
        return not self._compaction.refused

    def _snapshot_of(self, environment: Environment) -> Snapshot:
        """Return the snapshot of generators, reward and transformer, without the environment."""
        made: dict[str, Any] = {"reward": self._judgement.reward, "transformer": self._judgement.transformer}
        made |= {} if self._judged is None else self._judged.parts
        given = {"environment": environment, "environment.reward": environment.reward, **self._topics.parts()}
        streams = {f"stream {name}": stream for name, stream in self._generators.items()}
        return Snapshot({n: (one, ()) for n, one in made.items() if one is not None}, given=given | streams)

    def take_state(self) -> State:
        """Return the state that a started successor needs; call this with no request open.

        Raises:
            AuthorError: `save_state` fails, or returns no map of names and plain values; the error is also the reply to
                the next request.
            NotPlain: Reward or transformer cannot be taken.
        """
        environment, snapshot = self._running(), self._snapshot
        assert snapshot is not None
        books = {
            "episode": environment.episode,
            "steps": self._steps,
            "done": environment.done,
            "earlier": self._earlier,
            "rewards": self._reward_ids,
            "bodies": None if self._bodies is None else self._bodies.state(),
            "topics": self._topics.state(),
        }
        try:
            books["state"] = self._saved(environment)
            return snapshot.take(books, self.participant is None or self.participant.takes_attributes)
        except AuthorError as error:
            self._late = error
            raise
        except NotPlain as error:
            path = str(error).removeprefix("books.state")
            if path == str(error):
                raise
            self._late = self._misspoken(f"{path.lstrip('.')}: {_SPOKEN}")
            raise self._late from None

    def _saved(self, environment: Any) -> dict[str, Any]:
        saved = self._hooks("save_state", environment.save_state)
        if not isinstance(saved, Mapping):
            raise self._misspoken(f"{_SPOKEN}, found {type(saved).__name__}")
        odd = next((name for name in saved if type(name) is not str), None)
        if odd is not None:
            raise self._misspoken(f"{_SPOKEN}, found {odd!r:.60} as a name")
        return dict(saved)

    def _misspoken(self, text: str) -> AuthorError:
        error = AuthorError(f"environment {self._start.uid}: save_state: {text}")
        error.add_note(self._hooks.place)
        return error

    def go_on(self, state: State) -> None:
        """Restore what `take_state` of another host returned; this host was started in the same way."""
        environment: Any = self._running()
        snapshot = self._snapshot
        assert snapshot is not None
        read = snapshot.read(state)
        books = read["books"]
        if books["rewards"] is not None and self._rewards is None:
            self._reward_ids = list(books["rewards"])
            self._rewards = Layout.of(self._reward_ids, missing=True)
        self._begin_episode(environment, books["episode"])
        self._steps, self._earlier, environment.done = books["steps"], books["earlier"], books["done"]
        self._topics.restore(books["topics"])
        if self._bodies is not None:
            self._bodies.restore(books["bodies"])
        self._hooks.step = self._steps or None
        self._judgement.show_step(self._hooks.step)
        try:
            self._hooks("load_state", environment.load_state, books["state"])
        except AuthorError as error:
            show_failure(error)
            raise AuthorError(f"environment {self._start.uid}: load_state: {error}") from error
        snapshot.put(read)  # generators last: the calls above may draw

    # -- declaring ---------------------------------------------------------------------------------------------------
    def _begin_episode(self, environment: Environment, episode: int) -> None:
        environment.episode = episode
        environment.done = False
        self._steps = 0
        self._hooks.step = None
        self._judgement.show_step(None)
        self._earlier = SimTime(None, None)

    def _baseline(self, result: Any) -> EnvironmentBaseline:
        if isinstance(result, EnvironmentBaseline):
            return result
        if isinstance(result, tuple) and len(result) == 2:
            return EnvironmentBaseline(*result)
        raise self._wrong("expected an EnvironmentBaseline or (sensors, actuators)", result)

    def _declare(self, environment: Environment, baseline: EnvironmentBaseline) -> EnvironmentDeclared:
        baseline = self._judgement.baseline(baseline)
        whole, bodies = baseline, self._bodies
        if bodies is not None:
            baseline = self._of_one_body(bodies, baseline)
        sensors, actuators = baseline.sensors_available, baseline.actuators_available
        self._sensors = self._layout("sensor", sensors)
        self._setpoint_layout = self._layout("actuator", actuators)
        fault = mask_fault(self._sensors, self._setpoint_layout)
        if fault is not None:
            raise self._fault(fault)
        self._actuators = Template(actuators)
        environment.sensors, environment.actuators = tuple(sensors), tuple(actuators)
        for information in (*sensors, *actuators):
            words = derive(self._start.stream, "space", information.uid)
            self._generators[f"space.{information.uid}"] = generator = generator_from_words(words)
            information.space.seed(generator)
        rewards = baseline.rewards_available
        if rewards is not None:
            self._rewards = self._layout("reward", rewards)
        if bodies is not None:
            self._read(bodies.declare, self._sensors, self._setpoint_layout, self._rewards)
            readings = self._read(bodies.begin, self._start.episode_stream, whole)
        else:
            readings = self._readings(sensors)
        if self._judged is not None and bodies is not None:
            sensors = _informations(SensorInformation, sensors, bodies.shown)
            rewards = _informations(RewardInformation, rewards, bodies.paid)
        ticks, timestamp = self._pass_time(baseline.simtime)
        return EnvironmentDeclared(
            sensors=[declaration(s.uid, s.space, None, s.value_ids) for s in sensors],
            actuators=[declaration(a.uid, a.space, a.value, a.value_ids) for a in actuators],
            readings=readings,
            rewards=None if rewards is None else [declaration(r.uid, r.space, None, r.value_ids) for r in rewards],
            ticks=ticks,
            timestamp=timestamp,
            static_model=self._read(static_model, baseline.static_world_model),
            blocks=True,
            bodies=None if bodies is None else bodies.count,
            topics=self._topics.pop(),
        )

    def _layout(self, what: str, informations: Any) -> Layout:
        said_by = self._judgement.told_by(self._hooks) if what == "sensor" else self._hooks
        return self._read(layout_of, what, informations, said_by=said_by)  # type: ignore[no-any-return]

    def _same_declarations(self, baseline: EnvironmentBaseline) -> None:
        """Refuse declarations that differ from the previous episode's; the first update may declare rewards."""
        declared: list[tuple[str, Layout, Any]] = [("sensor", self._sensors, baseline.sensors_available)]
        declared.append(("actuator", self._setpoint_layout, baseline.actuators_available))
        if self._rewards is not None and baseline.rewards_available is not None:
            declared.append(("reward", self._rewards, baseline.rewards_available))
        for what, layout, now in declared:
            found = difference(layout.pairs(), self._layout(what, now).pairs())
            if found is not None:
                raise self._fault(f"{what}s changed between episodes: {found}")

    # -- stepping ----------------------------------------------------------------------------------------------------
    def _running(self) -> Environment:
        if self._environment is None:
            raise NotSetUp("expected environment.start first")
        if self._late is not None:
            raise self._late
        return self._environment

    def _setpoints(self, update: EnvironmentUpdate) -> list[Any]:
        """Return setpoints as informations in declared order: all, or those at the message's indices."""
        layout = self._given_layout(update)
        given = dict(zip(layout.ids, layout.values(update.setpoints, "update.setpoints"), strict=True))
        filled = self._actuators.fill([given.get(uid) for uid in self._setpoint_layout.ids])
        return [it for it in filled if it.uid in given]

    def _given_layout(self, update: EnvironmentUpdate) -> Layout:
        layout, chosen = self._setpoint_layout, update.actuators
        if chosen is None:
            return layout
        strange = [i for i in chosen if not 0 <= i < len(layout)]
        if strange:
            raise RemoteProtocolError(f"update.actuators: expected indices below {len(layout)}, found {strange[0]}")
        return layout.part(chosen)

    # -- bodies ------------------------------------------------------------------------------------------------------
    def _step_batch(self, environment: Environment, update: EnvironmentUpdate) -> StepBatch:
        layout, setpoints = self._given_layout(update), update.setpoints
        if not layout.fits(setpoints):
            setpoints = layout.field([layout.values(setpoints, "update.setpoints")])
        batch = self._hooks("update_batch", environment.update_batch, layout.arrays(setpoints))
        if not isinstance(batch, StepBatch):
            raise self._wrong("expected a StepBatch", batch)
        if batch.spawned or batch.retired:
            raise self._fault(_NO_BODIES)
        return batch

    def _state_of(self, batch: StepBatch) -> EnvironmentState:
        """Return a step for reward and transformer; the declared rewards are the document's, if it has any."""
        own = self._rewards if self._judgement.once is None else None
        return state_of(batch, self._sensors, own or reward_layout(batch.rewards))

    def _fields(self, batch: StepBatch) -> tuple[Field, Field, list[dict[str, Any]] | None, tuple[bool, bool]]:
        """Return readings, rewards, new declarations of rewards (else None), and the flags."""
        declared = None
        if self._rewards is None:
            self._rewards = reward_layout(batch.rewards)
            declared = self._reward_ids = [declaration(uid, space) for uid, space in self._rewards.pairs()]
        readings = field_of("sensor", self._sensors, batch.readings)
        earned = field_of("reward", self._rewards, batch.rewards)
        flags = (flag_of("terminated", batch.terminated), flag_of("truncated", batch.truncated))
        if batch.over is not None:
            flags = flags_of_end(batch.over, *flags)
        return readings, earned, declared, resolve_flags(None, *flags)

    def _state(self, result: Any) -> EnvironmentState:
        if isinstance(result, EnvironmentState):
            return result
        if isinstance(result, tuple) and len(result) == 3:
            return self._read(EnvironmentState, *result)  # type: ignore[no-any-return]
        raise self._wrong("expected an EnvironmentState or (sensors, rewards, done)", result)

    def _left(self, world_state: Any) -> Any:
        """Return the world's state for the store, transformed."""
        if world_state is None:
            return None
        try:
            return plain(world_state, "world_state")
        except (TypeError, ValueError) as error:
            raise self._fault(str(error), self._judgement.told_by(self._hooks)) from error

    def _readings(self, informations: Any) -> Field:
        layout = self._sensors
        values = layout.values_set(informations)
        if values is not None:
            return [layout.pack(*values)] if layout.pack is not None else layout.field([values])
        said_by = self._judgement.told_by(self._hooks)
        return self._read(field_set, "sensor", layout, informations, said_by=said_by)  # type: ignore[no-any-return]

    def _earned(self, rewards: Any) -> tuple[Field, list[dict[str, Any]] | None]:
        """Return the rewards of a step, and new declarations of rewards (else None)."""
        declared, layout = None, self._rewards
        values = None if layout is None or self._judgement.own_rewards else layout.values_set(rewards)
        if layout is not None and values is not None:
            return [layout.pack(*values)] if layout.pack is not None else layout.field([values]), None
        said_by = self._judgement.paid_by(self._hooks)
        if layout is None:
            layout = self._rewards = self._read(layout_of, "reward", rewards, said_by=said_by)
            declared = [declaration(r.uid, r.space, None, r.value_ids) for r in rewards]
            self._reward_ids = declared
        assert layout is not None
        if self._judgement.own_rewards:
            # After a tolerated error: undeclared rewards have no column, missing ones no value.
            given = {it.uid: it.value for it in rewards}
            pairs = [(given.get(uid), space) for uid, space in layout.pairs()]
            return layout.field([[v if v is not None and s.contains(v) else None for v, s in pairs]]), declared
        return self._read(field_set, "reward", layout, rewards, said_by=said_by), declared

    def _pass_time(self, simtime: Any) -> tuple[int | None, str | None]:
        """Return ticks and timestamp in wire form; without a time the ticks are the steps of this episode."""
        if simtime is not None and not isinstance(simtime, SimTime):
            raise self._fault(f"simtime: expected a SimTime or None, found {simtime!r:.80}")
        now = SimTime(self._steps, None) if simtime is None else simtime
        ticks, before = now.simtime_ticks, self._earlier.simtime_ticks
        if type(ticks) is int and now.simtime_timestamp is None and (before is None or before <= ticks):
            self._earlier = now
            return ticks, None
        now = self._exact(now)
        try:
            falls = now.falls_behind(self._earlier)
        except TypeError as error:  # one of the two has no time zone
            raise self._fault(f"simtime {now} cannot be compared with {self._earlier}: {error}") from error
        if falls:
            raise self._fault(f"simtime fell from {self._earlier} to {now}")
        self._earlier = now
        timestamp = now.simtime_timestamp
        return now.simtime_ticks, None if timestamp is None else timestamp.isoformat()

    def _exact(self, simtime: SimTime) -> SimTime:
        """Return a time whose ticks are a Python integer, given as any integer type."""
        ticks = simtime.simtime_ticks
        if ticks is None or type(ticks) is int:
            return simtime
        try:
            return SimTime(index(ticks), simtime.simtime_timestamp)
        except TypeError as error:
            raise self._fault(f"simtime_ticks: expected an integer, found {ticks!r:.60}") from error

    def _read(self, read: Callable[..., Any], *args: Any, said_by: Hooks | None = None) -> Any:
        """Return `read` of a hook's result; errors name the hook."""
        try:
            return read(*args)
        except SpaceError as error:
            error.add_note((said_by or self._hooks).place)
            raise
        except AuthorError as error:
            raise self._fault(str(error), said_by) from None

    def _fault(self, text: str, said_by: Hooks | None = None) -> AuthorError:
        error = AuthorError(f"environment {self._start.uid}: {text}")
        error.add_note((said_by or self._hooks).place)
        return error

    def _wrong(self, expected: str, found: Any) -> AuthorError:
        return self._fault(f"{expected}, found {type(found).__name__}")


def _informations(kind: Any, declared: Any, layout: Any) -> list[Any]:
    """Return informations of a layout, with the names of the environment's own informations."""
    known = {it.uid: it for it in declared}
    return [
        known[uid] if uid in known and known[uid].space == space else kind(None, space, uid)
        for uid, space in layout.pairs()
    ]


def speaks(cls: type[Environment]) -> bool:
    """Return whether a class has `save_state` and `load_state`.

    Raises:
        AuthorError: The class has one of the two methods without the other.
    """
    names = ("save_state", "load_state")
    found = [name for name in names if callable(getattr(cls, name, None))]
    if len(found) == 1:
        (lacks,) = set(names) - set(found)
        raise AuthorError(
            f"expected save_state and load_state, or neither, found {found[0]} without {lacks} in {cls.__qualname__}"
        )
    return bool(found)
