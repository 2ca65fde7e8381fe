from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk import Box, Dict, Discrete, Mask, MultiBinary, MultiDiscrete, Ragged, SensorInformation, Space, Tuple
from ganglion_filters.column import flat

SPACES = [
    Box(-1.0, 2.0, ()),
    Box([0.0, -np.inf], [1.0, 5.0], (2,), np.float32),
    Discrete(4, start=-2),
    MultiDiscrete([[2, 3]], start=[[1, 0]]),
    MultiBinary((2, 2)),
    Mask(3, of="a"),
    Ragged(Box(-1.0, 2.0, (3, 2), np.float32)),
    Tuple([Discrete(3), Box(0.0, 1.0, (2,))]),
    Dict({"b": Discrete(2), "a": Box(-5.0, -4.0, ())}),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.kind)
@given(seed=st.integers(0, 1000))
def test_columns_lie_within_their_bounds(space: Space, seed: int) -> None:
    """Whatever a space holds, its columns are floats between their bounds, as many as its vector has."""
    low, high = space.column_bounds()
    columns = flat(SensorInformation(space.sample(np.random.default_rng(seed)), space, "a"))

    assert (space.size,) == columns.shape == low.shape == high.shape
    assert np.float64 == columns.dtype
    assert bool((low <= columns).all() and (columns <= high).all())


def test_bounds_of_a_dict_are_in_the_order_of_its_vector() -> None:
    """Parts come by sorted names."""
    assert ([-5.0, 0.0], [-4.0, 1.0]) == tuple(bound.tolist() for bound in SPACES[-1].column_bounds())
