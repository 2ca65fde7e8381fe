from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.extension import UsageError
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.folder import Folder, cell, table
from ganglion_sweep.point import points_of

Read = Callable[..., Experiment]


def test_files(read: Read, grid: str, tmp_path: Path) -> None:
    """There is a document for each run and the design as a table."""
    folder, points = Folder(tmp_path, "grid"), points_of(read(f"{grid}repetitions: 2\n"))
    files = folder.files(points)

    assert [*(f"grid_run-{n}.yml" for n in range(8)), "grid_design.csv"] == [path.name for path in files]
    rows = list(csv.DictReader(files[folder.path / "grid_design.csv"].decode().splitlines()))
    assert ["run", "row", "repetition", "seed", "length", "workers"] == list(rows[0])
    assert ("5", "1", "1", "3", "2") == tuple(rows[5][k] for k in ("run", "row", "repetition", "length", "workers"))
    assert str(points[5].seed) == rows[5]["seed"]


@pytest.mark.parametrize(
    ("value", "text"),
    [("a,b", "a,b"), (0.1, "0.1"), (True, "true"), (None, ""), ([1, "é"], '[1, "é"]'), ({"a": 1}, '{"a": 1}')],
)
def test_cells(value: Any, text: str) -> None:
    """Text stands as it is, all else as JSON."""
    assert text == cell(value)


def test_nothing_is_overwritten(read: Read, grid: str, tmp_path: Path) -> None:
    """Files that are there with the same content are kept, others refused before anything is written."""
    folder = Folder(tmp_path, "grid")
    files = folder.files(points_of(read(grid)))
    with folder.locked():
        folder.write(files)
        documents = [path for path in files if path.suffix == ".yml"]
        stamps = {path: path.stat().st_mtime_ns for path in documents}
        folder.check(files)
        folder.write(files)
        assert stamps == {path: path.stat().st_mtime_ns for path in documents}
        other = folder.files(points_of(read(grid, "seed=8")))
        with pytest.raises(UsageError, match=r"grid_run-0.yml is there with another content \(and 4 more files\)"):
            folder.check(other)
        folder.write(other)  # who does not check overwrites nothing either
        assert {path: path.read_bytes() for path in files} == files
    assert [] == [path for path in folder.path.iterdir() if path.name.endswith(".new")]


def test_one_command_at_a_time(tmp_path: Path) -> None:
    """While a command works on an experiment, no other one does; afterwards it may."""
    with Folder(tmp_path, "grid").locked():
        with pytest.raises(UsageError, match="another command is carrying it out"), Folder(tmp_path, "grid").locked():
            pass
        with Folder(tmp_path, "other").locked():
            pass
    with Folder(tmp_path, "grid").locked():
        pass


def test_the_design_may_grow(read: Read, grid: str, tmp_path: Path) -> None:
    """More repetitions add rows to the table and files to the folder; fewer ones are refused."""
    folder = Folder(tmp_path, "grid")
    few, many = (folder.files(points_of(read(grid, f"repetitions={n}"))) for n in (1, 2))
    with folder.locked():
        folder.write(few)
        folder.check(many)
        folder.write(many)
        assert {path: path.read_bytes() for path in many} == many
        with pytest.raises(UsageError, match=r"grid_design\.csv is there with another content;"):
            folder.check(few)


@pytest.mark.parametrize("uid", [".", ".."])
def test_names_that_lead_elsewhere(tmp_path: Path, uid: str) -> None:
    """A uid that would name the folder above is refused."""
    with pytest.raises(UsageError, match="expected a uid that can name a folder"):
        Folder(tmp_path, uid)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A place that cannot be written is named."""
    (tmp_path / "sweeps").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"), Folder(tmp_path, "grid").locked():
        pass


def test_an_empty_table() -> None:
    """Without a run there are the columns."""
    assert "run,row,repetition,seed\n" == table([])
