from __future__ import annotations

from typing import Any

import pytest

from ganglion_learners.update import refused


@pytest.mark.parametrize(
    ("update", "found"),
    [
        (None, "found a NoneType"),
        ([1], "found a list"),
        ({}, "found an empty map"),
        ({"algorithm": "dqn", "values": 1}, "found one of 'dqn'"),
        ({"weights": 1, "basis": 2}, "found a map of weights, basis"),
        (dict.fromkeys("abcdef"), "found a map of a, b, c, d and 2 more"),
    ],
)
def test_says_what_came(update: Any, found: str) -> None:
    """The learner that was expected, what came in few words, and what goes together."""
    told = str(refused("own", update))

    assert f"expected one of own, {found} (brain and muscle" in told
    assert len(told) < 200
