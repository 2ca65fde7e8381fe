"""Cuts at the begin of phases: written once everything before them is acknowledged by the store."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ganglion.errors import StoreError
from ganglion.run.effect import FOLDER, cut_text, phase_cut_name
from ganglion.synced import write_synced

_KEPT = 2


class Cuts:
    """Write the cuts of a run into its folder; the two newest are kept.

    What is there already is not written again: a governor that is started anew comes to the same cuts.
    """

    def __init__(self, results: Path) -> None:
        self._folder = results / FOLDER
        self._due: deque[tuple[int, int, str]] = deque()  # number of a batch, phase, text

    def take(self, number: int, cut: Mapping[str, Any]) -> None:
        """Take a cut at the begin of its `phase`; it counts when the batch of rows with this number is durable."""
        self._due.append((number, int(cut["phase"]), cut_text(cut)))

    def settle(self, acknowledged: int) -> None:
        """Write what is due; StoreError if that cannot be done, and it is not tried again."""
        while self._due and self._due[0][0] <= acknowledged:
            _, phase, text = self._due.popleft()
            path = self._folder / phase_cut_name(phase)
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                if not _holds(path, text):
                    write_synced(path, text.encode())
                self._forget()
            except OSError as error:
                raise StoreError(f"cut {path}: cannot be written: {error}") from error

    def _forget(self) -> None:
        """Take away the oldest cuts."""
        for path in sorted(self._folder.glob("phase-*.json"))[:-_KEPT]:
            path.unlink(missing_ok=True)


def _holds(path: Path, text: str) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8") == text
    return False
