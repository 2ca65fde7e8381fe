from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk import AuthorError
from ganglion_filters.moments import Moments


def test_written_out() -> None:
    """(1, 3) has mean 2 and variance 1; with (5, 7) it is 4 and 5."""
    moments = Moments(1, 2)

    assert (0.0, 1.0) == (moments.mean[0], moments.variance[0])
    assert [False, True] == [moments.add(np.array([x])) for x in (1.0, 3.0)]
    assert (2.0, 1.0, 2) == (moments.mean[0], moments.variance[0], moments.count)
    assert [False, True] == [moments.add(np.array([x])) for x in (5.0, 7.0)]
    assert (4.0, 5.0, 4) == (moments.mean[0], moments.variance[0], moments.count)


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


def test_infinite_rows_do_not_count() -> None:
    """A row of which one column is infinite is left out of a batch, and fills none."""
    moments = Moments(2, 2)
    rows = ([1.0, 2.0], [np.inf, 0.0], [0.0, -np.inf], [3.0, 2.0])

    assert [False, False, False, True] == [moments.add(np.array(row)) for row in rows]
    assert ([2.0, 2.0], [1.0, 0.0], 2) == (moments.mean.tolist(), moments.variance.tolist(), moments.count)


def test_moments_of_other_columns_are_refused() -> None:
    """What was kept for two sensors does not fit one."""
    with pytest.raises(AuthorError, match="expected moments of 1 columns, found 2"):
        Moments(1, 2).load(Moments(2, 2).arrays())
