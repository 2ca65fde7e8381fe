from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.sdk import EpisodeMeans, EpisodeView, Mode, PhaseView, Signal, WorkerView
from ganglion_palaestrai.experiment import TerminationCondition
from ganglion_palaestrai.types import SimulationFlowControl

Make = Callable[..., Any]


class Sums(TerminationCondition):
    """End an episode where the objectives of an agent reach a sum."""

    def brain_flow_control(self, brain: Any, message: Any) -> Any:
        self.seen = (*getattr(self, "seen", ()), (brain.name, message.sender, message.done, len(brain.memory)))
        full = sum(brain.memory.tail(3).objective) >= 6
        return (SimulationFlowControl.RESTART if full else SimulationFlowControl.CONTINUE), {"data": 1}


class Ends(TerminationCondition):
    """End an episode with its environment, and the phase when every worker has had two."""

    def check_termination(self, message: Any, component: Any = None) -> bool:
        return bool(message.is_terminal)

    def phase_flow_control(self, run_governor: Any, message: Any) -> Any:
        self.data = message.flow_control_data
        counts = dict(run_governor.current_episode_counts)
        counts[message.sender] += 1
        run, phase = run_governor.experiment_run, run_governor.current_phase
        if all(count >= run.get_episodes(phase) for count in counts.values()):
            assert len(counts) == run.get_worker(phase)
            return SimulationFlowControl.STOP_PHASE, None
        if counts[message.sender] >= run.get_episodes(phase):
            return SimulationFlowControl.STOP_SIMULATION
        return SimulationFlowControl.CONTINUE, None


class Gone(TerminationCondition):
    """Pause a worker without which an environment has gone."""

    def environment_flow_control(self, environment: Any) -> Any:
        return Signal.PAUSE if environment.done and environment.uid == "b" else Signal.CONTINUE


def view(terminated: dict[str, bool], objectives: dict[str, list[float]] | None = None) -> EpisodeView:
    """Return what a condition is shown at a step boundary."""
    return EpisodeView(1, Mode.TRAIN, 0, 3, terminated, dict.fromkeys(terminated, False), {}, objectives or {})


def phase(finished: list[int], asked: list[int], fired: dict[str, str] | None = None) -> PhaseView:
    """Return what a condition is shown where episodes have ended."""
    workers = [
        WorkerView(w, [EpisodeMeans(e, 3) for e in range(count)], fired=fired or {}) for w, count in enumerate(finished)
    ]
    return PhaseView(Mode.TRAIN, workers, asked, episodes=2)


def test_parts_are_those_that_are_overridden() -> None:
    """A condition has the parts whose hooks it overrides, and reads objectives only if it looks at brains."""
    parts = [(kind.has_episode_part(), kind.has_phase_part()) for kind in (Sums, Ends, Gone, TerminationCondition)]

    assert [(True, False), (True, True), (True, False), (False, False)] == parts
    assert [{"objectives"}, set(), set()] == [set(kind.reads) for kind in (Sums, Ends, Gone)]


@pytest.mark.parametrize(
    ("objectives", "signal"),
    [
        ({"ada": []}, Signal.CONTINUE),
        ({"ada": [9.0, 1.0, 2.0, 2.0]}, Signal.CONTINUE),
        ({"ada": [1.0], "bob": [1.0, 2.0, 3.0]}, Signal.RESTART),
    ],
)
def test_brains_are_asked_about_their_objectives(
    make: Make, objectives: dict[str, list[float]], signal: Signal
) -> None:
    """Each agent is asked about with the tail of this episode's objectives; the greatest answer counts."""
    condition = make(Sums)

    assert signal == condition.episode(view({"hill": False}, objectives))
    assert tuple((name, f"{name}/1", False, len(values)) for name, values in objectives.items()) == condition.seen
    assert ("Sums" if signal else "") == condition.reason


def test_environments_are_asked_about(make: Make) -> None:
    """`check_termination` that is true ends the episode, `environment_flow_control` answers for each environment."""
    assert [Signal.CONTINUE, Signal.RESET] == [make(Ends).episode(view({"a": False, "b": b})) for b in (False, True)]
    assert [Signal.CONTINUE, Signal.PAUSE] == [
        make(Gone).episode(view(ended)) for ended in ({"a": True, "b": False}, {"a": False, "b": True})
    ]


def test_what_an_episode_ended_by_is_passed_on(make: Make) -> None:
    """The phase hears whether this condition ended the episode."""
    condition = make(Ends)
    found = []
    for fired in ({"part": "Ends"}, {"other": "x"}):
        condition.phase(phase([1], [0], fired))
        found.append(condition.data)

    assert [{"Ends": (Signal.RESET, None)}, {"Ends": (Signal.CONTINUE, None)}] == found
