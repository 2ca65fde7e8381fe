from __future__ import annotations

from typing import Any

import pytest

from ganglion.run.effect import Finish
from ganglion.sdk.condition import PhaseView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import FlowSignal


def training(kit: Any, **more: Any) -> Any:
    """Return a phase that trains and evaluates after every second episode."""
    given: dict[str, Any] = {"agents": [kit.agent(brain="dummy")], "mode": "train", "evaluate_every": 2}
    return kit.phase(0, **{**given, **more})


def limited(kit: Any, episodes: int) -> list[Any]:
    """Return the condition that ends a phase after so many episodes of each worker."""
    return [("max_episodes", kit.FakeLimit(episodes), "phase")]


def test_metrics_are_means_overlaid_by_the_brain(kit: Any) -> None:
    """`objective`, `return` and `steps` are means over the episodes; what the brain reports comes on top."""
    farm = kit.Farm(kit.plan(training(kit)), limited(kit, 2))
    farm.metrics = lambda number: {"skill": 0.5, "steps": 99.0}
    farm.begin().run()

    phase, agent, number, episodes, metrics, brain, _ = farm.records("evaluation")[0]
    assert (0, "ada", 0, 2, None) == (phase, agent, number, episodes, brain)
    assert {"objective": 1.0, "return": 3.0, "steps": 99.0, "skill": 0.5} == metrics
    row = {"worker": 0, "episode": 0, "steps": 3, "objective_mean": 1.0, "objective_sum": 3.0}
    asked = [ask.message.episodes for ask in farm.asks if ask.call == "brain.evaluate"]
    assert [[{**row, "terminated": True, "truncated": False}]] == asked


class Successful(TerminationCondition):
    """Stop the phase when an evaluation reports skill 1."""

    issuer, reason = "evaluation_objective", "success"

    def phase(self, view: PhaseView) -> Signal:
        done = bool(view.evaluations) and view.evaluations[-1].metrics["ada"].get("skill") == 1.0
        return Signal.STOP_PHASE if done else Signal.CONTINUE


@pytest.mark.parametrize(("order", "reason"), [((0, 1), "max_episodes"), ((1, 0), "success")])
def test_of_equal_signals_the_first_in_the_document_counts(kit: Any, order: Any, reason: str) -> None:
    """At a boundary that is judged twice the greatest signal wins, then document order."""
    both = [("max_episodes", kit.FakeLimit(2), "phase"), ("evaluation_objective", Successful(), "phase")]
    farm = kit.Farm(kit.plan(training(kit)), [both[i] for i in order])
    farm.metrics = lambda number: {"skill": 1.0}
    farm.begin().run()

    assert reason == farm.records("phase")[-2][4]


def test_rows_have_their_place_among_the_episodes(kit: Any) -> None:
    """Signals of an evaluation stand behind its PAUSE and before its CONTINUE, by round and step."""
    farm = kit.Farm(kit.plan(training(kit, workers=2)), limited(kit, 2)).begin().run()
    rows = sorted(farm.records("signal"), key=lambda r: (r[8], r[9], 99 if r[1] is None else r[1]))
    words = [(r[4], r[5], r[7] is not None) for r in rows if r[8] == 3]

    reset, inside = ("RESET", "condition:environment", False), ("RESET", "condition:environment", True)
    assert [reset, reset, ("PAUSE", "governor", False), inside, inside, ("CONTINUE", "governor", False)] == words


def test_strange_declarations_fail_the_run(kit: Any) -> None:
    """An environment that declares otherwise in an evaluation is named."""
    farm = kit.Farm(kit.plan(training(kit)), limited(kit, 2))
    farm.begin().run(until=lambda: bool(farm.episodes))
    other = {**kit.declared, "sensors": [{"id": "9", "space": {"type": "discrete", "n": 3, "start": 0}}]}
    farm.declares = lambda worker: {"hill": other}
    farm.run()

    assert "environment hill declares otherwise in evaluation worker 0" in farm.finish.failure.message


# -- signals meanwhile ------------------------------------------------------------------------------------------------
def evaluating(farm: Any) -> bool:
    """Say whether an evaluation worker is in mid-episode."""
    return any(worker.state == "stepping" and worker.step == 1 for worker in farm.evaluators)


@pytest.mark.parametrize("workers", [1, 2])
def test_shutdown_cuts_an_evaluation(kit: Any, workers: int) -> None:
    """SHUTDOWN ends it at the next boundaries, without metrics, and the run in order."""
    farm = kit.Farm(kit.plan(training(kit, workers=workers)), limited(kit, 9))
    farm.begin().run(until=lambda: evaluating(farm))
    farm.signal(FlowSignal("SHUTDOWN", "operator", "tea"))
    farm.run()

    assert Finish("finished", "shutdown", 0) == farm.finish
    assert [] == farm.records("evaluation")
    assert workers == len(farm.evaluation_episodes)


def test_pause_and_continue_reach_the_evaluation(kit: Any) -> None:
    """PAUSE stops the workers that run, which then are those that evaluate; CONTINUE lets them go on."""
    farm = kit.Farm(kit.plan(training(kit, workers=2)), limited(kit, 4), lambda w, e: 9)
    farm.begin().run(until=lambda: evaluating(farm))
    assert farm.signal(FlowSignal("PAUSE", "operator")) is None
    farm.run()
    stood = farm.steps
    lines = [f"evaluation worker {w.number} is paused after step {w.step} of episode 0" for w in farm.evaluators]
    assert "\n".join(lines) == farm.answers["operator"].text
    assert {"phase": 0, "workers": [0, 1], "moving": False} == farm.events("phase.paused")[-1]

    farm.signal(FlowSignal("CONTINUE", "operator"), token="again")
    farm.run()
    assert farm.answers["again"].accepted
    assert Finish("finished", "completed", 0) == farm.finish
    assert stood < farm.steps
