"""A farm: the governor with scripted workers, brains and supervisor in plain Python, and any order of arrival."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ganglion.errors import DocumentError
from ganglion.run.agents import ResolvedAgent
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
    Steer,
)
from ganglion.run.governor import Governor
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk.condition import PhaseView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import (
    Boundary,
    BrainEvaluated,
    BrainPretrain,
    BrainPretrained,
    BrainStored,
    ControllerReady,
    Done,
    EpisodeEnded,
    FlowSignal,
    Go,
    Stands,
    Verdict,
)

DISCRETE = {"type": "discrete", "n": 3, "start": 0}


def agent(name: str = "ada", brain: str | None = None, **more: Any) -> AgentPlan:
    """Return an agent that sees and moves the environment `hill`."""
    ids = {"sensors": ["hill.0"], "actuators": ["hill.0"], **more}
    plugin = None if brain is None else PluginPlan(brain)
    return AgentPlan(name, PluginPlan("dummy"), plugin, PluginPlan("dummy"), **ids)


def phase(index: int = 0, **more: Any) -> PhasePlan:
    """Return a phase with one environment and one agent that does not learn."""
    given = {
        "environments": [EnvironmentPlan("hill", PluginPlan("dummy"))],
        "agents": [agent()],
        "controller": PluginPlan("vanilla"),
        "episode_conditions": [],
        "phase_conditions": [],
        "mode": "test",
        **more,
    }
    return PhasePlan(index, f"phase {index}", **given)


def plan(*phases: PhasePlan) -> Plan:
    """Return a run of these phases."""
    return Plan("farm", "farms", "42", list(phases))


class FakeLimit(TerminationCondition):
    """Count episodes, as `max_episodes` is specified; recorded under that name."""

    local = frozenset({"phase"})
    issuer = reason = "max_episodes"

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        """Stop the workers that have enough episodes, and the phase when all have."""
        enough = [worker.worker for worker in view.workers if len(worker.finished) >= self.episodes]
        if len(enough) == len(view.workers):
            return Signal.STOP_PHASE
        return {worker: Signal.STOP_SIMULATION for worker in view.asked if worker in enough}


class FakeTotal(TerminationCondition):
    """Stop the phase after so many episodes of all workers together: not a matter of one worker."""

    def __init__(self, episodes: int, signal: Signal = Signal.STOP_PHASE) -> None:
        self.episodes, self.signal = episodes, signal
        self.reason = f"total: {episodes} episodes"

    def phase(self, view: PhaseView) -> Signal:
        ended = sum(not e.cut for worker in view.workers for e in worker.finished)
        return self.signal if ended >= self.episodes else Signal.CONTINUE


class FakeServices:
    """Seeds made of their paths, given conditions, a fixed wall clock."""

    def __init__(self, conditions: Callable[[PhasePlan], Sequence[tuple[str, TerminationCondition, str]]]) -> None:
        self._conditions = conditions

    def words(self, path: Sequence[str | int]) -> bytes:
        """Return 32 bytes that only this path has."""
        return hashlib.sha256(repr(list(path)).encode()).digest()

    def integer(self, words: bytes) -> int:
        return int.from_bytes(words[:8], "little") >> 11

    def conditions(self, phase: PhasePlan) -> list[tuple[str, TerminationCondition, str]]:
        return list(self._conditions(phase))

    def now(self) -> str:
        return "2026-01-01T00:00:00.000+00:00"

    def model(self, phase: PhasePlan, agent: AgentPlan, own: Mapping[tuple[int, str], str]) -> str | None:
        """Return the newest folder of the agent in this run; a `load` with keys finds nothing."""
        if isinstance(agent.load, dict):
            raise DocumentError(f"run.yml:3:4: no model of {agent.name}")
        mine = sorted(index for index, name in own if name == agent.name)
        return own[mine[-1], agent.name] if mine and agent.load is None else None

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Let nothing fit that was recorded in a run `other`."""
        for agent in agents:
            if any(entry.get("experiment_run") == "other" for entry in agent.plan.replay):
                raise DocumentError(f"run.yml:3:4: sensors of {agent.plan.name} differ")

    def plays(self, phase: PhasePlan) -> bool:
        """Say that no environment plays what was recorded."""
        return False

    def pretraining(self, agent: AgentPlan) -> BrainPretrain | None:
        """Return a folder of episodes for whoever has `replay`."""
        return BrainPretrain(f"replay/{agent.name}", "ab") if agent.replay else None

    def second_folder(self, agent: AgentPlan) -> str:
        """Return a folder in what the document names."""
        return f"{agent.models}/farm-1"


@dataclass
class Worker:
    """Run scripted episodes: `length(worker, episode)` steps each; `wish(worker, episode, step)` are its causes."""

    farm: Farm
    number: int
    length: Callable[[int, int], int]
    wish: Callable[[int, int, int], list[dict[str, Any]]]
    inbox: deque[Any] = field(default_factory=deque)
    signals: list[Any] = field(default_factory=list)
    episode: int = 0
    step: int = 0
    round: int = 0
    steps: int = 0
    common: bool = False
    state: str = "away"
    causes: list[dict[str, Any]] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    evaluation: bool = False
    left: int | None = None  # steps to go before the next PAUSE

    def begin(self, verdict: Verdict, common: bool, agents: list[str]) -> None:
        """Begin the first episode of a phase."""
        self.common, self.agents, self.steps, self.left = common, agents, 0, None
        self.signals.clear()
        self._began(verdict)

    def _began(self, verdict: Verdict) -> None:
        self.episode, self.step, self.state = verdict.episode, 0, "stepping"
        began = self.farm.evaluated if self.evaluation else self.farm.began
        began.append((self.number, verdict.signal, verdict.episode, verdict.seeds))
        self._heard(verdict)

    def _heard(self, word: Go | Verdict) -> None:
        self.round = word.round
        self.farm.rounds.append((self.number, word.round, word.participants))

    def can_move(self) -> bool:
        """Say whether this worker has something to do now."""
        if self.state == "gone":
            return False
        return self.state == "stepping" or (self.state == "paused" and bool(self.signals)) or bool(self.inbox)

    def move(self) -> None:
        """Take one message, or make one step."""
        if self.inbox:
            self._take(self.inbox.popleft())
        elif self.state == "paused":
            self._decide(self._arrived())
        else:
            self._step()

    def _take(self, message: Any) -> None:
        if isinstance(message, Go):
            self._heard(message)
            causes = [cause for cause in self.causes if cause["signal"] != "PAUSE"]  # it was waited out there
            if message.signal != "CONTINUE":
                known = {"signal": message.signal, "issuer": message.issuer, "reason": message.reason}
                causes.append({**known, "known": True})
            self._decide(causes)
        elif isinstance(message, Verdict):
            assert self.state == "judged"
            if not self.evaluation:
                self.farm.verdicts.append((self.number, message.signal, message.reason))
            if Signal[message.signal] > Signal.RESTART:
                self.state, self.signals, self.left = "done", [], None
            else:
                self._began(message)
        elif isinstance(message, Ask):
            self._asked(message)
        else:
            self.signals.append(message)

    def _asked(self, ask: Ask) -> None:
        reply: Any = ControllerReady(self.farm.declares(self.number)) if ask.call == "controller.setup" else Done()
        self._tell(lambda: self.farm.governor.answered(ask.tag, reply, self.farm.now_s))
        if ask.call == "controller.start":
            self.begin(ask.message.verdict, ask.message.common, [a["name"] for a in ask.message.agents])
        elif ask.call == "controller.evaluate":
            self._began(ask.message.verdict)

    def _tell(self, deliver: Callable[[], list[Effect]]) -> None:
        self.farm.tell_governor((self.number, self.evaluation), deliver)

    def _arrived(self) -> list[dict[str, Any]]:
        taken, self.signals = self.signals, []
        mild = [s for s in taken if s.signal in ("PAUSE", "CONTINUE")]
        for signal in taken:
            self.left = signal.steps
        taken = [s for s in taken if s not in mild[:-1]]
        return [{"signal": s.signal, "issuer": s.issuer, "reason": s.reason, "known": True} for s in taken]

    def _step(self) -> None:
        self.step += 1
        self.steps += 1
        self.farm.steps += 1
        if self.farm.loses(self.evaluation, self.number, self.episode, self.step):
            self.step -= 1  # it was not made
            self._report("lost: environment hill", False, [], True)
            return
        causes = self.wish(self.number, self.episode, self.step)
        if self.step >= self.length(self.number, self.episode):
            causes = [{"signal": "RESET", "issuer": "condition:environment", "reason": "terminated"}, *causes]
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                causes = [*causes, {"signal": "PAUSE", "issuer": "operator", "reason": "", "known": True}]
                self.left = None
        self.causes = [*causes, *self._arrived()]
        if not self.common:
            self._decide(self.causes)
            return
        self.state = "standing"
        ending = any(Signal[c["signal"]] >= Signal.RESET for c in self.causes)
        report = Boundary(self.number, self.steps, self.step, ending, self.agents, self.causes, self.episode)
        self._tell(lambda: self.farm.governor.boundary(self, report, self.farm.now_s))

    def _decide(self, causes: list[dict[str, Any]]) -> None:
        winner = max(causes, key=lambda c: Signal[c["signal"]], default={"signal": "CONTINUE"})
        if winner["signal"] == "PAUSE":
            self.state = "paused"
            if not self.common:
                stands = Stands(self.number, self.episode, self.step, self.evaluation)
                self._tell(lambda: self.farm.governor.stands(self, stands, self.farm.now_s))
        elif winner["signal"] == "CONTINUE":
            self.state = "stepping"
        else:
            self._end(winner, causes)

    def _end(self, winner: dict[str, Any], causes: list[dict[str, Any]]) -> None:
        own, issuer = any(c["issuer"] == "condition:environment" for c in causes), winner["issuer"]
        words = {"phase end": "truncated: phase end", "interrupted": "interrupted", "failed": "failed"}
        self._report("terminated" if own else words.get(issuer, winner["reason"] or issuer), own, causes)

    def _report(self, reason: str, own: bool, causes: list[dict[str, Any]], lost: bool = False) -> None:
        self.state = "judged"
        agents = {name: {"decisions": self.step, "sum": float(self.step), "mean": 1.0} for name in self.agents}
        ended = ["hill"] if own else []
        place = (self.number, self.episode, self.step, own, not own, reason)
        rest = (None, self.steps, self.evaluation, lost)
        report = EpisodeEnded(*place, agents, causes, ended, self.agents, *rest)
        episodes = self.farm.evaluation_episodes if self.evaluation else self.farm.episodes
        episodes.append((self.number, self.episode, self.step, reason))
        self._tell(lambda: self.farm.governor.episode(self, report, self.farm.now_s))


class Farm:
    """Carry out what the governor decides; `pick` chooses among all that can happen next."""

    def __init__(
        self,
        plan: Plan,
        conditions: Sequence[tuple[str, TerminationCondition, str]] | Callable[..., Any] = (),
        length: Callable[[int, int], int] = lambda worker, episode: 3,
        wish: Callable[[int, int, int], list[dict[str, Any]]] = lambda worker, episode, step: [],
        pick: Callable[[int], int] = lambda count: 0,
        store: str | None = None,
    ) -> None:
        given = conditions if callable(conditions) else (lambda phase: conditions)
        self.now_s = 0.0
        self.steps = 0
        self.governor = Governor("farm-1", plan, store, "/results", FakeServices(given))
        self.plan, self._pick = plan, pick
        numbers = range(max(p.workers for p in plan.phases))
        self.workers = [Worker(self, w, length, wish) for w in numbers]
        self.evaluators = [Worker(self, w, length, lambda w, e, s: [], evaluation=True) for w in numbers]
        self.metrics: Callable[[int], dict[str, float]] = lambda number: {}
        self.loses: Callable[[bool, int, int, int], bool] = lambda evaluation, worker, episode, step: False
        self.to_governor: dict[Any, deque[Callable[[], list[Effect]]]] = {}
        self.effects: list[Effect] = []
        self.asks: list[Ask] = []
        self.silent: set[str] = set()  # peers that never answer or join
        self.declares: Callable[[int], dict[str, Any]] = lambda worker: {"hill": DECLARED}
        self.began: list[Any] = []
        self.rounds: list[Any] = []
        self.verdicts: list[Any] = []
        self.episodes: list[Any] = []
        self.evaluated: list[Any] = []  # episodes of evaluations that began
        self.evaluation_episodes: list[Any] = []
        self.answers: dict[str, Any] = {}  # of signals, by the token that came with them
        self.moves = 0

    # -- what happened ------------------------------------------------------------------------------------------------
    def records(self, kind: str) -> list[list[Any]]:
        """Return the records of a kind, without it."""
        return [e.record[1:] for e in self.effects if isinstance(e, Record) and e.record[0] == kind]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of the events of a name."""
        return [e.fields for e in self.effects if isinstance(e, Event) and e.name == name]

    @property
    def finish(self) -> Finish | None:
        found = [e for e in self.effects if isinstance(e, Finish)]
        assert len(found) <= 1
        return found[0] if found else None

    # -- carrying out -------------------------------------------------------------------------------------------------
    def begin(self, *checkpoint: Any) -> Farm:
        """Begin the run, or begin it again where it was cut."""
        self.obey(self.governor.begin(self.now_s, *checkpoint))
        return self

    def run(self, moves: int = 100_000, until: Callable[[], bool] = lambda: False) -> Farm:
        """Let things happen until nothing can, until `until`, or until so many have."""
        for _ in range(moves):
            if until() or not self.move():
                break
        return self

    def move(self) -> bool:
        """Let one thing happen; False if nothing can."""
        sources = [source for source, queue in self.to_governor.items() if queue]
        movers = [worker for worker in (*self.workers, *self.evaluators) if worker.can_move()]
        if not sources and not movers:
            return False
        self.moves += 1
        chosen = self._pick(len(sources) + len(movers))
        if chosen < len(sources):
            self.obey(self.to_governor[sources[chosen]].popleft()())
        else:
            movers[chosen - len(sources)].move()
        return True

    def tell_governor(self, source: Any, deliver: Callable[[], list[Effect]]) -> None:
        """Let something arrive at the governor, in order per source."""
        self.to_governor.setdefault(source, deque()).append(deliver)

    def tick(self, passed_s: float) -> None:
        """Let time pass, and the governor look at the clock."""
        self.now_s += passed_s
        self.obey(self.governor.tick(self.now_s))

    def obey(self, effects: Sequence[Effect]) -> None:
        """Carry out effects in order."""
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, Ask):
                self._ask(effect)
            elif isinstance(effect, Await):
                for name in effect.peers:
                    self._join(name)
            elif isinstance(effect, Answer):
                if isinstance(effect.token, str):
                    self.answers[effect.token] = effect.message
                elif not isinstance(effect.message, Done):
                    effect.token.inbox.append(effect.message)
            elif isinstance(effect, Steer):
                self._worker(effect.peer).inbox.append(effect.signal)
            else:
                assert isinstance(effect, Record | Event | Declare | PhaseCheckpoint | Recall | Finish)

    def _worker(self, peer: str) -> Worker:
        place = peer.rpartition("/")[2]
        return self.evaluators[int(place[1:])] if place.startswith("e") else self.workers[int(place)]

    def signal(self, wish: FlowSignal, phase: str | None = None, token: str = "operator") -> Any:
        """Send an operator's signal; returns the answer, None if there is none yet."""
        self.obey(self.governor.signal(token, wish, phase, self.now_s))
        return self.answers.get(token)

    def _join(self, name: str) -> None:
        if name not in self.silent:
            self.tell_governor(name, lambda: self.governor.joined(name, "msgpack", self.now_s))

    def _ask(self, ask: Ask) -> None:
        self.asks.append(ask)
        if ask.peer in self.silent:
            return
        if ask.call.startswith("controller."):
            self._worker(ask.peer).inbox.append(ask)
            return
        reply: Any = Done()
        if ask.call == "brain.store":
            file = {"tag": "model", "path": "m.npz", "sha256": "00", "bytes": 8, "updates": 3}
            reply = BrainStored([file])
        elif ask.call == "brain.pretrain":
            excuse = {"issuer": f"brain:{ask.tag[1]}", "hook": "thinking", "reason": "KeyError: 7"}
            reply = BrainPretrained(4, 12, [excuse])
        elif ask.call == "brain.evaluate":
            reply = BrainEvaluated(self.metrics(ask.message.number))
        self.tell_governor(ask.peer or "supervisor", lambda: self.governor.answered(ask.tag, reply, self.now_s))


DECLARED = {
    "sensors": [{"id": "0", "space": DISCRETE}],
    "actuators": [{"id": "0", "space": DISCRETE, "value": 0}],
    "rewards": [{"id": "r", "space": DISCRETE}],
}


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """Return what a test needs to make a run."""
    classes = (Farm, Worker, FakeLimit, FakeTotal, FakeServices)
    return SimpleNamespace(
        agent=agent, phase=phase, plan=plan, declared=DECLARED, **{cls.__name__: cls for cls in classes}
    )
