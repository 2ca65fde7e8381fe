"""The governor: phases, workers, episodes, verdicts; events in, effects out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ganglion.errors import DocumentError, StoreError
from ganglion.limits import LEAVE_EPISODE_S
from ganglion.run.agents import ResolvedAgent, declaration_rows, replaying, resolve, storing, strange
from ganglion.run.effect import (
    Answer,
    Ask,
    Await,
    Declare,
    Effect,
    Event,
    Finish,
    PhaseCheckpoint,
    Recall,
    Record,
    Services,
    Stage,
    failed,
    placed,
    records_of_errors,
)
from ganglion.run.evaluation import Evaluations
from ganglion.run.flow import SET, Flow, Promises, Stand, Stateful, Waits, join_text, order_record, refusal
from ganglion.run.model import Inheritance
from ganglion.run.plan import PhasePlan, Plan, Process, awaited, conditions_of, processes_of
from ganglion.run.setup import Cast, Setup
from ganglion.sdk.flow import Signal
from ganglion.wire import messages
from ganglion.wire.name import Role, label, peer_name

_CUT_S = 1.5  # how long workers may take to close their episodes when a run fails
_IN_PHASE = (Stage.SETTING_UP, Stage.BRAINS, Stage.RUNNING)  # a controller may wait for a lost peer


class Governor(Stateful):
    """Carry out a plan.

    The host calls one method per kind of event and carries out the effects in order. Times are monotonic seconds.
    `waits` holds what the run waits for.
    """

    SET_UP = frozenset(
        {"run", "plan", "store", "_services", "_setup", "_results", "_models", "_phase", "_agents", "_ready", "_places"}
        | {"_conditions", "_static"}
    )

    def __init__(self, run: str, plan: Plan, store: str | None, results: str, services: Services) -> None:
        self.run, self.plan, self.store = run, plan, store
        self.stage = Stage.PLANNED
        self.waits = Waits()
        self._services = services
        self._models = Inheritance(services, f"{results}/brains")
        self._results = results
        self._phase: PhasePlan
        self._setup: Setup
        self._flow: Flow
        self._evaluations: Evaluations
        self._promises = Promises()
        self._paused: dict[str, Any] = {}  # the last reported pause
        self._absent: dict[str, list[Any]] = {}  # lost peer -> calls that wait for its successor
        self._asked_s = 0.0  # time of the evaluation's last report
        self._agents: list[ResolvedAgent] = []
        self._ready: dict[str, Any] = {}  # declarations of worker 0's environments
        self._replies: dict[str, dict[tuple[Any, ...], Any]] = {}  # by word, until the last reply has arrived
        self._places: dict[str, Process] = {}  # processes of this phase, by name
        self._used: dict[tuple[bool, int, str, str], int] = {}  # see `PhaseCheckpoint`
        self._joined: dict[str, str] = {}  # peer -> content type of its bodies
        self._returning: set[str] = set()  # lost peers; the supervisor limits the time of their restart
        self._open: set[tuple[Any, ...]] = set()
        self._stepped = False
        self._faulty = False  # whether the document asks for something that does not exist
        self._failure: tuple[messages.Failure, str | None] | None = None
        self._interrupted = ""
        self._cut_now = False  # whether an end at once of the open episodes was requested
        self._cut_by_s: float | None = None
        self._interrupt_by_s: float | None = None

    # -- events -------------------------------------------------------------------------------------------------------
    def begin(self, now_s: float, checkpoint: PhaseCheckpoint | None = None, started: str = "") -> list[Effect]:
        """Begin the run, or resume it at a checkpoint; `started` is the time of the first begin, as UTC text."""
        plan = self.plan
        head = {"uid": plan.uid, "experiment": plan.experiment, "seed": plan.seed, "document": plan.document}
        record = Record(["run", {**head, "started": started or self._services.now()}])
        event = Event("run.started", {"run": self.run, "seed": plan.seed, "phases": len(plan.phases)})
        self._models.restore(checkpoint.models if checkpoint else ())
        for *key, b in checkpoint.used if checkpoint else ():
            self._used[bool(key[0]), int(key[1]), str(key[2]), str(key[3])] = int(b)
        return [record, event, *self._enter(checkpoint.phase if checkpoint else 0, now_s)]

    def joined(self, peer: str, content: str, now_s: float) -> list[Effect]:
        """Record a peer that has joined."""
        self._joined[peer] = content
        self._returning.discard(peer)
        self.waits.came(peer)
        event = Event("peer.joined", {"name": peer})
        if self.stage in _IN_PHASE:
            return [event, *(Answer(token, messages.Rebuilt(True)) for token in self._absent.pop(peer, []))]
        return [event, *(self._setup_controllers(now_s) if self._all_joined() else [])]

    def lost(self, peer: str, reason: str, now_s: float, returns: bool = False) -> list[Effect]:
        """Handle the loss of a peer; a peer that `returns` is restarted, and its callers keep waiting."""
        self._joined.pop(peer, None)
        if returns:
            self._returning.add(peer)
        event = Event("peer.lost", {"name": peer, "reason": reason})
        if self.stage is Stage.ENDED or peer not in self.awaited() or returns:
            return [event]
        process = self._places.get(peer)
        if process is not None and self.stage is not Stage.FAILING and self._awaits_again(process):
            self._await_again(process, now_s)
            return [event]
        failure = messages.Failure("lost", f"{self._label(peer)} is gone: {reason}")
        if process is not None and process.role is Role.CONTROLLER and self.stage in (Stage.RUNNING, Stage.FAILING):
            # No process is left that could close its episode.
            self._workers(process.evaluation).gone(process.worker or 0)
        return [event, *self.fail(failure, peer, now_s), *self._after_cut(now_s)]

    def rebuild(self, token: Any, report: messages.Rebuild, now_s: float) -> list[Effect]:
        """Answer a controller's request once the successor of a lost peer has joined."""
        self._stepped |= self.stage is Stage.RUNNING
        if self.stage not in _IN_PHASE:
            return [Answer(token, messages.Rebuilt(False))]
        if report.peer in self._joined and not report.unreachable:
            return [Answer(token, messages.Rebuilt(True))]
        self._absent.setdefault(report.peer, []).append(token)
        if not report.unreachable:
            return []
        # A new broker does not know the peer. Only that broker can say whether the peer has come back.
        self._joined.pop(report.peer, None)
        if (process := self._places.get(report.peer)) is not None:
            self._await_again(process, now_s)
        return [Await([report.peer])]

    def _awaits_again(self, process: Process) -> bool:
        """Say whether the run waits for a lost process, or for its successor, instead of failing."""
        unbegun = process.attached and self.stage is Stage.JOINING  # no call was made to it yet
        return unbegun or awaited(self._phase, process)

    def _await_again(self, process: Process, now_s: float) -> None:
        text = f"{process.label} to come back"
        if process.attached:
            text = f"{text}: start it again with GANGLION_NAME={process.uid} or ganglion attach"
        span_s = self._phase.deadline_s("attach" if process.attached else "join", process)
        self.waits.begin(process.name, process.name, text, now_s, span_s)

    def answered(self, tag: tuple[Any, ...], reply: Any, now_s: float) -> list[Effect]:
        """Handle the reply to a call."""
        self._open.discard(tag)
        self.waits.came(tag)
        if self.stage in (Stage.FAILING, Stage.ENDED):
            return []
        word = tag[0]
        if word == "evaluation":
            return self._evaluation_answered(tag, reply, now_s)
        self._replies.setdefault(word, {})[tag[1:]] = reply
        told: list[Effect] = []
        if word == "pretrain":
            fields = {"agent": tag[1], "episodes": reply.sessions, "decisions": reply.decisions}
            told = [Event("brain.pretrained", fields)]
        if any(other[0] == word for other in self._open):
            return told
        replies = self._replies.pop(word)
        follow: dict[str, Callable[[dict[tuple[Any, ...], Any], float], list[Effect]]] = {
            "need": self._admitted,
            "setup": self._declared,
            "table": self._set_up_brains,
            "brain": self._pretrain,
            "pretrain": self._pretrained,
            "start": self._worker_started,
            "muscles": self._store,
            "store": self._stored,
            "close": self._closed,
        }
        return [*told, *follow[word](replies, now_s)]

    def failed(self, tag: tuple[Any, ...], failure: messages.Failure, peer: str | None, now_s: float) -> list[Effect]:
        """Handle the failure of a call."""
        self._open.discard(tag)
        self.waits.came(tag)
        return self.fail(failure, peer, now_s)

    def episode(self, token: Any, report: messages.EpisodeEnded, now_s: float) -> list[Effect]:
        """Handle the end of a worker's episode; the worker waits for the verdict."""
        self._stepped |= report.steps > 0
        for agent, environment, b in report.used or ():
            self._used[report.evaluation, report.worker, agent, environment] = b
        if report.evaluation:
            return self._evaluation_episode(token, report, now_s)
        if self.stage is not Stage.RUNNING:
            sealed = [] if self.stage is Stage.ENDED else self._flow.sealed(report)  # no row after the end
            effects = [*sealed, Answer(token, self._flow.stop_verdict("failed"))]
            return [*effects, *self._after_cut(now_s)]
        return self._flow_on(self._flow.episode(token, report), now_s)

    def boundary(self, token: Any, report: messages.Boundary, now_s: float) -> list[Effect]:
        """Handle the report of a worker at the common boundary."""
        self._stepped = True
        if self.stage is not Stage.RUNNING:
            return [Answer(token, messages.Go(Signal.SHUTDOWN.name, "failed"))]
        return self._flow_on(self._flow.boundary(token, report), now_s)

    def stands(self, token: Any, report: messages.Stands, now_s: float) -> list[Effect]:
        """Handle the report of a paused worker."""
        effects: list[Effect] = [Answer(token, messages.Done())]
        if self.stage is not Stage.RUNNING:
            return effects
        self._workers(report.evaluation).stands(report)
        return [*effects, *self._flow_on([], now_s)]

    def worker_failed(self, token: Any, report: messages.WorkerFailed, now_s: float) -> list[Effect]:
        """Handle the failure of a worker that cannot continue."""
        peer = report.peer or peer_name(self.run, Role.CONTROLLER, None, report.worker, report.evaluation)
        self._stepped |= report.step > 0
        self._workers(report.evaluation).gone(report.worker)
        effects: list[Effect] = [Answer(token, messages.Done())]
        return [*effects, *self.fail(placed(report), peer, now_s), *self._after_cut(now_s)]

    def signal(self, token: Any, wish: messages.FlowSignal, phase: str | None, now_s: float) -> list[Effect]:
        """Carry out an operator's signal; PAUSE is answered when the workers are paused."""
        running = self.stage is Stage.RUNNING
        why = refusal(wish, phase, self._phase if running else self.stage, sorted(self._flow.active) if running else ())
        if why:
            # In other stages there is no run to which a row belongs.
            known = self.stage not in (Stage.PLANNED, Stage.ENDED)
            recorded: list[Effect] = [self._order_record(wish, f"refused: {why}")] if known else []
            return [*recorded, Answer(token, messages.Signalled(False, why))]
        signal = Signal[wish.signal]
        if wish.data is not None and "topics" in wish.data:
            event = Event("signal", {"signal": SET, "issuer": wish.issuer, "reason": wish.reason})
            text = f"acts at the next step boundary of phase {self._phase.index}"
            done = [event, *self._flow.tell(wish), Answer(token, messages.Signalled(True, text))]
            return self._flow_on([self._order_record(wish, wish.reason), *done], now_s)
        if signal is Signal.CONTINUE and not self._flow.paused:
            return [Answer(token, messages.Signalled(True, "no worker is paused"))]
        effects: list[Effect] = [self._order_record(wish, wish.reason)]
        event = Event("signal", {"signal": wish.signal, "issuer": wish.issuer, "reason": wish.reason})
        effects += [event, *self._flow.steer(wish), *self._steer_evaluation(wish)]
        if signal is Signal.PAUSE or wish.steps is not None:
            self._promises.give(token, wish.worker, now_s)
        else:
            acts = f"acts at the next step boundary of phase {self._phase.index}"
            text = f"phase {self._phase.index} resumed" if signal is Signal.CONTINUE else acts
            effects.append(Answer(token, messages.Signalled(True, text)))
        return self._flow_on(effects, now_s)

    def _order_record(self, wish: messages.FlowSignal, reason: str) -> Record:
        if self.stage is not Stage.RUNNING:
            return order_record(wish, reason, self._phase.index)
        inner = self._evaluations.moment + 1 if self._evaluations.active else 0
        return order_record(wish, reason, self._phase.index, self._flow.position, inner)

    def _steer_evaluation(self, wish: messages.FlowSignal) -> list[Effect]:
        """Forward PAUSE and signals that end a pause to a running evaluation; SHUTDOWN cancels the evaluation."""
        signal = Signal[wish.signal]
        if not self._evaluations.runs:
            return []
        if signal is Signal.SHUTDOWN:
            return self._evaluations.cut(True, wish.issuer)
        if signal is Signal.PAUSE:
            return self._evaluations.steer(wish) if wish.worker is None else []
        # Any other signal lifts the pause of the workers that it reaches: no worker may stay paused alone for ever.
        name = Signal.CONTINUE.name
        return self._evaluations.steer(messages.FlowSignal(name, wish.issuer, wish.reason, steps=wish.steps))

    def stop(self, now: bool, reason: str, now_s: float) -> list[Effect]:
        """Interrupt the run: after the running episodes, or `now`; a second request with `now` waits for no worker."""
        self._interrupted = reason or "operator"
        if now and self._cut_now and self.stage not in (Stage.FAILING, Stage.ENDED):
            return self._finish(now_s)
        self._cut_now |= now
        if self.stage is Stage.RUNNING:
            self._interrupt_by_s = None if now else now_s + LEAVE_EPISODE_S
            cut = self._evaluations.cut(now, "interrupted") if self._evaluations.runs else []
            return self._flow_on([*cut, *self._flow.interrupt(now)], now_s)
        if self.stage in (Stage.FAILING, Stage.ENDED, Stage.STORING, Stage.CLOSING, Stage.MUSCLES_LEAVING):
            return []
        return self._finish(now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Check the deadlines; call this method a few times a second."""
        if self.stage is Stage.FAILING and self._cut_by_s is not None and now_s >= self._cut_by_s:
            return self._finish(now_s)
        effects: list[Effect] = []
        if self._interrupt_by_s is not None and now_s >= self._interrupt_by_s and self.stage is Stage.RUNNING:
            effects += self.stop(True, self._interrupted, now_s)
            self._cut_now = False  # the clock interrupted the run; the next request is the first one
        effects += self._keep_promises(now_s)
        effects += [Event("waiting", {"text": text}) for text in self.waits.due(now_s)]
        late = self.waits.late(now_s)
        if late is not None:
            effects += self.fail(messages.Failure("deadline", late[1]), late[0], now_s)
        return effects

    def incident(self, report: messages.Incident, now_s: float) -> list[Effect]:
        """Record the supervisor's report about a process; a process that is not restarted ends the run."""
        if self.stage is Stage.ENDED:
            return []
        fields = [report.time, report.name, report.incarnation, report.kind, report.position, report.detail]
        record = Record(["incident", *fields])
        if report.failure is None:
            return [record]
        return [record, *self.fail(report.failure, f"{self.run}/{report.name}", now_s), *self._after_cut(now_s)]

    def awaited(self) -> set[str]:
        """Return the names of the peers that the current phase needs."""
        return {*self._places, *({self.store} if self.store is not None else ())}

    # -- failing ------------------------------------------------------------------------------------------------------
    def fail(self, failure: messages.Failure, peer: str | None, now_s: float) -> list[Effect]:
        """End the run after a failure; the first failure counts. Workers may close their episodes."""
        if self.stage in (Stage.FAILING, Stage.ENDED):
            return []
        running = self.stage is Stage.RUNNING
        self._failure = (failure, peer)
        self.stage = Stage.FAILING
        self.waits.clear()
        self._cut_by_s = now_s + _CUT_S
        if not running:
            return self._finish(now_s)
        waiting = [token for tokens in self._absent.values() for token in tokens]
        self._absent.clear()
        cut: list[Effect] = [Answer(token, messages.Rebuilt(False)) for token in waiting]
        cut += self._evaluations.cut(True, "failed") if self._evaluations.runs else []
        return [*cut, *self._flow.abort(), *self._after_cut(now_s)]

    def _after_cut(self, now_s: float) -> list[Effect]:
        if self.stage is not Stage.FAILING:
            return []
        return [] if self._flow.active or self._evaluations.active else self._finish(now_s)

    def _workers(self, evaluation: bool) -> Evaluations | Flow:
        """Return the object that decides about evaluation workers, or about the others."""
        return self._evaluations if evaluation else self._flow

    # -- a phase begins -----------------------------------------------------------------------------------------------
    def _enter(self, index: int, now_s: float) -> list[Effect]:
        phase = self.plan.phases[index]
        self._take(phase)
        self._places = {process.name: process for process in processes_of(self.run, phase)}
        self.stage = Stage.NEEDING
        record = Record(["phase", index, phase.name, phase.mode, "running", None])
        event = Event("phase.started", phase.started())
        try:
            self._models.enter(phase)
        except (DocumentError, StoreError) as error:
            return [record, event, *self.unprepared(error, now_s)]
        checkpoint = PhaseCheckpoint(index, self._models.left(), [[*key, b] for key, b in sorted(self._used.items())])
        need = self._ask(("need",), "", "kernel.need", messages.Need(self.run, index), now_s)
        recall = [Recall(phase)] if replaying(phase) or self._services.plays(phase) else []
        return [record, event, checkpoint, *recall, need]

    def recalled(self, phase: PhasePlan) -> None:
        """Replace this phase by `phase`, in which recorded copies replace the sources of its environments."""
        if phase != self._phase:
            self._take(phase)

    def _take(self, phase: PhasePlan) -> None:
        self._phase, self._setup = phase, Setup(self.run, phase, self.store, self._results, self._services)
        self._evaluations = Evaluations(self.run, phase, self._setup, self._ask_of_evaluation, self._cast)

    def unprepared(self, error: DocumentError | StoreError, now_s: float) -> list[Effect]:
        """Fail the run because an input of a phase is missing or damaged."""
        self._faulty = isinstance(error, DocumentError)
        return self.fail(messages.Failure(error.kind, str(error)), None, now_s)

    def _admitted(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        self.stage = Stage.JOINING
        missing = [p for name, p in self._places.items() if name not in self._joined]
        for process in missing:
            span_s = self._phase.deadline_s("attach" if process.attached else "join", process)
            if process.name in self._returning:  # the supervisor, which starts it, reports and limits that wait
                span_s = None
            self.waits.begin(process.name, process.name, join_text(process), now_s, span_s)
        names = [process.name for process in missing]
        if self.store is not None and self.store not in self._joined:
            names.append(self.store)
            self.waits.begin(self.store, self.store, "the store to join", now_s, self._phase.deadline_s("join"))
        effects: list[Effect] = [Await(names)] if names else []
        return [*effects, *(self._setup_controllers(now_s) if self._all_joined() else [])]

    def _setup_controllers(self, now_s: float) -> list[Effect]:
        self.stage = Stage.SETTING_UP
        self._conditions = conditions_of(self._phase, self._services.conditions(self._phase))
        self._flow = Flow(self.run, self._phase, self._conditions, self._setup)
        cast = Cast(self._conditions, self._joined, used=self._used)
        setups = [self._setup.controller(worker, cast) for worker in range(self._phase.workers)]
        return [self._ask_controller("setup", m.worker, "controller.setup", m, now_s) for m in setups]

    def _declared(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        self._ready = first = replies[0,].declarations
        for (worker,), reply in sorted(replies.items()):
            if wrong := strange(first, reply.declarations, f"worker {worker}"):
                return self.fail(messages.Failure("author", wrong), None, now_s)
        try:
            self._agents = resolve(self._phase, first)
            self._services.fit(self._agents)
        except DocumentError as error:
            return self.unprepared(error, now_s)
        declare = Declare(self._phase.index, declaration_rows(first, self._agents))
        self.stage = Stage.BRAINS
        self._static = {uid: d["static_model"] for uid, d in first.items() if d.get("static_model") is not None}
        tables = {table.uid: self._setup.table(table) for table in self._phase.pools}
        asked = self._ask_each(Role.TABLE, "table", "table.setup", tables, now_s)
        return [declare, *(asked or self._set_up_brains({}, now_s))]

    def _set_up_brains(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        brains = {a.plan.name: self._setup.brain(a, self._models.first, self._static) for a in self._learning()}
        return self._ask_each(Role.BRAIN, "brain", "brain.setup", brains, now_s) or self._start_workers(now_s)

    def _pretrain(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        asked = {agent.plan.name: self._services.pretraining(agent.plan) for agent in self._learning()}
        given = {name: message for name, message in asked.items() if message is not None}
        return self._ask_each(Role.BRAIN, "pretrain", "brain.pretrain", given, now_s) or self._start_workers(now_s)

    def _pretrained(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        return [*self._tolerated(replies), *self._start_workers(now_s)]

    def _tolerated(self, replies: Mapping[tuple[Any, ...], Any]) -> list[Effect]:
        """Return the records of errors that brains have tolerated, in document order."""
        found = [replies[a.plan.name,] for a in self._agents if (a.plan.name,) in replies]
        return records_of_errors(found, self._phase.index, self._flow.position)

    def _start_workers(self, now_s: float) -> list[Effect]:
        """Start the workers; one after the other where brains learn, since muscles must join in a fixed order."""
        self.stage = Stage.RUNNING
        self._flow.begin([agent.plan.name for agent in self._agents])
        workers = [0] if self._learning() else range(self._phase.workers)
        return [self._start_worker(worker, now_s) for worker in workers]

    def _cast(self) -> Cast:
        settle = self._flow.settle
        return Cast(self._conditions, self._joined, self._agents, self._models.first, self._static, settle, self._used)

    def _start_worker(self, worker: int, now_s: float) -> Effect:
        verdict = self._flow.first_verdict(worker)
        message = self._setup.start(worker, self._cast(), verdict, self._flow.common)
        return self._ask_controller("start", worker, "controller.start", message, now_s)

    def _worker_started(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        following = max(replies)[0] + 1
        more = self._learning() and following < self._phase.workers
        return [self._start_worker(following, now_s)] if more else []

    # -- a phase runs -------------------------------------------------------------------------------------------------
    def _flow_on(self, effects: list[Effect], now_s: float) -> list[Effect]:
        """Add the effects of the flow's state: kept promises, the begin of an evaluation, the end of the phase."""
        effects = [*effects, *self._keep_promises(now_s)]
        if self._flow.ready_to_evaluate and self._evaluations.over:
            self._asked_s = now_s
            number, position = len(self._flow.tally.evaluations), self._flow.position
            return effects + self._evaluations.begin(number, position)
        if self._flow.active:
            return effects
        self.stage = Stage.MUSCLES_LEAVING
        return effects + self._shut_down_controllers("muscles", messages.ControllerShutdown(muscles=True), now_s)

    def _shut_down_controllers(self, word: str, message: messages.ControllerShutdown, now_s: float) -> list[Effect]:
        """Shut down the controllers of all workers that have been set up, evaluation workers included."""
        kinds = (False, True) if self._evaluations.begun else (False,)
        places = [(worker, evaluation) for evaluation in kinds for worker in range(self._phase.workers)]
        peers = {place: peer_name(self.run, Role.CONTROLLER, None, *place) for place in places}
        return [self._ask((word, *place), peer, "controller.shutdown", message, now_s) for place, peer in peers.items()]

    def _keep_promises(self, now_s: float) -> list[Effect]:
        stand: Stand = {}
        evaluating, held = False, False
        if self.stage is Stage.RUNNING:
            evaluating = bool(self._evaluations.active)
            room = self._workers(evaluating)
            stand = {worker: room.standing.get(worker) for worker in room.active}
            if self._phase.bodies is not None:  # each environment is in an episode of its own
                stand = {worker: None if at is None else (None, at[1]) for worker, at in stand.items()}
            held = self._flow.evaluating and not evaluating  # workers that wait for an evaluation are not paused
        kind = "evaluation worker" if evaluating else "worker"
        kept = self._promises.keep(stand, kind, now_s)
        paused = [] if held else [worker for worker, at in stand.items() if at is not None]
        told = {"workers": sorted(paused), "moving": len(paused) < len(stand)} if paused else {}
        if told == self._paused:
            return kept
        self._paused = told
        # This event precedes the answer, so that the caller reads the new state afterwards.
        return [Event("phase.paused" if paused else "phase.resumed", {"phase": self._phase.index, **told}), *kept]

    # -- an evaluation within a phase ---------------------------------------------------------------------------------
    def _evaluation_episode(self, token: Any, report: messages.EpisodeEnded, now_s: float) -> list[Effect]:
        self._asked_s = now_s
        effects = self._evaluations.episode(token, report)
        if self.stage is Stage.ENDED:
            return [effect for effect in effects if isinstance(effect, Answer)]
        if self.stage is not Stage.RUNNING:
            return [*effects, *self._after_cut(now_s)]
        return self._evaluation_on(effects, now_s)

    def _evaluation_answered(self, tag: tuple[Any, ...], reply: Any, now_s: float) -> list[Effect]:
        _, word, key = tag
        self._asked_s = now_s
        if word == "setup":
            assert isinstance(reply, messages.ControllerReady)
            found = self._evaluations.ready(key, reply, self._ready)
            if isinstance(found, str):
                return self.fail(messages.Failure("author", found), None, now_s)
            return self._evaluation_on(found, now_s)
        if word == "brain":
            assert isinstance(reply, messages.BrainEvaluated)
            return self._evaluation_on(self._evaluations.thought(key, reply), now_s)
        return self._evaluation_on([], now_s)

    def _ask_of_evaluation(self, tag: tuple[Any, ...], peer: str, call: str, message: Any) -> Effect:
        return self._ask(tag, peer, call, message, self._asked_s)

    def _evaluation_on(self, effects: list[Effect], now_s: float) -> list[Effect]:
        """Pass a finished evaluation to the phase, which then continues."""
        if not self._flow.evaluating or not self._evaluations.over:
            return [*effects, *self._keep_promises(now_s)]
        moment = self._evaluations.moment
        view, rows = self._evaluations.result(self._flow.tally.finished(), self._services.now())
        effects = [*effects, *rows, *self._flow.evaluated(view, moment)]
        return self._flow_on(effects, now_s)

    # -- a phase ends -------------------------------------------------------------------------------------------------
    def _store(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        self.stage = Stage.STORING
        wanted = storing(self._phase, self._agents, self._models.first)
        asked = {agent.plan.name: self._models.request(agent.plan) for agent in wanted}
        self._models.hand_on(agent.plan for agent in self._agents)
        return self._ask_each(Role.BRAIN, "store", "brain.store", asked, now_s) or self._close_phase(now_s)

    def _stored(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        stored = {a.plan.name: replies[a.plan.name,] for a in self._agents if (a.plan.name,) in replies}
        kept = self._models.keep(stored, self._flow.tally.episodes())
        return [*self._tolerated(replies), *kept, *self._close_phase(now_s)]

    def _close_phase(self, now_s: float) -> list[Effect]:
        self.stage = Stage.CLOSING
        effects = self._shut_down_controllers("close", messages.ControllerShutdown(environments=True), now_s)
        brains = {agent.plan.name: messages.Nothing() for agent in self._learning()}
        tables = {table.uid: messages.Nothing() for table in self._phase.pools}
        effects += self._ask_each(Role.TABLE, "close", "table.shutdown", tables, now_s)
        return effects + self._ask_each(Role.BRAIN, "close", "brain.shutdown", brains, now_s)

    def _closed(self, replies: Mapping[tuple[Any, ...], Any], now_s: float) -> list[Effect]:
        effects = self._end_phase("interrupted" if self._interrupted else "finished")
        following = self._phase.index + 1
        if self._interrupted or self._flow.shut_down or following >= len(self.plan.phases):
            return [*effects, *self._finish(now_s)]
        return [*effects, *self._enter(following, now_s)]

    def _end_phase(self, status: str) -> list[Effect]:
        phase = self._phase
        reason = status if status in ("interrupted", "failed") else self._flow.reason
        fields = {"phase": phase.index, "name": phase.name, "status": status, "reason": reason}
        record = Record(["phase", phase.index, phase.name, phase.mode, status, reason])
        second = [self._evaluations.phase_record(status)] if self._evaluations.begun else []
        return [record, *second, Event("phase.ended", fields)]

    def _finish(self, now_s: float) -> list[Effect]:
        open_phase = self.stage is not Stage.CLOSING and self.stage is not Stage.PLANNED
        self.stage = Stage.ENDED
        self.waits.clear()
        if self._failure is not None:
            finish = failed(*self._failure, self._stepped, self._faulty)
        elif self._interrupted:
            finish = Finish("interrupted", f"interrupted: {self._interrupted}", 130)
        else:
            finish = Finish("finished", "shutdown" if self._flow.shut_down else "completed", 0)
        phase = self._end_phase(finish.status) if open_phase else []
        return [*phase, Record(["end", finish.status, finish.reason, self._services.now()]), finish]

    # -- small questions ----------------------------------------------------------------------------------------------
    def _ask(self, tag: tuple[Any, ...], peer: str, call: str, message: Any, now_s: float) -> Ask:
        span_s = self._phase.deadline_s(call, self._places.get(peer))
        self._open.add(tag)
        self.waits.begin(tag, peer, f"{self._label(peer)} to answer {call}", now_s, None)
        return Ask(tag, peer, call, message, span_s)

    def _ask_controller(self, word: str, worker: int, call: str, message: Any, now_s: float) -> Ask:
        peer = peer_name(self.run, Role.CONTROLLER, None, worker)
        return self._ask((word, worker), peer, call, message, now_s)

    def _ask_each(self, role: Role, word: str, call: str, messages: Mapping[str, Any], now_s: float) -> list[Effect]:
        tags = {name: (word, name if role is Role.BRAIN else f"{role}/{name}") for name in messages}
        peers = {name: peer_name(self.run, role, name) for name in messages}
        return [self._ask(tags[name], peers[name], call, messages[name], now_s) for name in messages]

    def _learning(self) -> list[ResolvedAgent]:
        return [agent for agent in self._agents if agent.plan.brain is not None and self._phase.mode == "train"]

    def _all_joined(self) -> bool:
        return self.stage is Stage.JOINING and self.awaited() <= self._joined.keys()

    def _label(self, peer: str) -> str:
        return "the store" if peer == self.store else label(peer)
