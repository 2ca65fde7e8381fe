"""Replay: the newest decisions, from which batches are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

__all__ = ["Replay"]

Array = NDArray[Any]


class Replay:
    """Keep up to `capacity` rows of float32 columns; the oldest make room.

    Memory for all rows is asked of the system at once, which gives it as it is filled.

    Source: Lin (1992), Self-improving reactive agents based on reinforcement learning, planning and teaching, section
    3.5 (experience replay).
    """

    def __init__(self, capacity: int, width: int) -> None:
        self._rows = np.zeros((capacity, width), dtype=np.float32)
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, row: Array) -> None:
        """Add one row, (width,)."""
        self._rows[self._next] = row
        capacity = len(self._rows)
        self._next = (self._next + 1) % capacity
        self._count = min(self._count + 1, capacity)

    def extend(self, rows: Array) -> None:
        """Add rows in their order, (k, width); of more than there is room for the newest stay."""
        capacity = len(self._rows)
        kept = rows[-capacity:]
        start = (self._next + len(rows) - len(kept)) % capacity
        until_end = min(len(kept), capacity - start)
        self._rows[start : start + until_end] = kept[:until_end]
        self._rows[: len(kept) - until_end] = kept[until_end:]
        self._next = (self._next + len(rows)) % capacity
        self._count = min(self._count + len(rows), capacity)

    def sample(self, count: int, rng: Generator) -> Array:
        """Return rows drawn uniformly, (count, width); a row may come twice."""
        found: Array = self._rows[rng.integers(self._count, size=count)]
        return found

    def arrays(self) -> dict[str, Array]:
        """Return what it holds: `replay.rows` (len, width) and `replay.next`, where the next row goes."""
        return {"replay.rows": self._rows[: self._count].copy(), "replay.next": np.array(self._next, dtype=np.int64)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `arrays` returned.

        Raises:
            ValueError: It is of another capacity or width.
        """
        rows, following = arrays["replay.rows"], int(arrays["replay.next"])
        capacity, width = self._rows.shape
        if rows.ndim != 2 or rows.shape[1] != width or len(rows) > capacity or not 0 <= following < capacity:
            raise ValueError(f"replay: expected at most {capacity} rows of {width}, found {rows.shape}")
        self._rows[: len(rows)] = rows
        self._count, self._next = len(rows), following
