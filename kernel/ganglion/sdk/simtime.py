"""SimTime: the time inside an environment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SimTime:
    """State a simulated time; it never falls within an episode.

    Args:
        simtime_ticks: Count of ticks, >= 0; None where the environment counts none.
        simtime_timestamp: Simulated date and time; None where the environment has no calendar.
    """

    simtime_ticks: int | None = None
    simtime_timestamp: datetime | None = None

    def falls_behind(self, earlier: SimTime) -> bool:
        """Tell whether this time lies before `earlier` in a component that both have."""
        return _less(self.simtime_ticks, earlier.simtime_ticks) or _less(
            self.simtime_timestamp, earlier.simtime_timestamp
        )


def _less(a: int | datetime | None, b: int | datetime | None) -> bool:
    return a is not None and b is not None and a < b  # type: ignore[operator]
