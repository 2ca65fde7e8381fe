"""Placement: the processors that a run or a daemon is kept on, with everything that it starts."""

from __future__ import annotations

import os
import re

from ganglion.cli.settings import Settings
from ganglion.errors import UsageError

__all__ = ["keep_to", "processors"]

_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*\Z")


def processors(text: str, there: set[int]) -> set[int]:
    """Return the processors that a list like `0`, `0,2` or `1-3` means.

    Raises:
        UsageError: It is no such list, or names one that is not `there`.
    """
    if _LIST.match(text) is None:
        raise UsageError(
            f"cpus: expected a list of processors, as in `0`, `0,2` or `1-3`, found {text[:80]!r}"
        )
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) > max(there):  # before a range of any length is made
            raise UsageError(f"cpus: expected processors up to {max(there)}, found {last or first}")
        found |= set(range(int(first), int(last or first) + 1))
    missing = sorted(found - there)
    if missing or not found:
        raise UsageError(f"cpus: expected some of {sorted(there)}, found {missing[0] if missing else text!r}")
    return found


def keep_to(settings: Settings) -> None:
    """Keep this process, and what it will start, on the processors of the settings; without any do nothing."""
    if settings.cpus is None:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("cpus: this system keeps no process on processors of one's choice")
    os.sched_setaffinity(0, processors(settings.cpus, os.sched_getaffinity(0)))
