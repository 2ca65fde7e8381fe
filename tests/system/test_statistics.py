"""A real run whose muscle and brain note numbers, seen through to the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.command import ganglion
from system.results import table

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
        - {name: one, brain: "parts:Thinks", muscle: "parts:Acts", sensors: [field.0], actuators: [field.0]}
        - {name: all, brain: "parts:Learns", muscle: "parts:Acts", sensors: [field.1], actuators: [field.1]}
      phase_config: {mode: train, worker: 2, episodes: 2}
run_config: {condition: vanilla}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the document once."""
    path = tmp_path_factory.mktemp("noted")
    (path / "parts.py").write_text(PARTS)
    (path / "noted.yml").write_text(DOCUMENT)
    done = ganglion(path, "run", "noted.yml", "--plain")
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    return path


def test_each_thought_lies_with_the_decision_that_it_was_about(folder: Path) -> None:
    """Row by row in canonical order, the last of an episode included; the muscle's number is that of the decision."""
    for worker in (0, 1):
        rows = table(folder, "actions", where=f"agent = 'one' and worker = {worker}")
        noted = [(row["episode"], row["step"], row["statistics"]) for row in rows]

        assert [
            (episode, step, {"seen": float(row["sensors"]["field.0"]), "brain.rows": 1.0 + worker + 2 * number})
            for number, (episode, step, row) in enumerate((row["episode"], row["step"], row) for row in rows)
        ] == noted
        assert 6 == len(rows)


def test_a_round_that_is_learned_from_at_once_has_its_numbers_once(folder: Path) -> None:
    """They lie with the first of its rows; the last row of an episode is a round of its own.

    What the initial update of the second worker noted lies with its first row.
    """
    found = [table(folder, "actions", where=f"agent = 'all' and worker = {worker}") for worker in (0, 1)]

    assert [2.0, 2.0, 1.0] * 2 == [row["statistics"].get("brain.rows") for row in found[0]]
    assert [0.0, None, 1.0, None, None, 1.0] == [row["statistics"].get("brain.rows") for row in found[1]]
