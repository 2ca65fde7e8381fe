"""Host of a controller: the calls of a worker's phase, around the episodes that `episode.py` runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganglion.errors import AuthorError, CallFailed, GanglionError, NotSetUp, RemoteProtocolError, StoreError
from ganglion.peer.author import Hooks, Loader, identity, is_loss, seed_process, show_failure, wrong_answer
from ganglion.peer.host import Host
from ganglion.peer.journal.compaction import WorkerCompaction
from ganglion.peer.participant import Participant
from ganglion.peer.results.records import Records
from ganglion.peer.step.layout import Cut, Layout, Masks
from ganglion.peer.worker.episode import Episode
from ganglion.peer.worker.free import FreeTicks
from ganglion.peer.worker.recovery import CommandHistory, Replayer, await_successor
from ganglion.peer.worker.ticks import Ticks
from ganglion.peer.worker.world import Actor, Phase, Places, World
from ganglion.run.agents import groups_of
from ganglion.run.plan import span_s
from ganglion.sdk.controller import Controller
from ganglion.sdk.flow import Mode, Signal
from ganglion.sdk.seed import derive
from ganglion.wire.codec import Content, codec_of
from ganglion.wire.conversation import Notice, Pending, Request
from ganglion.wire.journal import digest
from ganglion.wire.messages import (
    ControllerEvaluate,
    ControllerReady,
    ControllerSetup,
    ControllerShutdown,
    ControllerStart,
    Done,
    EnvironmentDeclared,
    EnvironmentReset,
    EnvironmentStart,
    FlowSignal,
    Lost,
    MuscleReset,
    MuscleSetup,
    Nothing,
    Verdict,
    Watch,
    WorkerFailed,
)
from ganglion.wire.name import label

# Fields of the messages that begin a phase, as named in the set-up of a controller and of its parts.
_OF_PHASES = ("run", "phase", "phase_name", "mode", "worker")
_OF_ENVIRONMENTS = ("params", "seed", "episode_seed", "stream", "episode_stream", "plugin", "reward", "transformer")
_OF_AGENTS = ("objective", "sensors", "actuators", "stream", "objective_stream", "brain", "models")


class ControllerHost(Host):
    """Host one worker: its environments, its muscles, its episodes, phase after phase."""

    kind = "controller"
    calls = ("setup", "start", "evaluate", "shutdown")
    participant: Participant

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._phase: Phase | None = None
        self._due: Verdict | None = None
        self._evaluates = False  # whether the due verdict begins one more evaluation
        self._records: Records | None = None
        self._fresh: set[str] = set()  # successors of lost peers that are not set up yet
        self._heard = 0  # number of the governor's last signal
        self._compaction_of_worker: WorkerCompaction | None = None  # the compaction of this phase

    def told(self, told: Notice) -> None:
        """Handle acknowledgements of the store and signals of the governor."""
        if self._records is not None and self._records.heard(told):
            return
        if told.head.call == "" and self._phase is not None:
            signal = codec_of(FlowSignal).decode(told.body)
            if signal.number and signal.number <= self._heard:
                return  # the governor repeats a signal that may have been lost
            self._heard = max(self._heard, signal.number)
            self._phase.signals.append(signal)

    def gone(self, gone: Lost) -> None:
        """Record the loss of a peer."""
        if self._records is not None and not gone.returns:
            self._records.lost(gone.peer, gone.reason)
        if self._phase is not None and any(world.peer == gone.peer for world in self._phase.worlds):
            self._phase.missing.add(gone.peer)

    def reconnected(self) -> None:
        """Send unacknowledged records again, and watch the environments at the new broker."""
        if self._records is not None:
            self._records.again()
        if self._phase is not None:
            self._watch(self._phase)

    def _watch(self, phase: Phase) -> None:
        """Watch environments that are replayed: a loss between two calls must be known before the next call."""
        replayed = [world.peer for world in phase.worlds if world.setup.get("mends")]
        if phase.setup.mends and replayed:
            self.participant.ask_aside("", "kernel.watch", Watch(replayed))

    # -- calls of the governor ----------------------------------------------------------------------------------------
    def setup(self, request: Request, setup: ControllerSetup) -> ControllerReady:
        """Start the environments; reply with their declarations."""
        seed_process(setup.stream)
        self.participant.patience_s = span_s("controller.boundary", setup.deadlines_s or {})
        if self._records is None:
            self._records = Records(self.participant, setup.store, self.participant.take_base() or 0)
        if self._records.settled:
            self.participant.begin_journal([(request, None)], self._records.number)
        self._records.span_s = span_s("record", setup.deadlines_s)
        counts = Counter(body["environment"] for body in setup.bodies or ())
        tags = [(body["environment"], body["group"]) for body in (*(setup.bodies or ()), *(setup.dynamic or ()))]
        worlds = [
            World(e["uid"], e["peer"], e, bodies=counts.get(e["uid"], 1), groups=groups_of(tags, e["uid"]))
            for e in setup.environments
        ]
        self._compaction_of_worker = None
        phase = self._phase = Phase(self.participant, self._records, setup, worlds)
        for world in worlds:
            self.participant.contents[world.peer] = Content(world.setup.get("content", "msgpack"))
        self._persist(phase, lambda: self._start_environments(phase))
        return ControllerReady({world.uid: world.declarations() for world in worlds})

    def start(self, request: Request, start: ControllerStart) -> Done:
        """Set up the muscles; the episodes begin after the reply."""
        phase = self._running()
        places = (phase.places("sensors"), phase.places("actuators"))
        phase.begin(start, [self._actor(phase, agent, *places) for agent in start.agents])
        if phase.setup.bodies is not None:
            free = phase.setup.free
            given = (phase, start.verdict, self)
            phase.ticks = Ticks(*given) if free is None else FreeTicks(*given, **free)
        self._persist(phase, lambda: self._setup_muscles(phase, start))
        self._due = start.verdict
        return Done()

    def evaluate(self, request: Request, evaluate: ControllerEvaluate) -> Done:
        """Run one more evaluation; its episodes begin after the reply."""
        self._running()
        self._due, self._evaluates = evaluate.verdict, True
        return Done()

    def shutdown(self, request: Request, shutdown: ControllerShutdown) -> Done:
        """Shut down the muscles of the phase, or its environments and records."""
        phase = self._phase
        if phase is not None and shutdown.muscles:
            self._shut_down("muscle.shutdown", [actor.peer for actor in phase.actors], losing=True)
        if phase is not None and shutdown.environments:
            self._shut_down("environment.shutdown", [world.peer for world in phase.worlds], losing=True)
            phase.hooks.close()
            self._phase = None
        if self._records is not None and shutdown.environments:
            self._records.drain()
        return Done()

    def tick(self) -> None:
        """Run the episodes of a phase that has begun; called between two requests."""
        if self._due is None or self._phase is None:
            return
        verdict, self._due = self._due, None
        again, self._evaluates = self._evaluates, False
        phase = self._phase
        try:
            if again and phase.ticks is None:
                self._next(phase, verdict, Signal.RESET, prepare=True)
            elif not again:
                phase.controller = self._controller(phase)
            phase.evaluation = (verdict.round, phase.tick) if phase.setup.evaluation else None
            if phase.ticks is not None:
                self._tick_on(phase, phase.ticks, verdict, again)
            else:
                self._episodes(phase, verdict)
        except Exception as error:  # noqa: BLE001 - the outermost loop: every error must reach the governor
            self._failed(phase, error)

    # -- a phase with bodies ------------------------------------------------------------------------------------------
    def _tick_on(self, phase: Phase, ticks: Ticks, verdict: Verdict, again: bool) -> None:
        """Run the ticks of a worker's phase, or of one more evaluation."""
        phase.episode = ticks
        if again:
            ticks.again(verdict)
        else:
            ticks.declare()
            ticks.begin()
        compaction = self._compaction(phase)
        going = True
        while going:
            found = compaction.restore_or_compact(verdict, lambda: [*self._mine(phase), ticks.state()], False)
            if found is not None:
                self._heard, fresh, missing, state = found[1]
                self._fresh, phase.missing = set(fresh), set(missing)
                ticks.restore(state)
            going = ticks.tick()
        ticks.report()
        phase.signals.clear()
        phase.heeded, phase.steps_left = self._heard, None

    # -- episodes -----------------------------------------------------------------------------------------------------
    def _episodes(self, phase: Phase, verdict: Verdict) -> None:
        with asyncio.Runner() as runner:
            while True:
                verdict = self._restore_or_compact(phase, verdict, runner)
                running = Episode(phase, verdict.episode, verdict)
                phase.episode = running
                try:
                    runner.run(running.run())
                except GanglionError as error:
                    self._lose(phase, running, error)
                verdict = running.report()
                signal = Signal[verdict.signal]
                if signal.effect.stops:
                    phase.signals.clear()  # too late for these episodes, and not meant for the next ones
                    phase.heeded = self._heard
                    phase.steps_left = None
                    return
                self._next(phase, verdict, signal)

    def _restore_or_compact(self, phase: Phase, verdict: Verdict, runner: asyncio.Runner) -> Verdict:
        """Restore a predecessor's state, or compact the journal; return the verdict with which the episode begins."""
        loose = bool(asyncio.all_tasks(runner.get_loop()))
        found = self._compaction(phase).restore_or_compact(verdict, lambda: self._mine(phase), loose)
        if found is None:
            return verdict
        verdict, (self._heard, fresh, missing) = found
        self._fresh, phase.missing = set(fresh), set(missing)
        return verdict

    def _compaction(self, phase: Phase) -> WorkerCompaction:
        if self._compaction_of_worker is None:
            assert self._records is not None
            self._compaction_of_worker = WorkerCompaction(self.participant, phase, self._records)
        return self._compaction_of_worker

    def _mine(self, phase: Phase) -> list[Any]:
        """Return the state of this host that is not part of the phase."""
        return [self._heard, sorted(self._fresh), sorted(phase.missing)]

    def _next(self, phase: Phase, verdict: Verdict, signal: Signal, prepare: bool = False) -> None:
        """Begin an episode in place, or with new objects: after a signal, or after a loss."""
        if not signal.effect.rebuilds:
            try:
                self._reset(phase, verdict, prepare)
            except GanglionError as error:
                self._await(phase, error)
            else:
                return
        self._persist(phase, lambda: self._restart(phase, verdict))

    def _reset(self, phase: Phase, verdict: Verdict, prepare: bool = False) -> None:
        """Begin an episode in place; with `prepare` the muscles load the newest policy first."""
        resets: list[EnvironmentReset] = []
        asked: list[Pending] = []
        replayer = None if not phase.setup.mends else Replayer(phase, phase.worlds, resets)
        for world in phase.worlds:
            seeds = (verdict.seeds or {}).get(world.uid, {})
            stream = seeds.get("stream", b"")
            topics = phase.topics.opening(world.peer, world.setup.get("topics"), stream)
            message = EnvironmentReset(verdict.episode, int(seeds.get("seed", 0)), stream, topics=topics)
            resets.append(message)
            replayed = None if replayer is None else replayer.between(world, len(asked))
            asked.append(replayed or self._ask(phase, world.peer, "environment.reset", message))
        for actor in phase.actors:
            reset = MuscleReset(verdict.episode, prepare, phase.topics_of(actor, verdict.episode))
            asked.append(self._ask(phase, actor.peer, "muscle.reset", reset))
        answers = self.participant.gather(asked, replayer)
        for world, answer, pending, message in zip(phase.worlds, answers, asked, resets, strict=False):
            world.began(answer)
            if answer.topics is not None:
                phase.topics.take(world.peer, "environment.reset", answer.topics)
            if world.history is not None:
                world.history.began(replace(message, state=answer.state), digest(pending.answer))

    def _restart(self, phase: Phase, verdict: Verdict) -> None:
        """Begin the next episode with new environments and muscles; brains stay."""
        self._shut_down("environment.shutdown", [world.peer for world in phase.worlds])
        self._shut_down("muscle.shutdown", [actor.peer for actor in phase.actors])
        for world in phase.worlds:
            seeds = (verdict.seeds or {}).get(world.uid, {})
            world.setup["episode_seed"] = int(seeds.get("seed", 0))
            world.setup["episode_stream"] = seeds.get("stream", b"")
        before = [(world, world.sensors, world.actuators) for world in phase.worlds]
        self._start_environments(phase, verdict.episode)
        for world, sensors, actuators in before:
            world.declares("sensors", sensors)
            world.declares("actuators", actuators)
        assert phase.start is not None
        self._setup_muscles(phase, phase.start, verdict.episode)

    # -- of a phase with bodies ---------------------------------------------------------------------------------------
    def await_again(self, phase: Phase, peer: str, error: GanglionError) -> None:
        """Wait for the successor of this peer; raises `error` if it is no loss, or if the loss ends the run."""
        if self._lost_peer(phase, error) != peer:
            raise error
        self._await(phase, error)

    def ask_start(self, phase: Phase, world: World, episode: int) -> Pending:
        """Ask an environment to create its object; `started` takes the reply."""
        message = self._start_of(phase, world)
        if world.history is not None:
            world.history = CommandHistory(message, episode, b"")  # `rebuild` sets the digest of the reply
        asked: Pending = self._ask(phase, world.peer, "environment.start", message, episode)
        return asked

    def started(self, world: World, answer: EnvironmentDeclared) -> None:
        """Record the reply of a new object, which must declare the same as its predecessor."""
        before = {what: getattr(world, what) for what in ("sensors", "actuators", "rewards")}
        world.declare(answer)
        for what, declared in before.items():
            world.declares(what, declared or [])
        if answer.topics is not None:
            self._running().topics.take(world.peer, "environment.start", answer.topics)
        self._fresh.discard(world.peer)
        self._running().missing.discard(world.peer)

    def set_up_again(self, phase: Phase, peer: str, error: GanglionError) -> None:
        """Set up the successor of a muscle; raises `error` if it is no loss, or if the loss ends the run."""
        self.await_again(phase, peer, error)
        assert phase.start is not None
        start = phase.start
        self._persist(phase, lambda: self._setup_muscles(phase, start, only_fresh=True))

    def rebuild(self, phase: Phase, worlds: Sequence[World], starts: Callable[[], Sequence[Pending]]) -> None:
        """Create new muscles and environments; brains stay."""

        def act() -> None:
            assert phase.start is not None
            self._shut_down("environment.shutdown", [world.peer for world in worlds])
            self._shut_down("muscle.shutdown", [actor.peer for actor in phase.actors])
            asked = starts()
            for world, pending, answer in zip(worlds, asked, self.participant.gather(asked), strict=True):
                self.started(world, answer)
                if world.history is not None:
                    world.history.started = digest(pending.answer)
            self._setup_muscles(phase, phase.start)

        self._persist(phase, act)

    # -- losses -------------------------------------------------------------------------------------------------------
    def _lose(self, phase: Phase, running: Episode, error: GanglionError) -> None:
        """Close an episode in which a peer was lost; the other workers of its round continue."""
        peer = self._lost_peer(phase, error)
        if peer is None:
            raise error
        running.lose(f"lost: {label(peer).partition(' (')[0]}")
        self._await(phase, error)
        if running.participants is not None:
            self._persist(phase, lambda: self._pass_on(phase, running))

    def _pass_on(self, phase: Phase, running: Episode) -> None:
        """Make all muscles that take part in rounds of brains pass, new muscles included."""
        assert phase.start is not None
        self._setup_muscles(phase, phase.start, running.number, only_fresh=True)
        running.let_pass()

    def _persist(self, phase: Phase, act: Callable[[], None]) -> None:
        """Call a function, and call it again after each loss of a peer that takes part in it."""
        while True:
            try:
                return act()
            except GanglionError as error:
                self._await(phase, error, replayed=True)

    def _await(self, phase: Phase, error: GanglionError, replayed: bool = False) -> None:
        """Wait for the successor of a lost peer; raises `error` if there is none, or if the error is no loss."""
        peer = self._lost_peer(phase, error, replayed=replayed)
        if peer is None:
            raise error
        await_successor(phase, peer, error)
        self._fresh.add(peer)

    def _lost_peer(self, phase: Phase, error: GanglionError, replayed: bool = False) -> str | None:
        """Return the lost peer if the loss costs an episode at most, None for any other error.

        With `replayed` this includes an environment with a replayed open episode: outside of episodes its successor is
        started like the lost process.
        """
        unknown = isinstance(error, CallFailed) and error.remote_kind == NotSetUp.kind
        if not unknown and not is_loss(error):
            return None
        peer = error.culprit if isinstance(error, CallFailed) else str(getattr(error, "peer", ""))
        parts = {world.peer: world.setup for world in phase.worlds}
        parts |= {actor.peer: actor.setup for actor in phase.actors}
        part = parts.get(peer, {})
        return peer if part.get("restarts") or (replayed and part.get("mends")) else None

    def _shut_down(self, call: str, peers: Sequence[str], losing: bool = False) -> None:
        """Shut these peers down for the phase, except successors that are not set up.

        With `losing` losses are ignored: the peers are not called again.
        """
        phase = self._running()
        unset = self._fresh | phase.missing  # processes of these names have nothing to shut down
        asked = [self._ask(phase, peer, call, Nothing()) for peer in peers if peer not in unset]
        for pending in asked:
            try:
                self.participant.gather([pending])
            except GanglionError as error:
                if not losing or self._lost_peer(phase, error, replayed=True) is None:
                    raise

    def _failed(self, phase: Phase, error: Exception) -> None:
        episode = phase.episode
        number, step = (0, 0) if episode is None else (episode.number, episode.step)
        failure = show_failure(error)
        peer = (failure.data or {}).get("peer")
        if isinstance(error, StoreError):
            peer = phase.setup.store
        try:
            if episode is not None:
                episode.cut(f"failed: {failure.message}")
        except GanglionError as second:
            # The store itself may be what failed. The first reason is the one to report.
            show_failure(second)
        setup = phase.setup
        report = WorkerFailed(
            worker=setup.worker, episode=number, step=step, failure=failure, peer=peer, evaluation=setup.evaluation
        )
        self.participant.call(phase.governor, "governor.failed", report, phase.span_s("governor.failed"))

    # -- setting up ---------------------------------------------------------------------------------------------------
    def _start_environments(self, phase: Phase, episode: int = 0) -> None:
        setup = phase.setup
        self._watch(phase)
        phase.missing.clear()
        messages = [self._start_of(phase, world) for world in phase.worlds]
        calls = zip(phase.worlds, messages, strict=True)
        asked = [self._ask(phase, world.peer, "environment.start", message, episode) for world, message in calls]
        answers = self.participant.gather(asked)
        self._fresh.difference_update(world.peer for world in phase.worlds)
        for world, answer, pending, message in zip(phase.worlds, answers, asked, messages, strict=True):
            world.declare(answer)
            if answer.topics is not None:
                phase.topics.take(world.peer, "environment.start", answer.topics)
            if setup.mends and world.setup.get("mends", True):
                world.history = CommandHistory(message, episode, digest(pending.answer))

    def _start_of(self, phase: Phase, world: World) -> EnvironmentStart:
        setup, e = phase.setup, world.setup
        place: dict[str, Any] = {name: getattr(setup, name) for name in _OF_PHASES}
        own = {name: e[name] for name in _OF_ENVIRONMENTS}
        if setup.bodies is not None and any(body["environment"] == world.uid for body in setup.bodies):
            number = phase.worlds.index(world)
            own |= {**_bodies_of(setup.bodies, setup.dynamic or (), e), "index": number}
            if own["each"] is not None and phase.ticks is not None:
                own["each"] = phase.ticks.core.limits(number)
        topics = phase.topics.opening(world.peer, e.get("topics"), e["episode_stream"])
        return EnvironmentStart(**place, uid=world.uid, **own, topics=topics)

    def _setup_muscles(self, phase: Phase, start: ControllerStart, episode: int = 0, only_fresh: bool = False) -> None:
        setup = phase.setup
        static = start.static_models or {}
        place: dict[str, Any] = {name: getattr(setup, name) for name in _OF_PHASES}
        actors: list[Actor] = []
        asked = []
        for actor in phase.actors:
            if only_fresh and actor.peer not in self._fresh:
                continue
            a = actor.setup
            message = MuscleSetup(
                **place,
                agent=actor.name,
                plugin=a["muscle"],
                **{name: a[name] for name in _OF_AGENTS},
                rewards=actor.reward_declarations,
                filters=a.get("filters"),
                static_models={uid: static[uid] for uid in a["environments"] if uid in static} or None,
                deadlines_s=a.get("deadlines_s", setup.deadlines_s) or None,
                policy=a.get("policy"),
                bodies=a.get("bodies"),
                episodes=None if phase.ticks is None else phase.ticks.numbers(actor),
                dynamic=a.get("dynamic"),
                **{name: a[name] for name in ("source", "follows", "pool") if name in a},
                groups=a.get("groups"),
                topics=phase.topics_of(actor, episode),
            )
            actors.append(actor)
            asked.append(self._ask(phase, actor.peer, "muscle.setup", message, episode))
        for actor, ready in zip(actors, self.participant.gather(asked), strict=True):
            a = actor.setup
            actor.blocks, count = ready.blocks, len(a.get("bodies") or [0]) + len(a.get("dynamic") or ())
            if (ready.bodies or 1) != count:
                text = f"agent {actor.name} has {count} bodies, its program {ready.bodies or 'knows of one'}"
                raise wrong_answer(actor.peer, "muscle.setup", RemoteProtocolError(text))
            if ready.topics is not None:
                phase.topics.take(actor.peer, "muscle.setup", ready.topics)
        self._fresh.difference_update(actor.peer for actor in phase.actors)

    def _actor(self, phase: Phase, agent: dict[str, Any], sensor_places: Places, actuator_places: Places) -> Actor:
        self.participant.contents[agent["peer"]] = Content(agent.get("content", "msgpack"))
        program = bool(agent.get("program"))
        if phase.setup.bodies is not None:  # readings of bodies are not cut out of those of environments
            actuators = Layout.of(agent["actuators"])
            return Actor(agent["name"], agent["peer"], agent, Cut((), (), ()), actuators, [], program=program)
        sensors = phase.cut([str(s["id"]) for s in agent["sensors"]], "sensors", sensor_places)
        targets = [actuator_places[str(a["id"])] for a in agent["actuators"]]
        spaces = [phase.worlds[world].checks.layouts["actuators"].spaces[i] for world, i in targets]
        actuators = Layout([str(a["id"]) for a in agent["actuators"]], spaces)
        masks = (Masks(sensors.layout, actuators) or None) if program else None
        return Actor(agent["name"], agent["peer"], agent, sensors, actuators, targets, program=program, masks=masks)

    def _controller(self, phase: Phase) -> Controller:
        setup = phase.setup
        plugin = setup.controller
        blame = self._loader.blame("controller", str(plugin["name"]))
        phase.hooks = Hooks(f"controller (worker {setup.worker}), {blame}")
        phase.conditions = [(str(c["name"]), self._condition(phase, c)) for c in setup.conditions]
        attributes = {
            "uid": f"controller/{setup.worker}",
            "name": str(plugin["name"]),
            "worker": setup.worker,
            "mode": Mode(setup.mode),
            "agents": tuple(dict.fromkeys(actor.name for actor in phase.actors)),
            "environments": tuple(world.uid for world in phase.worlds),
            "sensors": {a.name: tuple(str(s["id"]) for s in a.setup["sensors"]) for a in phase.actors},
            **identity(setup.stream),
        }
        made: Controller = phase.hooks("__init__", lambda: self._loader.make("controller", plugin, attributes))
        if made.multiplicity != (setup.bodies is not None):
            says = "has bodies, its" if setup.bodies is not None else "has no bodies, its"
            text = f"the phase {says} controller {type(made).__name__} says multiplicity = {made.multiplicity}"
            raise phase.hooks.blame("__init__", AuthorError(text))
        return made

    def _condition(self, phase: Phase, condition: dict[str, Any]) -> Any:
        attributes = {
            "name": str(condition["name"]),
            "worker": phase.setup.worker,
            "mode": Mode(phase.setup.mode),
            **identity(derive(phase.setup.stream, "condition", str(condition["name"]))),
        }
        return phase.hooks("condition.__init__", lambda: self._loader.make("condition", condition, attributes))

    # -- asking -------------------------------------------------------------------------------------------------------
    def _ask(self, phase: Phase, peer: str, call: str, message: Any, episode: int | None = None) -> Any:
        position = None if episode is None else (phase.setup.phase, phase.setup.worker, episode, 0, 0, 0)
        return self.participant.ask(peer, call, message, phase.span_s(call, peer), position)

    def _running(self) -> Phase:
        if self._phase is None:
            raise RemoteProtocolError("expected controller.setup first")
        return self._phase


def _bodies_of(
    bodies: Sequence[Mapping[str, Any]], dynamic: Sequence[Mapping[str, Any]], setup: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the bodies of an environment for its set-up: by agent and b, then those that may be spawned."""
    agents = list(dict.fromkeys(body["agent"] for body in bodies))
    mine = [body for body in bodies if body["environment"] == setup["uid"]]
    rows = [[b["agent"], b.get("a", agents.index(b["agent"])), b["b"], b["role"], b["team"], b["group"]] for b in mine]
    for row, body in zip(rows, mine, strict=True):
        row += [] if body.get("reward") is None else [body["reward"]]
    each = {key: setup[key] for key in ("max_steps", "budget_steps", "budget_episodes")}
    told: dict[str, Any] = {"bodies": rows, "each": each if setup["episode_end"] == "each" else None}
    pairs = [pair for pair in dynamic if pair["environment"] == setup["uid"]]
    if pairs:
        keys = ("agent", "a", "role", "team", "group", *(["reward"] if any(p.get("reward") for p in pairs) else []))
        spare = [[pair[key] for key in keys] for pair in pairs for _ in range(pair["most"])]
        told |= {"dynamic": spare, "used": {pair["agent"]: pair["used"] for pair in pairs}}
    return told
