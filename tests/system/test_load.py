"""Models that phases begin with, on real processes: of other phases, agents, runs and folders."""

from __future__ import annotations

import json
from pathlib import Path

from system.farm import Farm

from ganglion.sdk.models import load_arrays

# Taking turns in m steps One decides ceil(m / 2) times and Two floor(m / 2) times: these numbers are their models.
CROP = """\
uid: crop
seed: 42
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - a:
      environments: [{environment: {uid: e, name: dummy, params: {max_iter: 5}}}]
      agents:
        - {name: One, brain: dummy, muscle: dummy, sensors: [e.0], actuators: [e.0]}
        - {name: Two, brain: dummy, muscle: dummy, sensors: [e.1], actuators: [e.1], models: kept}
      simulation: {name: taking_turns, conditions: [environment, {name: max_steps, params: {steps: 99}}]}
      phase_config: {mode: train, worker: 2, episodes: 1}
  - b: {environments: [{environment: {uid: e, params: {max_iter: 9}}}]}
  - c: {phase_config: {mode: test}}
  - d: {agents: [{name: One, load: {phase: 0}}, {name: Two, load: {phase: a}}]}
  - e: {agents: [{name: One, load: {phase: b, agent: Two}}, {name: Two, load: {phase: 2, agent: One}}]}
  - f: {agents: [{name: One, load: false}, {name: Two, remove: true}]}
  - g: {agents: [{name: Two, brain: dummy, muscle: dummy, sensors: [e.1], actuators: [e.1]}]}
"""


def test_models_of_earlier_phases(tmp_path: Path) -> None:
    """A phase begins with the model of a phase before, of this agent or another, or with none; in test it is kept."""
    farm = Farm(tmp_path)
    done = farm.run(CROP)
    folder = tmp_path / "results" / "crop-1" / "brains"
    tree = json.loads((folder / "models.json").read_text())
    states = {
        (tree["phases"][str(row["phase"])], row["agent"]): int(load_arrays(folder / row["path"])["state"])
        for row in tree["models"]
        if row["tag"] == ""
    }
    rows = farm.rows("brains", "crop-1")
    expected = {"a": (3, 2), "b": (5, 4), "c": (5, 4), "d": (3, 2), "e": (4, 5)}

    assert 0 == done.returncode, done.stderr
    never = "document.yml:11:73: warning: condition can never fire: max_steps 99, this environment ends after "
    assert [f"{never}9", f"{never}5"] == done.stderr.splitlines()  # once for each of the environments
    assert {**{(p, a): n for p, pair in expected.items() for a, n in zip(("One", "Two"), pair, strict=True)},
            ("g", "Two"): 5} == states  # fmt: skip
    assert 2 * len(states) == len(rows)
    digests = {(row["phase"], row["agent"], row["tag"]): row["sha256"] for row in rows}
    assert digests[1, "One", "policy"] == digests[2, "One", "policy"] == digests[4, "Two", "policy"]
