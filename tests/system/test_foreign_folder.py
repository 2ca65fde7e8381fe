"""Results that came from elsewhere: who goes on with such a run writes and removes nothing outside."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.cli.main import main
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan
from ganglion.supervisor.connection import CONNECTION, Connection
from ganglion.supervisor.folder import ORIGIN, RunFolder, remove_connection, reserve
from ganglion.supervisor.resume import Checkpoint, Checkpoints


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a results folder beside which there is nothing of ours."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "../a.journal",
        "journals/../../a.journal",
        "/tmp/a.journal",
        "a.journal",
        "journals/deep/a.journal",
        "journals/a.txt",
        "../journals/a.journal",
    ],
)
def test_a_checkpoint_puts_journals_back_into_the_run_only(results: Path, name: str) -> None:
    """A note that names a journal outside, with a digest that is right, is damage: nothing is written."""
    run = results / "run-1"
    checkpoint = run / "checkpoints" / "checkpoint-000000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "a.journal").write_bytes(b"x")
    (checkpoint / "a.txt").write_bytes(b"x")
    journals = {"journals/a.journal": 1}
    for named, whole in ((journals, True), ({**journals, name: 1}, False), ({"journals/a.journal": -1}, False)):
        for path in checkpoint.glob("*.json"):
            path.unlink()
        Checkpoints(run).keep(_noted(checkpoint, named), {"journals": named})
        found, wrong = Checkpoints(run).newest()

        assert whole == (found is not None), named
        assert whole or "is no journal of a run" in wrong[0]
    assert {"results"} == {path.name for path in results.parent.iterdir()}


def _noted(folder: Path, journals: dict[str, int]) -> Checkpoint:
    return Checkpoint(folder, {}, journals)


def test_a_connection_file_has_nothing_of_others_removed(results: Path, tmp_path: Path) -> None:
    """Of a folder that a connection file names go sockets and files of ours; papers of the user stay."""
    papers = tmp_path / "ganglion-papers"
    (papers / "deep").mkdir(parents=True)
    (papers / "thesis.txt").write_text("mine")
    held = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(papers)  # a path of a socket is short
    held.bind("bus")
    os.chdir(here)
    held.close()
    for folder in (papers, tmp_path / "ganglion-empty"):
        folder.mkdir(exist_ok=True)
        place = results / "run-1" / CONNECTION
        Connection(1, 4711, f"ipc://{folder}/bus", None, "o", "w", "a", "run-1").write(place)
        remove_connection(results, "run-1")
        assert not place.exists()

    assert {"deep", "thesis.txt"} == {path.name for path in papers.iterdir()}
    assert not (tmp_path / "ganglion-empty").exists()


def _begun(results: Path, environment: EnvironmentPlan) -> RunFolder:
    vanilla = PluginPlan("vanilla")
    phase = PhasePlan(0, "train", [environment], [], vanilla, [], [])
    folder = reserve(results, "demo")
    folder.fill(Plan("demo", "demo", "42", [phase], document="uid: demo\n"), ["run"], None)
    return folder


def test_a_run_with_a_program_is_not_gone_on_with_where_none_may_start(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What documents may not, a plan that lies in a folder may not either: exit 2, and nothing was started."""
    mark = results.parent / "mark"
    folder = _begun(results, EnvironmentPlan("hill", None, program=ProgramPlan(["touch", str(mark)])))
    monkeypatch.setenv("GANGLION_COMMANDS", "deny")
    status = main(["--results", str(results), "resume", folder.run])

    assert (2, True) == (status, "documents start no programs here" in capsys.readouterr().err)
    assert not mark.exists()


@pytest.mark.parametrize(
    "tree", [None, [], {}, {"plan": {}, "allow": []}, {"plan": {"phases": [7]}, "allow": []}, {"plan": 1, "allow": 2}]
)
def test_a_plan_that_is_none_is_refused(results: Path, capsys: pytest.CaptureFixture[str], tree: Any) -> None:
    """With a digest that is right, too: exit 2, and the file is named."""
    folder = _begun(results, EnvironmentPlan("hill", PluginPlan("dummy")))
    data: bytes = msgpack.packb(tree)
    (folder.path / ORIGIN).write_bytes(data)
    manifest = json.loads((folder.path / "manifest.json").read_text())
    manifest["plan"] = hashlib.sha256(data).hexdigest()
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    status = main(["--results", str(results), "resume", folder.run])

    assert (2, True) == (status, f"{ORIGIN}: expected the plan of a run" in capsys.readouterr().err)
