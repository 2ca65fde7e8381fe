"""Flow: a running phase: boundaries, ends of episodes, verdicts, signals, and the views of its conditions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, TypeAlias

from ganglion.errors import AuthorError
from ganglion.limits import PAUSE_ANSWER_S, WAIT_REPORT_S
from ganglion.run.effect import Answer, Effect, Event, Record, Stage, Steer
from ganglion.run.plan import PhasePlan, Process, listens
from ganglion.run.setup import Setup
from ganglion.sdk.condition import EpisodeMeans, EvaluationView, PhaseView, TerminationCondition, WorkerView
from ganglion.sdk.flow import Mode, Signal
from ganglion.sdk.topic import travelling
from ganglion.wire.messages import Boundary, EpisodeEnded, FlowSignal, Go, Signalled, Stands, Verdict
from ganglion.wire.name import Role, peer_name

_LONGEST_S = 60.0


class Stateful:
    """Save and restore the state of an object; what its constructor sets up is not part of the state.

    The state holds plain values and dataclasses. Attributes that are `Stateful` themselves are restored in place.
    """

    SET_UP: ClassVar[frozenset[str]] = frozenset()
    """Attributes outside the state: the successor's constructor sets these."""

    def state(self) -> dict[str, Any]:
        """Return the state. The caller must not change it: it shares the object's lists and maps."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name not in self.SET_UP:
                plain = list(value) if isinstance(value, set) else value
                found[name] = value.state() if isinstance(value, Stateful) else plain
        return found

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the attributes to the values of `state`."""
        for name, value in state.items():
            mine = getattr(self, name, None)
            if isinstance(mine, Stateful):
                mine.restore(value)
            else:
                setattr(self, name, set(value) if isinstance(mine, set) else value)


@dataclass(slots=True)
class _Wait:
    peer: str
    text: str
    since_s: float
    span_s: float | None
    next_s: float


class Waits(Stateful):
    """Record the waits of the run; report which are due for a message, or past their deadline."""

    def __init__(self) -> None:
        self._waits: dict[Hashable, _Wait] = {}

    def begin(self, key: Hashable, peer: str, text: str, now_s: float, span_s: float | None) -> None:
        """Begin a wait; `text` names process and event; `span_s` None: the deadline is elsewhere, or there is none."""
        self._waits[key] = _Wait(peer, text, now_s, span_s, now_s + WAIT_REPORT_S)

    def came(self, key: Hashable) -> None:
        """End a wait."""
        self._waits.pop(key, None)

    def clear(self) -> None:
        """End all waits."""
        self._waits.clear()

    def due(self, now_s: float) -> list[str]:
        """Return the texts that are due for a report; each one is due again after twice the time."""
        texts = []
        for wait in self._waits.values():
            if now_s >= wait.next_s:
                waited_s = now_s - wait.since_s
                wait.next_s = now_s + min(max(waited_s, WAIT_REPORT_S), _LONGEST_S)
                left = "" if wait.span_s is None else f"; gives up in {wait.span_s - waited_s:.1f} s"
                texts.append(f"waiting {waited_s:.1f} s for {wait.text}{left}")
        return texts

    def late(self, now_s: float) -> tuple[str, str] | None:
        """Return the peer and the text of a wait whose deadline has passed, or None."""
        for wait in self._waits.values():
            if wait.span_s is not None and now_s - wait.since_s >= wait.span_s:
                return wait.peer, f"waited {now_s - wait.since_s:.1f} s for {wait.text}"
        return None


def join_text(process: Process) -> str:
    """Return the text of a wait for a process to join."""
    if process.attached:
        return f"{process.label} to attach: start it with GANGLION_NAME={process.uid} or ganglion attach"
    return f"{process.label} to join"


Stand = Mapping[int, "tuple[int | None, int] | None"]
"""Worker -> episode (None in a phase with bodies) and step where it is paused, None while it moves."""


@dataclass(frozen=True, slots=True)
class _Promise:
    token: Any
    worker: int | None  # None: all workers
    until_s: float


class Promises(Stateful):
    """Hold the signals that are answered when the workers are paused."""

    def __init__(self) -> None:
        self._open: list[_Promise] = []

    def give(self, token: Any, worker: int | None, now_s: float) -> None:
        """Register a signal that is answered when this worker is paused, or with None when all are."""
        self._open.append(_Promise(token, worker, now_s + PAUSE_ANSWER_S))

    def keep(self, workers: Stand, kind: str, now_s: float) -> list[Effect]:
        """Answer signals whose workers are paused, or whose wait has expired; `kind` names the workers.

        Without workers the answer says that no worker can pause.
        """
        done: list[Effect] = []
        for promise in list(self._open):
            meant = {w: at for w, at in workers.items() if promise.worker in (None, w)}
            if all(at is not None for at in meant.values()) or now_s >= promise.until_s:
                self._open.remove(promise)
                lines = [_line(kind, worker, at) for worker, at in sorted(meant.items())]
                text = "\n".join(lines) if lines else "no worker runs any more"
                done.append(Answer(promise.token, Signalled(bool(lines), text)))
        return done


def _line(kind: str, worker: int, at: tuple[int | None, int] | None) -> str:
    if at is None:
        return f"{kind} {worker} has not reached its next step boundary within {PAUSE_ANSWER_S:g} s"
    return f"{kind} {worker} is paused after step {at[1]}" + ("" if at[0] is None else f" of episode {at[0]}")


_STARTING = (Stage.PLANNED, Stage.NEEDING, Stage.JOINING, Stage.SETTING_UP, Stage.BRAINS)


def refusal(wish: FlowSignal, wanted: str | None, phase: PhasePlan | Stage, workers: Sequence[int]) -> str:
    """Return why an order cannot be carried out, empty if it can.

    `wanted` is the name or index of the phase that the order names, None for any. `phase` is the running phase, or the
    stage of the run if there is none. `workers` are those of its workers that still run.
    """
    if wish.signal not in Signal.__members__:
        return f"unknown signal {wish.signal!r}; there are {', '.join(Signal.__members__)}"
    if isinstance(phase, Stage):
        return f"{'the phase is starting' if phase in _STARTING else 'no phase is running'}: {phase.value}"
    if wanted is not None and wanted not in (phase.name, str(phase.index)):
        return f"the running phase is {phase.index} ({phase.name})"
    if wish.worker is not None and wish.worker not in workers:
        return f"no worker {wish.worker} is running; there are {workers}"
    for entry in (wish.data or {}).get("topics", ()):
        why = _untold(phase, entry)
        if why:
            return why
    if wish.steps is not None and (wish.steps < 1 or wish.signal != Signal.CONTINUE.name):
        return f"steps: expected CONTINUE for at least one, found {wish.signal} for {wish.steps}"
    return ""


SET = "SET"
"""The name in records, in place of a signal, of an operator's message to participants."""


def _untold(phase: PhasePlan, entry: Any) -> str:
    """Return why no participant can receive this entry of a topic, empty if one can."""
    if type(entry) is not list or len(entry) != 4 or [*map(type, entry[:3])] != [str, str, str]:
        return f"topics: expected a list [uid, topic, key, value], found {entry!r:.80}"
    uid, topic, key, value = entry
    known = [environment.uid for environment in phase.environments] + [agent.name for agent in phase.agents]
    if uid not in known:
        text = f"there is no environment or agent {uid!r:.60} in phase {phase.index}"
        return f"{text}; expected one of {', '.join(known)}"
    if topic in ("stats", "log"):
        return f"topic {topic} is told by participants; expected parameters, engine, or a plugin's own"
    try:
        travelling(topic, key, value)
    except AuthorError as error:
        return str(error)
    return ""


def order_record(wish: FlowSignal, reason: str, phase: int, position: int = 0, inner: int = 0) -> Record:
    """Return the row of an order; `position` is its round, `inner` its step within an evaluation."""
    name = SET if wish.data is not None and "topics" in wish.data else wish.signal
    row = ["signal", phase, wish.worker, None, None, name, wish.issuer, reason]
    return Record([*row, wish.data, position, inner], order=True)


Issued: TypeAlias = tuple[int | None, Signal, str, str]
"""Worker, signal, issuer and reason of a condition's result."""


@dataclass(slots=True)
class Judgement:
    """Hold the results of the conditions: one signal for the phase, one for each worker, and the signals to record.

    A boundary may be judged twice: for its episodes, and after an evaluation. Of two equal signals the one of the
    condition that is first in the document counts. A repeated result of a condition is not issued again.
    """

    phase: Signal = Signal.CONTINUE
    reason: str = ""
    issuer: str = ""
    place: int = -1  # the number of the condition that gave the signal, -1 for all other issuers
    workers: dict[int, tuple[Signal, str, str]] = field(default_factory=dict)  # signal, issuer, reason
    issued: list[Issued] = field(default_factory=list)
    said: list[tuple[int | None, Signal, str, int]] = field(default_factory=list)  # worker, signal, issuer, place

    def say(self, worker: int | None, signal: Signal, issuer: str, reason: str, place: int = -1) -> None:
        """Add one result; the greatest signal wins, and the first result with that signal gives the reason."""
        if signal is Signal.CONTINUE or (worker, signal, issuer, place) in self.said:
            return
        self.said.append((worker, signal, issuer, place))
        self.issued.append((worker, signal, issuer, reason))
        if worker is not None and signal.effect.scope == "worker":
            if worker not in self.workers or signal > self.workers[worker][0]:
                self.workers[worker] = (signal, issuer, reason)
        elif (signal, -place) > (self.phase, -self.place):
            self.phase, self.issuer, self.reason, self.place = signal, issuer, reason, place


class Tally(Stateful):
    """Count a phase's episodes, each per worker."""

    SET_UP = frozenset({"_plan", "_conditions"})

    def __init__(self, phase: PhasePlan, conditions: Sequence[tuple[str, TerminationCondition]]) -> None:
        self._plan = phase
        self._conditions = [(name, c) for name, c in conditions if c.has_phase_part()]
        self._finished: list[list[EpisodeMeans]] = [[] for _ in range(phase.workers)]
        self.evaluations: list[EvaluationView] = []
        self._whole = 0  # episodes that ended and were not truncated by the end of the phase

    def count(self, worker: int, ended: Sequence[Mapping[str, Any]]) -> None:
        """Add finished episodes of a worker, in the form of `episodes_of`."""
        for one in ended:
            means = {name: a["mean"] for name, a in one["agents"].items() if a.get("mean") is not None}
            whose, cut = (one["environment"], one["body"] or ""), _is_cut(one)
            self._finished[worker].append(EpisodeMeans(one["episode"], one["steps"], means, cut, *whose))
            self._whole += not cut

    def episodes(self) -> int:
        """Return how many episodes have ended in all."""
        return sum(len(finished) for finished in self._finished)

    def finished(self) -> int:
        """Return how many episodes have ended and were not truncated by the end of the phase."""
        return self._whole

    def judge(self, reports: Mapping[int, EpisodeEnded], active: Collection[int], judgement: Judgement) -> None:
        """Evaluate the conditions at a boundary where these workers' episodes ended, or after an evaluation.

        `active` are the workers that take part. The results are added to `judgement`; its `issued` holds the new ones.
        """
        for worker, report in sorted(reports.items()):
            for cause in report.causes:
                signal = Signal[cause["signal"]]
                if signal.effect.stops and not cause.get("known"):
                    judgement.say(worker, signal, str(cause["issuer"]), str(cause["reason"]))
        judgement.issued.clear()  # these are recorded with their episodes
        if self._plan.bodies is None:
            fired = {worker: _fired(report) for worker, report in reports.items()}
            self._ask({worker: report.ended for worker, report in reports.items()}, active, judgement, fired)
            return
        closed = {worker: report.closed or () for worker, report in reports.items()}
        # All other ends are judged already. Without reports the cause is an evaluation.
        if not reports or not all(map(_is_cut, chain(*closed.values()))):
            self.judge_timelines(closed, active, judgement)

    def judge_timelines(
        self, ended: Mapping[int, Sequence[Mapping[str, Any]]], active: Collection[int], judgement: Judgement
    ) -> None:
        """Evaluate the conditions at a boundary where episodes of environments or bodies ended, by worker."""
        self._ask({worker: self._own(found) for worker, found in ended.items()}, active, judgement, {})

    def _own(self, ended: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return in document order the environments of which episodes, or those of bodies, ended by themselves."""
        found = {one["environment"] for one in ended if one["reason"] in ("terminated", "truncated: environment")}
        return [environment.uid for environment in self._plan.environments if environment.uid in found]

    def _ask(
        self,
        ended: Mapping[int, Sequence[str]],
        active: Collection[int],
        judgement: Judgement,
        fired: Mapping[int, Mapping[str, str]],
    ) -> None:
        """Evaluate the conditions and add the results; `ended` are environments of workers that ended by themselves."""
        workers = [
            WorkerView(worker, tuple(finished), worker in active, fired.get(worker, {}), tuple(ended.get(worker, ())))
            for worker, finished in enumerate(self._finished)
        ]
        plan, own = self._plan, {*chain(*ended.values())}
        whole = {environment.uid: environment.uid in own for environment in plan.environments}
        asked, evaluations = tuple(sorted(ended)), tuple(self.evaluations)
        view = PhaseView(Mode(plan.mode), workers, asked, whole, evaluations, plan.episodes)
        for place, (name, condition) in enumerate(self._conditions):
            result = condition.phase(view)
            word = condition.issuer or name
            for who, signal in sorted(result.items()) if isinstance(result, Mapping) else [(None, result)]:
                judgement.say(who, Signal(signal), f"condition:{word}", condition.reason or word, place)


def episodes_of(report: EpisodeEnded) -> list[dict[str, Any]]:
    """Return the episodes that a worker's report ends: its own, or those of environments or bodies."""
    if report.closed is not None:
        return report.closed
    names = ("episode", "steps", "terminated", "truncated", "reason", "agents")
    return [{"environment": "", "body": None, **{name: getattr(report, name) for name in names}}]


def _is_cut(ended: Mapping[str, Any]) -> bool:
    """Say whether an episode of an environment, or of a body, was truncated by the end of the phase."""
    return bool(ended["reason"] == f"truncated: {_PHASE_END}")


def _fired(report: EpisodeEnded) -> dict[str, str]:
    said = [(*str(cause["issuer"]).partition(":")[::2], str(cause["reason"])) for cause in reversed(report.causes)]
    return {name: reason for kind, name, reason in said if kind == "condition"}  # the first reason of each


_PHASE_END = "phase end"


class Flow(Stateful):
    """Decide about the workers of one phase.

    Without a common boundary a worker is judged when its episode ends. With a common boundary all active workers wait
    after each round. The workers whose episodes end there end them one by one in worker order; then all verdicts are
    given; then the next round begins. The order of arrival changes nothing. A worker whose episode was lost counts as
    being at the boundary.

    If an evaluation is due (`evaluating`), the verdicts of the boundary are held until its result arrives
    (`evaluated`); all other workers wait.
    """

    SET_UP = frozenset({"run", "phase", "common", "settle", "_seeds", "_agents"})

    def __init__(
        self, run: str, phase: PhasePlan, conditions: Sequence[tuple[str, TerminationCondition, str]], seeds: Setup
    ) -> None:
        self.run, self.phase = run, phase
        self.tally = Tally(phase, [(name, c) for name, c, place in conditions if place == "phase"])
        self.common = _wants_common(phase, conditions)
        self.settle = any("objectives" in c.reads for _, c, _ in conditions)
        if phase.bodies is not None:
            self.settle = listens(phase, conditions)
        self.active: set[int] = set()
        self.round = 0
        self.reason = ""
        self.shut_down = False
        self.evaluating = False  # whether an evaluation is due or runs
        self.standing: dict[int, tuple[int, int]] = {}  # paused by PAUSE: worker -> episode and step
        self._judged = Judgement()  # of the boundary whose verdicts wait for an evaluation or ends of bodies
        self._halted: set[int] = set()  # workers that wait while the evaluation runs
        self._due = 0  # evaluations due so far, including those that coincided
        self._left: int | None = None  # boundaries left before the next PAUSE
        self._seeds = seeds
        self._agents: list[str] = []
        self._stopping = False
        self._draining = False
        self._paused = False
        self._resumed = False  # an operator has lifted the PAUSE that workers ask for at this boundary
        self._wished: list[FlowSignal] = []
        self._stood: dict[int, tuple[Any, Boundary]] = {}
        self._told = False  # whether the first worker of the queue is ending its episode
        self._open = False  # whether a round of a phase with bodies is judged but not yet carried out
        self._queue: list[tuple[int, Go]] = []
        self._mild: dict[int, Go] = {}  # workers of a phase with bodies that continue with new episodes
        self._errands: list[tuple[int, Go]] = []  # such workers that rebuild their environments, one after the other
        self._errand_given = False
        self._ended: dict[int, tuple[Any, EpisodeEnded]] = {}
        self._counted: set[int] = set()
        self._last_round: dict[int, int] = {}
        self._held: list[tuple[int | None, str, str]] = []  # worker, issuer, reason

    def begin(self, agents: Sequence[str]) -> None:
        """Make all workers active."""
        self.active = set(range(self.phase.workers))
        self._agents = list(agents)

    def first_verdict(self, worker: int) -> Verdict:
        """Return the first verdict of a worker."""
        participants = {name: sorted(self.active) for name in self._agents} if self.common else None
        return self._go_on(worker, 0, participants)

    # -- events -------------------------------------------------------------------------------------------------------
    def episode(self, token: Any, report: EpisodeEnded) -> list[Effect]:
        """Record the end of an episode."""
        effects = self.sealed(report)
        self._last_round[report.worker] = report.round
        self._ended[report.worker] = (token, report)
        if self.evaluating:  # handled when the evaluation is over
            return effects
        if not self.common:
            return effects + self._judge()
        if report.lost and not self._told:
            return effects + self._gathered()
        return effects + self._next_in_queue()

    def boundary(self, token: Any, report: Boundary) -> list[Effect]:
        """Record a worker's arrival at the common boundary, or the ends of episodes if there is no common one."""
        if not self.common:
            return [Answer(token, Go()), *self._take_ends(report)]
        self._stood[report.worker] = (token, report)
        return self._gathered()

    def _gathered(self) -> list[Effect]:
        """Decide about a round if all workers are at the boundary, or have lost their episodes in it."""
        if not self._stood.keys() | self._ended.keys() >= self.active:
            return []
        if tells := self._tells() or self._next_errand():
            return tells
        again, self._errand_given = self._errand_given, False  # whether workers have returned from a rebuild
        if self._left is not None and not again:
            self._left -= 1
            if self._left <= 0:
                self._paused, self._left = True, None
        return self._round()

    def _tells(self) -> list[Effect]:
        """Let workers report ended bodies to brains, all together, before they wait."""
        telling = {worker: report.telling for worker, (_, report) in sorted(self._stood.items()) if report.telling}
        participants = self._participants(telling)
        return [Answer(self._stood.pop(worker)[0], Go(participants=participants)) for worker in telling]

    def _next_errand(self) -> list[Effect]:
        """Let the next worker rebuild its environments; it returns to the boundary afterwards."""
        while self._errands:
            worker, go = self._errands.pop(0)
            if worker in self._stood:
                self._errand_given = True
                return [Answer(self._stood.pop(worker)[0], go)]
        return []

    def stands(self, report: Stands) -> None:
        """Record that a worker is paused, in a phase without a common boundary."""
        if report.worker in self.active:
            self.standing[report.worker] = (report.episode, report.steps)

    @property
    def paused(self) -> bool:
        """Say whether workers are paused, or about to be."""
        return self._paused or bool(self.standing)

    def steer(self, wish: FlowSignal) -> list[Effect]:
        """Carry out an operator's signal."""
        signal = Signal[wish.signal]
        if signal.effect.scope != "worker":
            self._stop_phase(signal, f"operator: {wish.reason}" if wish.reason else "operator")
        self._paused = signal is Signal.PAUSE
        self._resumed = not self._paused
        self._left = wish.steps if signal is Signal.CONTINUE else None
        if self.evaluating and signal is Signal.CONTINUE and not self.common:
            return []  # the workers continue after the evaluation, which begins when all are at the boundary
        if not self._paused:
            gone = self.standing if wish.worker is None or self.common else {wish.worker}
            self.standing = {worker: at for worker, at in self.standing.items() if worker not in gone}
        if not self.common:
            workers = self.active if wish.worker is None or signal.effect.scope != "worker" else {wish.worker}
            return [self._steer(worker, wish) for worker in sorted(workers)]
        if signal.effect.ends_episode:
            self._wished.append(wish)
        here = self._stood.keys() | self._ended.keys() >= self.active
        standing = here and not self._queue and not self._told and not self.evaluating
        return self._round() if standing else []

    def tell(self, wish: FlowSignal) -> list[Effect]:
        """Send an operator's topic entries to the workers, for their next boundaries; paused workers stay paused."""
        workers = self.active if wish.worker is None else {wish.worker}
        return [self._steer(worker, wish) for worker in sorted(workers)]

    def interrupt(self, now: bool) -> list[Effect]:
        """End the phase for good: after the running episodes, or at the next boundary."""
        self._draining = True
        self.reason = self.reason or "interrupted"
        now = now or self.phase.bodies is not None  # timelines do not end together, so the wait is for a tick
        if not now:
            return self.steer(FlowSignal(Signal.CONTINUE.name, "interrupted")) if self._paused else []
        wish = FlowSignal(Signal.SHUTDOWN.name, "interrupted")
        return self.steer(wish) if self.common else [self._steer(w, wish) for w in sorted(self.active)]

    def abort(self) -> list[Effect]:
        """Make every worker close its episode because the run has failed."""
        self._stopping = True
        self.reason = "failed"
        go, verdict = Go(Signal.SHUTDOWN.name, "failed"), self.stop_verdict("failed")
        effects: list[Effect] = [Answer(token, go) for token, _ in self._stood.values()]
        effects += [Answer(token, verdict) for token, _ in self._ended.values()]
        self.active -= self._ended.keys()
        self._stood, self._ended, self._queue = {}, {}, []
        self.evaluating = False
        wish = FlowSignal(Signal.SHUTDOWN.name, "failed")
        return [*effects, *(self._steer(worker, wish) for worker in sorted(self.active))]

    def gone(self, worker: int) -> None:
        """Remove a worker that cannot continue."""
        self.active.discard(worker)
        self._stood.pop(worker, None)
        self._ended.pop(worker, None)
        self.standing.pop(worker, None)

    def sealed(self, report: EpisodeEnded) -> list[Effect]:
        """Return records and events of an ended episode."""
        if self._stopping_failed():
            self.active.discard(report.worker)
        return episode_ended(self.phase, report, (report.round, 0))

    def stop_verdict(self, reason: str) -> Verdict:
        """Return the verdict that ends a worker's part."""
        signal = Signal.SHUTDOWN if self.shut_down else Signal.STOP_PHASE
        return Verdict(signal.name, reason)

    # -- a common round -----------------------------------------------------------------------------------------------
    def _round(self) -> list[Effect]:
        """Decide about a round when all workers are at the boundary."""
        if not self._resumed and any(_asks_for_pause(report) for _, report in self._stood.values()):
            self._paused = True
        if self._paused:
            here: dict[int, Any] = {w: report for w, (_, report) in self._ended.items()}
            here |= {w: report for w, (_, report) in self._stood.items()}
            self.standing = {w: (report.episode, report.steps) for w, report in here.items()}
            return []
        self._resumed = False
        self.standing = {}
        judged = self._judged = Judgement()
        if self.phase.bodies is None:
            return self._end_round(judged)
        self._open = True
        return [*self._judge_timelines(judged), *self._hold_or_conclude(judged)]

    def _end_round(self, judged: Judgement) -> list[Effect]:
        """Let workers end or continue, by the operator's signals and the results of the conditions."""
        stop = self._greatest_stop() or self._stop_of(judged)
        mild = [w for w in self._wished if Signal[w.signal].effect.scope == "worker"]
        wished = {w.worker: w for w in sorted(mild, key=lambda w: Signal[w.signal])}  # the greatest wins
        self._wished = []
        self._queue, self._mild = [], {}
        for worker, (_, report) in sorted(self._stood.items()):
            wish = wished.get(worker, wished.get(None))
            go = stop or (None if wish is None else Go(wish.signal, wish.issuer, wish.reason))
            signal, issuer, reason = judged.workers.get(worker, (Signal.CONTINUE, "", ""))
            if go is None and signal.effect.ends_episode:
                go = Go(signal.name, _PHASE_END if signal.effect.stops else issuer, reason)
            if go is not None and self.phase.bodies is not None and not Signal[go.signal].effect.stops:
                self._mild[worker], go = go, None  # the worker continues with new episodes
            if go is not None or report.ending:
                self._queue.append((worker, go or Go()))
        if not self._queue and any(Signal[go.signal].effect.rebuilds for go in self._mild.values()):
            self._errands, self._mild = sorted(self._mild.items()), {}
            return self._next_errand()
        return self._next_in_queue() if self._queue or self._ended else self._release()

    def _take_ends(self, report: Boundary) -> list[Effect]:
        """Judge ended episodes of a worker without a common boundary; results of conditions reach the worker later."""
        ended = {report.worker: report.ended or ()}
        self.tally.count(report.worker, ended[report.worker])
        self._last_round[report.worker] = report.round
        if self._stopping:
            return []
        judged = self._judged  # a signal that stops a worker is issued once per phase
        judged.issued.clear()
        self.tally.judge_timelines(ended, self.active, judged)
        issued = [one for one in judged.issued if one[0] is None or one[0] in self.active]
        judged.said = [one for one in judged.said if one[1].effect.stops]
        judged.workers = {w: one for w, one in judged.workers.items() if one[0].effect.stops}
        effects = self._records(issued, report.round)
        effects += [
            self._steer(worker, FlowSignal(signal.name, _PHASE_END if signal.effect.stops else issuer, reason))
            for worker, signal, issuer, reason in issued
            if worker is not None and signal.effect.ends_episode
        ]
        return effects if self.evaluating else effects + self._hold_or_conclude(judged)

    def _judge_timelines(self, judgement: Judgement) -> list[Effect]:
        """Count the episodes that ended in this round within the workers' parts, and evaluate the conditions."""
        reports = {w: report for w, (_, report) in sorted(self._stood.items()) if report.ended}
        ended = {w: report.ended or () for w, report in reports.items()}
        for worker, found in ended.items():
            self.tally.count(worker, found)
        if not ended or self._stopping:
            return []
        self.tally.judge_timelines(ended, self.active, judgement)
        return self._records(judgement.issued, max(report.round for report in reports.values()))

    def _stop_of(self, judged: Judgement) -> Go | None:
        """Return the order that ends the whole phase by the conditions' results of a round, None if there is none."""
        if judged.phase.effect.scope == "worker":
            return None
        self._stop_phase(judged.phase, _phase_reason(judged.issuer, judged.reason))
        return Go(judged.phase.name, _PHASE_END)

    def _greatest_stop(self) -> Go | None:
        """Return the order that ends the whole phase at this boundary, None if there is none."""
        for wish in self._wished:
            if Signal[wish.signal].effect.scope != "worker":
                return Go(wish.signal, wish.issuer, wish.reason)
        found: Signal | None = None
        for _, (_, report) in sorted(self._stood.items()):
            for cause in report.causes:
                signal = Signal[cause["signal"]]
                if signal.effect.scope != "worker" and (found is None or signal > found):
                    self._stop_phase(signal, _phase_reason(str(cause["issuer"]), str(cause["reason"])))
                    found = signal
        return None if found is None else Go(found.name, _PHASE_END)

    def _next_in_queue(self) -> list[Effect]:
        """Let the next worker end its episode; after the last one give the verdicts."""
        self._told = bool(self._queue)
        if self._queue:
            worker, go = self._queue.pop(0)
            token, _ = self._stood.pop(worker)
            return [Answer(token, go)]
        return self._judge()

    def _release(self) -> list[Effect]:
        """Let all waiting workers continue."""
        participants = self._participants({w: report.next for w, (_, report) in self._stood.items()})
        self.round += 1
        return self._go_all(participants)

    def _go_all(self, participants: dict[str, list[int]] | None) -> list[Effect]:
        effects: list[Effect] = []
        for worker, (token, _) in sorted(self._stood.items()):
            mild = self._mild.get(worker, Go())
            effects.append(Answer(token, replace(mild, round=self.round, participants=participants)))
        self._stood, self._mild = {}, {}
        return effects

    def _participants(self, following: dict[int, list[str]]) -> dict[str, list[int]]:
        return {name: [worker for worker in sorted(following) if name in following[worker]] for name in self._agents}

    # -- verdicts -----------------------------------------------------------------------------------------------------
    def _judge(self) -> list[Effect]:
        """Count the ended episodes, evaluate the conditions, give the verdicts or hold them for an evaluation."""
        fresh = self._count()
        effects: list[Effect] = []
        judgement = Judgement() if self.phase.bodies is None else self._judged
        if fresh and not self._stopping:
            self.tally.judge(fresh, self.active, judgement)
            effects += self._record_judgement(judgement, fresh)
        return effects + self._hold_or_conclude(judgement)

    def _count(self) -> dict[int, EpisodeEnded]:
        """Add the episodes that ended since the last call to the tally; return them by worker.

        Lost episodes are not counted.
        """
        ended = {w: report for w, (_, report) in sorted(self._ended.items()) if not report.lost}
        fresh = {worker: report for worker, report in ended.items() if worker not in self._counted}
        for worker, report in fresh.items():
            self.tally.count(worker, episodes_of(report))
            self._counted.add(worker)
        return fresh

    def _hold_or_conclude(self, judgement: Judgement) -> list[Effect]:
        if not self._is_due(judgement):
            return self._conclude(judgement)
        self.evaluating, self._judged = True, judgement
        effects: list[Effect] = [self._record_pause(Signal.PAUSE)]
        if not self.common:
            wish = FlowSignal(Signal.PAUSE.name, "governor", self._evaluation_name())
            self._halted = self.active - self._ended.keys()
            effects += [self._steer(worker, wish) for worker in sorted(self._halted)]
        return effects

    def _is_due(self, judgement: Judgement) -> bool:
        """Say whether an evaluation is due: the finished episodes of all workers have passed a multiple."""
        shut_down = self.shut_down or judgement.phase is Signal.SHUTDOWN
        if self.phase.evaluate_every is None or not self.phase.evaluates or shut_down:
            return False
        if self._draining or self._stopping_failed():
            return False
        before, self._due = self._due, self.tally.finished() // self.phase.evaluate_every
        return self._due > before

    @property
    def ready_to_evaluate(self) -> bool:
        """Say whether an evaluation is due and every worker is at the boundary."""
        others = self.active - self._ended.keys()
        return self.evaluating and (self.common or others <= self.standing.keys())

    def evaluated(self, view: EvaluationView | None, moment: int) -> list[Effect]:
        """Record the result of an evaluation, None if it was cancelled; then give the verdicts.

        `moment` is the number of its steps: new records are ordered after the records of the evaluation.
        """
        self.evaluating = False
        effects: list[Effect] = [] if view is None else [self._record_pause(Signal.CONTINUE, moment)]
        judgement = self._judged
        fresh = self._count()  # episodes of workers that ended on their way to the boundary
        if view is not None:
            self.tally.evaluations.append(view)
        if view is not None and not self._stopping:
            self.tally.judge({}, self.active, judgement)
            effects += self._record_judgement(judgement, {}, moment + 1)
        if fresh and not self._stopping:
            self.tally.judge(fresh, self.active, judgement)
            effects += self._record_judgement(judgement, fresh, moment + 1)
        if not self.common and not self._paused:
            wish = FlowSignal(Signal.CONTINUE.name, "governor")
            effects += [self._steer(worker, wish) for worker in sorted(self._halted & self.active)]
            self.standing.clear()
        return effects + self._hold_or_conclude(judgement)

    def _evaluation_name(self) -> str:
        return f"evaluation {len(self.tally.evaluations)}"

    def _conclude(self, judgement: Judgement) -> list[Effect]:
        """Carry out the results of a boundary."""
        if self._open:
            self._open = False
            return self._end_round(judgement)
        effects: list[Effect] = []
        if judgement.phase.effect.scope != "worker" and not self._stopping:
            self._stop_phase(judgement.phase, _phase_reason(judgement.issuer, judgement.reason))
            effects += self._end_others(judgement.phase)
        elif self._stopping and self._stood:  # an operator has stopped the phase during an evaluation
            stop = self._greatest_stop() or Go(Signal.STOP_PHASE.name, _PHASE_END)
            self._queue = [(worker, stop) for worker in sorted(self._stood)]
            self._wished = []
        if self._queue:
            return effects + self._next_in_queue()
        return effects + self._verdicts(judgement)

    def _end_others(self, signal: Signal) -> list[Effect]:
        """End the episodes of the workers that are in mid-episode, because the phase ends."""
        if self.common:
            self._queue = [(worker, Go(signal.name, _PHASE_END)) for worker in sorted(self._stood)]
            return []
        wish = FlowSignal(signal.name, _PHASE_END)
        return [self._steer(worker, wish) for worker in sorted(self.active - self._ended.keys())]

    def _verdicts(self, judgement: Judgement) -> list[Effect]:
        following = {w: report.next for w, (_, report) in self._stood.items()}
        going: dict[int, tuple[Any, EpisodeEnded, Signal]] = {}
        effects: list[Effect] = []
        for worker, (token, report) in sorted(self._ended.items()):
            signal, reason = self._signal_for(worker, report, judgement)
            if signal.effect.stops:
                self.active.discard(worker)
                effects.append(Answer(token, Verdict(signal.name, reason)))
                if not self.active:  # the last worker ends the phase and gives its reason
                    self.reason = self.reason or reason
            else:
                going[worker] = (token, report, signal)
                following[worker] = report.next
        participants = self._participants(following) if self.common else None
        self.round += 1
        for worker, (token, report, signal) in going.items():
            verdict = self._go_on(worker, report.episode + 1, participants, signal)
            effects.append(Answer(token, verdict))
        effects += self._go_all(participants)
        self._ended = {}
        self._counted.clear()
        return effects + self._record_held()

    def _record_held(self) -> list[Effect]:
        """Record the ends of independent workers as if they had waited for each other.

        The faster worker must not show: workers that ended in the last round ended with the phase.
        """
        if self.active or not self._held:
            return []
        last = max(self._last_round.values())
        _, issuer, reason = self._held[-1]
        held, self._held = self._held, []
        rows: list[tuple[int | None, Signal, int]] = [
            (worker, Signal.STOP_SIMULATION, round_)
            for worker, round_ in sorted(self._last_round.items(), key=lambda pair: (pair[1], pair[0]))
            if round_ < last and any(w in (worker, None) for w, _, _ in held)
        ]
        rows.append((None, Signal.STOP_PHASE, last))
        return [self._record_signal(worker, signal, issuer, reason, at) for worker, signal, at in rows]

    def _signal_for(self, worker: int, report: EpisodeEnded, judgement: Judgement) -> tuple[Signal, str]:
        """Return the signal after an episode, and the reason if the worker stops."""
        if self._stopping or self._draining:
            return (Signal.SHUTDOWN if self.shut_down else Signal.STOP_PHASE), self.reason
        said = [c for c in report.causes if c["issuer"] != _PHASE_END]
        wishes = [(Signal[c["signal"]], str(c["issuer"]), str(c["reason"])) for c in said]
        if worker in judgement.workers:
            wishes.append(judgement.workers[worker])
        signal, issuer, reason = max(wishes, key=lambda wish: wish[0], default=(Signal.RESET, "", ""))
        least = Signal.RESTART if report.lost else Signal.RESET
        return max(least, signal), _phase_reason(issuer, reason)

    def _go_on(
        self, worker: int, episode: int, participants: dict[str, list[int]] | None, signal: Signal = Signal.RESET
    ) -> Verdict:
        seeds = self._seeds.episode_seeds(worker, episode)
        return Verdict(signal.name, "", episode, seeds, self.round, participants)

    def _stop_phase(self, signal: Signal, reason: str) -> None:
        self._stopping = True
        self.shut_down |= signal is Signal.SHUTDOWN
        self.reason = self.reason or reason

    def _stopping_failed(self) -> bool:
        return self._stopping and self.reason == "failed"

    # -- records ------------------------------------------------------------------------------------------------------
    def _record_judgement(self, judgement: Judgement, reports: dict[int, EpisodeEnded], inner: int = 0) -> list[Effect]:
        if not self.common and self.phase.workers > 1 and self.phase.sync != "async":
            self._held += [(worker, issuer, reason) for worker, _, issuer, reason in judgement.issued]
            return []
        position = max((report.round for report in reports.values()), default=self.position)
        return self._records(judgement.issued, position, inner)

    @property
    def position(self) -> int:
        """Return the round of new rows: the last one in which an episode ended, or the common one."""
        return max([*self._last_round.values(), self.round if self.common else 0])

    def _records(self, issued: Iterable[Issued], position: int, inner: int = 0) -> list[Effect]:
        return [self._record_signal(*one, position, inner) for one in issued]

    def _record_pause(self, signal: Signal, inner: int = 0) -> Record:
        return self._record_signal(None, signal, "governor", self._evaluation_name(), self.position, inner)

    def _record_signal(
        self, worker: int | None, signal: Signal, issuer: str, reason: str, position: int, inner: int = 0
    ) -> Record:
        row = ["signal", self.phase.index, worker, None, None, signal.name, issuer, reason]
        return Record([*row, None, position, inner])

    def _steer(self, worker: int, wish: FlowSignal) -> Steer:
        return Steer(peer_name(self.run, Role.CONTROLLER, None, worker), wish)


def episode_ended(
    phase: PhasePlan, report: EpisodeEnded, moment: tuple[int, int], mode: str | None = None
) -> list[Effect]:
    """Return the records of the signals that ended an episode, and its event; `mode` if it differs from the phase's.

    `moment` is the position of the records: the round, and the steps of an evaluation within it.
    """
    data = None if mode is None else {"mode": mode}
    records: list[Effect] = []
    for cause in report.causes:
        if not cause.get("known"):
            steps = cause.get("steps", report.steps)
            row = [report.worker, report.episode, steps, cause["signal"], cause["issuer"]]
            records.append(Record(["signal", phase.index, *row, str(cause["reason"]), data, *moment]))
    if report.closed is not None:  # the controller reports these episodes itself
        return records
    fields = {
        "phase": phase.index,
        **(data or {}),
        "worker": report.worker,
        "episode": report.episode,
        "steps": report.steps,
        "returns": {name: agent["sum"] for name, agent in report.agents.items()},
        "reason": report.reason,
    }
    return [*records, Event("episode.ended", fields)]


def _wants_common(phase: PhasePlan, conditions: Sequence[tuple[str, TerminationCondition, str]]) -> bool:
    """Say whether the outcome could depend on which worker is faster, so that all must wait after each round."""
    if phase.free:
        return False
    if phase.bodies is not None and listens(phase, conditions):
        return True  # conditions that count episodes need a common boundary
    if phase.workers == 1 or phase.sync == "async":
        return False
    if phase.evaluates:
        return True
    if phase.mode == "train" and any(agent.brain is not None for agent in phase.agents):
        return True
    return not all(place in condition.local for _, condition, place in conditions)


def _asks_for_pause(report: Boundary) -> bool:
    """Say whether a worker asks for PAUSE here, and for nothing greater."""
    return max((Signal[cause["signal"]] for cause in report.causes), default=Signal.CONTINUE) is Signal.PAUSE


def _phase_reason(issuer: str, reason: str) -> str:
    """Return a phase's reason in the terms of the results."""
    kind, _, name = issuer.partition(":")
    if kind == "condition":
        return reason or name
    if issuer == "controller" and reason == "budget":
        return reason
    return kind if not reason else f"{kind}: {reason}"
