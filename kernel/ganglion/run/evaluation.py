"""The evaluations within a phase that trains: their workers, their episodes, their metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ganglion.run.agents import strange
from ganglion.run.effect import Answer, Effect, Event, Record, Steer, record_of
from ganglion.run.flow import Stateful, episode_ended, episodes_of
from ganglion.run.plan import PhasePlan
from ganglion.run.setup import EVALUATE, Cast, Setup
from ganglion.sdk.condition import EvaluationView
from ganglion.sdk.flow import Signal
from ganglion.wire import messages
from ganglion.wire.name import Role, peer_name

_OF_EPISODES = ("episode", "steps", "terminated", "truncated")
_OF_TIMELINES = ("environment", "body")

Asker = Callable[[tuple[Any, ...], str, str, Any], Effect]
"""Return the effect of a call: tag, peer, call, message."""


class Evaluations(Stateful):
    """Decide about the workers that evaluate, one evaluation after the other.

    The first evaluation sets the workers up; they serve until the phase ends. Episodes are numbered per worker through
    the phase. Only conditions end episodes. With bodies a worker runs the episodes of all its environments and reports
    them together.
    """

    SET_UP = frozenset({"_run", "_phase", "_setup", "_ask", "_cast"})

    def __init__(self, run: str, phase: PhasePlan, setup: Setup, ask: Asker, cast: Callable[[], Cast]) -> None:
        self.begun = False  # whether the workers have been set up
        self.active: set[int] = set()  # workers whose episodes run
        self.standing: dict[int, tuple[int, int]] = {}  # active workers that are paused: worker -> episode and step
        self._run, self._phase, self._setup, self._ask, self._cast = run, phase, setup, ask, cast
        self._number = 0
        self._position = 0
        self._cut = False
        self._following = dict.fromkeys(range(phase.workers), 0)  # worker -> number of its next episode
        self._reports: dict[int, list[messages.EpisodeEnded]] = {}
        self._setting_up: set[int] = set()
        self._thinking: set[str] = set()
        self._metrics: dict[str, dict[str, float]] = {}
        self._brains: dict[str, str | None] = {}

    @property
    def moment(self) -> int:
        """Return the number of steps of the running evaluation: the maximum over its workers."""
        return max((sum(r.steps for r in reports) for reports in self._reports.values()), default=0)

    # -- an evaluation begins -----------------------------------------------------------------------------------------
    def begin(self, number: int, position: int) -> list[Effect]:
        """Begin an evaluation; its rows are ordered after `position`, a round of training."""
        self._number, self._position, self._cut = number, position, False
        workers = range(self._phase.workers)
        self.standing = {}
        self._reports = {worker: [] for worker in workers}
        self._metrics, self._brains = {}, {}
        if self.begun:
            self.active = set(workers)
            return [
                self._ask_controller("start", w, "controller.evaluate", messages.ControllerEvaluate(self._go_on(w)))
                for w in workers
            ]
        self.begun = True
        self._setting_up = set(workers)
        cast = self._cast()
        effects: list[Effect] = [self.phase_record("running")]
        for worker in workers:
            message = self._setup.controller(worker, cast, True)
            effects.append(self._ask_controller("setup", worker, "controller.setup", message))
        return effects

    def ready(self, worker: int, reply: messages.ControllerReady, first: Mapping[str, Any]) -> str | list[Effect]:
        """Accept the declarations of a worker's environments; return an error text, or the effects."""
        wrong = strange(first, reply.declarations, f"evaluation worker {worker}")
        if wrong:
            return wrong
        self._setting_up.discard(worker)
        if self._setting_up or self._cut:
            return []
        self.active = set(range(self._phase.workers))
        effects: list[Effect] = []
        for w in sorted(self.active):
            message = self._setup.start(w, self._cast(), self._go_on(w), evaluation=True)
            effects.append(self._ask_controller("start", w, "controller.start", message))
        return effects

    # -- it runs ------------------------------------------------------------------------------------------------------
    def episode(self, token: Any, report: messages.EpisodeEnded) -> list[Effect]:
        """Record an episode's end and answer with the verdict; after the last one ask the brains for their metrics."""
        worker = report.worker
        self._reports[worker].append(report)
        self._following[worker] += 1
        self.standing.pop(worker, None)
        inner = sum(r.steps for r in self._reports[worker])
        effects = episode_ended(self._phase, report, (self._position, inner), EVALUATE)
        more = report.closed is None and len(self._counted(worker)) < self._phase.evaluate_episodes
        if more and not self._cut:
            signal = Signal.RESTART if report.lost else Signal.RESET
            return [*effects, Answer(token, self._go_on(worker, signal))]
        self.active.discard(worker)
        effects.append(Answer(token, messages.Verdict(Signal.STOP_SIMULATION.name, "the evaluation is over")))
        return effects if self.active or self._cut else effects + self._ask_brains()

    def stands(self, report: messages.Stands) -> None:
        """Record that a worker is paused."""
        if report.worker in self.active:
            self.standing[report.worker] = (report.episode, report.steps)

    def steer(self, wish: messages.FlowSignal) -> list[Effect]:
        """Forward a signal to all active workers."""
        self.standing.clear()
        peers = [self._controller(worker) for worker in sorted(self.active)]
        return [Steer(peer, wish) for peer in peers]

    def cut(self, now: bool, issuer: str) -> list[Effect]:
        """Cancel the evaluation without a result: after the running episodes, or at the next boundaries."""
        self._cut = True
        return self.steer(messages.FlowSignal(Signal.SHUTDOWN.name, issuer)) if now else []

    def gone(self, worker: int) -> None:
        """Remove a worker that cannot continue."""
        self.active.discard(worker)
        self.standing.pop(worker, None)

    # -- it ends ------------------------------------------------------------------------------------------------------
    def _ask_brains(self) -> list[Effect]:
        agents = self._cast().agents
        self._metrics = {agent.plan.name: self._means(agent.plan.name) for agent in agents}
        learning = [agent.plan.name for agent in agents if agent.plan.brain is not None]
        self._thinking = set(learning)
        peers = {name: peer_name(self._run, Role.BRAIN, name) for name in learning}
        asked = {name: messages.BrainEvaluate(self._number, self._summaries(name)) for name in learning}
        return [self._ask(("evaluation", "brain", n), peers[n], "brain.evaluate", asked[n]) for n in learning]

    def thought(self, agent: str, reply: messages.BrainEvaluated) -> list[Effect]:
        """Merge a brain's own metrics over the built-in ones; return the rows of its tolerated errors."""
        self._thinking.discard(agent)
        self._metrics[agent] |= {name: float(value) for name, value in reply.metrics.items()}
        parts = [part for part in (reply.checkpoint_id, reply.checkpoint_hash) if part is not None]
        self._brains[agent] = " ".join(parts) or None
        place = (self._phase.index, (None, None, None), (self._position, self.moment), EVALUATE)
        return [Record(record_of(excuse, *place)) for excuse in reply.excused or ()]

    @property
    def runs(self) -> bool:
        """Say whether workers are being set up, or their episodes run."""
        return bool(self.active or self._setting_up)

    @property
    def over(self) -> bool:
        """Say whether all replies have arrived, or the evaluation was cancelled and its workers have ended."""
        return not self.runs and not (self._thinking and not self._cut)

    def result(self, episodes: int, now: str) -> tuple[EvaluationView | None, list[Effect]]:
        """Return the view for conditions, None if cancelled, and the rows; `episodes` counts those of training."""
        if self._cut:
            return None, []
        phase, number = self._phase.index, self._number
        rows = [
            Record(["evaluation", phase, agent, number, episodes, metrics, self._brains.get(agent), now])
            for agent, metrics in self._metrics.items()
        ]
        fields = {"phase": phase, "number": number, "metrics": self._metrics}
        return EvaluationView(number, self._metrics), [*rows, Event("evaluation.ended", fields)]

    def phase_record(self, status: str) -> Record:
        """Return the phase's second row."""
        return Record(["phase", self._phase.index, self._phase.name, EVALUATE, status, None])

    # -- small questions ----------------------------------------------------------------------------------------------
    def _summaries(self, agent: str) -> list[dict[str, Any]]:
        """Return the episodes of this evaluation as seen by one agent, by worker and episode."""
        found = []
        for worker in sorted(self._reports):
            for report in self._counted(worker):
                for one in episodes_of(report):
                    if report.closed is not None and agent not in one["agents"]:
                        continue  # the agent has no body there
                    seen = one["agents"].get(agent, {})
                    means = {"objective_mean": seen.get("mean"), "objective_sum": seen.get("sum")}
                    places = {name: one[name] for name in _OF_TIMELINES if one.get(name)}
                    found.append({"worker": worker, **{n: one[n] for n in _OF_EPISODES}, **means, **places})
        return found

    def _counted(self, worker: int) -> list[messages.EpisodeEnded]:
        """Return the episodes of a worker that count; lost episodes do not."""
        return [report for report in self._reports[worker] if not report.lost]

    def _means(self, agent: str) -> dict[str, float]:
        """Return the three built-in metrics of an agent; a metric without a value is left out."""
        rows = self._summaries(agent)
        columns = {"objective": "objective_mean", "return": "objective_sum", "steps": "steps"}
        values = {name: [float(r[column]) for r in rows if r[column] is not None] for name, column in columns.items()}
        return {name: math.fsum(found) / len(found) for name, found in values.items() if found}

    def _go_on(self, worker: int, signal: Signal = Signal.RESET) -> messages.Verdict:
        episode = self._following[worker]
        seeds = self._setup.episode_seeds(worker, episode, True)
        return messages.Verdict(signal.name, "", episode, seeds, self._position)

    def _controller(self, worker: int) -> str:
        return peer_name(self._run, Role.CONTROLLER, None, worker, True)

    def _ask_controller(self, word: str, worker: int, call: str, message: Any) -> Effect:
        return self._ask(("evaluation", word, worker), self._controller(worker), call, message)
