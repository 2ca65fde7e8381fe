"""Tables on the bus in memory: what is drawn depends on the document and the seed alone, whoever is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulation import Outcome, calm, survives

ORDINARY = """
uid: pool
seed: 5
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: lake, name: counting, params: {{length: 5}}}}
        - environment: {{uid: moor, name: counting, params: {{length: 5}}}}
      agents:
        - name: ada
          brain: {{name: "simulation.asking:{ada}"}}
          muscle: echo
          sensors: [lake.observation]
          actuators: [lake.answer]
        - name: bob
          brain: {{name: "simulation.asking:Asker"}}
          muscle: echo
          sensors: [moor.observation]
          actuators: [moor.answer]
      tables:
        - {{uid: recent, name: pool, params: {{capacity: {capacity}}}, feed: {feed}, serve: [bob, ada]}}
      recovery: {{on_loss: {on_loss}}}
      phase_config: {{mode: train, worker: {workers}, sync: {sync}, episodes: 4}}
      simulation: {{name: vanilla, conditions: [environment]}}
run_config: {{condition: max_episodes}}
"""
BODIES = """
uid: pool
seed: 5
version: "0.1"
schedule:
  - train:
      environments:
        - {{environment: {{uid: lake, name: counting, params: {{length: 4}}}}, budget: {{episodes: 6}}}}
        - environment: {{uid: moor, name: counting, params: {{length: 6}}}}
          clock: {{period: 2}}
          budget: {{steps: 15}}
          episode_end: each
      agents:
        - {{name: ada, brain: {{name: "simulation.asking:{ada}"}}, muscle: echo}}
        - {{name: bob, brain: {{name: "simulation.asking:Asker"}}, muscle: echo}}
      bodies: {{num: [2, 1]}}
      tables:
        - {{uid: recent, name: pool, params: {{capacity: {capacity}}}, feed: {feed}, serve: [bob, ada]}}
      recovery: {{on_loss: {on_loss}}}
      phase_config: {{mode: train, worker: {workers}, sync: {sync}}}
      simulation: {{name: aeb}}
"""
FEW = {"ada": "Asker", "capacity": "{steps: 9}", "feed": "[ada]", "workers": 1, "sync": "lockstep"}
FEW |= {"on_loss": "recover"}


def drawn(outcome: Outcome) -> list[Any]:
    """Return what brains have noted of their draws."""
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    found = [row["statistics"] for row in outcome.tables["actions"]]
    assert any("brain.recent" in (row or {}) for row in found)
    return found


CASES = [
    (ORDINARY, {}),
    (ORDINARY, {"ada": "Plain", "feed": "[ada, bob]", "capacity": "{sessions: 3}"}),
    (ORDINARY, {"workers": 2, "feed": "[ada, bob]"}),
    (BODIES, {"feed": "[ada, bob]", "capacity": "{steps: 30}"}),
    (BODIES, {"ada": "Plain", "workers": 2}),
]
SOME = [(2, "table", True)]  # in every run


@pytest.mark.parametrize(
    ("text", "given"), [pytest.param(*one, marks=[pytest.mark.long] * (n in (0, 3))) for n, one in enumerate(CASES)]
)
def test_draws_do_not_depend_on_who_is_faster(text: str, given: dict[str, Any], results: Path) -> None:
    """In lockstep several agents that feed and ask a table draw the same in any order of messages."""
    first, other = (drawn(calm(text.format(**{**FEW, **given}), seed, results)) for seed in (11, 12))

    assert first == other


@pytest.mark.parametrize(
    ("case", "role", "tight"),
    [
        pytest.param(case, role, tight, marks=[pytest.mark.long] * ((case, role, tight) not in SOME))
        for case in (1, 2, 3)
        for role in ("table", "brain", "broker")
        for tight in (False, True)
    ],
)
def test_a_loss_leaves_the_undisturbed_draws(case: int, role: str, tight: bool, results: Path) -> None:
    """Whoever is killed, the draws are those of a run in peace; `tight` has journals begin anew all the time."""
    text, given = CASES[case]
    survives(text.format(**{**FEW, **given}), results, role, shares=(0.3, 0.5, 0.7), tight=tight, view=drawn)
