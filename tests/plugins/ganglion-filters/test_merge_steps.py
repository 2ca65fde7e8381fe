from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.sdk import Box, Discrete
from ganglion_filters.merge_steps import MergeSteps

TEN, UNIT = Discrete(100), Box(0.0, 1.0, ())


def test_history_repeats_the_oldest_reading(chain: Callable[..., Any]) -> None:
    """Each sensor is followed by its past, newest first; before the first decision the oldest stands."""
    made = chain(MergeSteps(), {"a": TEN, "b": UNIT})

    assert ["a", "LAST-1-a", "LAST-2-a", "b", "LAST-1-b", "LAST-2-b"] == list(made.spaces())
    assert [[5, 5, 5], [6, 5, 5], [7, 6, 5], [8, 7, 6]] == [
        list(made.see(a=n, b=0.0).values())[:3] for n in (5, 6, 7, 8)
    ]
    made.reset()
    assert [1, 1, 1] == list(made.see(a=1, b=0.5).values())[:3]


def test_setpoints_come_along(chain: Callable[..., Any]) -> None:
    """With `merge_actuators` the setpoints of the decisions between the readings are there."""
    made = chain(MergeSteps(3, merge_actuators=True), {"a": TEN}, {"x": (TEN, 42)})
    seen = []
    for n in range(3):
        seen.append(list(made.see(a=n).values())[3:])
        assert {"x": n + 10} == made.set(x=n + 10)[0]

    assert ["LAST-1-x", "LAST-2-x"] == list(made.spaces())[3:]
    assert [[42, 42], [10, 42], [11, 10]] == seen


def test_one_step_is_nothing(chain: Callable[..., Any]) -> None:
    """With one step there is no past."""
    assert {"a": 3} == chain(MergeSteps(1, merge_actuators=True), {"a": TEN}, {"x": (TEN, 0)}).see(a=3)


@pytest.mark.parametrize("steps", [0, 1.5, True, "3"])
def test_steps_are_a_positive_integer(steps: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="steps: expected an integer >= 1"):
        MergeSteps(steps)
