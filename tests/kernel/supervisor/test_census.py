from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ganglion.errors import StoreError
from ganglion.supervisor.folder import CENSUS, Census, End, Life, boot_id, forget, life_of, read_census, write_census


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A census comes back as it was written, and only its owner may look at it."""
    written = Census(
        boot_id(),
        life_of(0, os.getpid()),
        2,
        True,
        True,
        {"r/governor": Life(3), "r/store": Life(1, 7, 9)},
        ((2, "RESET"),),
        End("finished", "completed", {"head": "ab"}),
    )
    write_census(tmp_path, written)

    assert written == read_census(tmp_path)
    assert 0o600 == stat.S_IMODE((tmp_path / CENSUS).stat().st_mode)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"boot": "b", "supervisor": {"pid": 1}, "lives": {}}'])
def test_a_damaged_census_is_named(tmp_path: Path, text: str) -> None:
    """What cannot be read is an error with the file's name, and no empty census."""
    (tmp_path / CENSUS).write_text(text)

    with pytest.raises(StoreError, match=CENSUS):
        read_census(tmp_path)


def test_who_has_finished_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    """Census and tapes go, also those of other users; all else stays."""
    write_census(tmp_path, Census("", Life(0)))
    for place in ("tapes", "users/1000", "brains"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "muscle.tape").touch()
    (tmp_path / "users" / "1000" / "notes").touch()
    forget(tmp_path)

    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"brains/muscle.tape", "users/1000/notes"} == left
