from __future__ import annotations

import math

import pytest

from ganglion_learners.parameter import expect_fraction, expect_positive, expect_weight, expect_whole


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (expect_whole, [1, 7], [0, -1, 1.0, True, None]),
        (expect_positive, [0.1, 3], [0, -1.0, math.inf, math.nan, "1", True]),
        (expect_weight, [0, 0.0, 7.5], [-0.1, math.inf, math.nan, "1", True, None]),
        (expect_fraction, [0, 0.5, 1.0], [-0.1, 1.1, math.nan, None]),
    ],
)
def test_ranges(check, good, bad) -> None:
    """What lies in the range passes; anything else is refused by the parameter's name and value."""
    for value in good:
        check("it", value)
    for value in bad:
        with pytest.raises(ValueError, match=r"it: expected .* found"):
            check("it", value)
