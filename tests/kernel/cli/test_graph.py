from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.documents import phases_graph, process_graph
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan

Command = Callable[..., tuple[int, str, str]]
DUMMY, ENDS = PluginPlan("dummy"), PluginPlan("max_episodes")
ENVIRONMENTS = [
    EnvironmentPlan("a", DUMMY),
    EnvironmentPlan("a.b", command=["sim", "{connection}"]),
    EnvironmentPlan("far", attach=True),
]
AGENTS = [
    AgentPlan("ada", PluginPlan("sarsa"), PluginPlan("learner"), DUMMY, ["a.0", "a.b.0", "a.b.1"], ["a.*"]),
    AgentPlan("bob", DUMMY, None, DUMMY, ["far.*"], []),
]
CONTROLLER = PluginPlan("taking_turns")
TRAIN = PhasePlan(0, "one", ENVIRONMENTS, AGENTS, CONTROLLER, [PluginPlan("max_steps")], [ENDS], workers=2)
TEST = PhasePlan(1, "two", ENVIRONMENTS[:1], AGENTS[:1], CONTROLLER, [], [ENDS], mode="test", episodes=3)
PLAN = Plan("u", "u", "1", [TRAIN, TEST])

DOCUMENT = """\
uid: u
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - one:
      environments: [{environment: {uid: hill, name: dummy}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hill.0], actuators: [hill.0]}]
      phase_config: {episodes: 1}
"""


def edges(plan: Plan, phases: bool = False) -> set[tuple[str, str, str, bool]]:
    """Return the edges of a graph by the first lines of their nodes' labels."""
    graph = phases_graph(plan) if phases else process_graph(plan)
    name = [label.split("\n")[0] for label in graph.labels]
    return {(name[source], name[target], label, dotted) for source, target, label, dotted in graph.edges}


def test_filters_stand_with_their_agent() -> None:
    """They are named in document order, in the muscle's node."""
    agent = dataclasses.replace(TRAIN.agents[0], filters=[PluginPlan("norm"), PluginPlan("delta_step")])
    plan = Plan("u", "u", "1", [dataclasses.replace(TRAIN, agents=[agent])])
    label = next(label for label in process_graph(plan).labels if label.startswith("muscle ada"))

    assert ["filter norm", "filter delta_step"] == label.split("\n")[2:4]


def test_copies_and_forms_are_said() -> None:
    """Each node says what it runs and how many of it there are; in a test phase nobody thinks."""
    graph = process_graph(PLAN)

    assert "environment a.b\ncommand sim\n2 workers" in graph.labels
    assert "environment far\nattach\n2 workers" in graph.labels
    assert {"brain ada\nlearner", "controller\ntaking_turns"} <= set(graph.labels)
    assert ["", "phase 0: one (train, lockstep)", "phase 1: two (test, lockstep)"] == list(graph.groups)
    assert 1 == [label for _, _, label, _ in graph.edges].count("think")


def test_phases_and_conditions() -> None:
    """Phases follow one another by what ends them; what ends an episode leads back."""
    assert edges(PLAN, phases=True) == {
        ("0: one", "0: one", "episode: max_steps, max_episodes", True),
        ("0: one", "1: two", "max_episodes", False),
        ("1: two", "1: two", "episode: max_episodes", True),
        ("1: two", "end", "max_episodes", False),
    }


@pytest.mark.parametrize("form", ["mermaid", "dot"])
def test_file_and_run_are_the_same(ganglion: Command, tmp_path: Path, form: str) -> None:
    """A document is drawn as it stands in a file, and as it was kept with a run, whatever is installed then."""
    (tmp_path / "one.yml").write_text(DOCUMENT)
    folder = tmp_path / "u-1"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"run": "u-1", "uid": "u"}')
    resolved = ganglion("check", "--resolved", str(tmp_path / "one.yml"))[1]
    (folder / "resolved.yml").write_text(resolved.replace("name: dummy", "name: uninstalled"))

    status, drawn, _ = ganglion("graph", str(tmp_path / "one.yml"), "--format", form)
    assert 0 == status
    assert (0, drawn.replace("\\ndummy", "\\nuninstalled").replace("<br/>dummy", "<br/>uninstalled"), "") == ganglion(
        "graph", "u", "--format", form
    )
    assert "vanilla" in drawn
    assert "0: one" in ganglion("graph", "u-1", "--phases", "--format", form)[1]


def test_faulty_document_and_unknown_run(ganglion: Command, tmp_path: Path) -> None:
    """A faulty document, a missing file and an unknown run are exit 2 and say what is wrong."""
    (tmp_path / "one.yml").write_text(DOCUMENT.replace("name: dummy", "name: dumy"))

    assert "did you mean `dummy`?" in ganglion("graph", str(tmp_path / "one.yml"))[2]
    for source in (str(tmp_path / "one.yml"), str(tmp_path / "none.yml"), "nobody"):
        assert 2 == ganglion("graph", source)[0]
