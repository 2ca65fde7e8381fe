from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ganglion.document import load_document, resolved
from ganglion.document.cascade import put
from ganglion.document.fault import Fault
from ganglion.document.reader import load_tree, read_tree
from ganglion.document.spelling import PLACES, normalise
from ganglion.errors import DocumentError
from ganglion.limits import DOCUMENT_BYTES, DOCUMENT_BYTES_REMOTE
from ganglion.run.plan import Plan

Load = Callable[..., tuple[Plan, list[Fault]]]
Said = Callable[..., list[str]]

TEXT = """\
uid: u
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - one:
      environments: [{environment: {uid: hill, name: dummy, params: {a: 1}}}]
      agents: [{name: ada, muscle: dummy, sensors: [hill.0]}]
      phase_config: {episodes: 1}
"""


class AnyPlugin:
    """Know every plugin, and remember what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def locate(self, kind: str, name: str, folder: str = "", allow: Any = (), local: bool = True) -> None:
        """Remember the question."""
        self.asked.append((kind, name, folder, tuple(allow), local))

    def alias(self, kind: str, name: str) -> None:
        """Know no names of other projects."""


def test_reads_a_file(tmp_path: Path) -> None:
    """A file gives a plan with its folder, whatever mark of byte order it has."""
    path = tmp_path / "run.yml"
    path.write_bytes(b"\xef\xbb\xbf%YAML 1.2\n---\n" + TEXT.encode())

    plan, warnings = load_document(path, plugins=AnyPlugin())

    assert [] == warnings
    assert (str(path), str(tmp_path)) == (plan.source, plan.folder)
    assert f"{path}:10:36: schedule.one.agents.ada.muscle" == plan.phases[0].agents[0].muscle.at


def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` is standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))

    plan, _ = load_document("-", plugins=AnyPlugin())

    assert ("<stdin>", str(Path.cwd())) == (plan.source, plan.folder)


def test_asks_for_plugins_by_kind(tmp_path: Path) -> None:
    """Each plugin is looked up once, with the folder and what is allowed."""
    plugins = AnyPlugin()

    load_document(tmp_path / "a.yml", plugins=plugins, text=TEXT, allow=["mine"])

    kinds = [("environment", "dummy"), ("muscle", "dummy"), ("condition", "max_episodes")]
    assert [(*kind, str(tmp_path), ("mine",), True) for kind in kinds] == plugins.asked


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (None, "run.yml: cannot be read: No such file or directory"),
        (b"a: \xff", "run.yml:1:4: expected UTF-8, found the byte 0xff"),
        (b"#" * (DOCUMENT_BYTES + 1), "expected at most 4194304 bytes, found more (limit document_bytes)"),
        (b"", "run.yml:1:1: expected a map with the keys of a run, found nothing"),
        (b"[1]", "run.yml:1:1: expected a map with the keys of a run, found a list"),
        (b"a: [", "run.yml:1:5: not YAML: while parsing a flow node"),
    ],
)
def test_unreadable(tmp_path: Path, data: bytes | None, fault: str) -> None:
    """A file that is missing, too large, not UTF-8, not YAML or no map is one fault."""
    if data is not None:
        (tmp_path / "run.yml").write_bytes(data)

    with pytest.raises(DocumentError) as caught:
        load_document(tmp_path / "run.yml", plugins=AnyPlugin())

    assert 1 == len(caught.value.faults)
    assert fault in str(caught.value)


def test_all_stages_report_together(faults_of: Said) -> None:
    """Faults of YAML, spelling, form, names and what is not built come in one list, in order of place."""
    text = TEXT.replace("uid: u\n", "uid: u\nuid: v\nexperiment: 3\n").replace("name: dummy", "name: dumy")
    text = text.replace("hill.0", "hil.0").replace(
        "episodes: 1}", "episodes: 1, worker: 1, workers: 2, sync: async}\n      bodies: [ada]"
    )

    assert [
        "2:1: duplicate key `uid`, first given in line 1",
        "3:13: experiment: expected text of 1 to 256 bytes without / [ ] and control characters, found the number 3",
        "9:54: schedule.one.environments.hill.environment.name: there is no environment `dumy`",
        "10:53: schedule.one.agents.ada.sensors.0: there is no environment `hil` in phase `one`; did you mean `hill`?",
        "11:46: schedule.one.phase_config.workers: `workers` and `worker` mean the same: give one of them",
        "11:64: warning: `sync: async` is not reproducible: updates come in order of arrival",
        "12:15: schedule.one.bodies: not built yet: bodies",
    ] == faults_of(text)


@pytest.mark.parametrize(
    "text", ["uid: rates\nrun: {schedule: []}\nfactors: {}\n", "uid: rates\ndefinitions: {}\nschedule: []\noutput: x\n"]
)
def test_an_experiment_is_no_run(text: str, faults_of: Said) -> None:
    """A document of many runs has one fault, which says what it is and which command takes it."""
    (fault,) = faults_of(text)

    assert "2:1: this is an experiment of many runs, no run: `ganglion sweep` carries it out" in fault


def test_report_has_lines_carets_and_a_sum(load: Load) -> None:
    """The error's text is what a command prints."""
    with pytest.raises(DocumentError) as caught:
        load(TEXT.replace("seed: 1", "seed: one"))

    expected = "run.yml:2:7: seed: expected an integer >= 0, found the text 'one'\nseed: one\n      ^^^\n1 error"
    assert expected == str(caught.value)
    assert 2 == caught.value.exit_status


def test_settings_and_seed(load: Load, faults_of: Said) -> None:
    """Settings act before checking; their faults are located at the option, the seed's own too."""
    plan, _ = load(
        TEXT, overrides=["schedule.one.phase_config.workers=2", "schedule.one.agents.ada.brain=dummy"], seed=7
    )

    assert (2, "7") == (plan.phases[0].workers, plan.seed)
    assert "dummy" == (plan.phases[0].agents[0].brain and plan.phases[0].agents[0].brain.name)
    assert ["--set seed=x: seed: expected an integer >= 0, found the text 'x'"] == faults_of(TEXT, overrides=["seed=x"])
    assert ["--seed -1: seed: expected an integer >= 0, found the number -1"] == faults_of(TEXT, seed=-1)
    said = faults_of(TEXT, overrides=["schedule.one.phase_config.wrker=2"])
    assert [
        "--set schedule.one.phase_config.wrker=2: schedule.one.phase_config.wrker: unknown key; did you mean `worker`?"
    ] == said


def test_commands_can_be_denied(faults_of: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may have no document start programs, local ones included."""
    program = TEXT.replace("name: dummy, params: {a: 1}", "command: [sh]")
    path = "schedule.one.environments.hill.environment.command"
    assert [] == faults_of(program)
    monkeypatch.setenv("GANGLION_COMMANDS", "deny")

    assert [f"7:57: {path}: documents start no programs here (GANGLION_COMMANDS=deny)"] == faults_of(program)
    assert [] == faults_of(TEXT)


def test_network_documents(load: Load, faults_of: Said) -> None:
    """A document from elsewhere starts no programs, has no folder, and is smaller."""
    plan, _ = load(TEXT, local=False)

    assert "" == plan.folder
    program = TEXT.replace("name: dummy, params: {a: 1}", "command: [sh]")
    path = "schedule.one.environments.hill.environment.command"
    assert [f"7:57: {path}: a document that came over the network starts no programs"] == faults_of(
        program, local=False
    )
    writes = TEXT.replace("muscle: dummy", "muscle: dummy, models: /tmp", 1)
    assert ["a document that came over the network names no folder to write to"] == [
        fault.rpartition(": ")[2] for fault in faults_of(writes, local=False)
    ]
    assert [] == faults_of(writes)
    for place in ("store", "sqlite:///models.db"):
        stored = TEXT.replace("muscle: dummy", f"muscle: dummy, models: '{place}'", 1)
        [fault] = faults_of(stored)
        assert "expected a directory (`./store` for one of that name" in fault
    reads = TEXT.replace("muscle: dummy", "muscle: dummy, load: {base: /tmp/models, agent: ada}", 1)
    assert ["a document that came over the network names no place to read from"] == [
        fault.rpartition(": ")[2] for fault in faults_of(reads, local=False)
    ]
    assert [] == faults_of(reads)
    learns = TEXT.replace("muscle: dummy", "muscle: dummy, brain: dummy, replay: [{base: /tmp/kept}]", 1)
    assert ["a document that came over the network names no place to read from"] == [
        fault.rpartition(": ")[2] for fault in faults_of(learns, local=False)
    ]
    for other in (
        TEXT + "recovery: {run_as: bob}\n",
        TEXT.replace("muscle: dummy", "muscle: dummy, recovery: {run_as: bob}", 1),
    ):
        assert ["a document that came over the network chooses no user"] == [
            fault.rpartition(": ")[2] for fault in faults_of(other, local=False)
        ]
        assert [] == faults_of(other)
    large = TEXT + "#" * DOCUMENT_BYTES_REMOTE
    assert [] == faults_of(large)
    assert 1 == len(faults_of(large, local=False))


def test_anchors_for_agents(load: Load) -> None:
    """Anchors below an `x-` key, merge keys and aliases as keys make a document short."""
    text = """\
x-names: [&ada ada]
x-agent: &agent {muscle: dummy, sensors: [hill.0]}
uid: u
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - *ada :
      environments: [{environment: {uid: hill, name: dummy}}]
      agents: [{<<: *agent, name: *ada}, {<<: *agent, name: bob, sensors: []}]
      phase_config: {episodes: 1}
"""
    (phase,) = load(text)[0].phases

    assert ("ada", ["ada", "bob"]) == (phase.name, [agent.name for agent in phase.agents])
    assert [["hill.0"], []] == [agent.sensors for agent in phase.agents]


WORDS = sorted(
    {word for place in PLACES.values() for word in [*place.spellings, *place.spellings.values(), *place.parts]}
    | {"uid", "seed", "name", "params", "command", "attach", "remove", "sensors", "rewards", "recovery", "cascade"}
)
SCALARS = st.sampled_from([None, True, False, 0, 1, -1, 2.5, "", "a", "a.b", "hill.*", "dummy", "replace", *WORDS])
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "x-b", *WORDS]), inner, max_size=5)
    ),
    max_leaves=25,
)
PLACED = st.sampled_from(
    [
        [],
        ["schedule"],
        ["schedule", 0, "one"],
        ["schedule", 0, "one", "environments"],
        ["schedule", 0, "one", "environments", 0],
        ["schedule", 0, "one", "environments", 0, "environment"],
        ["schedule", 0, "one", "environments", 0, "environment", "uid"],
        ["schedule", 0, "one", "agents"],
        ["schedule", 0, "one", "agents", 0],
        ["schedule", 0, "one", "agents", 0, "muscle"],
        ["schedule", 0, "one", "agents", 0, "sensors"],
        ["schedule", 0, "one", "agents", 0, "load"],
        ["schedule", 0, "one", "phase_config"],
        ["schedule", 0, "one", "phase_config", "conditions"],
        ["schedule", 0, "one", "simulation"],
        ["schedule", 0, "one", "recovery"],
        ["schedule", 1],
        ["run_config"],
        ["cascade"],
    ]
)


def read(text: str) -> tuple[Plan | None, list[Fault]]:
    """Return the plan of a text, None where it has faults, and all that is said of it."""
    try:
        return load_document("run.yml", plugins=AnyPlugin(), text=text)
    except DocumentError as error:
        return None, list(error.faults)


@given(PLACED, TREES, st.booleans())
def test_any_tree_is_a_plan_or_faults(where: list[str | int], tree: Any, second: bool) -> None:
    """Whatever stands at whatever place, the answer is a plan or faults with places, never another error."""
    document: Any = yaml.safe_load(TEXT)
    document["schedule"].append(
        {"two": {"agents": [{"name": "ada", "load": {"phase": 0}}]}} if second else {"three": {}}
    )
    holder: Any = document
    for part in where[:-1]:
        holder = holder.setdefault(part, {}) if isinstance(holder, dict) else holder[part]
    if where:
        holder[where[-1]] = tree
    text = yaml.safe_dump(document if where else tree, sort_keys=False)

    plan, faults = read(text)

    if plan is None:
        assert "error" in {fault.severity for fault in faults}
        assert all(fault.line > 0 for fault in faults)
        return
    assert plan == Plan.from_map(plan.to_map())
    again, _ = read(resolved(plan))
    assert again is not None
    assert [phase.name for phase in plan.phases] == [phase.name for phase in again.phases]


@pytest.mark.parametrize("cascade", ["merge", "replace"])
def test_sync_holds_in_every_phase(cascade: str, load: Load) -> None:
    """`--sync` goes before what each phase says, and before what it inherits; nothing else changes."""
    text = TEXT.replace("seed: 1", f"seed: 1\ncascade: {cascade}") + (
        "  - two: {phase_config: {sync: lockstep, episodes: 2}}\n  - three: {}\n  - four: {simulation: vanilla}\n"
    )

    for sync in ("pipelined", "async", "lockstep"):
        plain, told = load(text)
        plan, faults = load(text, sync=sync)

        assert [sync] * 4 == [phase.sync for phase in plan.phases]
        assert [1, 2, 2, 2] == [phase.episodes for phase in plan.phases]
        assert told == [fault for fault in faults if fault.file != "--sync async"]
        assert plain.phases == [dataclasses.replace(phase, sync="lockstep") for phase in plan.phases]


def test_sync_makes_a_configuration_and_mends_a_faulty_one(load: Load) -> None:
    """A first phase without a configuration gets one; a wrong value that nobody reads any more is no fault."""
    bare = TEXT.replace("      phase_config: {episodes: 1}\n", "")
    assert ["async"] == [phase.sync for phase in load(bare, sync="async")[0].phases]

    wrong = TEXT.replace("{episodes: 1}", "{episodes: 1, sync: never}")
    assert ["async"] == [phase.sync for phase in load(wrong, sync="async")[0].phases]


@pytest.mark.parametrize("schedule", ["3", "[3]", "[{}]", "[{one: 3}]", "[{one: {phase_config: 3}}]"])
def test_sync_hides_no_fault(schedule: str, faults_of: Said) -> None:
    """What has not the form of a schedule is refused as without `--sync`."""
    text = f"uid: u\nseed: 1\nversion: '0.1'\nrun_config: {{condition: vanilla}}\nschedule: {schedule}\n"

    assert faults_of(text)
    assert faults_of(text) == faults_of(text, sync="async")


def test_a_tree_of_several_files_is_a_document() -> None:
    """A document may be put together from trees; each fault lies in the file where its value is written."""
    tree = read_tree("base.yml", TEXT)
    value = read_tree("other.yml", "mode: train\nworker: none\n").root
    root, faults = normalise(put(normalise(tree.root)[0], ["schedule", "one", "phase_config"], value))
    with pytest.raises(DocumentError) as error:
        load_tree(root, plugins=AnyPlugin(), source="base.yml", folder=tree.folder, text=TEXT, faults=faults)

    wrong = [fault for fault in error.value.faults if fault.severity == "error"]
    assert [("other.yml", 2, 9)] == [(fault.file, fault.line, fault.column) for fault in wrong]


def test_a_tree_gives_the_plan_of_its_document() -> None:
    """Reading in two steps is reading."""
    tree = read_tree("base.yml", TEXT)
    root, faults = normalise(tree.root)
    plan, _ = load_tree(root, plugins=AnyPlugin(), source=tree.name, folder=tree.folder, text=tree.text, faults=faults)

    assert load_document("base.yml", plugins=AnyPlugin(), text=TEXT)[0] == plan


def test_programs_that_act_can_be_denied(faults_of: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """A muscle that is a program is refused where an environment would be: by an operator, and over the network."""
    program = TEXT.replace("muscle: dummy", "muscle: {command: [sh]}")
    assert program != TEXT
    assert [] == faults_of(program)
    (far,) = faults_of(program, local=False)
    monkeypatch.setenv("GANGLION_COMMANDS", "deny")
    (denied,) = faults_of(program)

    assert far.endswith("agents.ada.muscle.command: a document that came over the network starts no programs")
    assert denied.endswith("agents.ada.muscle.command: documents start no programs here (GANGLION_COMMANDS=deny)")
