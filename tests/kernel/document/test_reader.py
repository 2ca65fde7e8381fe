from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.document.fault import Fault
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


def test_reads_standard_input(read: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` is standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))

    plan, _ = read(None, "-")

    assert ("<stdin>", str(Path.cwd())) == (plan.source, plan.folder)


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
def test_unreadable(read: Load, tmp_path: Path, data: bytes | None, fault: str) -> None:
    """A file that is missing, too large, not UTF-8, not YAML or no map is one fault."""
    if data is not None:
        (tmp_path / "run.yml").write_bytes(data)

    [found] = read(None, tmp_path / "run.yml")[1]

    assert fault in str(found)


def test_a_value_that_is_refused_is_one_fault(faults_of: Said) -> None:
    """What does not fit because it could not be read is not told beside the reason."""
    found = faults_of("uid: u\nseed: !x 1\nschedule: [a: {}]\nrun_config: {}\n")

    assert [True] == ["the tag !x is refused" in fault for fault in found if "2:7: " in fault]


@pytest.mark.parametrize(
    "text", ["uid: rates\nrun: {schedule: []}\nfactors: {}\n", "uid: rates\ndefinitions: {}\nschedule: []\noutput: x\n"]
)
def test_an_experiment_is_no_run(text: str, faults_of: Said) -> None:
    """A document of many runs has one fault, which says what it is and which command takes it."""
    (fault,) = faults_of(text)

    assert "2:1: this is an experiment of many runs, no run: `ganglion sweep` carries it out" in fault


def test_commands_can_be_denied(faults_of: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may have no document start programs, local ones included."""
    program = TEXT.replace("name: dummy, params: {a: 1}", "command: [sh]")
    path = "schedule.one.environments.hill.environment.command"
    assert [] == faults_of(program)
    monkeypatch.setenv("GANGLION_COMMANDS", "deny")

    assert [f"7:57: {path}: documents start no programs here (GANGLION_COMMANDS=deny)"] == faults_of(program)
    assert [] == faults_of(TEXT)


REMOTE = [
    ("name: dummy, params: {a: 1}", "command: [sh]", "starts no programs"),
    ("muscle: dummy", "muscle: {command: [sh]}", "starts no programs"),
    ("muscle: dummy", "muscle: dummy, models: /tmp", "names no folder to write to"),
    ("muscle: dummy", "muscle: dummy, load: {base: /tmp, agent: ada}", "names no place to read from"),
    ("muscle: dummy", "muscle: dummy, brain: dummy, replay: [{base: /tmp}]", "names no place to read from"),
    ("muscle: dummy", "muscle: dummy, brain: dummy, replay: [{path: /tmp}]", "names no place to read from"),
    ("params: {a: 1}", "params: {source: {run: a, store: /tmp}}", "names no place to read from"),
    ("muscle: dummy", "muscle: dummy, recovery: {run_as: bob}", "chooses no user"),
    ("uid: u\n", "uid: u\nrecovery: {run_as: bob}\n", "chooses no user"),
]


@pytest.mark.parametrize(("part", "other", "words"), REMOTE)
def test_network_documents(part: str, other: str, words: str, faults_of: Said) -> None:
    """A document from elsewhere starts no programs, and names neither places nor users; a local one may."""
    text = TEXT.replace(part, other, 1)

    assert [] == faults_of(text)
    assert [f"a document that came over the network {words}"] == [
        fault.rpartition(": ")[2] for fault in faults_of(text, local=False)
    ]


def test_network_documents_are_smaller(load: Load, faults_of: Said) -> None:
    """A document from elsewhere has no folder, and another bound."""
    large = TEXT + "#" * DOCUMENT_BYTES_REMOTE

    assert "" == load(TEXT, local=False)[0].folder
    assert [] == faults_of(large)
    assert 1 == len(faults_of(large, local=False))


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
