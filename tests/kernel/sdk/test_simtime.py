from __future__ import annotations

import pytest

from ganglion.sdk.simtime import SimTime


def test_simtime_is_frozen() -> None:
    """A time that has been told does not change."""
    with pytest.raises(AttributeError):
        SimTime(1).simtime_ticks = 2  # type: ignore[misc]
