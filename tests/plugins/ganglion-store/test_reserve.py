from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ganglion_store import database
from ganglion_store.database import Reserve

MIB = 1024 * 1024


@pytest.mark.parametrize("promises", [True, False])
def test_the_space_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, promises: bool) -> None:
    """The file has its whole size on the disk, also on a file system that cannot promise space."""
    sizes: list[int] = []
    if not promises:

        def refuse(*_: int) -> None:
            raise OSError(errno.EOPNOTSUPP, "not supported")

        monkeypatch.setattr(os, "posix_fallocate", refuse)
    fill = database._fill

    def measured(descriptor: int, size_bytes: int) -> None:
        fill(descriptor, size_bytes)
        sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(database, "_fill", measured)
    Reserve(tmp_path, 2 * MIB).release()

    assert [2 * MIB] == sizes
