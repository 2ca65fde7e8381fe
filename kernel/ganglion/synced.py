"""Files that survive a loss of power: written beside their place, synced, renamed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_synced(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file, whole or not at all; OSError if it cannot be written, and the old one stays.

    `mode` are its rights, less what the umask takes.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()  # of a process that died; a link in its place is never followed
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable; OSError if that cannot be done."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
