"""A run whose muscle and brain note numbers, seen through to the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulation import simulate

PARTS = """
from ganglion.sdk import Brain, Muscle


class Acts(Muscle):
    def propose_actions(self, sensors, actuators):
        self.add_statistics("seen", sensors[0].value)
        for it in actuators:
            it.value = it.space.default()
        return actuators


class Thinks(Brain):
    def thinking(self, muscle_id, data):
        self.add_statistics("rows", len(self.memory))


class Learns(Thinks):
    batched = True

    def learn(self, batch):
        self.add_statistics("rows", len(batch))
"""
DOCUMENT = """
uid: noted
seed: 1
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: field, name: dummy, params: {max_iter: 3}}}]
      agents:
        - {name: one, brain: "noted:Thinks", muscle: "noted:Acts", sensors: [field.0], actuators: [field.0]}
        - {name: all, brain: "noted:Learns", muscle: "noted:Acts", sensors: [field.1], actuators: [field.1]}
      phase_config: {mode: train, worker: 2, episodes: 2}
run_config: {condition: vanilla}
"""


@pytest.fixture
def rows(beside: Callable[[str, str], None], results: Path) -> Callable[[str, int], list[dict[str, Any]]]:
    """Carry the document out; return what gives the decisions of an agent in a worker."""
    beside("noted", PARTS)
    outcome = simulate(DOCUMENT, 1, results)
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    found = outcome.tables["actions"]
    return lambda agent, worker: [row for row in found if (row["agent"], row["worker"]) == (agent, worker)]


def test_each_thought_lies_with_the_decision_that_it_was_about(rows: Any) -> None:
    """Row by row in canonical order, the last of an episode included; the muscle's number is that of the decision."""
    for worker in (0, 1):
        noted = [(row["episode"], row["step"], row["statistics"]) for row in rows("one", worker)]

        assert [
            (episode, step, {"seen": float(row["sensors"]["field.0"]), "brain.rows": 1.0 + worker + 2 * number})
            for number, (episode, step, row) in enumerate((r["episode"], r["step"], r) for r in rows("one", worker))
        ] == noted
        assert 6 == len(noted)


def test_a_round_that_is_learned_from_at_once_has_its_numbers_once(rows: Any) -> None:
    """With the first of its rows, or of those behind an initial update; an episode's last row is a round of its own."""
    found = [[row["statistics"].get("brain.rows") for row in rows("all", worker)] for worker in (0, 1)]

    assert [2.0, 2.0, 1.0] * 2 == found[0]
    assert [0.0, None, 1.0, None, None, 1.0] == found[1]
