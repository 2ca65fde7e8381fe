"""The tally of a phase: episodes per worker, and what the phase-level conditions say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganglion.run.plan import PhasePlan
from ganglion.sdk.condition import EpisodeMeans, EvaluationView, PhaseView, TerminationCondition, WorkerView
from ganglion.sdk.flow import Signal
from ganglion.sdk.mode import Mode
from ganglion.wire.messages import EpisodeEnded

__all__ = ["Judgement", "Tally"]


@dataclass(slots=True)
class Judgement:
    """What the conditions say: one signal for the phase, one for each worker, and the signals to record.

    A boundary may be judged twice: for its episodes, and after an evaluation; of two equal signals that of the
    condition that stands first in the document counts. What a condition says a second time is not issued again.
    """

    phase: Signal = Signal.CONTINUE
    reason: str = ""
    issuer: str = ""
    place: int = -1  # of who said it: the number of the condition, -1 for all others
    workers: dict[int, tuple[Signal, str, str]] = field(default_factory=dict)  # signal, issuer, reason
    issued: list[tuple[int | None, Signal, str, str]] = field(
        default_factory=list
    )  # worker, signal, issuer, reason
    said: set[tuple[int | None, Signal, str, int]] = field(
        default_factory=set
    )  # worker, signal, issuer, place

    def say(self, worker: int | None, signal: Signal, issuer: str, reason: str, place: int = -1) -> None:
        """Take one wish; the greatest wins, the first with it gives the reason."""
        if signal is Signal.CONTINUE or (worker, signal, issuer, place) in self.said:
            return
        self.said.add((worker, signal, issuer, place))
        self.issued.append((worker, signal, issuer, reason))
        if worker is not None and signal < Signal.STOP_PHASE:
            if worker not in self.workers or signal > self.workers[worker][0]:
                self.workers[worker] = (signal, issuer, reason)
        elif (signal, -place) > (self.phase, -self.place):
            self.phase, self.issuer, self.reason, self.place = signal, issuer, reason, place


class Tally:
    """Count a phase's episodes; everything is per worker."""

    def __init__(self, phase: PhasePlan, conditions: Sequence[tuple[str, TerminationCondition]]) -> None:
        self._plan = phase
        self._conditions = [(name, c) for name, c in conditions if c.has_phase_part()]
        self._finished: list[list[EpisodeMeans]] = [[] for _ in range(phase.workers)]
        self._running = [True] * phase.workers
        self.evaluations: list[EvaluationView] = []

    def count(self, report: EpisodeEnded, cut: bool) -> None:
        """Take in a finished episode."""
        means = {name: a["mean"] for name, a in report.agents.items() if a.get("mean") is not None}
        self._finished[report.worker].append(EpisodeMeans(report.episode, report.steps, means, cut))

    def stop(self, worker: int) -> None:
        """Take a worker out of the phase."""
        self._running[worker] = False

    @property
    def active(self) -> list[int]:
        """Return the workers that take part, ascending."""
        return [worker for worker, running in enumerate(self._running) if running]

    def episodes(self) -> int:
        """Return how many episodes have ended in all."""
        return sum(len(finished) for finished in self._finished)

    def finished(self) -> int:
        """Return how many episodes have ended and were not cut by the end of the phase."""
        return sum(not episode.cut for finished in self._finished for episode in finished)

    def judge(self, reports: Mapping[int, EpisodeEnded], judgement: Judgement | None = None) -> Judgement:
        """Ask the conditions about a boundary where these workers' episodes ended, or an evaluation came in.

        What they say is added to `judgement`, if one is given: `issued` holds what is new.
        """
        judgement = Judgement() if judgement is None else judgement
        for worker, report in sorted(reports.items()):
            for cause in report.causes:
                signal = Signal[cause["signal"]]
                if signal >= Signal.STOP_SIMULATION and not cause.get("known"):
                    judgement.say(worker, signal, str(cause["issuer"]), str(cause["reason"]))
        judgement.issued.clear()  # they are recorded with their episodes
        view = self._view(reports)
        for place, (name, condition) in enumerate(self._conditions):
            result = condition.phase(view)
            word = condition.issuer or name
            reason = condition.reason or word
            if isinstance(result, Mapping):
                for worker, signal in sorted(result.items()):
                    judgement.say(worker, Signal(signal), f"condition:{word}", reason, place)
            else:
                judgement.say(None, Signal(result), f"condition:{word}", reason, place)
        return judgement

    def _view(self, reports: Mapping[int, EpisodeEnded]) -> PhaseView:
        ended: dict[str, bool] = {environment.uid: False for environment in self._plan.environments}
        for report in reports.values():
            for uid in report.ended:
                ended[uid] = True
        workers = [
            WorkerView(
                worker,
                tuple(finished),
                self._running[worker],
                _fired(reports.get(worker)),
                tuple(reports[worker].ended) if worker in reports else (),
            )
            for worker, finished in enumerate(self._finished)
        ]
        return PhaseView(
            Mode(self._plan.mode),
            workers,
            tuple(sorted(reports)),
            ended,
            tuple(self.evaluations),
            self._plan.episodes,
        )


def _fired(report: EpisodeEnded | None) -> dict[str, str]:
    if report is None:
        return {}
    fired: dict[str, Any] = {}
    for cause in report.causes:
        kind, _, name = str(cause["issuer"]).partition(":")
        if kind == "condition":
            fired.setdefault(name, str(cause["reason"]))
    return fired
