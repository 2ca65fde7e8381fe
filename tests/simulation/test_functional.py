"""Functional environments on the bus in memory: ordinary phases, many bodies, and losses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from simulation import calm, rows, survives

TABLES = ("episodes", "steps", "actions")

DOCUMENT = """
uid: swings
seed: 3
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: lake, name: swing, params: {{goal: 0.8}}}}
          max_steps: 12
          budget: {{steps: 40}}
          episode_end: {end}
      agents: [{{name: ada, brain: log, muscle: random}}]
      bodies: {{num: {num}}}
      phase_config: {{mode: train, worker: 2}}
      simulation: {{name: aeb}}
"""
ORDINARY = """
uid: swing
seed: 3
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: lake, name: swing, params: {goal: 0.8}}}]
      agents: [{name: ada, brain: log, muscle: random, sensors: [lake.cos], actuators: [lake.torque]}]
      phase_config: {mode: train, worker: 1, episodes: 20}
      simulation: {name: vanilla, conditions: [{name: max_steps, params: {steps: 10}}]}
run_config: {condition: {name: vanilla}}
"""


def actions(text: str, results: Path, body: int | None = None) -> list[Any]:
    """Return what came of each decision, of one body or of all."""
    outcome = calm(text, 1, results)
    keys = ("worker", "body", "episode", "step", "sensors", "setpoints", "rewards", "terminated", "truncated")
    return [tuple(repr(row[key]) for key in keys) for row in outcome.tables["actions"] if body in (None, row["body"])]


@pytest.mark.parametrize("end", ["each", "{body: ada/0}"])
def test_body_moves_as_if_it_were_alone(end: str, results: Path) -> None:
    """What a body sees, earns and does depends on no other body; bodies begin anew by themselves."""
    first = actions(DOCUMENT.format(end=end, num=4), results, body=0)

    assert first == actions(DOCUMENT.format(end=end, num=1), results)
    assert "True" in {row[7] for row in first}


@pytest.mark.parametrize("end", ["all", "any"])
def test_body_that_has_ended_leaves_the_batch(end: str, results: Path) -> None:
    """It has no row after its last one of the episode."""
    last: dict[Any, bool] = {}
    for *place, _, _, _, _, terminated, truncated in actions(DOCUMENT.format(end=end, num=4), results):
        assert not last.get(tuple(place[:3]), False)
        last[tuple(place[:3])] = "True" in (terminated, truncated)

    assert {True} == set(last.values())


@pytest.mark.parametrize("text", [pytest.param(ORDINARY, marks=pytest.mark.long), DOCUMENT.format(end="each", num=4)])
def test_loss_leaves_the_undisturbed_tables(text: str, results: Path) -> None:
    """A lost environment goes on with the states that were saved."""
    survives(text, results, "environment", seed=1, shares=(0.3, 0.5, 0.8), view=partial(rows, tables=TABLES))
