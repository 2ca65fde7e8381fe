"""What a supervisor wants to know of a tape: where a process stood, and how long a successor has to hear it.

A tape may lie in a folder of another user: a link or a pipe in its place is not opened, and none is waited for.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from ganglion.errors import GanglionError
from ganglion.wire.tape import last_request, read_records

__all__ = ["READ_BYTES", "age_s", "place", "position"]

READ_BYTES = 4 * 1024 * 1024
"""Longer tapes are not looked through for a word in a report: that takes too long."""

_FIRST_BYTES = 64 * 1024  # the first record is an answer to HELLO


def place(path: Path | None) -> tuple[int, int]:
    """Return what is equal where a process stands at the same place: file and length of its tape; (0, 0) without."""
    try:
        found = None if path is None else path.lstat()
    except OSError:
        return 0, 0
    return (0, 0) if found is None else (found.st_ino, found.st_size)


def age_s(path: Path | None) -> float:
    """Return how many seconds of a process are on its tape, at most; zero where it cannot be known."""
    if path is None:
        return 0.0
    try:
        first = next(read_records(_read(path, _FIRST_BYTES)), None)
    except (OSError, GanglionError):
        return 0.0
    return 0.0 if first is None else max(0.0, time.monotonic() - first.time_s)


def position(path: Path | None, most: int = READ_BYTES) -> str | None:
    """Return behind which call a process stood, and where in the run; None if nobody knows, or the tape is too long.

    What it heard after its last word is not on the tape: it may have died of a later call.
    """
    if path is None or place(path)[1] > most:
        return None
    try:
        found = last_request(_read(path))
        return f"after {found}" if found else None
    except (OSError, GanglionError):
        return None


def _read(path: Path, most: int = -1) -> bytes:
    """Return the first bytes of a regular file, all of them with -1; OSError if it is anything else."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read(most)
