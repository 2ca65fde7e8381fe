from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces as theirs

from ganglion.sdk import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from ganglion_gymnasium.space import from_gymnasium, to_gymnasium, value_to_gymnasium

SPACES = [
    Box(-1.0, 2.5, (2, 3)),
    Box(np.array([0.0, -np.inf], np.float32), np.array([np.inf, 1.0], np.float32), dtype=np.float32),
    Box(0, 255, (4, 4, 3), np.uint8),
    Box(-1.0, 1.0, ()),
    Discrete(5),
    Discrete(5, start=-2),
    MultiDiscrete([2, 3, 4]),
    MultiDiscrete([2, 3], start=[1, -1]),
    MultiBinary(3),
    MultiBinary((2, 2)),
    Tuple([Discrete(2), Box(0.0, 1.0, (3,))]),
    Dict({"b": Discrete(2), "a": Tuple([MultiBinary(2)])}),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.to_string())
def test_round_trip(space) -> None:
    """A space of ours becomes one of theirs and the same again."""
    assert space == from_gymnasium(to_gymnasium(space))


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.to_string())
def test_values_of_one_are_values_of_the_other(space) -> None:
    """Our samples are contained in their space in its own form, and their samples in ours."""
    rng = np.random.default_rng(0)
    counterpart = to_gymnasium(space)
    counterpart.seed(0)

    for _ in range(5):
        assert counterpart.contains(value_to_gymnasium(space, space.sample(rng)))
        assert space.contains(counterpart.sample())


def test_refuses_what_is_no_space() -> None:
    """Anything but our spaces is refused on the way out."""
    with pytest.raises(TypeError, match="expected a space that Gymnasium has too"):
        to_gymnasium(theirs.Discrete(2))
    with pytest.raises(TypeError, match=r"expected a space of ganglion\.sdk"):
        value_to_gymnasium(theirs.Discrete(2), 1)
