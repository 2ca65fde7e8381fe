from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import AuthorError, Box, Discrete, Tuple
from ganglion_filters.delta_action import DeltaAction, numbers


def test_actions_are_added_up(chain: Callable[..., Any]) -> None:
    """A setpoint is the last one plus the action, within the space; at first the no-op."""
    made = chain(DeltaAction(), {}, {"x": (Box(-2.0, 2.0, ()), 0.5), "n": (Discrete(10), 3)})

    assert [Box(-2.0, 2.0, ()), Discrete(10)] == [it.space for it in made.actuators]
    assert [(1.0, 7), (2.0, 9), (0.25, 9)] == [
        tuple(made.set(x=x, n=n)[0].values()) for x, n in ((0.5, 4), (1.5, 4), (-1.75, 0))
    ]
    made.reset()
    assert (0.0, 3) == tuple(made.set(x=-0.5, n=0)[0].values())


def test_arrays_are_added_without_overflow(chain: Callable[..., Any]) -> None:
    """Small integers and floats are added as large ones, then clipped."""
    made = chain(DeltaAction(), {}, {"x": (Box(0, 200, (2,), dtype=np.uint8), np.array([150, 1], np.uint8))})

    assert [200, 2] == made.set(x=[150, 1])[0]["x"].tolist()
    assert (np.int64, np.float64) == (
        numbers(np.zeros(1, np.int8)).dtype, numbers(np.zeros(1, np.float32)).dtype,
    )  # fmt: skip


def test_a_tuple_has_no_sum(chain: Callable[..., Any]) -> None:
    """It is refused when it is declared."""
    space = Tuple([Discrete(2)])
    with pytest.raises(AuthorError, match="actuator x: expected numbers"):
        chain(DeltaAction(), {}, {"x": (space, (0,))})
