from __future__ import annotations

import math
from dataclasses import make_dataclass

import pytest

from ganglion_learners.parameter import Config, Count, Finite, Fraction, Pair, Positive, Share, Weight, Whole


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (Count, [0, 7], [-1, 1.0, True, None]),
        (Whole, [1, 7], [0, -1, 1.0, True, None]),
        (Pair, [2, 7], [1, 2.0]),
        (Whole | None, [1, None], [0, 1.0]),
        (Finite, [-1, 0.5], [math.inf, math.nan, "1", True, None]),
        (Positive, [0.1, 3], [0, -1.0, math.inf, math.nan, "1", True]),
        (Weight, [0, 0.0, 7.5], [-0.1, math.inf, math.nan, "1", True, None]),
        (Fraction, [0, 0.5, 1.0], [-0.1, 1.1, math.nan, None]),
        (Share, [0.5, 1.0], [0.0, 1.1, math.nan, None]),
    ],
)
def test_ranges(hint, good, bad) -> None:
    """What lies in the range passes; anything else is refused by the parameter's name and value."""
    config = make_dataclass("Own", [("it", hint)], bases=(Config,))
    for value in good:
        config(value)
    for value in bad:
        with pytest.raises(ValueError, match=r"it: expected .* found"):
            config(value)
