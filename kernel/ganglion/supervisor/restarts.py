"""Restarts: how soon a lost process is started again, and when that is enough; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from ganglion.limits import RESTART_DELAYS_S, RESTARTS_PER_NAME, RESTARTS_PER_RUN, RESTARTS_WITHIN_S


class Restarts:
    """Count the restarts of one run."""

    def __init__(self) -> None:
        self._moments_s: dict[str, deque[float]] = {}
        self._all = 0
        self._places: dict[str, tuple[Hashable, int]] = {}

    def next_s(
        self, name: str, now_s: float, most: int = RESTARTS_PER_NAME, within_s: float = RESTARTS_WITHIN_S
    ) -> float | None:
        """Return after how many seconds this name may be started again; None if it has died too often.

        `most` restarts of a name within `within_s` seconds are no accident any more.
        """
        moments_s = self._moments_s.setdefault(name, deque())
        while moments_s and now_s - moments_s[0] > within_s:
            moments_s.popleft()
        if len(moments_s) >= most or self._all >= RESTARTS_PER_RUN:
            return None
        delay_s = RESTART_DELAYS_S[min(len(moments_s), len(RESTART_DELAYS_S) - 1)]
        moments_s.append(now_s)
        self._all += 1
        return delay_s

    def died(self, name: str, place: Hashable) -> int:
        """Take note of where and how a name has died; return how often it has died just so, without a break."""
        former, times = self._places.get(name, (None, 0))
        times = times + 1 if former == place else 1
        self._places[name] = (place, times)
        return times
