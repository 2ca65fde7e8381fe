from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ganglion_store import reserve
from ganglion_store.reserve import Reserve

MIB = 1024 * 1024


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_the_reserve_has_no_name(tmp_path: Path) -> None:
    """Nothing of it is seen in the folder, so that a killed process leaves nothing behind."""
    held = Reserve(tmp_path, MIB)

    assert [] == list(tmp_path.iterdir())
    held.release()


def test_released_space_is_free_again(tmp_path: Path) -> None:
    """Whoever releases the reserve gives back its descriptor; a second time does nothing."""
    before = _descriptors()
    held = Reserve(tmp_path, MIB)
    during = _descriptors()
    held.release()
    held.release()

    assert (1, before) == (len(during - before), _descriptors())


@pytest.mark.parametrize("promises", [True, False])
def test_the_space_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, promises: bool) -> None:
    """The file has its whole size on the disk, also on a file system that cannot promise space."""
    sizes: list[int] = []
    if not promises:

        def refuse(*_: int) -> None:
            raise OSError(errno.EOPNOTSUPP, "not supported")

        monkeypatch.setattr(os, "posix_fallocate", refuse)
    fill = reserve._fill

    def measured(descriptor: int, size_bytes: int) -> None:
        fill(descriptor, size_bytes)
        sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(reserve, "_fill", measured)
    Reserve(tmp_path, 2 * MIB).release()

    assert [2 * MIB] == sizes


def test_no_room_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reserve that cannot be had is refused, and leaves no descriptor."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = _descriptors()
    with pytest.raises(OSError, match="No space left"):
        Reserve(tmp_path, MIB)

    assert before == _descriptors()
