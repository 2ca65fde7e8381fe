from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import SpaceError
from ganglion.sdk.spaces.kinds import Box, Dict, Discrete, Tuple

PAIR = Tuple([Discrete(3), Box(0, 1, (2,), np.float32)])
NAMED = Dict({"b": Discrete(3), "a": Box(0, 1)})


@pytest.mark.parametrize(
    ("space", "value", "contained"),
    [
        (PAIR, (1, [0.5, 0.5]), True),
        (PAIR, [1, (0, 1)], True),
        (PAIR, (3, [0.5, 0.5]), False),
        (PAIR, (1,), False),
        (PAIR, (1, [0.5, 0.5], 0), False),
        (PAIR, 1, False),
        (PAIR, "ab", False),
        (NAMED, {"a": 0.5, "b": 2}, True),
        (NAMED, {"b": 2, "a": 0.5}, True),
        (NAMED, {"a": 0.5}, False),
        (NAMED, {"a": 0.5, "b": 2, "c": 0}, False),
        (NAMED, [0.5, 2], False),
    ],
)
def test_containment(space: Tuple | Dict, value: Any, contained: bool) -> None:
    """The structure must fit, and each part its space."""
    assert contained is space.contains(value)


def test_an_integer_that_would_be_rounded_is_refused() -> None:
    """Beside floats an integer has 53 bits; more are refused instead of lost."""
    space = Tuple([Discrete(2**62), Box(0, 1)])

    assert [2.0**53, 0.5] == space.to_vector((2**53, 0.5)).tolist()
    with pytest.raises(SpaceError, match="53 bits"):
        space.to_vector((2**53 + 1, 0.5))


def test_parts_can_be_had() -> None:
    """A Tuple gives its parts by position, a Dict by key; both have a length."""
    assert (Discrete(3), 2, [Discrete(3), PAIR[1]]) == (PAIR[0], len(PAIR), list(PAIR))
    assert (Discrete(3), 2, ["a", "b"], ["a", "b"]) == (NAMED["b"], len(NAMED), list(NAMED), list(NAMED.keys()))


def test_keys_are_texts() -> None:
    """Maps on the bus have text keys."""
    with pytest.raises(SpaceError, match="texts"):
        Dict({1: Discrete(2)})  # type: ignore[dict-item]
