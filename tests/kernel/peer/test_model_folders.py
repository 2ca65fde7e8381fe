from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import StoreError
from ganglion.peer.models import INDEX, copy_model, files_of, hand_over, model_folders, read_index, reserve, write_index
from ganglion.sdk.models import Models

RUN: list[Any] = ["run", {"uid": "farm", "experiment": "farms", "started": "2026-01-01", "seed": "1", "document": ""}]


def brain(phase: int = 0, agent: str = "ada", tag: str = "", sha256: str = "00") -> list[Any]:
    """Return the record of a file of a model."""
    name = f"model-{tag}.npz" if tag else "model.npz"
    return ["brain", phase, agent, tag, 1, 3, "2026-01-02", 8, sha256, f"/r/farm-1/brains/{phase}/{agent}/{name}"]


def indexed(folder: Path, run: str = "farm-1", started: str = "2026-01-01") -> Path:
    """Write the index of a folder with one model, and return the folder."""
    head = ["run", {**RUN[1], "started": started}]
    write_index(folder, run, [head, ["phase", 0, "warm", "train", "running", None], brain(), ["end", "finished"]])
    return folder


def test_an_index_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where a file stands in the way the error names the index."""
    (tmp_path / "brains").write_text("")

    with pytest.raises(StoreError, match="cannot be written"):
        write_index(tmp_path / "brains", "farm-1", [brain()])


LEADS = """{"format": 1, "run": "", "uid": "", "status": "", "started": "", "phases": {},
    "models": [{"path": "PATH", "phase": 0, "agent": "a", "tag": "", "sha256": ""}]}"""
DAMAGED = [
    "",
    "[]",
    "{}",
    '{"format": 2}',
    '{"format": 1, "run": 1, "uid": "", "status": "", "started": "", "phases": {}, "models": []}',
    '{"format": 1, "run": "", "uid": "", "status": "", "started": "", "phases": {"x": ""}, "models": []}',
    '{"format": 1, "run": "", "uid": "", "status": "", "started": "", "phases": [], "models": []}',
    LEADS.replace("PATH", "../x"),
    LEADS.replace("PATH", "/x"),
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_index_is_refused_by_name(tmp_path: Path, text: str) -> None:
    """What is no index, or leads out of its folder, is refused with the path of the file."""
    (tmp_path / INDEX).write_text(text)

    with pytest.raises(StoreError, match=f"{tmp_path / INDEX}: the file is damaged"):
        read_index(tmp_path)


def test_folders_of_models_in_a_directory(tmp_path: Path) -> None:
    """A directory has an index, is the folder of a run, or holds many of both: these by start; all else is skipped."""
    late = indexed(tmp_path / "results" / "farm-1" / "brains", "farm-1", "2026-02-02")
    early = indexed(tmp_path / "results" / "farm-2", "farm-2", "2026-02-01")
    (tmp_path / "results" / "notes").mkdir()

    assert ([late], True) == _places(late)
    assert ([late], True) == _places(late.parent)
    assert ([early, late], False) == _places(tmp_path / "results")
    assert ([late], False) == _places(tmp_path / "results", "farm-1")
    assert ([early, late], False) == _places(tmp_path / "results", "../results")
    assert ([], False) == _places(tmp_path / "results" / "notes")
    assert ([], False) == _places(tmp_path / "nowhere")


def _places(folder: Path, run: str | None = None) -> tuple[list[Path], bool]:
    found, single = model_folders(folder, run)
    return [one.folder for one in found], single


def test_a_folder_is_reserved_once(tmp_path: Path) -> None:
    """A second run of the same id gets a folder of its own; nothing is overwritten, nor is damage taken for another."""
    kept = tmp_path / "kept"
    names = [reserve(kept, "farm-1", tmp_path / results).name for results in "abcba"]

    assert ["farm-1", "farm-1+2", "farm-1+3", "farm-1+2", "farm-1"] == names
    for name in names:
        indexed(tmp_path / "kept" / name)
    assert 3 == len(model_folders(tmp_path / "kept", "farm-1")[0])
    (kept / "farm-1" / INDEX).write_text("[]")
    with pytest.raises(StoreError, match="the file is damaged"):
        reserve(kept, "farm-1", tmp_path / "a")


def test_a_copy_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A target that is no folder, and a source that is no model, are errors by name."""
    Models(tmp_path / "a").save({"w": np.arange(3)})
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        copy_model(files_of(tmp_path / "a"), tmp_path / "file" / "b")
    (tmp_path / "a" / "model.npz").write_bytes(b"boo")
    with pytest.raises(StoreError, match="damaged or no model"):
        copy_model(files_of(tmp_path / "a"), tmp_path / "b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_for_another_user(tmp_path: Path) -> None:
    """The folder of a model goes to who writes it; those above it may be passed through, and are ours."""
    (tmp_path / "brains").mkdir(mode=0o700)
    for _ in range(2):
        hand_over(tmp_path / "brains", "0/ada", "nobody")

    found = [(tmp_path / "brains" / way).stat() for way in (".", "0", "0/ada")]
    assert [0o711, 0o711, 0o700] == [stat.S_IMODE(status.st_mode) for status in found]
    assert [0, 0, pwd.getpwnam("nobody").pw_uid] == [status.st_uid for status in found]
    with pytest.raises(KeyError):
        hand_over(tmp_path / "brains", "0/bob", "no-such-one")
