"""palaestrAI's own classes in runs of ours; skipped where it is not installed (`scripts/setup --with palaestrai`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("palaestrai", reason="palaestrAI is not installed: scripts/setup --with palaestrai")
pytestmark = pytest.mark.long

GANGLION = str(Path(sys.executable).with_name("ganglion"))
SPAN_S = 600.0  # torch alone takes ten seconds to import on a slow machine, in each process

DUMMY = """\
uid: dummies
seed: 42
version: "3.5"
palaestrai: real
schedule:
  - phase_0:
      environments:
        - environment: {name: "palaestrai.environment:DummyEnvironment", uid: world, params: {discrete: true}}
      agents:
        - name: one
          brain: {name: "palaestrai.agent.dummy_brain:DummyBrain", params: {}}
          muscle: {name: "palaestrai.agent.dummy_muscle:DummyMuscle", params: {}}
          objective: {name: "palaestrai.agent.dummy_objective:DummyObjective", params: {params: 1}}
          sensors: [world.0, world.1]
          actuators: [world.0, world.1]
        - name: two
          brain: {name: "palaestrai.agent:DummyBrain", params: {}}
          muscle: {name: "palaestrai.agent:DummyMuscle", params: {}}
          objective: {name: "palaestrai.agent:DummyObjective", params: {params: 1}}
          sensors: [world.2]
          actuators: [world.3]
      simulation: {name: vanilla, conditions: [{name: environment}]}
      phase_config: {mode: train, worker: 1, episodes: 2}
run_config: {condition: {name: vanilla}}
"""


def ganglion(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what a command said, run in a folder."""
    return subprocess.run(
        [GANGLION, *arguments], cwd=folder, capture_output=True, text=True, timeout=SPAN_S, check=False
    )


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a document, and hold it to success."""
    (folder / "run.yml").write_text(text)
    found = ganglion(folder, "run", "run.yml", *arguments)
    assert found.returncode == 0, found.stdout + found.stderr
    return found


def table(folder: Path, name: str, run_id: str = "last") -> list[dict[str, Any]]:
    """Return the rows of a table of a run."""
    rows: list[dict[str, Any]] = json.loads(ganglion(folder, "results", name, run_id, "--format", "json").stdout)
    return rows


def test_their_dummies_come_out_as_ours(tmp_path: Path) -> None:
    """Environment, brains, muscles and objectives of palaestrAI make the episodes that its own dummies make."""
    run(tmp_path, DUMMY)

    rows = table(tmp_path, "actions")

    sums = {(agent, e): sum(r["objective"] for r in rows if (r["agent"], r["episode"]) == (agent, e))
            for agent in ("one", "two") for e in (0, 1)}  # fmt: skip
    assert sums == dict.fromkeys(sums, 45.0)
    assert [row["steps"] for row in table(tmp_path, "episodes")] == [10, 10]


def test_two_runs_of_one_seed_are_equal(tmp_path: Path) -> None:
    """What palaestrAI's spaces draw without a seed comes from the seed of the run."""
    run(tmp_path, DUMMY)
    first = table(tmp_path, "actions")
    run(tmp_path, DUMMY)

    again = table(tmp_path, "actions")

    assert [{**row, "run": ""} for row in again] == [{**row, "run": ""} for row in first]


def test_a_class_of_another_kind_is_named(tmp_path: Path) -> None:
    """A brain where a muscle belongs is refused before anything starts, by its place and kind."""
    (tmp_path / "run.yml").write_text(DUMMY.replace("dummy_muscle:DummyMuscle", "dummy_brain:DummyBrain"))

    found = ganglion(tmp_path, "run", "run.yml")

    assert found.returncode == 2
    assert "run.yml:12" in found.stdout + found.stderr
    assert (
        "expected a subclass of palaestrai.agent.Muscle, and it is a brain of palaestrAI" in found.stdout + found.stderr
    )
