"""Notes: what the answer about a row carries: what was excused, and what the brain noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganglion.peer.excuse import Excuses
from ganglion.sdk.brain import Brain

BRAIN = "brain."
"""How the names of a brain's statistics begin, which lie in one column with those of its muscles."""


class Notes:
    """Keep excuses and statistics of a brain's host by the worker whose row they concern, until that is answered."""

    def __init__(self, excuses: Excuses) -> None:
        self._excuses = excuses
        self._excused: dict[int, list[dict[str, Any]]] = {}
        self._noted: dict[int, dict[str, float]] = {}

    def take(self, worker: int, brain: Brain) -> None:
        """Keep for a worker what has been excused and noted since the last call; of one key the newest number."""
        noted = brain.pop_statistics()
        if noted:
            self._noted.setdefault(worker, {}).update({f"{BRAIN}{key}": noted[key] for key in noted})
        excused = self._excuses.pop()
        if excused:
            self._excused.setdefault(worker, []).extend(excused)

    def pop(self, worker: int) -> tuple[list[dict[str, Any]] | None, dict[str, float] | None]:
        """Return the excuses and the statistics for a worker; None where there are none."""
        return self._excused.pop(worker, None), self._noted.pop(worker, None)

    def left(self) -> list[dict[str, Any]] | None:
        """Return the excuses of which no worker was told, at the end of a phase; None if there are none."""
        left = [excuse for excused in self._excused.values() for excuse in excused]
        self._excused = {}
        return left or None

    def export(self) -> dict[str, Any]:
        """Return all that `restore` needs, as plain values."""
        return {
            "excused": [[worker, excused] for worker, excused in self._excused.items()],
            "noted": [[worker, noted] for worker, noted in self._noted.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `export` returned."""
        self._excused = {worker: list(excused) for worker, excused in state["excused"]}
        self._noted = {worker: dict(noted) for worker, noted in state["noted"]}
