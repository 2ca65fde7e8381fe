"""Condition: when an episode, a phase or a run is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ganglion.sdk.flow import Mode, Signal, SimTime
from ganglion.sdk.part import Part


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """Show one worker at a step boundary."""

    worker: int  # its number
    mode: Mode  # of the episode
    episode: int  # its number in the worker, from 0
    step: int  # steps made, >= 1
    terminated: Mapping[str, bool] = field(default_factory=dict)  # environment -> whether it has no future
    truncated: Mapping[str, bool] = field(default_factory=dict)  # environment -> whether it was cut off
    simtime: Mapping[str, SimTime] = field(default_factory=dict)  # environment -> its time
    # Agent -> the objectives of its decisions in this episode, oldest first; a decision without one is left out.
    # Complete only for conditions that read `objectives`.
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
    """Sum up a finished training episode of one worker."""

    episode: int  # its number in the worker, from 0
    steps: int  # its steps
    # Agent -> mean of its objectives in this episode; an agent without any is left out.
    means: Mapping[str, float] = field(default_factory=dict)
    cut: bool = False  # whether it was cut off by the end of the phase; such an episode enters no window
    environment: str = ""  # whose episode it is, in a phase with bodies; empty where an episode spans all environments
    body: str = ""  # of which body, `<agent>/<b>`, where each has episodes of its own


@dataclass(frozen=True, slots=True)
class WorkerView:
    """Show one worker to the phase."""

    worker: int  # its number
    finished: Sequence[EpisodeMeans] = ()  # its finished training episodes, oldest first
    running: bool = True  # whether it takes part in the phase; False after STOP_SIMULATION
    # Condition's short name -> the reason of the signal by which its episode part ended this worker's episode at this
    # boundary.
    fired: Mapping[str, str] = field(default_factory=dict)
    # The environments of this worker that have ended by themselves at this boundary, in document order.
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
    """

    mode: Mode  # of the phase
    workers: Sequence[WorkerView]  # all of them, by number
    asked: Sequence[int] = ()  # the workers whose episodes ended at this boundary, ascending
    # Environment -> whether it has ended by itself at this boundary in any worker.
    environments_ended: Mapping[str, bool] = field(default_factory=dict)
    evaluations: Sequence[EvaluationView] = ()  # those of this phase, oldest first
    episodes: int | None = None  # the document's limit per worker; None is none


class TerminationCondition(Part):
    """Watch an episode, a phase, or both, and say when it is over.

    The episode part is asked by each controller at every step boundary, the phase part by the governor where
    episodes ended or an evaluation came in. A class has a part if it overrides its method. Its state is fresh in each
    phase; with several conditions the greatest signal wins, and the first with it gives the reason.
    """

    # What it decides by. `objectives` asks for the objective of each step. `ended`: what the end of environments means;
    # where no condition of a phase reads it, the first one that ends also ends the episode. `episodes`: the document's
    # limit. `evaluations`: those of the phase.
    reads: ClassVar[frozenset[str]] = frozenset()
    # Which of its parts, `episode` and `phase`, judge a worker by that worker alone, as if there were no other: then
    # workers need not wait for each other. A class that overrides a part says it anew.
    local: ClassVar[frozenset[str]] = frozenset()
    reason: str = ""  # why the last signal above CONTINUE was given: a word, then perhaps `: ` and a sentence
    issuer: str = ""  # the short name under which that signal is recorded; empty is the name in the document

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "local" not in vars(cls):  # what holds of a part that was overridden need not hold of the new one
            cls.local = cls.local - vars(cls).keys()

    @classmethod
    def has_episode_part(cls) -> bool:
        """Return whether the class overrides `episode`."""
        return cls.episode is not TerminationCondition.episode

    @classmethod
    def has_phase_part(cls) -> bool:
        """Return whether the class overrides `phase`."""
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
        """Return what looks like a mistake in an expanded phase; ValueError if it cannot be run with this condition.

        `document` is the phase with every default written out, with `longest_episode`: the most steps of an episode by
        the classes of its environments, None: unknown; `episode_limit`: after how many episodes a condition ends each
        worker, None: never; `known_agents`: of all phases; `part`: `episode` or `phase`. Nothing has been started.
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
