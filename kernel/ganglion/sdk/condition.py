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
    truncated: Mapping[str, bool] = field(default_factory=dict)  # environment -> whether its episode was cut off
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
    cut: bool = False  # whether the end of the phase cut it off; such an episode enters no window
    environment: str = ""  # its environment, in a phase with bodies; empty if an episode spans all environments
    body: str = ""  # its body, `<agent>/<b>`, if each has episodes of its own


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

    In a phase with bodies these are episodes of environments, or of bodies. Workers whose episodes end continue by
    themselves; a signal stops them, or with RESET begins all their episodes again.
    """

    mode: Mode  # of the phase
    workers: Sequence[WorkerView]  # all of them, by number
    asked: Sequence[int] = ()  # the workers whose episodes ended at this boundary, ascending
    # Environment -> whether it has ended by itself at this boundary in any worker.
    environments_ended: Mapping[str, bool] = field(default_factory=dict)
    evaluations: Sequence[EvaluationView] = ()  # those of this phase, oldest first
    episodes: int | None = None  # the document's limit per worker; None is none


class TerminationCondition(Part):
    """Decide when an episode, a phase, or both are over.

    Each controller calls the episode part at every step boundary, the governor calls the phase part where episodes
    ended or an evaluation came in. A class has a part if it overrides its method. Objects are new in each phase. Of
    several conditions the greatest signal wins, with the reason of the first condition that gave it.
    """

    # The inputs of the decision. `objectives` requests the objective of each step. `ended`: the ends of environments;
    # if no condition of a phase reads these, the first end ends the episode. `episodes`: the document's limit.
    # `evaluations`: those of the phase.
    reads: ClassVar[frozenset[str]] = frozenset()
    # The parts, of `episode` and `phase`, that judge a worker by that worker alone: then workers need not wait for each
    # other. A class that overrides a part must declare it again.
    local: ClassVar[frozenset[str]] = frozenset()
    reason: str = ""  # the reason of the last signal above CONTINUE: a word, optionally followed by `: ` and a sentence
    issuer: str = ""  # the short name under which that signal is recorded; empty is the name in the document

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "local" not in vars(cls):  # the declaration of an overridden part need not hold for the new one
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
        """Return the signal for this worker; set `reason` if it is above CONTINUE."""
        return Signal.CONTINUE

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        """Return the signal for the phase, or signals for workers by number; set `reason` likewise."""
        return Signal.CONTINUE

    def distances(self, phase: PhaseView, episodes: Sequence[EpisodeView]) -> Sequence[tuple[str, float, float]]:
        """Return (what, its value, the value it waits for) for observers, whose views may lack objectives."""
        return ()

    def warnings(self, document: Mapping[str, Any]) -> Sequence[str]:
        """Return warnings about an expanded phase; ValueError: the phase cannot run with this condition.

        `document` is the phase with every default written out, with `longest_episode`: the most steps of an episode by
        the classes of its environments, None: unknown; `episode_limit`: after how many episodes a condition ends each
        worker, None: never; `known_agents`: of all phases; `part`: `episode` or `phase`. Nothing has been started.
        """
        return ()

    def longest_episode(self, environments: Mapping[str, int | None]) -> int | None:
        """Return the number of steps after which the condition has ended every episode; None if unknown.

        `environments` maps each environment to the number of steps after which it ends by itself, None if unknown.
        """
        return None

    def state(self) -> Mapping[str, Any]:
        """Return the state for a checkpoint, as values that can be sent."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
