"""Host of the governor: carries out its effects, and passes events to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ganglion.errors import (
    AuthorError,
    DeadlineExceeded,
    DocumentError,
    GanglionError,
    PluginInvalid,
    RemoteProtocolError,
    StoreError,
)
from ganglion.peer.agent.replay import Recordings, plays, recordings
from ganglion.peer.author import Hooks, Loader, failure_of, identity, show_failure
from ganglion.peer.host import Host
from ganglion.peer.journal.compaction import GovernorCompaction
from ganglion.peer.models import ModelStore
from ganglion.peer.participant import DEFERRED, Handler, Participant
from ganglion.peer.results.records import Ordinals, PhaseCheckpoints, Records, declaration_rows
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
    Stage,
    Steer,
)
from ganglion.run.governor import Governor
from ganglion.run.plan import AgentPlan, PhasePlan, Plan, span_s, widest
from ganglion.sdk.condition import TerminationCondition
from ganglion.sdk.flow import Mode, Signal
from ganglion.sdk.seed import words
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Answer as CallAnswer
from ganglion.wire.conversation import Notice, Request
from ganglion.wire.messages import (
    CALL_BY_NAME,
    BrainPretrain,
    Done,
    Ended,
    EpisodeEnded,
    FlowSignal,
    GovernorStart,
    Incident,
    Joined,
    Lost,
    RunEvent,
    RunRequest,
    Stands,
    Watch,
)
from ganglion.wire.name import topic
from ganglion.wire.verb import Verb

_SPAN_KERNEL_S = 30.0

Decide = Callable[..., Sequence[Effect]]  # of a governor, an event, and the time


class GovernorHost(Host):
    """Run one plan.

    Args:
        loader: Loads its conditions.
        results: The run's folder.
        store: URI of the store, where models of other runs are looked for; None if there is none.
        started: When the run began first, as UTC text; empty for now.
    """

    participant: Participant
    timed = True  # deadlines of interruptions are its own

    def __init__(self, loader: Loader, results: str, store: str | None = None, started: str = "") -> None:
        self._loader = loader
        self._results = results
        self._store_uri = store
        self._governor: Governor | None = None
        self._tags: dict[int, tuple[Any, ...]] = {}
        self._finish: Finish | None = None
        self._ended: Ended | None = None  # what the supervisor was told of the end
        self._store: str | None = None  # None too when its failure has been told
        self._unwritten: GanglionError | None = None  # why nothing more is written
        self._ordinals: Ordinals
        self._numbers: dict[str, int] = {}  # of the last signal to each controller
        self._said: dict[str, list[FlowSignal]] = {}  # controller -> signals of this phase
        self._started = started
        self._compaction_of_governor: GovernorCompaction | None = None  # of this phase, once its episodes run
        self._unindexed = False  # whether the index of models cannot be written

    def handlers(self) -> dict[str, Handler]:
        """Return what this host answers."""
        return {
            "governor.start": self.start,
            "governor.signal": self.signal,
            "governor.stop": self.stop,
            "governor.episode": self.episode,
            "governor.boundary": partial(self._take, Governor.boundary),
            "governor.stands": self.stands,
            "governor.rebuild": partial(self._take, Governor.rebuild),
            "governor.failed": partial(self._take, Governor.worker_failed),
            "governor.incident": self.incident,
        }

    # -- events -------------------------------------------------------------------------------------------------------
    def start(self, request: Request, start: GovernorStart) -> Done:
        """Begin the run."""
        if self._governor is not None:
            raise RemoteProtocolError("governor.start: this governor has a run already")
        plan = Plan.from_map(start.plan)
        deadlines_s = widest(phase.deadlines_s for phase in plan.phases)
        self.participant.patience_s = span_s("governor.boundary", deadlines_s)
        self._episode_span_s = span_s("governor.episode", deadlines_s)
        self._run = start.run
        self._models = ModelStore(plan, start.run, self._results, self._store_uri, self._warn)
        self._conditions: dict[str, TerminationCondition] = {}
        self._recordings = recordings(plan, start.run, self._results, self._store_uri, self._warn)
        services = _Services(int(plan.seed), self._loader, self._models, self._recordings, self._conditions)
        self._records = Records(self.participant, start.store)
        self._records.span_s = span_s("record", widest(phase.deadlines_s for phase in plan.phases))
        self._checkpoints = PhaseCheckpoints(Path(self._results))
        self._ordinals = Ordinals(max(phase.workers for phase in plan.phases), self.participant.incarnation)
        checkpoint = self._resume(start.resume)
        self._governor = Governor(start.run, plan, start.store, self._results, services)
        self.participant.on_answer = self._answered
        self._store = start.store
        self._drive(lambda governor, now_s: governor.begin(now_s, checkpoint, self._started))
        return Done()

    def _resume(self, resume: dict[str, Any] | None) -> PhaseCheckpoint | None:
        """Restore a checkpoint; RemoteProtocolError if it is none."""
        if resume is None:
            return None
        try:
            self._ordinals.restore(resume.get("signals", []))
            for row in resume.get("rows", []):
                self._models.take(row)
            used = [[bool(own), int(w), str(a), str(e), int(b)] for own, w, a, e, b in resume.get("used", ())]
            models = [[int(p), str(a), str(f)] for p, a, f in resume["models"]]
            return PhaseCheckpoint(int(resume["phase"]), models, used)
        except (KeyError, IndexError, StopIteration, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            raise RemoteProtocolError(f"governor.start: expected a checkpoint as `resume`, found {what}") from error

    def signal(self, request: Request, wish: FlowSignal) -> Any:
        """Take an operator's signal."""
        phase = None if wish.data is None else wish.data.get("phase")
        self._drive(Governor.signal, request, wish, phase)
        return DEFERRED

    def stop(self, request: Request, stop: RunRequest) -> Done:
        """Interrupt the run."""
        self._drive(Governor.stop, stop.now, stop.reason)
        return Done()

    def episode(self, request: Request, report: EpisodeEnded) -> Any:
        """Take the end of an episode."""
        with self._watched(self._episode_span_s):
            return self._take(Governor.episode, request, report)

    def stands(self, request: Request, report: Stands) -> Any:
        """Note that a worker is paused, unless a signal that continues it is on its way."""
        heeded, said = report.heeded, self._said.get(request.peer, [])
        if heeded is not None and any(s.number > heeded and s.signal != Signal.PAUSE.name for s in said):
            return Done()
        return self._take(Governor.stands, request, report)

    def _take(self, decide: Decide, request: Request, report: Any) -> Any:
        """Pass a worker's report to the governor, which replies when it has decided."""
        self._drive(decide, request, report)
        return DEFERRED

    def incident(self, request: Request, report: Incident) -> Done:
        """Pass on the end or restart of a process."""
        self._drive(Governor.incident, report)
        return Done()

    def told(self, told: Notice) -> None:
        """Take the names of peers that joined, and acknowledgements of the store."""
        if told.head.call == "kernel.joined" and self._governor is not None:
            joined = codec_of(Joined).decode(told.body)
            self._drive(Governor.joined, joined.peer, joined.content)
            for signal in self._said.get(joined.peer, []):  # a worker that has heard them knows by their numbers
                self.participant.tell(joined.peer, "", signal, Verb.SIGNAL)
            if joined.peer == self._store:
                self._records.again()
        elif self._governor is not None:
            self._records.heard(told)

    def gone(self, gone: Lost) -> None:
        """Note that a peer is lost."""
        if self._governor is not None:
            if not gone.returns:
                self._records.lost(gone.peer, gone.reason)
            self._drive(lambda governor, now_s: governor.lost(gone.peer, gone.reason, now_s, gone.returns))

    def reconnected(self) -> None:
        """Watch the peers of the phase again, since the broker or the connection is new.

        Peers that are present are then reported as joined, and receive the signals again.
        """
        if self._governor is not None:
            self.participant.ask_aside("", "kernel.watch", Watch(sorted(self._governor.awaited())))
            self._records.again()
        if self._ended is not None:  # the supervisor that heard it may be gone, and this be another one
            self.participant.ask_aside("", "kernel.ended", self._ended)

    def tick(self) -> None:
        """Look at the clock; finish when it is time."""
        if self._governor is None:
            return
        self._drive(Governor.tick)
        self._write(self._records.flush)
        self._look_after_store()
        self._keep_checkpoints()
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self._end(finish)
        elif self.participant.recorded and self.participant.calm:
            self._restore_or_compact(self._governor)

    def _restore_or_compact(self, governor: Governor) -> None:
        """Compact the journal within a phase, where that is due."""
        if governor.stage is not Stage.RUNNING or self._unwritten is not None:
            return
        if self._compaction_of_governor is None:
            parts = (governor, self._conditions, self._ordinals, self._records, self._models)
            self._compaction_of_governor = GovernorCompaction(self.participant, *parts)
        self._compaction_of_governor.restore_or_compact(self._numbers, self._said, self._go_on)

    def _go_on(self, numbers: Mapping[str, int], said: Mapping[str, list[FlowSignal]]) -> None:
        """Restore the signals that a predecessor has sent."""
        self._numbers, self._said = dict(numbers), dict(said)

    def _answered(self, answer: CallAnswer) -> None:
        tag = self._tags.pop(answer.pending.serial, None)
        if tag is None or self._governor is None:
            return
        try:
            if answer.error is not None:
                raise answer.error
            reply = codec_of(CALL_BY_NAME[answer.pending.call].reply).decode(answer.body)
        except GanglionError as error:
            failure = failure_of(error)
            self._drive(Governor.failed, tag, failure, (failure.data or {}).get("peer") or answer.pending.peer)
        else:
            self._drive(Governor.answered, tag, reply)

    # -- effects ------------------------------------------------------------------------------------------------------
    @contextmanager
    def _watched(self, span_s: float | None) -> Iterator[None]:
        """Let the watchdog end this process if the block takes longer than `span_s`; None: without bound.

        Controllers wait without a deadline of their own for a verdict that depends on other workers.
        """
        before_s, self.participant.patience_s = self.participant.patience_s, span_s
        try:
            yield
        finally:
            self.participant.patience_s = before_s

    def _drive(self, decide: Decide, *event: Any) -> None:
        """Carry out the effects of an event; a condition that fails ends the run by its name."""
        if self._governor is None:
            raise RemoteProtocolError("expected governor.start first")
        try:
            effects = decide(self._governor, *event, self.participant.journal_clock())
        except (AuthorError, PluginInvalid) as error:
            self._fail(error)
        else:
            self._carry_out(effects)
        self._look_after_store()

    def _fail(self, error: GanglionError, peer: str | None = None) -> None:
        """Fail the run by an error of this process, or of the named peer."""
        assert self._governor is not None
        self._carry_out(self._governor.fail(show_failure(error), peer, self.participant.journal_clock()))

    def _write(self, act: Callable[[], None]) -> None:
        """Call a function of the records, unless the store has failed before."""
        if self._unwritten is None:
            try:
                act()
            except (StoreError, DeadlineExceeded) as error:
                self._unwritten = error

    def _look_after_store(self) -> None:
        """End the run when its store has failed."""
        if self._unwritten is None or self._store is None:
            return
        store, self._store = self._store, None
        self._fail(self._unwritten, store)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        participant = self.participant
        for effect in effects:
            if isinstance(effect, Answer):
                self._write(self._records.flush)
                participant.reply(effect.token, effect.message)
            elif isinstance(effect, Ask):
                if effect.call == "controller.start":
                    # Its rows must not be there before what we declare, also where a lost store replays all.
                    self._write(self._records.drain)
                pending = participant.ask(effect.peer, effect.call, effect.message, effect.span_s)
                self._tags[pending.serial] = effect.tag
            elif isinstance(effect, Record):
                self._models.take(effect.record)
                self._write(partial(self._records.add, self._numbered(effect)))
            elif isinstance(effect, Event):
                if effect.name == "phase.started":
                    self._said.clear()  # controllers begin anew
                    self._compaction_of_governor = None
                self._tell(effect)
            elif isinstance(effect, Steer):
                participant.tell(effect.peer, "", self._kept(effect), Verb.SIGNAL)
            elif isinstance(effect, Await):
                participant.ask("", "kernel.watch", Watch(list(effect.peers)), _SPAN_KERNEL_S)
            elif isinstance(effect, Declare):
                self._declare(effect)
            elif isinstance(effect, PhaseCheckpoint):
                self._write(partial(self._checkpoint, effect))
            elif isinstance(effect, Recall):
                if not self._recall(effect.phase):
                    break  # the run has failed meanwhile
            else:
                self._finish = effect
        self._keep_index()

    def _recall(self, phase: PhasePlan) -> bool:
        """Fetch the recorded episodes of a phase for brains and environments; return whether the phase goes on."""
        governor = self._governor
        assert governor is not None
        stage = governor.stage
        self._write(self._records.drain)  # earlier phases of this run are to be read
        self._look_after_store()
        if governor.stage is not stage:
            return False
        try:
            with self._watched(None):  # reading recordings may take long
                governor.recalled(self._recordings.prepare(phase))
        except (DocumentError, StoreError) as error:
            self._carry_out(governor.unprepared(error, self.participant.journal_clock()))
            return False
        return True

    def _kept(self, steer: Steer) -> FlowSignal:
        """Return a signal with its number, and keep it for controllers that may have missed it."""
        number = self._numbers[steer.peer] = self._numbers.get(steer.peer, 0) + 1
        signal = replace(steer.signal, number=number)
        self._said.setdefault(steer.peer, []).append(signal)
        return signal

    def _numbered(self, effect: Record) -> list[Any]:
        """Return a record with its ordinal: equal signals may be sent twice, and each is a row."""
        record = effect.record
        if record[0] != "signal":
            return list(record)
        return [*record, self._ordinals.order() if effect.order else self._ordinals.number(record[2])]

    def _checkpoint(self, checkpoint: PhaseCheckpoint) -> None:
        """Take the checkpoint of a phase; it counts once all earlier rows are durable."""
        place = {"run": self._run, "phase": checkpoint.phase, "models": checkpoint.models}
        place |= {"used": checkpoint.used} if checkpoint.used else {}
        place |= {"signals": self._ordinals.note(), "rows": self._models.note()}
        self._checkpoints.take(self._records.mark(), place)

    def _keep_checkpoints(self) -> None:
        """Write the checkpoints that count; the run goes on with a warning if that fails."""
        try:
            self._checkpoints.settle(self._records.durable)
        except StoreError as error:
            self._warn(f"{error}; should all processes be lost, the run goes on from an earlier phase")

    def _keep_index(self) -> None:
        """Write the index of models; a failure ends the run, and is not retried."""
        if self._unindexed or self.participant.playing:  # what a predecessor has received is written at the next tick
            return
        try:
            self._models.flush()
        except StoreError as error:
            self._unindexed = True
            self._fail(error)

    def _warn(self, text: str) -> None:
        self._tell(Event("warning", {"text": text}))

    def _tell(self, event: Event) -> None:
        stamp_s = dt.datetime.now(dt.UTC).timestamp()
        self.participant.tell(topic(self._run, "events"), "event", RunEvent(event.name, event.fields, stamp_s))

    def _declare(self, declare: Declare) -> None:
        for kind, environment, agent, declarations in declare.rows:
            rows = declaration_rows(declarations)
            record = ["declare", declare.phase, environment, agent, kind, rows]
            size_bytes = 64 + sum(len(text) for _, text, *_ in rows)
            self._write(partial(self._records.add, record, size_bytes=size_bytes))

    def _end(self, finish: Finish) -> None:
        """Drain the records, then report the end to the supervisor; a store that fails now fails the run."""
        self._models.close()
        self._write(self._records.drain)
        if self._unwritten is not None and finish.failure is None:
            failure = show_failure(self._unwritten)
            finish = Finish("failed", f"failed: {failure.message}", 1, failure, self._store)
        fields: dict[str, Any] = {"status": finish.status, "reason": finish.reason, "exit_status": finish.exit_status}
        self._tell(Event("run.ended", {"run": self._run, **fields}))
        self._ended = Ended(self._run, **fields, failure=finish.failure, peer=finish.peer, heads=self._records.heads)
        self.participant.ask("", "kernel.ended", self._ended, _SPAN_KERNEL_S)


class _Services:
    """Seeds, conditions, models, recorded episodes and the wall clock of one run."""

    def __init__(
        self,
        seed: int,
        loader: Loader,
        models: ModelStore,
        recordings: Recordings,
        made: dict[str, TerminationCondition],
    ) -> None:
        self._seed, self._loader = seed, loader
        self._made = made  # the conditions of this phase
        self.model, self.second_folder = models.model, models.second_folder
        self.fit, self._recorded = recordings.fit, recordings.request
        self.plays = plays

    def words(self, path: Sequence[str | int]) -> bytes:
        """Return the words of a stream."""
        return words(self._seed, list(path))

    def integer(self, words: bytes) -> int:
        """Return a stream as an integer of 53 bits."""
        return int.from_bytes(words[:8], "little") >> 11

    def conditions(self, phase: PhasePlan) -> list[tuple[str, TerminationCondition, str]]:
        """Return fresh conditions."""
        found = []
        self._made.clear()
        hooks = Hooks(f"conditions of phase {phase.index}")
        plans = [(plan, "episode") for plan in phase.episode_conditions]
        plans += [(plan, "phase") for plan in phase.phase_conditions]
        for plan, place in plans:
            path = ["phase", phase.name, "condition", plan.name]
            attributes = {"name": plan.name, "mode": Mode(phase.mode), **identity(self.words(path))}
            plugin = {"name": plan.name, "params": plan.params}
            made = hooks("__init__", self._loader.make, "condition", plugin, attributes)
            # What the governor asks of it is blamed on it, like every hook.
            vars(made)["phase"] = partial(hooks, f"{type(made).__name__}.phase", made.phase)
            found.append((plan.name, made, place))
            self._made[f"{len(found)} ({plan.name})"] = made
        return found

    def pretraining(self, agent: AgentPlan) -> BrainPretrain | None:
        """Return the request for a brain to learn from recorded episodes."""
        return self._recorded(agent.name)

    def now(self) -> str:
        """Return the wall clock."""
        return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
