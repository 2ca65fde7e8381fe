from __future__ import annotations

import math

import pytest

from ganglion.testing import Clock


def test_it_goes_on_when_it_is_told_to() -> None:
    """It shows what it was made with, plus all spans, slept ones too."""
    clock = Clock(5.0)
    assert (5.0, 5.0) == (clock(), clock())
    assert 7.5 == clock.advance(2.5) == clock()

    clock.sleep(0.5)
    assert 8.0 == clock()


@pytest.mark.parametrize("span_s", [-1.0, math.nan])
def test_it_never_goes_back(span_s: float) -> None:
    """Another span is refused, and it stays as it is."""
    clock = Clock()
    with pytest.raises(ValueError, match="expected a span of at least 0 s, found"):
        clock.advance(span_s)
    assert 0.0 == clock()
