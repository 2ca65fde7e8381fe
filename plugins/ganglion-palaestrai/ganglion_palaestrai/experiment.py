"""Experiment: termination conditions written for `palaestrai.experiment`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ganglion.sdk import EpisodeView, PhaseView, Signal
from ganglion.sdk import TerminationCondition as _Condition
from ganglion_palaestrai.protocol import (
    BrainView,
    EnvironmentUpdateResponse,
    EnvironmentView,
    GovernorView,
    MuscleUpdateRequest,
    ObjectiveMemory,
    SimulationControllerTerminationRequest,
)

__all__ = ["TerminationCondition"]


class TerminationCondition(_Condition):
    """Ask the old hooks at the boundaries of episodes and phases.

    - `brain_flow_control(brain, message)`, per agent and step: `brain.name`, and `brain.memory.tail(n).objective` of
      this worker's running episode. Nothing else of a brain is in reach of a condition.
    - `environment_flow_control(environment)` and `check_termination(message, component)`, per environment and step. The
      first has the environment's `uid` and `done`, the second an `EnvironmentUpdateResponse`; True ends the episode.
    - `phase_flow_control(run_governor, message)`, per worker whose episode has ended.

    They give a signal, or a signal and data that go nowhere. Of several the greatest wins.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.brain_flow_control is not TerminationCondition.brain_flow_control:
            cls.reads = frozenset({*cls.reads, "objectives"})

    def brain_flow_control(self, brain: Any, message: Any) -> Any:
        """Return what is to happen with the worker, after an agent has acted."""
        return Signal.CONTINUE, None

    def environment_flow_control(self, environment: Any) -> Any:
        """Return what is to happen with the worker, after an environment has made a step."""
        return Signal.CONTINUE, None

    def check_termination(self, message: Any, component: Any = None) -> bool:
        """Return whether the episode is over, after an environment has made a step."""
        return False

    def phase_flow_control(self, run_governor: Any, message: Any) -> Any:
        """Return what is to happen with the phase, after an episode has ended."""
        return Signal.CONTINUE, None

    @classmethod
    def has_episode_part(cls) -> bool:
        """Tell whether the class overrides a hook that is asked at every step."""
        ours = TerminationCondition
        return (
            cls.episode is not ours.episode
            or cls.brain_flow_control is not ours.brain_flow_control
            or cls.environment_flow_control is not ours.environment_flow_control
            or cls.check_termination is not ours.check_termination
        )

    @classmethod
    def has_phase_part(cls) -> bool:
        """Tell whether the class overrides a hook that is asked when episodes have ended."""
        ours = TerminationCondition
        return cls.phase is not ours.phase or cls.phase_flow_control is not ours.phase_flow_control

    def episode(self, view: EpisodeView) -> Signal:
        """Return the greatest answer of the hooks of a step."""
        return self._greatest(self._answers(view))

    def _answers(self, view: EpisodeView) -> Iterator[Signal]:
        for uid in view.environments:
            terminated, truncated = view.terminated[uid], view.truncated.get(uid, False)
            done = terminated or truncated
            if self.check_termination(EnvironmentUpdateResponse(uid, done, terminated, truncated), None):
                yield Signal.RESET
            yield _signal(self.environment_flow_control(EnvironmentView(uid, done)))
        for agent, objectives in view.objectives.items():
            message = MuscleUpdateRequest(f"{agent}/{view.worker}", bool(view.ended), view.mode)
            yield _signal(self.brain_flow_control(BrainView(agent, ObjectiveMemory(objectives)), message))

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        """Return the answers of `phase_flow_control`: for the phase from STOP_PHASE on, below by worker.

        Workers that stand at one boundary are asked about one after the other, as if their messages came so.
        """
        counts = {worker.worker: len(worker.finished) - (worker.worker in view.asked) for worker in view.workers}
        answers: dict[int, Signal] = {}
        for worker in view.asked:
            answers[worker] = self._of_worker(view, worker, GovernorView.of(view.episodes, counts))
            counts[worker] += 1
        greatest = self._greatest(iter(answers.values()))
        return greatest if greatest >= Signal.STOP_PHASE else answers

    def _of_worker(self, view: PhaseView, worker: int, governor: GovernorView) -> Signal:
        own = view.workers[worker].fired
        name = self.issuer or self.name
        signal = Signal.RESET if name in own else Signal.CONTINUE
        data = {type(self).__name__: (signal, None)}
        message = SimulationControllerTerminationRequest(str(worker), view.mode, data)
        return _signal(self.phase_flow_control(governor, message))

    def _greatest(self, answers: Iterator[Signal]) -> Signal:
        greatest = max(answers, default=Signal.CONTINUE)
        if greatest > Signal.CONTINUE and not self.reason:
            self.reason = type(self).__name__
        return greatest


def _signal(answer: Any) -> Signal:
    """Return the signal of an answer, with or without data."""
    return Signal(answer[0] if isinstance(answer, tuple) else answer)
