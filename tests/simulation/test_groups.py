"""An agent whose bodies are of several groups: legs on ground and wings in air, in one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from simulation import calm, searched, sets, simulate, survives

DOCUMENT = """
uid: groups
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - {{environment: {{uid: lake, name: counting, params: {{length: 4}}}}, budget: {{episodes: {episodes}}}}}
        - environment: {{uid: moor, name: cartpole, params: {{longest: 7}}}}
          clock: {{period: 2}}
          budget: {{episodes: {episodes}}}
          episode_end: {end}
        - {{environment: {{uid: fen, name: counting, params: {{length: 6}}}}, budget: {{episodes: {episodes}}}}}
      agents:
        - {{name: ada, brain: {brain}, muscle: {muscle}, objective: {objective}, sensors: {sensors},
           filters: {filters}}}
        - {{name: bob, brain: none, muscle: random, objective: aggregate_rewards}}
      bodies: {{product: custom, num: {{ada: {ada}, bob: {{lake: 1, moor: 1, fen: 1}}}}, rules: {rules}}}
      phase_config: {{mode: {mode}, worker: {workers}}}
      simulation: {{name: aeb}}
"""
FEW = {
    "brain": "simulation.groups:ArrayBrain",
    "muscle": "simulation.groups:ArrayMuscle",
    "objective": "aggregate_rewards",
    "sensors": "[]",
    "workers": 1,
    "mode": "train",
    "episodes": 2,
    "end": "all",
    "rules": "[]",
    "filters": "[]",
    "ada": "{lake: 2, moor: 3, fen: 1}",
}
STACK = "[delta_obs, {name: norm, params: {batch_size: 2, norm_objective_after: 3}}]"
POOL = (
    "[{match: {agent: ada, environment: [lake, fen], body: 0}, team: dry, "
    "policy: {source: pool, window: 2, latest: 0.5, snapshot_every: 10, swap_every: 5}}]"
)
OBJECTS = {"brain": "simulation.groups:ObjectBrain", "muscle": "simulation.groups:ObjectMuscle"}


def run(results: Path, **given: Any) -> dict[str, Any]:
    """Return the tables of the document."""
    return calm(DOCUMENT.format(**{**FEW, **given}), 1, results).tables


def test_each_body_has_rows_with_its_own_declarations(results: Path) -> None:
    """Ids name the environment, also where a group is in several; every decision of every body is there."""
    rows = [row for row in run(results)["actions"] if row["agent"] == "ada"]
    ids = {row["environment"]: tuple(tuple(row[key]) for key in ("sensors", "setpoints", "rewards")) for row in rows}

    assert {
        "lake": (("lake.observation",), ("lake.answer",), ("lake.reward",)),
        "moor": (("moor.observation",), ("moor.action",), ("moor.reward",)),
        "fen": (("fen.observation",), ("fen.answer",), ("fen.reward",)),
    } == ids
    assert {("lake", 0): 8, ("lake", 1): 8, ("moor", 0): 14, ("moor", 1): 14, ("moor", 2): 14, ("fen", 0): 12} == {
        place: sum((row["environment"], row["body"]) == place for row in rows)
        for place in {(row["environment"], row["body"]) for row in rows}
    }


@pytest.mark.parametrize(
    ("mode", "workers", "filters"),
    [("train", 2, STACK), pytest.param("train", 2, "[]", marks=pytest.mark.long), ("test", 1, "[]")],
)
def test_objects_and_arrays_do_the_same(results: Path, mode: str, workers: int, filters: str) -> None:
    """One muscle for all bodies that is asked per group, or one object per body: equal rows, and equal learning."""
    names = ("phases", "signals", "episodes", "steps", "actions", "bodies")
    asked = {**FEW, "mode": mode, "workers": workers, "filters": filters}
    arrays = calm(DOCUMENT.format(**asked), 1, results)
    assert 2 * workers < len({row["objective"] for row in arrays.tables["actions"]})
    for form in (OBJECTS, {"brain": OBJECTS["brain"]}, {"muscle": OBJECTS["muscle"]})[: 3 if filters == STACK else 1]:
        other = DOCUMENT.format(**{**asked, **form})
        assert sets(arrays, names) == sets(simulate(other, 1, results), names)


def test_a_part_by_other_models_has_groups_of_its_own(results: Path) -> None:
    """Bodies that decide by another model have a muscle of their own, which is told of no group that it has not."""
    arrays = run(results, rules=POOL)
    apart = {(row["environment"], row["body"]) for row in arrays["actions"] if row["policy"] == "pool"}

    assert 104 == len(arrays["actions"])
    assert {("lake", 0), ("fen", 0)} == apart


def test_a_part_of_the_sensors_is_a_group_of_its_own(results: Path) -> None:
    """Groups are made of what the agent names: one that does not see fen is another kind of body there."""
    rows = run(results, sensors="[lake.observation, moor.observation]")["actions"]
    fen = [row for row in rows if (row["agent"], row["environment"]) == ("ada", "fen")]

    assert 12 == len(fen)
    assert [{}] * 12 == [row["sensors"] for row in fen]
    assert {"fen.answer"} == {uid for row in fen for uid in row["setpoints"]}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"brain": "dqn"}, "and brain dqn takes one: takes_groups is False"),
        ({"muscle": "simulation.forms:ArrayMuscle"}, "and muscle simulation.forms:ArrayMuscle takes one"),
    ],
)
def test_who_takes_one_group_is_refused_before_the_first_decision(results: Path, given: Any, text: str) -> None:
    """The groups are told by their environments."""
    outcome = simulate(DOCUMENT.format(**{**FEW, **given}), 1, results)

    assert ("failed", 2) == (outcome.status, outcome.exit_status)
    assert text in outcome.reason
    assert "agent ada: its bodies are of 2 groups of unequal ids or spaces (lake, fen; moor)" in outcome.reason
    assert [] == outcome.tables["actions"]


def test_filters_of_a_group_are_those_of_an_agent_that_has_this_group_alone(results: Path) -> None:
    """Each group has filters of its own, and each body in it."""
    asked = {"mode": "test", "filters": STACK, "muscle": OBJECTS["muscle"]}
    both, alone = (
        [
            row
            for row in run(results, **asked, ada=ada)["actions"]
            if (row["agent"], row["environment"]) == ("ada", "moor")
        ]
        for ada in (FEW["ada"], "{moor: 3}")
    )

    assert 42 == len(alone)
    assert [{**row, "id": 0} for row in alone] == [{**row, "id": 0} for row in both]


# -- losses -----------------------------------------------------------------------------------------------------------
DRAWN = {
    "workers": st.integers(1, 2),
    "form": st.sampled_from([{}, OBJECTS]),
    "rules": st.sampled_from(["[]", POOL]),
    "filters": st.sampled_from(["[]", STACK]),
    "objective": st.sampled_from(["aggregate_rewards", "simulation.groups:PlainObjective"]),
    "end": st.sampled_from(["all", "each"]),
    "seed": st.integers(0, 2**32),
    "share": st.floats(0.0, 1.0),
}
CASE = {
    "workers": 2,
    "form": OBJECTS,
    "rules": POOL,
    "objective": "aggregate_rewards",
    "end": "each",
    "seed": 3,
    "filters": STACK,
}


@searched(300, DRAWN, case=CASE | {"share": 0.6})
def test_a_loss_does_not_show_in_groups(results: Path, seed: int, share: float, form: Any, **given: Any) -> None:
    """Whoever is killed at whatever moment: the rows of all bodies are equal."""
    survives(DOCUMENT.format(**{**FEW, **given, **form, "episodes": 4}), results, seed=seed, shares=[share])
