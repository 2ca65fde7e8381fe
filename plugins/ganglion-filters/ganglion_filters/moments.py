"""Moments: mean and variance of rows that are merged in batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import AuthorError

__all__ = ["Moments"]

Floats = NDArray[np.float64]


class Moments:
    """Keep mean (0) and variance (1) per column; both are replaced when the first batch is merged.

    Args:
        columns: How many.
        batch_size: Rows that are merged at once.
    """

    def __init__(self, columns: int, batch_size: int) -> None:
        self.mean: Floats = np.zeros(columns)
        self.variance: Floats = np.ones(columns)
        self.count = 0
        self._batch_size = batch_size
        self._waiting: list[Floats] = []

    def add(self, row: Floats) -> bool:
        """Take one row, (columns,); says whether a batch was merged. One with an infinite value does not count.

        Source: Chan, Golub, LeVeque (1979), Updating formulae and a pairwise algorithm for computing sample variances.
        """
        if not np.isfinite(row).all():
            return False  # infinity has a place in an order, none in a mean
        self._waiting.append(np.array(row, dtype=np.float64))
        if len(self._waiting) < self._batch_size:
            return False
        batch, self._waiting = np.array(self._waiting), []
        mean, variance, new = batch.mean(axis=0), batch.var(axis=0), len(batch)
        total = self.count + new
        change = mean - self.mean
        squares = self.variance * self.count + variance * new + change * change * (self.count * new / total)
        self.mean = self.mean + change * (new / total)
        self.variance, self.count = squares / total, total
        return True

    def arrays(self, prefix: str = "") -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
        """Return what was merged, as named arrays."""
        return {f"{prefix}mean": self.mean, f"{prefix}variance": self.variance, f"{prefix}count": np.array(self.count)}

    def load(self, arrays: Mapping[str, NDArray[np.float64]], prefix: str = "") -> None:
        """Take over what `arrays` returned; AuthorError if it is for other columns."""
        mean, variance = (np.array(arrays[f"{prefix}{name}"], dtype=np.float64) for name in ("mean", "variance"))
        if mean.shape != self.mean.shape or variance.shape != self.mean.shape:
            raise AuthorError(f"norm: expected moments of {self.mean.size} columns, found {mean.size}")
        self.mean, self.variance, self.count = mean, variance, int(arrays[f"{prefix}count"])

    @property
    def waiting(self) -> Floats:
        """The rows that are not merged yet, [rows, columns]; setting them is for who goes on from a checkpoint."""
        return np.array(self._waiting).reshape(len(self._waiting), self.mean.size)

    @waiting.setter
    def waiting(self, rows: Floats) -> None:
        self._waiting = [np.array(row) for row in rows]
