from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.extension import UsageError
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.folder import Folder, cell
from ganglion_sweep.point import points_of

Read = Callable[..., Experiment]


@pytest.mark.parametrize(
    ("value", "text"),
    [("a,b", "a,b"), (0.1, "0.1"), (True, "true"), (None, ""), ([1, "é"], '[1, "é"]'), ({"a": 1}, '{"a": 1}')],
)
def test_cells(value: Any, text: str) -> None:
    """Text stands as it is, all else as JSON."""
    assert text == cell(value)


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
