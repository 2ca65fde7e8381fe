# ruff: noqa: E501 - a document is easier to compare with its neighbours on long lines
"""Whole documents in the style of palaestrAI 3.4 and 3.5: they load, are checked, and run to what is known of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from system.command import ganglion
from system.results import table

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

ORACLE = Path(__file__).parents[2] / "oracle"
NAMES = ("turns", "cascade", "generated", "objective", "evaluation")  # these run as cases of the oracle
DOCUMENTS = {"manual": MANUAL, **{name: (ORACLE / f"palaestrai_{name}.yml").read_text() for name in NAMES}}
# What is warned of, and how many names and keys are translated.
WARNED: dict[str, list[str]] = {
    "manual": [],
    "turns": [],
    "cascade": [],
    "generated": [
        "`uid` has no effect: an agent is known by its `name`",
        "no earlier phase has the agent `Silent`: it starts fresh",
        "`store_raw_actuators` has no effect: a muscle's proposals are always stored",
    ],
    "objective": [],
    "evaluation": [],
}
TRANSLATED = {"manual": 21, "turns": 16, "cascade": 7, "generated": 8, "objective": 8, "evaluation": 7}


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

    assert not re.search(r"palaestrai[.:]", text)
    assert "store_path" not in text
    assert ["uid", "experiment_uid", "seed"] == list(yaml.safe_load(text))[:3]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_document_has_one_note(checked: dict[str, dict[str, Any]], name: str) -> None:
    """With -v one note per document lists each translated name at its place."""
    head, *lines = checked[name]["notes"]

    assert f"{name}.yml: note: {TRANSLATED[name]} names and keys of another project:" == head
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


@pytest.mark.skipif(
    find_spec("palaestrai") is not None, reason="palaestrAI itself is installed, and asked for its names"
)
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
    done = subprocess.run(
        [sys.executable, "-c", script], input=DOCUMENTS["turns"], capture_output=True, text=True, check=False
    )

    assert (0, "dummy 0\n") == (done.returncode, done.stdout), done.stderr


# -- real runs --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_run_as_the_manual_shows_it(tmp_path: Path) -> None:
    """Two phases of 10 steps with 45 per agent; models go to the folder that was `store_path`, and are loaded again."""
    (tmp_path / "document.yml").write_text(MANUAL)
    done = ganglion(tmp_path, "run", "--plain", "document.yml")
    assert 0 == done.returncode, done.stdout + done.stderr
    rows = table(tmp_path, "actions")

    assert {(phase, agent): 10 for phase in (0, 1) for agent in ("One", "Two")} == Counter(
        (row["phase"], row["agent"]) for row in rows
    )
    assert 4 * 45.0 == sum(row["objective"] for row in rows)
    assert list((tmp_path / "kept").rglob("*.npz"))
