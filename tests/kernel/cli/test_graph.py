from __future__ import annotations

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
    AgentPlan("bob", DUMMY, None, DUMMY, ["far.*"], [], filters=[PluginPlan("norm"), PluginPlan("delta_step")]),
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


def test_copies_and_forms_are_said() -> None:
    """Each node says what it runs and how many of it there are; in a test phase nobody thinks."""
    graph = process_graph(PLAN)

    assert {
        "environment a.b\ncommand sim\n2 workers",
        "environment far\nattach\n2 workers",
        "muscle bob\ndummy\nfilter norm\nfilter delta_step\n2 workers",
        "brain ada\nlearner",
        "controller\ntaking_turns",
    } <= set(graph.labels)
    assert ["", "phase 0: one (train, lockstep)", "phase 1: two (test, lockstep)"] == list(graph.groups)
    assert 1 == [label for _, _, label, _ in graph.edges].count("think")


def test_phases_and_conditions() -> None:
    """Phases follow one another by what ends them; what ends an episode leads back."""
    graph = phases_graph(PLAN)
    name = [label.split("\n")[0] for label in graph.labels]
    assert {(name[source], name[target], label, dotted) for source, target, label, dotted in graph.edges} == {
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
