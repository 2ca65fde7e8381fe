from __future__ import annotations

import os
from pathlib import Path

import pytest

from ganglion.synced import sync, write_synced


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """The new content stands in the place of the old one, and nothing lies beside it."""
    path = tmp_path / "it"
    path.write_bytes(b"old")
    write_synced(path, b"new", 0o600)

    assert b"new" == path.read_bytes()
    assert 0o600 == path.stat().st_mode & 0o777
    assert [path] == list(tmp_path.iterdir())


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """What lies under the name that is written first is taken away and never written through."""
    target = tmp_path / "target"
    target.write_bytes(b"kept")
    (tmp_path / f".it.{os.getpid()}.part").symlink_to(target)
    write_synced(tmp_path / "it", b"new")

    assert (b"kept", b"new") == (target.read_bytes(), (tmp_path / "it").read_bytes())


def test_what_cannot_be_written_leaves_the_old(tmp_path: Path) -> None:
    """A folder in the place of the file is an error; nothing is left behind."""
    (tmp_path / "it" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="it"):
        write_synced(tmp_path / "it", b"new")

    assert ["it"] == [path.name for path in tmp_path.iterdir()]


def test_names_in_a_folder_can_be_synced(tmp_path: Path) -> None:
    """A folder is synced like a file; one that is not there is an error."""
    sync(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "gone")
