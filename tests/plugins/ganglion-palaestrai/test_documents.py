# ruff: noqa: E501 - a document is easier to compare with its neighbours on long lines
"""Whole documents in the style of palaestrAI 3.4 and 3.5: they load, are checked, and run to what is known of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

GANGLION = str(Path(sys.executable).with_name("ganglion"))
SPAN_S = 90.0  # a run of these takes a second or two; a machine under load has time

AGENT_34 = """\
        - name: {name}
          brain: {{name: "palaestrai.agent.dummy_brain:DummyBrain", params: {{{store}}}}}
          muscle: {{name: "palaestrai.agent.dummy_muscle:DummyMuscle", params: {{ }}}}
          objective: {{name: "palaestrai.agent.dummy_objective:DummyObjective", params: {{"params": 1}}}}
          sensors: [world.{a}, world.{b}]
          actuators: [world.{a}, world.{b}]
"""
SIMULATION_34 = """\
      simulation:
        name: palaestrai.simulation:VanillaSimController
        conditions:
          - name: palaestrai.simulation:VanillaSimControllerTerminationCondition
            params: {}
"""
WORLD_34 = """\
      environments:
        - environment:
            name: palaestrai.environment.dummy_environment:DummyEnvironment
            uid: world
            params: {"discrete": true}
"""
ONE_34 = AGENT_34.format(name="One", store='"store_path": "./kept"', a=0, b=1)
TWO_34 = AGENT_34.format(name="Two", store="", a=2, b=3)

# As the manual of 3.4 shows it: a number as version, everything said in both phases, models in a folder.
MANUAL = f"""\
uid: "A run, as a manual shows it!"
seed: 42
version: 3.4
schedule:
  - phase_0:
{WORLD_34}      agents:
{ONE_34}{TWO_34}{SIMULATION_34}      phase_config: {{mode: train, worker: 1, episodes: 1}}
  - phase_1:
{WORLD_34}      agents:
{ONE_34}          load: {{base: "./kept", phase_name: "phase_0"}}
{TWO_34}          load: {{phase_name: "phase_0"}}
{SIMULATION_34}      phase_config: {{mode: train, worker: 1, episodes: 1}}
run_config:
  condition: {{name: "palaestrai.experiment:VanillaRunGovernorTerminationCondition", params: {{}}}}
"""

AGENT_35 = """\
        - name: {name}
          brain: {{name: "palaestrai.agent:DummyBrain", params: {{}}}}
          muscle: {{name: "palaestrai.agent:DummyMuscle", params: {{}}}}
          objective: {{name: "palaestrai.agent:DummyObjective", params: {{params: {{}}}}}}
          sensors: [myenv.{i}]
          actuators: [myenv.{i}]
"""
WORLD_35 = """\
      environments:
        - environment: {name: "palaestrai.environment:DummyEnvironment", uid: myenv, params: {discrete: true, max_iter: MAX}}
"""

# Agents in turns; the second phase names two more, which here join the first two.
TURNS = f"""\
uid: turns
experiment_uid: games
seed: 47
version: "3.5.9"
schedule:
  - phase_0:
{WORLD_35.replace("MAX", "10")}      agents:
{AGENT_35.format(name="One", i=0)}{AGENT_35.format(name="Two", i=1)}      simulation:
        name: palaestrai.simulation:TakingTurns
        conditions: [{{name: "palaestrai.experiment:EnvironmentTerminationCondition", params: {{}}}}]
      phase_config: {{mode: train, worker: 1, episodes: 2}}
  - phase_1:
      agents:
{AGENT_35.format(name="One_2", i=2)}{AGENT_35.format(name="Two_2", i=3)}
run_config:
  condition: {{name: "palaestrai.experiment:VanillaRunGovernorTerminationCondition", params: {{}}}}
"""

# A schedule as a map, dotted names, other spellings, and a test phase that gives its phase_config only.
CASCADE = f"""\
uid: cascade
seed: 1
version: "3.5"
schedule:
  Training:
{WORLD_35.replace("MAX", "5").replace("environment:Dummy", "environment.Dummy")}      agents:
{AGENT_35.format(name="One", i=0).replace("agent:", "agent.")}      simulation: {{name: palaestrai.simulation.VanillaSimulationController, conditions: [palaestrai.experiment.EnvironmentTerminationCondition]}}
      phase_config: {{mode: training, workers: 2, episodes: 2}}
  Test:
      phase_config: {{mode: TEST, episodes: 1}}
run_config:
  condition: {{name: palaestrai.experiment.MaxEpisodesTerminationCondition, params: {{}}}}
"""

# What the generator of arsenAI writes: a uid for each agent, a complete `load`, parts without brains.
GENERATED = f"""\
uid: Generated_run-0
experiment_uid: Generated
seed: 815
version: 3.5.18
schedule:
  - phase_0:
{WORLD_35.replace("MAX", "4")}          state_transformer: {{name: "tests.fixtures:CountingWorldStateTransformer", params: {{}}}}
      agents:
        - uid: silent
          name: Silent
          brain: {{name: "palaestrai.agent.none_brain:NoneBrain", params: {{}}}}
          muscle: {{name: "palaestrai.agent.dummy_muscle:DummyMuscle", params: {{count_upwards: true}}}}
          objective: {{name: "palaestrai.agent.AggregateRewardsObjective", params: {{rewards: Dummy Reward, factor: 2.0}}}}
          sensors: [myenv.0]
          actuators: [myenv.0]
          load: {{}}
      simulation: {{name: "palaestrai.simulation:Vanilla", conditions: [{{name: "palaestrai.experiment:EnvironmentTerminationCondition", params: {{}}}}]}}
      phase_config: {{mode: train, worker: 1, episodes: 2, store_raw_actuators: true}}
run_config:
  condition: {{name: "palaestrai.experiment.max_episodes_termination_condition:MaxEpisodesTerminationCondition", params: {{}}}}
"""

# Objectives end episodes and the phase.
OBJECTIVE = f"""\
uid: objective
seed: 2
version: "3.5.11"
schedule:
  - phase_0:
{WORLD_35.replace("MAX", "7")}      agents:
{AGENT_35.format(name="One", i=0)}      simulation:
        name: palaestrai.simulation:Vanilla
        conditions:
          - {{name: "palaestrai.experiment:EnvironmentTerminationCondition", params: {{}}}}
          - {{name: "palaestrai.experiment:AgentObjectiveTerminationCondition", params: {{One: {{brain_avg5: 3}}}}}}
      phase_config: {{mode: train, worker: 2, episodes: 100}}
run_config:
  condition: {{name: "palaestrai.experiment:AgentObjectiveTerminationCondition", params: {{One: {{phase_avg2: 1}}}}}}
"""

# Evaluations end the phase: the mean of the objectives 1 2 0 is 1, at the first of them.
EVALUATION = f"""\
uid: evaluation
seed: 3
version: "3.5.18"
schedule:
  - phase_0:
{WORLD_35.replace("MAX", "3")}      agents:
{AGENT_35.format(name="One", i=0)}      simulation: {{name: "palaestrai.simulation:Vanilla", conditions: [{{name: "palaestrai.simulation:EnvironmentTerminationCondition", params: {{}}}}]}}
      phase_config: {{mode: train, worker: 1, episodes: null, evaluate_every: 2}}
run_config:
  condition:
    name: palaestrai.experiment:AgentEvaluationObjectiveTerminationCondition
    params: {{agents: {{One: {{success: {{metric: objective, threshold: 1.0}}}}}}}}
"""

DOCUMENTS = {
    "manual": MANUAL,
    "turns": TURNS,
    "cascade": CASCADE,
    "generated": GENERATED,
    "objective": OBJECTIVE,
    "evaluation": EVALUATION,
}
# What is warned of, and how many names and keys are translated.
WARNED: dict[str, list[str]] = {
    "manual": [],
    "turns": [],
    "cascade": [],
    "generated": [
        "`uid` has no effect: an agent is known by its `name`",
        "no earlier phase has the agent `Silent`: it starts fresh",
        "`store_raw_actuators` has no effect: what a muscle proposed is always stored",
    ],
    "objective": [],
    "evaluation": [],
}
TRANSLATED = {"manual": 21, "turns": 16, "cascade": 7, "generated": 8, "objective": 8, "evaluation": 7}


def ganglion(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    variables = {**os.environ, "XDG_RUNTIME_DIR": ""}
    return subprocess.run(
        [GANGLION, *words], cwd=folder, env=variables, capture_output=True, text=True, timeout=SPAN_S, check=False
    )


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Check all documents at once; return by name what was found, and under `notes` what -v says."""
    folder = tmp_path_factory.mktemp("documents")
    for name, text in DOCUMENTS.items():
        (folder / f"{name}.yml").write_text(text)
    done = ganglion(folder, "check", "-v", "--json", "--resolved", *(f"{name}.yml" for name in DOCUMENTS))
    rows = {row["file"].removesuffix(".yml"): row for row in json.loads(done.stdout)}
    for name, row in rows.items():
        row["notes"] = [line for line in done.stderr.splitlines() if f"{name}.yml:" in line]
    return rows


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_sound(checked: dict[str, dict[str, Any]], name: str) -> None:
    """A document in their style has no faults, and the warnings that are due to it."""
    faults = checked[name]["faults"]

    assert 0 == checked[name]["errors"]
    assert sorted(WARNED[name]) == sorted(fault["message"] for fault in faults)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_resolved_to_our_names(checked: dict[str, dict[str, Any]], name: str) -> None:
    """`--resolved` prints our names and spellings only."""
    text = checked[name]["resolved"]

    assert "palaestrai" not in text
    assert "store_path" not in text
    assert ["uid", "experiment_uid", "seed"] == list(yaml.safe_load(text))[:3]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_document_has_one_note(checked: dict[str, dict[str, Any]], name: str) -> None:
    """With -v one note per document lists each translated name at its place."""
    head, *lines = checked[name]["notes"]

    assert f"{name}.yml: note: {TRANSLATED[name]} names and keys of another project, read as ours:" == head
    assert TRANSLATED[name] == len(lines)
    text = DOCUMENTS[name].splitlines()
    for line in lines:
        place, _, message = line.strip().partition(": `")
        written = message.partition("`")[0]
        _, row, column = place.split(":")
        assert text[int(row) - 1][int(column) - 1 :].lstrip('"').startswith(written)


def test_a_note_is_for_those_who_ask(tmp_path: Path) -> None:
    """Without -v nothing is said of translated names."""
    (tmp_path / "a.yml").write_text(MANUAL)
    done = ganglion(tmp_path, "check", "--strict", "a.yml")

    assert (0, "a.yml: no faults\n", "") == (done.returncode, done.stdout, done.stderr)


FAULTS = [
    (
        ("palaestrai.agent.dummy_brain:DummyBrain", "palaestrai.agent.dummy_brain:DumyBrain"),
        "there is no brain `palaestrai.agent.dummy_brain:DumyBrain`; did you mean `palaestrai.agent.dummy_brain:DummyBrain`?",
    ),
    (
        ("palaestrai.agent.dummy_muscle:DummyMuscle", "palaestrai.agent:DummyBrain"),
        "there is no muscle `palaestrai.agent:DummyBrain`: it is of kind brain",
    ),
    (
        ("simulation:VanillaSimController\n", "simulation:VanilaSimController\n"),
        "there is no controller `palaestrai.simulation:VanilaSimController`; did you mean `palaestrai.simulation:VanillaSimController`?",
    ),
    (
        ("palaestrai.environment.dummy_environment:DummyEnvironment", "palaestrai.environment:EnvironmentConductor"),
        "there is no environment `palaestrai.environment:EnvironmentConductor`; did you mean `palaestrai.environment:DummyEnvironment`?",
    ),
]


def test_wrong_names_come_with_the_right_ones(tmp_path: Path) -> None:
    """A misspelt name of palaestrAI, and one of another kind, are faults that say what was meant."""
    for number, ((right, wrong), _) in enumerate(FAULTS):
        (tmp_path / f"{number}.yml").write_text(MANUAL.replace(right, wrong))
    done = ganglion(tmp_path, "check", "--json", *(f"{number}.yml" for number in range(len(FAULTS))))

    assert 2 == done.returncode
    for row, (_, message) in zip(json.loads(done.stdout), FAULTS, strict=True):
        assert {message} == {fault["message"] for fault in row["faults"] if fault["severity"] == "error"}


def test_documents_from_the_network_may_use_the_names(tmp_path: Path) -> None:
    """The names of the table are no import paths: a document that came over the network may have them."""
    script = (
        "import sys; from ganglion import registry; from ganglion.document import load_document; "
        "plan, faults = load_document('a.yml', plugins=registry, text=sys.stdin.read(), local=False); "
        "print(plan.phases[0].environments[0].plugin.name, len(faults))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=TURNS, capture_output=True, text=True, check=False)

    assert (0, "dummy 0\n") == (done.returncode, done.stdout), done.stderr


# -- real runs --------------------------------------------------------------------------------------------------------


def carried_out(folder: Path, name: str, tables: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Run a document; return tables of its results."""
    (folder / "document.yml").write_text(DOCUMENTS[name])
    done = ganglion(folder, "run", "--plain", "document.yml")
    assert 0 == done.returncode, done.stdout + done.stderr
    uid = yaml.safe_load(DOCUMENTS[name])["uid"]
    return {
        table: json.loads(ganglion(folder, "results", "--table", table, uid, "--format", "json").stdout)
        for table in tables
    }


def sums(rows: list[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], tuple[int, float]]:
    """Return per key how many rows there are and the sum of their objectives."""
    found: dict[tuple[Any, ...], tuple[int, float]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        count, total = found.get(key, (0, 0.0))
        found[key] = (count + 1, total + (row["objective"] or 0.0))
    return found


def test_a_run_as_the_manual_shows_it(tmp_path: Path) -> None:
    """Two phases of 10 steps with 45 per agent; models go to the folder that was `store_path`, and are loaded again."""
    found = carried_out(tmp_path, "manual", ["steps", "actions", "phases"])

    assert 20 == len(found["steps"])
    expected = {(phase, agent): (10, 45.0) for phase in (0, 1) for agent in ("One", "Two")}
    assert expected == sums(found["actions"], "phase", "agent")
    assert ["max_episodes"] * 2 == [phase["reason"] for phase in found["phases"]]
    assert list((tmp_path / "kept").rglob("*.npz"))


@pytest.mark.long
def test_a_run_in_turns(tmp_path: Path) -> None:
    """Two agents in turns have 25 and 20 per episode; the second phase's join them: 15, 8, 10, 12."""
    found = carried_out(tmp_path, "turns", ["actions", "runs"])

    expected = {(0, "One"): (10, 50.0), (0, "Two"): (10, 40.0), (1, "One"): (6, 30.0), (1, "Two"): (6, 16.0)}
    expected |= {(1, "One_2"): (4, 20.0), (1, "Two_2"): (4, 24.0)}
    assert expected == sums(found["actions"], "phase", "agent")
    assert [("finished", "games")] == [(run["status"], run["experiment"]) for run in found["runs"]]


@pytest.mark.long
def test_a_run_whose_second_phase_gives_its_config_only(tmp_path: Path) -> None:
    """Two workers train two episodes of 5 each; the test phase inherits all else and has one."""
    found = carried_out(tmp_path, "cascade", ["episodes", "actions"])

    assert [("train", 2, 5)] * 4 + [("test", 1, 5)] * 2 == [
        (row["mode"], 2 if row["phase"] == 0 else 1, row["steps"]) for row in found["episodes"]
    ]
    assert {(0, 0): (10, 20.0), (0, 1): (10, 20.0), (1, 0): (5, 10.0), (1, 1): (5, 10.0)} == sums(
        found["actions"], "phase", "worker"
    )


@pytest.mark.long
def test_a_run_that_was_generated(tmp_path: Path) -> None:
    """An agent without a brain counts upwards; its objective is twice the reward that was named without brackets."""
    found = carried_out(tmp_path, "generated", ["actions", "steps"])

    assert [0, 1, 2, 3] * 2 == [row["setpoints"]["myenv.0"] for row in found["actions"]]
    assert [2.0, 4.0, 6.0, 0.0] * 2 == [row["objective"] for row in found["actions"]]
    assert [1, 2, 3, 4] * 2 == [row["step"] for row in found["steps"]]


@pytest.mark.long
def test_a_run_that_objectives_end(tmp_path: Path) -> None:
    """Each worker has two episodes of 5 steps with the sum 15; then the phase ends."""
    found = carried_out(tmp_path, "objective", ["actions", "phases"])

    assert {(worker, episode): (5, 15.0) for worker in (0, 1) for episode in (0, 1)} == sums(
        found["actions"], "worker", "episode"
    )
    assert ["agent_objective"] == [phase["reason"].partition(":")[0] for phase in found["phases"]]


@pytest.mark.long
def test_a_run_that_an_evaluation_ends(tmp_path: Path) -> None:
    """Two training episodes, one evaluation whose mean reaches the threshold, and no episode after it."""
    found = carried_out(tmp_path, "evaluation", ["episodes", "phases"])

    assert [("train", 0), ("train", 1), ("evaluate", 0)] == [(row["mode"], row["episode"]) for row in found["episodes"]]
    assert "success" == next(phase["reason"] for phase in found["phases"] if phase["mode"] == "train").partition(":")[0]
