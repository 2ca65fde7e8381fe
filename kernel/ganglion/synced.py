"""Files that survive a loss of power: written beside their place, synced, renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from io import BufferedRandom
from pathlib import Path


@contextlib.contextmanager
def written_beside(path: Path, mode: int = 0o644, follow: bool = False) -> Iterator[BufferedRandom]:
    """Open a file beside its place; it is synced and renamed when the block ends, and removed when that raises.

    All of it happens below the descriptor of its folder, which must be there; a link in the place of a file is never
    followed. OSError if it cannot be written: then the old file stays. `mode` are the rights, less what the umask
    takes; `follow` says whether the folder may be a link.
    """
    beside = f".{path.name}.{os.getpid()}.part"
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)  # of a process that died and had our number
        try:
            with os.fdopen(os.open(beside, flags, mode, dir_fd=folder), "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise
        os.fsync(folder)
    finally:
        os.close(folder)


def write_synced(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file, whole or not at all; OSError if it cannot be written, and the old one stays."""
    with written_beside(path, mode, follow=True) as file:
        file.write(data)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable; OSError if that cannot be done."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
