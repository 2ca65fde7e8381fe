"""What a supervisor wants to know of a tape: where a process stood, and how long a successor has to hear it."""

from __future__ import annotations

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
        found = None if path is None else path.stat()
    except OSError:
        return 0, 0
    return (0, 0) if found is None else (found.st_ino, found.st_size)


def age_s(path: Path | None) -> float:
    """Return how many seconds of a process are on its tape, at most; zero where it cannot be known."""
    if path is None:
        return 0.0
    try:
        with path.open("rb") as file:
            first = next(read_records(file.read(_FIRST_BYTES)), None)
    except (OSError, GanglionError):
        return 0.0
    return 0.0 if first is None else max(0.0, time.monotonic() - first.time_s)


def position(path: Path | None, most: int = READ_BYTES) -> str | None:
    """Return which call a process heard last, and where in the run; None if nobody knows, or the tape is too long."""
    if path is None or place(path)[1] > most:
        return None
    try:
        return last_request(path.read_bytes()) or None
    except (OSError, GanglionError):
        return None
