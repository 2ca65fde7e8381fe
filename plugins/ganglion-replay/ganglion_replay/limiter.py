"""Limiter: the number of draws of recorded steps for each inserted one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class RateLimiter:
    """Bound draws and inserts of a table to a rate, within a buffer; the methods answer at once, without waiting.

    With d = inserts * samples_per_insert - samples, a draw is allowed from `min_size` inserts on while d stays at or
    above `low`, an insert up to `min_size`, and further while d stays at or below `high`.

    Args:
        samples_per_insert: Draws per insert, above 0.
        min_size: Inserts before the first draw, at least 1.
        buffer: The most distance of d from samples_per_insert * min_size, at least 1 and `samples_per_insert`.
        clock: Returns seconds, for the begin of a block in `state`.

    Raises:
        ValueError: A number is below its bound.

    Source: Cassirer et al. (2021), Reverb: A Framework for Experience Replay, section 3.3.
    """

    def __init__(
        self, samples_per_insert: float, min_size: int, buffer: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not samples_per_insert > 0 or min_size < 1:
            text = f"expected a rate above 0 and at least 1, found {samples_per_insert} and {min_size}"
            raise ValueError(f"samples_per_insert, min_size: {text}")
        if not buffer >= max(1, samples_per_insert):
            raise ValueError(f"buffer: expected at least {max(1, samples_per_insert):g}, found {buffer}")
        self._rate, self.min_size, self._clock = samples_per_insert, min_size, clock
        self.low, self.high = samples_per_insert * min_size - buffer, samples_per_insert * min_size + buffer
        self.inserts = self.samples = 0
        self._blocked: str | None = None
        self._since_s: float | None = None

    @property
    def d(self) -> float:
        """The draws that inserts allow and that were not made."""
        return self.inserts * self._rate - self.samples

    def can_insert(self, n: int = 1) -> bool:
        """Return whether n inserts are allowed now; if not, record that inserts are blocked."""
        allowed = self.inserts + n <= self.min_size or self.d + n * self._rate <= self.high
        return self._told("insert", allowed)

    def can_sample(self, n: int = 1) -> bool:
        """Return whether n draws are allowed now; if not, record that draws are blocked."""
        return self._told("sample", self.inserts >= self.min_size and self.d - n >= self.low)

    def _told(self, side: str, allowed: bool) -> bool:
        if not allowed and self._blocked != side:
            self._blocked, self._since_s = side, self._clock()
        elif allowed and self._blocked == side:
            self._blocked = self._since_s = None
        return allowed

    def inserted(self, n: int = 1) -> None:
        """Count n inserts."""
        self.inserts += n
        self._blocked = self._since_s = None

    def sampled(self, n: int = 1) -> None:
        """Count n draws."""
        self.samples += n
        self._blocked = self._since_s = None

    def state(self) -> dict[str, Any]:
        """Return inserts, samples, d, low, high; `blocked` is insert, sample or None, `since` is its begin, s."""
        return {
            "inserts": self.inserts,
            "samples": self.samples,
            "d": self.d,
            "low": self.low,
            "high": self.high,
            "blocked": self._blocked,
            "since": self._since_s,
        }
