from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk import AuthorError
from ganglion_filters.moments import Moments


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(1, 7))
def test_batches_do_not_matter(numbers: list[float], size: int) -> None:
    """Merged in whatever batches, mean and variance are those of all merged rows."""
    moments = Moments(1, size)
    for number in numbers:
        moments.add(np.array([number]))
    merged = numbers[: moments.count]

    assert len(numbers) - len(numbers) % size == moments.count
    if merged:
        assert np.mean(merged) == pytest.approx(moments.mean[0], abs=1e-9)
        assert np.var(merged) == pytest.approx(moments.variance[0], rel=1e-9, abs=1e-6)


def test_moments_of_other_columns_are_refused() -> None:
    """What was kept for two sensors does not fit one."""
    with pytest.raises(AuthorError, match="expected moments of 1 columns, found 2"):
        Moments(1, 2).load(Moments(2, 2).arrays())
