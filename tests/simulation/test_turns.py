"""What an environment says of the decisions to come: who wants one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulation import calm, survives

DOCUMENT = """
uid: turns
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - {{environment: {{uid: lake, name: "simulation.turns:{world}"}}, budget: {{episodes: 2}}}}
        - {{environment: {{uid: moor, name: counting, params: {{length: 5}}}}, budget: {{episodes: 2}}}}
      agents:
        - {{name: ada, brain: {brain}, muscle: random, objective: aggregate_rewards}}
        - {{name: bob, brain: none, muscle: random, objective: aggregate_rewards}}
      bodies:
        num: {{ada: {{lake: 2, moor: 1}}, bob: {{lake: 1, moor: 1}}}}
        rules: [{{match: {{environment: lake}}, decision: {{period: 3, phase: 1}}}}]
      phase_config: {{mode: train, worker: {workers}}}
      simulation: {{name: aeb}}
"""
FEW = {"world": "Turns", "brain": "log", "workers": 1}


def run(results: Path, **given: Any) -> dict[str, Any]:
    """Return the tables of the document."""
    return calm(DOCUMENT.format(**{**FEW, **given}), 1, results).tables


@pytest.mark.parametrize("world", ["Turns", "ObjectTurns"])
def test_an_answer_says_who_decides_next(results: Path, world: str) -> None:
    """It overrides the clocks of its bodies for one step; where it says nothing, and in moor, they go by these."""
    rows = [row for row in run(results, world=world)["actions"] if row["environment"] == "lake"]
    found = [
        [row["sensors"]["lake.seen"][0] for row in rows if (row["agent"], row["body"], row["episode"]) == place]
        for place in [(agent, body, 1) for agent, body in (("ada", 0), ("ada", 1), ("bob", 0))]
    ]

    assert [[], [1, 4, 7], [2, 5, 8]] == found


def test_objects_and_arrays_do_the_same(results: Path) -> None:
    """Maps by body, or one boolean per row."""
    assert run(results)["actions"] == run(results, world="ObjectTurns")["actions"]


@pytest.mark.parametrize("world", ["Turns", pytest.param("ObjectTurns", marks=pytest.mark.long)])
def test_a_loss_does_not_show(results: Path, world: str) -> None:
    """Whoever is killed: the same bodies decide."""
    survives(DOCUMENT.format(**{**FEW, "world": world, "workers": 2}), results)
