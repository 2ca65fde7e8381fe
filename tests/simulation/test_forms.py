from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from simulation import Disturbance, Outcome, kill_one, simulate

STACK = [
    {"name": "merge_steps", "params": {"steps": 2, "merge_actuators": True}},
    {"name": "norm", "params": {"batch_size": 3, "norm_objective_after": 5}},
    {"name": "delta_step", "params": {"scale": "range"}},
]


def run(
    muscle: str, brain: str, filters: list[Any], sync: str, results: Path, disturbance: Disturbance | None = None
) -> Outcome:
    """Train with two workers and an evaluation, then test; return what came of it."""
    entry = {"environment": {"uid": "w", "name": "dummy", "params": {"max_iter": 6, "discrete": False}}}
    agent = {
        "name": "a",
        "muscle": f"simulation.forms:{muscle}",
        "brain": f"simulation.forms:{brain}",
        "sensors": ["w.1", "w.0"],
        "actuators": ["w.0", "w.2"],
        "filters": filters,
    }
    config = {"mode": "train", "worker": 2, "episodes": 2, "evaluate_every": 2, "sync": sync}
    whole = {
        "uid": "u",
        "seed": 7,
        "version": "0.1",
        "run_config": {"condition": {"name": "vanilla"}},
        "schedule": [
            {"one": {"environments": [entry], "agents": [agent], "phase_config": config}},
            {"two": {"phase_config": {"mode": "test", "episodes": 1, "evaluate_every": None}}},
        ],
    }
    outcome = simulate(json.dumps(whole), 3, results, disturbance)
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects)
    return outcome


def tables(outcome: Outcome) -> dict[str, Any]:
    """Return the tables without what names a run and its files; a round is one update or several, by form."""
    left_out = {"run", "number", "started", "ended", "created", "completed", "path", "updates"}
    names = ("phases", "episodes", "steps", "actions", "signals", "brains", "evaluations")
    return {
        name: [{key: value for key, value in row.items() if key not in left_out} for row in outcome.tables[name]]
        for name in names
    }


@pytest.mark.parametrize(("sync", "filters"), [("lockstep", STACK), ("pipelined", [])])
def test_both_forms_have_equal_tables(filters: list[Any], sync: str, results: Path) -> None:
    """Training, evaluation and test of an agent on arrays, with and without filters, are those of one on objects."""
    objects = run("ObjectMuscle", "ObjectBrain", filters, sync, results)
    arrays = run("ArrayMuscle", "ArrayBrain", filters, sync, results)
    first, second = tables(objects), tables(arrays)

    assert 2 * 2 * 6 + 2 * 2 * 6 + 2 * 6 >= len(first["actions"]) > 2 * 2 * 6
    assert len({json.dumps(row["setpoints"]) for row in first["actions"]}) > 3
    for name, rows in first.items():
        assert rows == second[name], name
    if filters:
        assert {"", "policy", "filter-1"} == {row["tag"] for row in first["brains"]}


@pytest.mark.parametrize("form", [pytest.param("Object", marks=pytest.mark.long), "Array"])
def test_losses_do_not_show_behind_filters(form: str, results: Path) -> None:
    """Killed muscles and brains are replaced: histories, moments and what was published are there again."""
    parts = (f"{form}Muscle", f"{form}Brain", STACK, "lockstep", results)
    whole = tables(run(*parts))
    killed = []

    def kill(name: str) -> Any:
        return lambda simulation: killed.append(simulation.kill(f"{simulation.run}/{name}"))

    victims = ["brain/a", "muscle/a/1", "brain/a", "muscle/a/0"]
    acts = [(150 + 110 * i, kill(name)) for i, name in enumerate(victims)]
    disturbed = tables(run(*parts, Disturbance(acts)))

    assert [True] * 4 == killed
    for name, rows in whole.items():
        assert rows == disturbed[name], name


def train_patiently(brain: str, says: bool, results: Path, kills: Sequence[tuple[int, str]] = ()) -> Outcome:
    """Train one worker for episodes of six steps with a brain that learns with every fourth row, then test."""
    entry = {"environment": {"uid": "w", "name": "dummy", "params": {"max_iter": 6, "discrete": False}}}
    agent = {
        "name": "a",
        "muscle": "simulation.forms:ArrayMuscle",
        "brain": {"name": f"simulation.forms:{brain}", "params": {"every": 4, "says": says}},
        "sensors": ["w.1", "w.0"],
        "actuators": ["w.0", "w.2"],
    }
    config = {"mode": "train", "episodes": 5, "evaluate_every": 2}
    whole = {
        "uid": "u",
        "seed": 7,
        "version": "0.1",
        "run_config": {"condition": {"name": "vanilla"}},
        "schedule": [
            {"one": {"environments": [entry], "agents": [agent], "phase_config": config}},
            {"two": {"phase_config": {"mode": "test", "episodes": 1, "evaluate_every": None}}},
        ],
    }
    acts = [(event, partial(kill_one, f"/{role}/")) for event, role in kills]
    outcome = simulate(json.dumps(whole), 3, results, Disturbance(acts))
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects)
    return outcome


@pytest.mark.parametrize("brain", [pytest.param("PatientBrain", marks=pytest.mark.long), "PatientArrayBrain"])
def test_decisions_that_are_kept_change_nothing(brain: str, results: Path) -> None:
    """A brain that says how often it learns hears of the same decisions in fewer messages, with the same tables."""
    single, together = train_patiently(brain, False, results), train_patiently(brain, True, results)

    assert tables(single) == tables(together)
    assert 2 * (30 - 10) == single.messages - together.messages  # a call and its answer, for 10 of 30 decisions


@pytest.mark.parametrize(
    "role", [*(pytest.param(role, marks=pytest.mark.long) for role in ("muscle", "controller")), "brain"]
)
def test_a_loss_loses_no_decision_that_was_kept(role: str, results: Path) -> None:
    """Where decisions are kept, and their keeper or their reader is killed, the tables are those without a loss."""
    calm = train_patiently("PatientBrain", True, results)
    for event in (int(share * calm.events) for share in (0.3, 0.5)):
        assert tables(calm) == tables(train_patiently("PatientBrain", True, results, [(event, role)]))
