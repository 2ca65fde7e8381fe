from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ganglion.sdk.simtime import SimTime

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "before", "falls"),
    [
        (SimTime(1), SimTime(1), False),
        (SimTime(0), SimTime(1), True),
        (SimTime(2, NOON), SimTime(1, NOON + timedelta(hours=1)), True),
        (SimTime(None, NOON), SimTime(1, None), False),
        (SimTime(), SimTime(), False),
    ],
)
def test_falling_behind(now: SimTime, before: SimTime, falls: bool) -> None:
    """A time falls if one of the components that both have does; what one lacks is not compared."""
    assert falls is now.falls_behind(before)


def test_simtime_is_frozen() -> None:
    """A time that has been told does not change."""
    with pytest.raises(AttributeError):
        SimTime(1).simtime_ticks = 2  # type: ignore[misc]
