"""Mean: of a window, by an exact sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["mean"]


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number, its sum rounded once; NaN where infinities of both signs are among them.

    A running sum would drift, and two runs of one document could then end at different steps.
    """
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum is beyond the largest number, the mean is not
        return math.fsum(value / len(values) for value in values)
    except ValueError:
        return math.nan
