from __future__ import annotations

import stat
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ganglion.errors import UsageError
from ganglion.run.plan import PhasePlan, Plan, PluginPlan, Process
from ganglion.supervisor.folder import read_manifest, reserve, run_id
from ganglion.supervisor.linux import may_change_user
from ganglion.wire.name import Role, peer_name, safe


@given(st.text(max_size=80))
def test_id_is_a_plain_part_of_paths_and_names(uid: str) -> None:
    """Whatever a uid holds, its run's id is one harmless part of a path, and stands on the wire as it is."""
    name = f"{run_id(uid)}-1"

    assert name == safe(name)
    assert name == Path(name).name
    assert name == peer_name(name, Role.GOVERNOR).split("/")[0]


def test_name_that_exists_is_refused(tmp_path: Path) -> None:
    """A run that exists is not overwritten, and a name that is no plain word is refused."""
    assert "mine" == reserve(tmp_path, "demo", "mine").run
    with pytest.raises(UsageError, match="run mine exists already"):
        reserve(tmp_path, "demo", "mine")
    with pytest.raises(UsageError, match="--name: expected small letters"):
        reserve(tmp_path, "demo", "../mine")


def test_results_that_are_a_file_are_refused(tmp_path: Path) -> None:
    """A results folder that cannot be made is named, before anything is started."""
    (tmp_path / "results").write_text("")
    with pytest.raises(UsageError, match="results folder"):
        reserve(tmp_path / "results", "demo")


def test_release_keeps_what_is_not_ours(tmp_path: Path) -> None:
    """A folder that holds a stranger's file stays; ours goes with its logs."""
    ours, theirs = reserve(tmp_path, "a"), reserve(tmp_path, "b")
    for folder in (ours, theirs):
        folder.logs.mkdir()
        (folder.logs / "broker.out").write_text("x")
    (theirs.path / "notes.txt").write_text("mine")
    ours.release()
    theirs.release()

    assert not ours.path.exists()
    assert ["notes.txt"] == [path.name for path in theirs.path.iterdir()]


def test_a_folder_is_opened_again_when_its_run_goes_on(tmp_path: Path) -> None:
    """The seal is taken off, and each time it is noted how the run went on, and what was accepted for that."""
    folder = reserve(tmp_path, "demo")
    phase = PhasePlan(0, "train", [], [], PluginPlan("vanilla"), [], [])
    folder.fill(Plan("demo", "demo", "42", [phase], document="uid: demo\n"), ["run"], None)
    before, _ = read_manifest(folder.path)
    folder.seal("interrupted", "operator", None)
    folder.reopen("with its tapes", [])
    folder.reopen("from a phase", ["python: 2 then, 3 now"])
    manifest, wrong = read_manifest(folder.path)
    resumed = manifest.pop("resumed")

    assert ("", before) == (wrong, manifest)
    assert [("with its tapes", None), ("from a phase", ["python: 2 then, 3 now"])] == [
        (note["how"], note.get("accepted")) for note in resumed
    ]
    folder.seal("finished", "completed", None)
    sealed, wrong = read_manifest(folder.path)
    assert ("", resumed) == (wrong, sealed["resumed"])


@pytest.mark.skipif(not may_change_user(), reason="only root gives files away")
def test_a_process_of_another_user_gets_its_own(tmp_path: Path) -> None:
    """Log and tape of a process under another name are its own, in places to which it can pass."""
    folder = reserve(tmp_path, "demo")
    folder.logs.mkdir()
    folder.open_ways()
    process = Process(peer_name("demo-1", Role.MUSCLE, "ada", 0), Role.MUSCLE, "ada", 0, run_as="nobody")
    user = folder.give(process)

    assert user is not None
    assert {user.uid} == {p.stat().st_uid for p in (folder.logs / "muscle.ada.0.jsonl", folder.tape(process).parent)}
    assert folder.path / "users" / str(user.uid) / "muscle.ada.0.tape" == folder.tape(process)
    assert {0o711} == {stat.S_IMODE(p.stat().st_mode) for p in (folder.path, folder.logs, folder.path / "users")}
