"""Ordinals of signals: what names the row of each one for good, so that one that comes again is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_ORDERS, _ORDERS_PER_LIFE = 1 << 30, 1 << 16  # numbers of 31 bits, which all databases have


class Ordinals:
    """Number the rows of signals; equal ones may be said twice, and each is one of its own.

    Each of up to `workers` is counted apart, as are signals for all: workers that race do not come in the same order
    when a phase begins again. What operators did is counted apart, too: a phase that begins again does without it.
    `life` is the incarnation of who began to count such orders; no other gives the same numbers.
    """

    def __init__(self, workers: int, life: int) -> None:
        self._width, self._life = workers + 1, life
        self._counts: dict[int, int] = {}  # worker + 1, or 0 for all of them
        self.orders = 0  # of operators, so far

    def number(self, worker: int | None) -> int:
        """Return the next ordinal of a worker, or of all."""
        lane = 0 if worker is None else worker + 1
        count = self._counts[lane] = self._counts.get(lane, 0) + 1
        return count * self._width + lane

    def order(self) -> int:
        """Return the next ordinal of an operator's order."""
        self.orders += 1
        return _ORDERS + self._life * _ORDERS_PER_LIFE + self.orders

    def note(self) -> list[list[int]]:
        """Return what `restore` needs; orders are not part of it."""
        return [list(pair) for pair in self._counts.items()]

    def restore(self, note: Iterable[Sequence[Any]]) -> None:
        """Go on counting where `note` was taken."""
        self._counts = {int(lane): int(count) for lane, count in note}
