"""Condition: when an episode, a phase or a run is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ganglion.sdk.flow import Mode, Signal, SimTime
from ganglion.sdk.part import Part


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """Show one worker at a step boundary.

    Args:
        worker: Its number.
        mode: Of the episode.
        episode: Its number in the worker, from 0.
        step: Steps made, >= 1.
        terminated: Environment -> whether it has no future.
        truncated: Environment -> whether it was cut off.
        simtime: Environment -> its time.
        objectives: Agent -> the objectives of its decisions in this episode, oldest first; a decision without one
            is left out. Complete only for conditions that read `objectives`.
    """

    worker: int
    mode: Mode
    episode: int
    step: int
    terminated: Mapping[str, bool] = field(default_factory=dict)
    truncated: Mapping[str, bool] = field(default_factory=dict)
    simtime: Mapping[str, SimTime] = field(default_factory=dict)
    objectives: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def ended(self) -> tuple[str, ...]:
        """The environments that have ended by themselves, in document order."""
        if True not in self.terminated.values() and True not in self.truncated.values():
            return ()
        return tuple(uid for uid, flag in self.terminated.items() if flag or self.truncated.get(uid, False))

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments, in document order."""
        return tuple(self.terminated)


@dataclass(frozen=True, slots=True)
class EpisodeMeans:
    """Sum up a finished training episode of one worker.

    Args:
        episode: Its number in the worker, from 0.
        steps: Its steps.
        means: Agent -> mean of its objectives in this episode; an agent without any is left out.
        cut: Whether it was cut off by the end of the phase; such an episode enters no window.
        environment: Whose episode it is, in a phase with bodies; empty where an episode spans all environments.
        body: Of which body, `<agent>/<b>`, where each has episodes of its own.
    """

    episode: int
    steps: int
    means: Mapping[str, float] = field(default_factory=dict)
    cut: bool = False
    environment: str = ""
    body: str = ""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """Show one worker to the phase.

    Args:
        worker: Its number.
        finished: Its finished training episodes, oldest first.
        running: Whether it takes part in the phase; False after STOP_SIMULATION.
        fired: Condition's short name -> the reason of the signal by which its episode part ended this worker's
            episode at this boundary.
        ended: The environments of this worker that have ended by themselves at this boundary, in document order.
    """

    worker: int
    finished: Sequence[EpisodeMeans] = ()
    running: bool = True
    fired: Mapping[str, str] = field(default_factory=dict)
    ended: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """Show a finished evaluation: its number in the phase, from 0, and agent -> metric -> value."""

    number: int
    metrics: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class PhaseView:
    """Show a phase at a boundary where episodes ended or an evaluation came in.

    In a phase with bodies these are episodes of environments, or of bodies; workers whose episodes end go on by
    themselves, and what is said stops them, or with RESET begins all their episodes anew.

    Args:
        mode: Of the phase.
        workers: All of them, by number.
        asked: The workers whose episodes ended at this boundary, ascending.
        environments_ended: Environment -> whether it has ended by itself at this boundary in any worker.
        evaluations: Those of this phase, oldest first.
        episodes: The document's limit per worker; None is none.
    """

    mode: Mode
    workers: Sequence[WorkerView]
    asked: Sequence[int] = ()
    environments_ended: Mapping[str, bool] = field(default_factory=dict)
    evaluations: Sequence[EvaluationView] = ()
    episodes: int | None = None


class TerminationCondition(Part):
    """Watch an episode, a phase, or both, and say when it is over.

    The episode part is asked by each controller at every step boundary, the phase part by the governor where
    episodes ended or an evaluation came in. A class has a part if it overrides its method. Its state is fresh in each
    phase; with several conditions the greatest signal wins, and the first with it gives the reason.

    Attributes:
        reads: What it decides by. `objectives` asks for the objective of each step. `ended`: what the end of
            environments means; where no condition of a phase reads it, the first one that ends also ends the
            episode. `episodes`: the document's limit. `evaluations`: those of the phase.
        local: Which of its parts, `episode` and `phase`, judge a worker by that worker alone, as if there were no
            other: then workers need not wait for each other. A class that overrides a part says it anew.
        reason: Why the last signal above CONTINUE was given: a word, then perhaps `: ` and a sentence.
        issuer: The short name under which that signal is recorded; empty is the name in the document.
    """

    reads: ClassVar[frozenset[str]] = frozenset()
    local: ClassVar[frozenset[str]] = frozenset()
    reason: str = ""
    issuer: str = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "local" not in vars(cls):  # what holds of a part that was overridden need not hold of the new one
            cls.local = cls.local - vars(cls).keys()

    @classmethod
    def has_episode_part(cls) -> bool:
        """Tell whether the class overrides `episode`."""
        return cls.episode is not TerminationCondition.episode

    @classmethod
    def has_phase_part(cls) -> bool:
        """Tell whether the class overrides `phase`."""
        return cls.phase is not TerminationCondition.phase

    def episode(self, view: EpisodeView) -> Signal:
        """Return what is to happen with this worker; sets `reason` if it is more than CONTINUE."""
        return Signal.CONTINUE

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        """Return what is to happen with the phase, or with workers by number; sets `reason`, likewise."""
        return Signal.CONTINUE

    def distances(self, phase: PhaseView, episodes: Sequence[EpisodeView]) -> Sequence[tuple[str, float, float]]:
        """Return (what, its value, the value it waits for) for observers, whose views may lack objectives."""
        return ()

    def warnings(self, document: Mapping[str, Any]) -> Sequence[str]:
        """Return what looks like a mistake in an expanded phase of a document; nothing has been started.

        `document` is the phase with every default written out, with `longest_episode`: after how many steps its
        environments have ended every episode by their classes, None: unknown; `episode_limit`: after how many episodes
        a condition ends each worker, None: never; `known_agents`: of all phases; `part`: `episode` or `phase`.

        Raises:
            ValueError: The phase cannot be carried out with this condition.
        """
        return ()

    def longest_episode(self, environments: Mapping[str, int | None]) -> int | None:
        """Return after how many steps it has ended every episode, None where that is unknown.

        `environments` is environment -> after how many steps it has ended by itself, None where that is unknown.
        """
        return None

    def state(self) -> Mapping[str, Any]:
        """Return what a checkpoint has to keep, as values that can travel."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
