from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete
from ganglion_filters.deviation import AbsoluteDeviation, QuadraticPenalty


@pytest.mark.parametrize(
    ("cls", "value", "space", "found", "low", "high"),
    [
        (AbsoluteDeviation, 0.75, Box(0.0, 3.0, ()), 0.25, 0.0, 2.0),
        (AbsoluteDeviation, 2.5, Box(2.0, 3.0, ()), 1.5, 1.0, 2.0),
        (AbsoluteDeviation, -2, Discrete(4, start=-2), 3.0, 0.0, 3.0),
        (QuadraticPenalty, 0.5, Box(-1.0, 0.5, ()), 0.25, 0.25, 4.0),
        (QuadraticPenalty, 3.0, Box(0.0, np.inf, ()), 4.0, 0.0, np.inf),
    ],
)
def test_readings_and_bounds_are_mapped(
    chain: Callable[..., Any], cls: Any, value: Any, space: Any, found: float, low: float, high: float
) -> None:
    """V becomes abs(1 - v) or its square; the bounds are those of what can come out."""
    made = chain(cls(), {"a": space})

    assert {"a": found} == made.see(a=value)
    assert Box(low, high, ()) == made.sensors[0].space


def test_each_column_has_its_own_bounds(chain: Callable[..., Any]) -> None:
    """An array is mapped element by element."""
    made = chain(QuadraticPenalty(), {"a": Box([0.0, 2.0], [1.0, 4.0], (2,), np.float32)})

    assert [0.25, 4.0] == made.see(a=[0.5, 3.0])["a"].tolist()
    assert ([0.0, 1.0], [1.0, 9.0]) == (
        made.sensors[0].space.low.tolist(), made.sensors[0].space.high.tolist(),
    )  # fmt: skip
