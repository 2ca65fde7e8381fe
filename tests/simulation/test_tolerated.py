from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulation import Outcome, simulate

PARTS = {
    "reward": "simulation.faulty:Rewards",
    "state_transformer": "simulation.faulty:Changes",
    "muscle": "simulation.faulty:Acts",
    "brain": "simulation.faulty:Thinks",
    "objective": "simulation.faulty:Judges",
    "filter": "simulation.faulty:Sieve",
}


def document(part: str, *, name: str = "", on_error: str = "continue", mode: str = "train", **params: Any) -> str:
    """Return a run of two episodes of four steps in which one part raises; only that part is there beside the least."""
    faulty = {"name": name or PARTS[part], "on_error": on_error, "params": params}
    entry: dict[str, Any] = {"environment": {"uid": "w", "name": "simulation.faulty:World"}}
    agent: dict[str, Any] = {
        "name": "a",
        "muscle": {"name": PARTS["muscle"]},
        "brain": {"name": PARTS["brain"]},
        "objective": {"name": PARTS["objective"]},
        "sensors": ["w.s"],
        "actuators": ["w.a"],
    }
    if part in ("reward", "state_transformer"):
        entry[part] = faulty
    elif part == "filter":
        agent["filters"] = [faulty]
    else:
        agent[part] = faulty
    config: dict[str, Any] = {"mode": mode, "episodes": 2}
    if params.get("fails") == "evaluate":
        config["evaluate_every"] = 1
    phase = {"environments": [entry], "agents": [agent], "phase_config": config}
    whole = {
        "uid": "u",
        "seed": 1,
        "version": "0.1",
        "run_config": {"condition": {"name": "vanilla"}},
        "schedule": [{"one": phase}],
    }
    return json.dumps(whole)


def run(text: str, results: Path) -> Outcome:
    """Carry a document out."""
    return simulate(text, 1, results)


def rows(outcome: Outcome, column: str, table: str = "actions", key: str | None = None) -> list[Any]:
    """Return a column of the train episodes; `key` picks an id."""
    found = [row[column] for row in outcome.tables[table] if row["mode"] == "train"]
    return found if key is None else [value[key] for value in found]


def continued(outcome: Outcome) -> list[tuple[Any, ...]]:
    """Return what `signals` tells of tolerated_errors, after checking that the run has ended well."""
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects)
    names = ("worker", "episode", "step", "signal", "issuer", "reason")
    return [
        tuple(row[name] for name in names)
        for row in outcome.tables["signals"]
        if row["signal"] == "CONTINUE" and row["issuer"] != "governor"
    ]


@pytest.mark.parametrize("name", ["Acts", "ActsOnArrays"])
def test_a_decision_that_fails_goes_on_with_the_last_setpoints(name: str, results: Path) -> None:
    """At first in an episode that is the no-op, later what was applied last."""
    cls = f"simulation.faulty:{name}"
    outcome = run(document("muscle", name=cls, fails="propose", at=[0, 2, 4]), results)

    assert [7, 11, 11, 13, 7, 15, 16, 17] == rows(outcome, "setpoints", key="w.a")
    assert [
        (0, 0, 0, "CONTINUE", "muscle:a", "ValueError: propose 0"),
        (0, 0, 2, "CONTINUE", "muscle:a", "ValueError: propose 2"),
        (0, 1, 0, "CONTINUE", "muscle:a", "ValueError: propose 4"),
    ] == continued(outcome)


@pytest.mark.parametrize(
    ("hook", "at", "setpoints"),
    [
        ("muscle_post_process", [1], [10, 10, 12, 13]),
        ("muscle_pre_process", [0], [7, 10, 11, 12]),  # the muscle was not asked in the first decision
        ("muscle_pre_process", [1], [10, 10, 11, 12]),  # nor in the second; its brain lacks the row before
    ],
)
def test_a_filter_that_fails_likewise(hook: str, at: list[int], setpoints: list[int], results: Path) -> None:
    """With its muscle's half the decision fails."""
    outcome = run(document("filter", fails=hook, at=at), results)

    assert ["filter-0:a"] == [row[4] for row in continued(outcome)]
    assert setpoints == rows(outcome, "setpoints", key="w.a")[:4]
    assert 8 == len(rows(outcome, "step"))


@pytest.mark.parametrize(
    ("part", "name", "hook", "issuer"),
    [
        ("muscle", "Acts", "update", "muscle:a"),
        ("brain", "Thinks", "thinking", "brain:a"),
        ("brain", "Learns", "learn", "brain:a"),
        ("brain", "Thinks", "evaluate", "brain:a"),
        ("filter", "Sieve", "brain_pre_process", "filter-0:a"),
        ("filter", "Sieve", "brain_post_process", "filter-0:a"),
        ("filter", "Sieve", "publish", "filter-0:a"),
    ],
)
def test_what_is_learnt_is_as_if_nothing_had_come(part: str, name: str, hook: str, issuer: str, results: Path) -> None:
    """The run goes on with all its rows; the exception is told once."""
    outcome = run(document(part, name=f"simulation.faulty:{name}", fails=hook, at=[1]), results)

    assert [(issuer, f"ValueError: {hook} 1")] == [row[4:] for row in continued(outcome)]
    assert [10, 11, 12, 13, 14, 15, 16, 17] == rows(outcome, "setpoints", key="w.a")
    if hook == "evaluate":
        found = [row["metrics"] for row in outcome.tables["evaluations"]]
        assert [0.0, None] == [metrics.get("mine") for metrics in found]


def test_an_objective_that_fails_is_none(results: Path) -> None:
    """The row has no value; the others have theirs."""
    outcome = run(document("objective", fails="internal_reward", at=[1, 6]), results)

    assert [1.0, None, 3.0, 4.0, 1.0, 2.0, None, 4.0] == rows(outcome, "objective")
    assert ["objective:a", "objective:a"] == [row[4] for row in continued(outcome)]


def test_a_reward_that_fails_leaves_the_environments_own(results: Path) -> None:
    """What was declared and is not among them has no value in that step."""
    outcome = run(document("reward", fails="reward", at=[1]), results)
    found = rows(outcome, "rewards", "steps")

    assert [{"w.r": 10, "w.x": 1.0}, {"w.r": 2, "w.x": None}, {"w.r": 30, "w.x": 1.0}] == found[:3]
    assert [(0, 0, 2, "CONTINUE", "reward:w", "ValueError: reward 1")] == continued(outcome)


def test_a_reward_that_fails_first_declares_the_environments_own(results: Path) -> None:
    """Then its own ids are strange later on, which is excused as well."""
    outcome = run(document("reward", fails="reward", at=[0]), results)

    assert [{"w.r": 1}, {"w.r": 2}] == rows(outcome, "rewards", "steps")[:2]
    assert 8 == len(continued(outcome))
    assert "reward 'x' was not declared" in continued(outcome)[1][5]


def test_a_transformer_that_fails_leaves_the_state(results: Path) -> None:
    """Nothing of what it had changed already stays."""
    outcome = run(document("state_transformer", fails="transformer", at=[1]), results)

    assert [91, 2, 93, 94] == rows(outcome, "sensors", "steps", "w.s")[:4]
    assert [(0, 0, 2, "CONTINUE", "transformer:w", "ValueError: transformer 1")] == continued(outcome)


@pytest.mark.parametrize(
    ("part", "hook", "mode"),
    [
        ("muscle", "setup", "train"),
        ("muscle", "reset", "train"),
        ("muscle", "prepare_model", "test"),
        ("brain", "setup", "train"),
        ("brain", "store", "train"),
    ],
)
def test_what_cannot_be_left_out_fails_nevertheless(part: str, hook: str, mode: str, results: Path) -> None:
    """Without it nothing that follows would mean anything."""
    outcome = run(document(part, fails=hook, at=[0], mode=mode), results)

    assert ("failed", 1) == (outcome.status, outcome.exit_status)
    assert f"ValueError: {hook} 0" in outcome.reason


def test_without_on_error_the_run_fails(results: Path) -> None:
    """Nothing is excused that the document does not excuse."""
    outcome = run(document("muscle", on_error="fail", fails="propose", at=[2]), results)

    assert ("failed", 1) == (outcome.status, outcome.exit_status)


def test_a_condition_that_fails_ends_the_run_by_its_name(results: Path) -> None:
    """What the governor asks is blamed on the condition; the governor lives on to say it."""
    whole = json.loads(document("muscle"))
    whole["run_config"]["condition"] = {"name": "simulation.faulty:Ends", "params": {"fails": "phase", "at": [0]}}
    outcome = run(json.dumps(whole), results)

    assert ("failed", 1) == (outcome.status, outcome.exit_status)
    assert "failed: ValueError: phase 0" == outcome.reason
    assert ["failed"] == [row["status"] for row in outcome.tables["runs"]]
