"""`ganglion export` and `ganglion import`: a run goes into files, and from files into a store, and is what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ganglion import registry
from ganglion.cli.settings import Settings
from ganglion.errors import UsageError
from ganglion.peer.results.records import pack
from ganglion_replay import RecordingInvalid, sessions
from ganglion_replay.command import export, import_

pytest.importorskip("h5py")
pytest.importorskip("pyarrow")
ARRAYS = ("observations", "actions", "rewards", "objectives", "terminated", "truncated", "ticks")


def called(command: Any, uri: str, *words: str) -> Any:
    """Return what a command prints with `--json`; what it raises is raised."""
    done = CliRunner().invoke(command, words, obj=Settings(store=uri, json=True), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return json.loads(done.output)


def runs(uri: str) -> list[str]:
    """Return the runs of a store."""
    with registry.load("store", "sqlite").reader(uri) as reader:
        return [row["run"] for row in reader.rows("runs")]


@pytest.mark.parametrize("form", ["minari", "parquet", "arrow"])
def test_a_run_goes_into_files_and_into_another_store(archive: Any, tmp_path: Path, form: str) -> None:
    """Sessions of the imported run are those of the recorded one, phase by phase, missing rewards included."""

    def spoil(record: list[Any]) -> list[Any]:
        if record[0] == "actions":
            record[6][1][6] = pack([None])
        return record

    archive.run("r-1", phases=[("one", "test"), ("two", "train")], workers=2, spoil=spoil)
    out, other = tmp_path / "out", f"sqlite:///{tmp_path / 'new' / 'other.db'}"
    told = called(export, archive.uri, "r-1", "--to", str(out), "--format", form)
    back = called(import_, other, str(out))

    assert [8, 24, 1] == [told["sessions"], told["steps"], len(told["datasets"])]
    assert {"runs": ["r-1"], "sessions": 8, "steps": 24} == back
    for one, same in zip(sessions(archive.uri, "r-1"), sessions(other, "r-1"), strict=True):
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(one, name), getattr(same, name), strict=True)
        assert (one.phase_name, one.mode, one.worker, one.episode) == (
            *(same.phase_name, same.mode, same.worker, same.episode),
        )
    (row,) = registry.load("store", "sqlite").reader(other).rows("runs")
    assert ("r", "finished", f"imported from {out}") == (row["uid"], row["status"], row["reason"])


def test_a_run_that_is_there_is_not_touched(archive: Any, tmp_path: Path) -> None:
    """Its id is taken; another one can be given; what is no id of a run is refused."""
    archive.run("r")
    called(export, archive.uri, "r", "--to", str(tmp_path / "out"))
    for words, text in (([], "run r is there already"), (["--run", "../x"], "name of a folder")):
        with pytest.raises(UsageError, match=text):
            called(import_, archive.uri, str(tmp_path / "out"), *words)
    called(import_, archive.uri, str(tmp_path / "out"), "--run", "s")

    assert ["r", "s"] == runs(archive.uri)


def test_what_is_damaged_leaves_the_store_as_it_was(archive: Any, tmp_path: Path) -> None:
    """All files are read before anything is written."""
    archive.run("r")
    called(export, archive.uri, "r", "--to", str(tmp_path / "out"), "--format", "minari-parquet")
    last = max((tmp_path / "out").rglob("part-0.parquet"))
    last.write_bytes(last.read_bytes()[:-9])
    with pytest.raises(RecordingInvalid, match=r"part-0.parquet: cannot be read as Parquet"):
        called(import_, archive.uri, str(tmp_path / "out"), "--run", "s")

    assert ["r"] == runs(archive.uri)
