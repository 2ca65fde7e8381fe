from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.resume import _recovery_plan
from ganglion.cli.settings import Settings
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, PluginPlan, processes_of
from ganglion.supervisor.folder import (
    PROCESS_TABLE,
    Incarnation,
    ProcessTable,
    RunFolder,
    boot_id,
    fingerprint,
    incarnation_of,
    read_manifest,
    reserve,
    write_process_table,
)
from ganglion.wire.messages import Ended


@pytest.fixture
def kept(tmp_path: Path) -> RunFolder:
    """Return the folder of a run that was begun."""
    plugin = PluginPlan("dummy")
    phase = PhasePlan(0, "train", [EnvironmentPlan("hill", plugin)], [], plugin, [], [])
    folder = reserve(tmp_path, "demo")
    folder.fill(Plan("demo", "demo", "42", [phase], document="uid: demo\n"), ["run"], None)
    return folder


def change(folder: RunFolder, **fields: Any) -> None:
    """Change the manifest as if the run had been begun elsewhere."""
    path = folder.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("boot", [boot_id(), "another"])
def test_a_run_whose_end_was_heard_is_completed(ganglion: Callable[..., Any], kept: RunFolder, boot: str) -> None:
    """Its supervisor was gone before the manifest was sealed: that is done, and nobody is started."""
    (kept.path / "journals").mkdir()
    write_process_table(
        kept.path,
        ProcessTable(boot, Incarnation(0), ended=Ended("r", "finished", "completed", 0, heads={"head": "ab"})),
    )
    status, out, err = ganglion("resume", kept.run)

    assert 0 == status, err
    assert "finished in" in out
    manifest, wrong = read_manifest(kept.path)
    assert ("", "finished", "completed") == (wrong, manifest["status"], manifest["reason"])
    assert {"head": "ab"} == manifest["chain"]
    assert [] == [path for path in kept.path.iterdir() if path.name in (PROCESS_TABLE, "journals")]
    assert 2 == ganglion("resume", kept.run)[0]


@pytest.mark.parametrize("ended", [None, Ended("r", "finished", "completed", 0)])
def test_a_run_that_lives_is_refused(ganglion: Callable[..., Any], kept: RunFolder, ended: Ended | None) -> None:
    """Its supervisor is there, also if it has heard of the end: exit 2, by its number; it seals the manifest itself."""
    write_process_table(kept.path, ProcessTable(boot_id(), incarnation_of(0, os.getpid()), ended=ended))
    status, _, err = ganglion("resume", kept.run)

    assert (2, f"ganglion: run demo-1 goes on already (process {os.getpid()})\n") == (status, err)
    assert "status" not in read_manifest(kept.path)[0]


@pytest.mark.parametrize(
    ("status", "words"), [("failed", "the begin of phase 0"), (None, "every process goes on where it was")]
)
def test_a_failure_that_was_heard_is_on_the_journals(
    tmp_path: Path, kept: RunFolder, monkeypatch: pytest.MonkeyPatch, status: str | None, words: str
) -> None:
    """A run that has failed begins with its checkpoint, also where its supervisor could not seal the manifest."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    plugin = PluginPlan("dummy")
    phase = PhasePlan(0, "train", [EnvironmentPlan("hill", plugin)], [], plugin, [], [])
    plan = Plan("demo", "demo", "42", [replace(phase, on_loss="recover")], document="uid: demo\n")
    ended = None if status is None else Ended("r", status, "poison", 1)
    write_process_table(kept.path, ProcessTable(boot_id(), Incarnation(0), begun=True, ended=ended))
    for place in processes_of(kept.run, plan.phases[0]):
        kept.journal(place).parent.mkdir(exist_ok=True)
        kept.journal(place).touch()

    assert words in _recovery_plan(Settings(results=tmp_path, store=None), kept, {}, plan).words


def test_another_installation_is_refused(ganglion: Callable[..., Any], kept: RunFolder) -> None:
    """What differs is listed: exit 2, and nothing is begun."""
    change(kept, python="2.7.18", packages={**fingerprint()["packages"], "numpy": "0.1"})
    status, _, err = ganglion("resume", kept.run)

    assert 2 == status
    assert "\n  python: 2.7.18 then, " in err
    assert "\n  package numpy: 0.1 then, " in err
    assert "--accept-fingerprint goes on all the same" in err


@pytest.mark.parametrize("file", ["plan.msgpack", "manifest.json"])
def test_a_damaged_folder_is_named(ganglion: Callable[..., Any], kept: RunFolder, file: str) -> None:
    """Without the plan that it was begun with a run cannot go on: exit 2, by the file."""
    write_process_table(kept.path, ProcessTable("", Incarnation(0)))
    (kept.path / file).write_bytes(b"{}")
    status, _, err = ganglion("resume", kept.run)

    assert 2 == status
    assert file in err


def test_the_newest_run_of_a_document_is_meant_by_its_uid(
    ganglion: Callable[..., Any], tmp_path: Path, kept: RunFolder
) -> None:
    """An id means that run; a uid the one that was begun last."""
    (tmp_path / "demo-2").mkdir()
    change(kept, status="finished")
    text = json.loads((kept.path / "manifest.json").read_text())
    (tmp_path / "demo-2" / "manifest.json").write_text(json.dumps({**text, "run": "demo-2", "started": "2999"}))

    for named, run in (("demo-1", "demo-1"), ("demo", "demo-2")):
        assert f"run {run} has finished" in ganglion("resume", named)[2]


@pytest.mark.parametrize(
    ("then", "given", "said"),
    [
        ("postgresql://me:***@h/db", [], "with the password of postgresql://me:***@h/db"),
        ("sqlite:////a.db", ["--store", "sqlite:////b.db"], "expected that of the run, sqlite:////a.db, found"),
    ],
)
def test_another_store_is_refused(
    ganglion: Callable[..., Any], kept: RunFolder, then: str, given: list[str], said: str
) -> None:
    """The store is that of the run; a password that was not kept is asked for."""
    change(kept, store=then)
    status, _, err = ganglion("resume", kept.run, *given)

    assert (2, True) == (status, said in err), err
