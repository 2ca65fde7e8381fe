"""Restarts: how soon a lost process is started again, and when that is enough; pure."""

from __future__ import annotations

from collections import deque

from ganglion.limits import RESTARTS_PER_NAME, RESTARTS_PER_RUN, RESTARTS_WITHIN_S

__all__ = ["Restarts"]

_DELAYS_S = (0.0, 0.1, 0.4, 1.6, 5.0)


class Restarts:
    """Count the restarts of one run."""

    def __init__(self) -> None:
        self._moments_s: dict[str, deque[float]] = {}
        self._all = 0

    def next_s(self, name: str, now_s: float) -> float | None:
        """Return after how many seconds this name may be started again; None if it has died too often."""
        moments_s = self._moments_s.setdefault(name, deque())
        while moments_s and now_s - moments_s[0] > RESTARTS_WITHIN_S:
            moments_s.popleft()
        if len(moments_s) >= RESTARTS_PER_NAME or self._all >= RESTARTS_PER_RUN:
            return None
        delay_s = _DELAYS_S[min(len(moments_s), len(_DELAYS_S) - 1)]
        moments_s.append(now_s)
        self._all += 1
        return delay_s

    def count(self, name: str) -> int:
        """Return how often this name was started again within the window."""
        return len(self._moments_s.get(name, ()))
