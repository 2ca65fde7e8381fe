from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
RESOLVED = """\
uid: demo
schedule:
- first: {phase_config: {mode: train, worker: 2, episodes: 3}}
- second: {phase_config: {mode: test, worker: 1, episodes: null}}
# \u00fc"""


@pytest.fixture(autouse=True)
def folder(write_run: Callable[..., str], tmp_path: Path) -> Path:
    """Write a run whose first phase has ended, and its folder."""
    write_run("demo-1")
    folder = tmp_path / "demo-1"
    (folder / "manifest.json").write_text('{"run": "demo-1", "uid": "demo", "started": "2030"}')
    (folder / "document.yml").write_text("uid: demo\n")
    (folder / "resolved.yml").write_text(RESOLVED)
    return folder


def test_shows_a_run(ganglion: Command) -> None:
    """Identity, status and reason come first, then phases, those that have not begun too, brains and files."""
    status, out, err = ganglion("show", "demo")

    assert (0, "") == (status, err)
    lines = out.splitlines()
    assert ["run        demo-1", "uid        demo", "experiment e", "seed       1"] == lines[:4]
    assert "status     finished (done)" == lines[4]
    heads = [lines[i + 1].split()[:2] for i, line in enumerate(lines) if line in ("phases", "brains", "files")]
    assert [["phase", "name"], ["phase", "agent"], ["bytes", "path"]] == heads
    assert "10     document.yml" in lines

    value = json.loads(ganglion("show", "last", "--json")[1])
    assert ["run", "uid", "experiment", "seed", "status", "reason", "started", "ended"] == list(value)[:8]
    assert ["folder", "versions", "phases", "brains", "files"] == list(value)[8:]
    assert [
        {"phase": 0, "name": "first", "mode": "train", "status": "finished", "reason": None}
        | {"workers": 2, "episodes": 1, "limit": 6},
        {"phase": 1, "name": "second", "mode": "test", "status": None, "reason": None}
        | {"workers": 1, "episodes": 0, "limit": None},
    ] == value["phases"]
    assert ["ada"] == [row["agent"] for row in value["brains"]]


def test_prints_the_documents(ganglion: Command) -> None:
    """`--document` is the text as it was given, byte for byte, `--plan` the resolved one; both at once are usage."""
    assert (0, "uid: demo\n", "") == ganglion("show", "demo-1", "--document")
    assert (0, RESOLVED, "") == ganglion("show", "--plan", "demo-1")
    assert {"run": "demo-1", "plan": RESOLVED} == json.loads(ganglion("--json", "show", "demo-1", "--plan")[1])
    assert 2 == ganglion("show", "demo-1", "--plan", "--document")[0]


def test_a_run_that_was_not_stored(ganglion: Command, folder: Path) -> None:
    """It is shown by its folder; one whose manifest is of another run is not there."""
    assert "status     unknown: nothing was stored" in ganglion("show", "demo", "--store", "none")[1]
    (folder / "manifest.json").write_text('{"run": "other-1", "uid": "demo"}')
    for run in ("demo", "demo-1"):
        assert (2, "") == ganglion("show", run, "--store", "none")[:2]
