"""Models that phases begin with, on real processes: of other phases, agents, runs and folders."""

from __future__ import annotations

import json
import subprocess

import pytest
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
      simulation: {name: taking_turns, conditions: [environment]}
      phase_config: {mode: train, worker: 2, episodes: 1}
  - b: {environments: [{environment: {uid: e, params: {max_iter: 9}}}]}
  - c: {phase_config: {mode: test}}
  - d: {agents: [{name: One, load: {phase: 0}}, {name: Two, load: {phase: a}}]}
  - e: {agents: [{name: One, load: {phase: b, agent: Two}}, {name: Two, load: {phase: 2, agent: One}}]}
  - f: {agents: [{name: One, load: false}, {name: Two, remove: true}]}
  - g: {agents: [{name: Two, brain: dummy, muscle: dummy, sensors: [e.1], actuators: [e.1]}]}
"""
FIELD = """\
uid: field
seed: 42
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - one:
      environments: [{environment: {uid: e, name: dummy, params: {max_iter: 2}}}]
      agents:
        - {name: One, brain: dummy, muscle: dummy, sensors: [e.0], actuators: [e.0], load: LOAD_ONE}
        - {name: Two, brain: dummy, muscle: dummy, sensors: [e.1], actuators: [e.1], models: kept, load: LOAD_TWO}
      phase_config: {mode: test, episodes: 1}
"""


class Fields(Farm):
    """Run documents in a folder of their own, and look at the models that they leave."""

    def field(self, one: str, two: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the short document with these two values of `load`."""
        return self.run(FIELD.replace("LOAD_ONE", one).replace("LOAD_TWO", two), *options)

    def states(self, run: str, results: str = "results") -> dict[tuple[str, str], int]:
        """Return (name of the phase, agent) -> state of the model that it left, by the index of the run's folder."""
        folder = self.folder / results / run / "brains"
        tree = json.loads((folder / "models.json").read_text())
        return {
            (tree["phases"][str(row["phase"])], row["agent"]): int(load_arrays(folder / row["path"])["state"])
            for row in tree["models"]
            if row["tag"] == ""
        }


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Fields:
    """Return a folder in which `crop` has run once."""
    fields = Fields(tmp_path_factory.mktemp("fields"))
    done = fields.run(CROP)
    assert 0 == done.returncode, done.stderr
    return fields


def test_models_of_earlier_phases(fields: Fields) -> None:
    """A phase begins with the model of a phase before, of this agent or another, or with none; in test it is kept."""
    states = fields.states("crop-1")

    expected = {"a": (3, 2), "b": (5, 4), "c": (5, 4), "d": (3, 2), "e": (4, 5)}
    assert {**{(p, a): n for p, pair in expected.items() for a, n in zip(("One", "Two"), pair, strict=True)},
            ("g", "Two"): 5} == states  # fmt: skip
    rows = fields.rows("brains", "crop-1")
    assert 2 * len(states) == len(rows)
    digests = {(row["phase"], row["agent"], row["tag"]): row["sha256"] for row in rows}
    assert digests[1, "One", "policy"] == digests[2, "One", "policy"] == digests[4, "Two", "policy"]


@pytest.mark.long
def test_models_of_other_runs(fields: Fields) -> None:
    """They are found by uid and by id in the store, and in a folder and in `models` without one."""
    done = fields.field("{experiment_run: crop, agent: Two, phase: b}", "{instance: crop-1}")
    assert 0 == done.returncode, done.stderr
    assert {("one", "One"): 4, ("one", "Two"): 5} == fields.states("field-1")

    base = "{base: results/crop-1, phase: d}"
    done = fields.field(base, "{experiment_run: crop, phase: 0}", "--results", "elsewhere", "--store", "none")
    assert 0 == done.returncode, done.stderr
    assert {("one", "One"): 3, ("one", "Two"): 2} == fields.states("field-1", "elsewhere")


def test_a_model_that_is_nowhere(fields: Fields) -> None:
    """It ends the run before a step, with 2, the place and where was looked; an optional one is a warning."""
    done = fields.field("{experiment_run: corn, base: kept}", "~", "--name", "lost")

    assert 2 == done.returncode
    for words in (
        "document.yml:9:92: schedule.one.agents.One.load: the model of agent `One` from the newest finished run of",
        f"in base {fields.folder}/kept: there is no run of `corn`",
        f"in the store sqlite:///{fields.folder}/results/ganglion.db: there is no run of `corn`",
    ):
        assert words in done.stderr
    assert ([], ["failed"]) == (fields.rows("steps", "lost"), [row["status"] for row in fields.rows("phases", "lost")])
    done = fields.field("{experiment_run: corn, optional: true}", "{optional: true}", "--name", "fresh")
    assert (0, 1) == (done.returncode, done.stderr.count("warning: "))
    assert "it starts fresh" in done.stderr
    assert {} == fields.states("fresh")


def test_a_damaged_model_is_refused(fields: Fields) -> None:
    """A file that is not what the run has stored fails the run by its name, before a step."""
    path = fields.folder / "results" / "crop-1" / "brains" / "0" / "One" / "model.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"!")
    try:
        done = fields.field("{instance: crop-1, phase: a}", "~")
    finally:
        path.write_bytes(whole)

    assert 1 == done.returncode
    assert f"model of agent `One`: {path}: expected SHA-256" in done.stderr
    assert "0 steps" in done.stdout
