from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ganglion import registry
from ganglion.cli.main import main
from ganglion.cli.settings import KEYS
from ganglion.document import load_document
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan
from ganglion.supervisor.folder import RunFolder
from ganglion_graph.command import Graph, drawn, phases_graph, process_graph

Command = Callable[..., tuple[int, str, str]]
GOOD = """\
uid: u
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - one:
      environments: [{environment: {uid: hill, name: dummy, params: {max_iter: 3}}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hill.0], actuators: [hill.0]}]
      phase_config: {episodes: 1}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Write a sound document."""
    path = tmp_path / "good.yml"
    path.write_text(GOOD)
    return path


def test_json_has_stable_keys(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file has file, faults and their numbers; each fault its severity, place, path and message."""
    good.write_text(GOOD.replace("name: dummy", "name: dumy").replace('version: "0.1"', 'version: "0.9"'))
    assert 2 == main(["check", "--json", str(good)])

    [row] = json.loads(capsys.readouterr().out)
    assert ["file", "faults", "errors", "warnings"] == list(row)
    keys = ["severity", "file", "line", "column", "path", "message"]
    assert [keys, keys] == [list(fault) for fault in row["faults"]]


def test_check_imports_no_array_library() -> None:
    """Standard input is checked without numpy, structlog or zmq, and without any plugin."""
    script = "import sys; from ganglion.cli.main import main; print(main(['check', '-']), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], input=GOOD, capture_output=True, text=True)

    said, loaded, _ = done.stdout.split("\n")
    status, *names = loaded.split()
    assert ("-: no faults", "0") == (said, status)
    tops = {name.partition(".")[0] for name in names}
    assert not {"numpy", "structlog", "zmq", "uvloop", "ganglion_toys"} & tops


def test_deep(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--deep asks the constructors too; a parameter that one does not take is a fault in the document."""
    assert 2 == main(["check", "--deep", "--set", "schedule.one.agents.ada.muscle.params={gain: 1}", str(good)])

    printed = capsys.readouterr().out
    assert "gain" in printed
    assert f"{good}:8:36: schedule.one.agents.ada.muscle: " in printed


def test_strict(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings, of the document and of conditions, stand in order of line; with --strict they count as errors."""
    never = "one:\n      simulation: {conditions: [environment, {name: max_steps, params: {steps: 9}}]}"
    good.write_text(GOOD.replace("one:", never).replace('version: "0.1"', 'version: "0.9"'))
    statuses = [main(["check", *words, str(good)]) for words in ([], ["--strict"], ["--deep", "--strict"])]
    lines = capsys.readouterr().out.splitlines()

    assert [0, 2, 2] == statuses
    assert [f"{good}:3:10: ", f"{good}:7:53: "] == [line.partition("warning: ")[0] for line in lines[-3:-1]]
    assert "2 warnings" == lines[-1]


# -- graph ------------------------------------------------------------------------------------------------------------
DUMMY, ENDS = PluginPlan("dummy"), PluginPlan("max_episodes")
ENVIRONMENTS = [
    EnvironmentPlan("a", DUMMY),
    EnvironmentPlan("a.b", program=ProgramPlan(["sim", "{connection}"])),
    EnvironmentPlan("far", program=ProgramPlan()),
]
AGENTS = [
    AgentPlan("ada", PluginPlan("sarsa"), PluginPlan("learner"), DUMMY, ["a.0", "a.b.0", "a.b.1"], ["a.*"]),
    AgentPlan("bob", DUMMY, None, DUMMY, ["far.*"], [], filters=[PluginPlan("norm"), PluginPlan("delta_step")]),
]
CONTROLLER = PluginPlan("taking_turns")
TRAIN = PhasePlan(0, "one", ENVIRONMENTS, AGENTS, CONTROLLER, [PluginPlan("max_steps")], [ENDS], workers=2)
TEST = PhasePlan(1, "two", ENVIRONMENTS[:1], AGENTS[:1], CONTROLLER, [], [ENDS], mode="test", episodes=3)
PLAN = Plan("u", "u", "1", [TRAIN, TEST])


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
    assert 1 == sum(label == "think" for _, _, label, _ in graph.edges)


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
def test_file_and_run_are_the_same(ganglion: Command, good: Path, tmp_path: Path, form: str) -> None:
    """A document is drawn as it stands in a file, and as it was carried out, whatever is installed then."""
    (tmp_path / "u-1").mkdir()
    plan = load_document(good, plugins=registry)[0]
    tree = plan.to_map()
    tree["phases"][0]["environments"][0]["plugin"]["name"] = "uninstalled"
    RunFolder("u-1", tmp_path / "u-1").fill(Plan.from_map(tree), [], None)

    status, shown, _ = ganglion("graph", str(good), "--format", form)
    assert 0 == status
    assert (0, re.sub(r"(environment hill(\\n|<br/>))dummy", r"\1uninstalled", shown), "") == ganglion(
        "graph", "u", "--format", form
    )
    assert "vanilla" in shown
    assert "0: one" in ganglion("graph", "u-1", "--phases", "--format", form)[1]


MERMAID = re.compile(
    r'flowchart LR|  end|  subgraph g\d+\["[^"]*"\]|    ?n\d+\["[^"]*"\]|    n\d+\["[^"]*"\]'
    r'|  n\d+\["[^"]*"\]|  n\d+ -\.?->(\|"[^"]+"\|)? n\d+'
)
QUOTED = r'"(?:[^"\\\n]|\\.)*"'
DOT = re.compile(
    rf"digraph ganglion \{{|  rankdir=LR;|  node \[shape=box\];"
    rf"|  subgraph cluster_\d+ \{{|  \}}|\}}|    label={QUOTED};"
    rf"| {{2,4}}n\d+ \[label={QUOTED}\];|  n\d+ -> n\d+( \[(label={QUOTED})?(, )?(style=dashed)?\])?;"
)


def graph(*labels: str) -> Graph:
    """Return a graph with these labels everywhere."""
    found = Graph()
    nodes = [found.node(label, label if index % 2 else "") for index, label in enumerate(labels)]
    for index, (source, target) in enumerate(zip(nodes, nodes[1:] + nodes[:1], strict=True)):
        found.edge(source, target, labels[index], dotted=index % 2 == 0)
    return found


@pytest.mark.parametrize(("form", "line"), [("mermaid", MERMAID), ("dot", DOT)])
@given(labels=st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_any_label_stays_a_label(form: str, line: re.Pattern[str], labels: list[str]) -> None:
    """Whatever is in a uid: each line of the drawing has its form, and each node and edge is there."""
    found = graph(*labels)
    lines = "".join(drawn(found, form)).removesuffix("\n").split("\n")

    assert [] == [text for text in lines if not line.fullmatch(text)]
    assert len(found.edges) == sum("->" in re.sub(r'"[^"]*"', "", text) for text in lines)


# -- schema -----------------------------------------------------------------------------------------------------------
def test_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out writes a new file and refuses one that is there."""
    path = tmp_path / "schema.json"

    assert (0, 2) == (main(["schema", "run", "--out", str(path)]), main(["schema", "--out", str(path)]))
    assert json.loads(path.read_text())["title"] == "Ganglion run document"
    assert "nothing is overwritten" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["run", *(entry.name for entry in registry.entries("schema"))])
def test_parameters_of_plugins(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--plugins adds the parameters of what is installed, also to kinds of documents that hold run documents."""
    assert 0 == main(["schema", kind, "--plugins"])

    tree = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(tree)
    assert "dummy" in tree["$defs"]["Environment"]["properties"]["name"]["examples"]
    cases = {
        tuple(case["if"]["properties"]["name"]["enum"]): case["then"]
        for case in tree["$defs"]["Environment"]["allOf"][1:]
    }
    form = cases["dummy", "ganglion-toys:dummy"]["properties"]["params"]
    assert {"discrete", "max_iter"} <= set(form["properties"])


def test_settings_have_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """`schema config` describes the settings files: what has a variable, and the arguments of launchers."""
    assert 0 == main(["schema", "config"])
    tree = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(tree)

    assert {*KEYS, "launchers"} == set(tree["properties"])
