"""Tables on the bus in memory: what is drawn depends on the document and the seed alone, whoever is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulation import Disturbance, Outcome, Simulation, read

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


def carry_out(text: str, seed: int, results: Path, *acts: Any, tight: bool = False, **given: Any) -> Outcome:
    """Carry out a document."""
    simulation = Simulation(read(text.format(**{**FEW, **given})), seed, results, Disturbance(acts))
    simulation.tight = tight
    return simulation.carry_out()


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


@pytest.mark.parametrize(("text", "given"), CASES)
def test_draws_do_not_depend_on_who_is_faster(text: str, given: dict[str, Any], results: Path) -> None:
    """In lockstep several agents that feed and ask a table draw the same in any order of messages."""
    first, *others = [drawn(carry_out(text, seed, results, **given)) for seed in range(4)]

    assert [first] * 3 == others


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("role", ["table", "brain", "broker"])
@pytest.mark.parametrize(("text", "given"), [CASES[1], CASES[2], CASES[3]])
def test_a_loss_leaves_the_undisturbed_draws(
    text: str, given: dict[str, Any], role: str, tight: bool, results: Path
) -> None:
    """Whoever is killed, the draws are those of a run in peace; `tight` has journals begin anew all the time."""
    calm = carry_out(text, 11, results, **given)

    def kill(simulation: Simulation) -> None:
        if role == "broker":
            simulation.crash_broker(0.1)
            return
        names = sorted(it.name for it in simulation.processes[1:] if it.lives and it.name.split("/")[1] == role)
        if names:
            simulation.kill(simulation.schedule.random.choice(names))

    moments = [(int(share * calm.events), kill) for share in (0.3, 0.5, 0.7)]

    assert drawn(calm) == drawn(carry_out(text, 12, results, *moments, tight=tight, **given))
