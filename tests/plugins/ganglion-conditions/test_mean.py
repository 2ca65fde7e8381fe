from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion_conditions.mean import mean

NUMBERS = st.floats(-1e12, 1e12)


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_the_sum_is_exact(values: list[float]) -> None:
    """The sum is rounded once, whatever the order of the values."""
    exact = sum(map(Fraction, values))

    assert float(exact) / len(values) == mean(values)
    assert mean(values) == mean(values[::-1])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1] * 10, 0.1),
        ([1e16, 1.0, -1e16], 1 / 3),
        ([1e308, 1e308], 1e308),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
    ],
)
def test_no_sum_is_too_large(values: list[float], expected: float) -> None:
    """Small terms are not lost, and a mean has no greater range than its values."""
    assert expected == mean(values)


def test_infinities_of_both_signs_have_no_mean() -> None:
    """What has no value compares with nothing."""
    assert math.isnan(mean([math.inf, -math.inf]))
