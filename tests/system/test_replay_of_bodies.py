"""Real runs whose agents have bodies, and learn from what bodies, or agents without any, did before."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion
from system.results import table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

DOCUMENT = """
uid: replayed
seed: 3
version: "0.1"
run_config: {{condition: vanilla}}
schedule:
  - record:
      environments:
        - environment: {{uid: lake, name: counting, params: {{length: [2, 3]}}}}
          budget: {{episodes: 2}}
          episode_end: {end}
        - {{environment: {{uid: moor, name: counting, params: {{length: 4}}}}, budget: {{episodes: 1}}}}
      agents: [{{name: ada, brain: log, muscle: echo, objective: aggregate_rewards}}]
      bodies: {{num: [2, 1]}}
      simulation: {{name: aeb}}
  - learn:
      agents:
        - name: ada
          brain: {{name: log, params: {{path: log.jsonl}}}}
          filters: {filters}
          replay: [{{phase: record{only}}}]
      bodies: {{num: [2, 1]}}
"""
PLAIN = """
uid: replayed
seed: 3
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - record:
      environments: [{environment: {uid: lake, name: counting, params: {length: 3, anonymous: true}}}]
      agents:
        - {name: ada, brain: log, muscle: echo, objective: aggregate_rewards, sensors: [lake.*], actuators: [lake.*]}
      phase_config: {episodes: 2}
  - learn:
      environments: [{environment: {uid: lake}, budget: {episodes: 1}}]
      agents: [{name: ada, brain: {name: log, params: {path: log.jsonl}}, replay: [{phase: record}]}]
      bodies: {num: 2}
      simulation: {name: aeb}
"""


def heard(folder: Path, text: str) -> list[dict[str, Any]]:
    """Carry out a document; return what the brain of its second phase heard, message by message."""
    (folder / "run.yml").write_text(text)
    done = ganglion(folder, "run", "run.yml")
    assert 0 == done.returncode, done.stderr
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["phase"] == 1]


@pytest.mark.parametrize(
    ("end", "filters"), [pytest.param("all", "[]", marks=pytest.mark.long), ("each", "[delta_obs, norm]")]
)
def test_a_brain_learns_from_recorded_bodies(tmp_path: Path, end: str, filters: str) -> None:
    """It hears of all decisions of each body, as those of that body, episode by episode, before its own."""
    lines = heard(tmp_path, DOCUMENT.format(end=end, filters=filters, only=""))
    actions = [row for row in table(tmp_path, "actions") if row["phase"] == 0]
    found = lines[: len(actions)]
    keys = [(*line["environment"], *line["body"], *line["episode"], *line["step"]) for line in found]

    assert {1} == {len(line["step"]) for line in found}
    assert 3 == len(lines[len(found)]["step"])
    assert {(r["environment"], r["body"], r["episode"], r["step"]): r["objective"] for r in actions} == {
        key: line["rewards"][0] for key, line in zip(keys, found, strict=True)
    }
    assert keys == sorted(keys, key=lambda key: (key[2], key[0], key[1], key[3]))


def test_a_brain_learns_from_one_environment_alone(tmp_path: Path) -> None:
    """`environment` leaves out the bodies in others."""
    lines = heard(tmp_path, DOCUMENT.format(end="all", filters="[]", only=", environment: moor"))

    assert [("moor", 0, step) for step in range(4)] == [
        (*line["environment"], *line["body"], *line["step"]) for line in lines[:4]
    ]
    assert 3 == len(lines[4]["step"])


def test_bodies_learn_from_an_agent_without_any(tmp_path: Path) -> None:
    """Its decisions are told as those of the first body."""
    lines = heard(tmp_path, PLAIN)

    assert [(0, episode, step) for episode in range(2) for step in range(3)] == [
        (*line["body"], *line["episode"], *line["step"]) for line in lines[:6]
    ]
    assert [[0, 1]] * 3 == [line["body"] for line in lines[6:]]
