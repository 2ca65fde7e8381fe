from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion import registry
from ganglion.document import load_document
from ganglion.supervisor.folder import RunFolder

Command = Callable[..., tuple[int, str, str]]
DOCUMENT = """\
uid: demo
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
- first:
    environments: [{environment: {uid: hill, name: dummy}}]
    agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hill.0], actuators: [hill.0]}]
    phase_config: {mode: train, worker: 2, episodes: 3}
- second: {phase_config: {mode: test, worker: 1, episodes: null}}
# \u00fc"""


@pytest.fixture(autouse=True)
def folder(write_run: Callable[..., str], tmp_path: Path) -> Path:
    """Write a run whose first phase has ended, and its folder."""
    write_run("demo-1")
    (tmp_path / "demo.yml").write_text(DOCUMENT)
    RunFolder("demo-1", tmp_path / "demo-1").fill(load_document(tmp_path / "demo.yml", plugins=registry)[0], [], None)
    return tmp_path / "demo-1"


def test_shows_a_run(ganglion: Command) -> None:
    """Identity, status and reason come first, then phases, those that have not begun too, brains and files."""
    status, out, err = ganglion("show", "demo")

    assert (0, "") == (status, err)
    lines = out.splitlines()
    assert ["run        demo-1", "uid        demo", "experiment e", "seed       1"] == lines[:4]
    assert "status     finished (done)" == lines[4]
    heads = [lines[i + 1].split()[:2] for i, line in enumerate(lines) if line in ("phases", "brains", "files")]
    assert [["phase", "name"], ["phase", "agent"], ["bytes", "path"]] == heads
    assert f"{len(DOCUMENT.encode())}    document.yml" in lines

    value = json.loads(ganglion("show", "last", "--json")[1])
    assert ["run", "uid", "experiment", "seed", "status", "reason", "started", "ended"] == list(value)[:8]
    assert ["elapsed_s", "eta_s", "folder", "versions", "phases", "brains", "files"] == list(value)[8:]
    assert [
        {"phase": 0, "name": "first", "mode": "train", "status": "finished", "reason": None}
        | {"workers": 2, "episodes": 1, "limit": 6},
        {"phase": 1, "name": "second", "mode": "test", "status": None, "reason": None}
        | {"workers": 1, "episodes": 0, "limit": None},
    ] == value["phases"]
    assert ["ada"] == [row["agent"] for row in value["brains"]]


def test_prints_the_documents(ganglion: Command, folder: Path) -> None:
    """`--document` is the text as it was given, byte for byte, `--plan` the resolved one; both at once are usage."""
    assert (0, DOCUMENT, "") == ganglion("show", "demo-1", "--document")
    resolved = (folder / "resolved.yml").read_text()
    assert (0, resolved, "") == ganglion("show", "--plan", "demo-1")
    assert {"run": "demo-1", "plan": resolved} == json.loads(ganglion("--json", "show", "demo-1", "--plan")[1])
    assert 2 == ganglion("show", "demo-1", "--plan", "--document")[0]


def test_a_run_that_was_not_stored(ganglion: Command, folder: Path) -> None:
    """It is shown by its folder; one whose manifest is of another run is not there."""
    assert "status     unknown: nothing was stored" in ganglion("show", "demo", "--store", "none")[1]
    (folder / "manifest.json").write_text('{"run": "other-1", "uid": "demo"}')
    for run in ("demo", "demo-1"):
        assert (2, "") == ganglion("show", run, "--store", "none")[:2]
