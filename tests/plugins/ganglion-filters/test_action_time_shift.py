from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganglion.sdk import Box, Discrete
from ganglion_filters.action_time_shift import ActionTimeShift

TEN, PAIR = Discrete(100), Box(0.0, 1.0, (2,))


def test_the_last_setpoints_are_readings(chain: Callable[..., Any]) -> None:
    """1 is the newest; before the first decision of each episode the no-op stands."""
    made = chain(ActionTimeShift(2), {"a": TEN}, {"x": (TEN, 7), "y": (PAIR, [0.0, 0.0])})

    assert ["a", "LAST-1-x", "LAST-2-x", "LAST-1-y", "LAST-2-y"] == list(made.spaces())
    assert PAIR.to_string() == made.spaces()["LAST-2-y"]
    seen = []
    for n in (1, 2, 3):
        found = made.see(a=0)
        seen.append((found["LAST-1-x"], found["LAST-2-x"]))
        made.set(x=n, y=[0.5, 0.5])
    assert [(7, 7), (1, 7), (2, 1)] == seen
    made.reset()
    assert 7 == made.see(a=0)["LAST-1-x"]
