from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import AuthorError, Box, Discrete
from ganglion_filters.delta_step import DeltaStep

TEN = Box(0.0, 10.0, ())


def test_relative_steps(chain: Callable[..., Any]) -> None:
    """P becomes clip(p + p a), from the no-op on; 0 is never left. What is no box stays as it is."""
    made = chain(DeltaStep(), {}, {"x": (TEN, 4.0), "n": (Discrete(3), 0)})

    assert [Box(-1.0, 1.0, ()), Discrete(3)] == [it.space for it in made.actuators]
    assert 0.0 == made.actuators[0].value
    assert [(6.0, 1), (10.0, 2), (5.0, 0), (0.0, 0), (0.0, 0)] == [
        tuple(made.set(x=a, n=n)[0].values()) for a, n in ((0.5, 1), (1.0, 2), (-0.5, 0), (-1.0, 0), (1.0, 0))
    ]
    made.reset()
    assert 4.0 == made.set(x=0.0, n=0)[0]["x"]


def test_steps_of_the_range(chain: Callable[..., Any]) -> None:
    """P becomes clip(p + a (high - low) / 2); arrays keep their dtype."""
    space = Box([0.0, -1.0], [10.0, 1.0], (2,), np.float32)
    made = chain(DeltaStep("range"), {}, {"x": (space, [0.0, 0.0])})

    assert (np.float32, (2,)) == (made.actuators[0].space.dtype, made.actuators[0].space.shape)
    assert [[2.5, 0.5], [7.5, 1.0]] == [made.set(x=a)[0]["x"].tolist() for a in ([0.5, 0.5], [1.0, 1.0])]


def test_the_range_needs_bounds(chain: Callable[..., Any]) -> None:
    """Without them, and with another scale, it is refused."""
    with pytest.raises(AuthorError, match="actuator x: expected bounds"):
        chain(DeltaStep("range"), {}, {"x": (Box(0.0, np.inf, ()), 0.0)})
    with pytest.raises(ValueError, match="scale: expected one of relative, range"):
        DeltaStep("absolute")
