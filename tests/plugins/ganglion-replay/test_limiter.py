"""Limiters: the golden sequence, and what holds whatever is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion_replay import RateLimiter


def times(limiter: RateLimiter, side: str, most: int = 100) -> int:
    """Return how often a side goes on until it is blocked."""
    allowed, done = {"insert": (limiter.can_insert, limiter.inserted), "sample": (limiter.can_sample, limiter.sampled)}[
        side
    ]
    for count in range(most):
        if not allowed():
            return count
        done()
    return most


def test_the_golden_sequence() -> None:
    """At a rate of 2, a least size of 5 and a buffer of 4: no draw before 5 inserts; then 4 draws, or 2 inserts."""
    limiter = RateLimiter(2, 5, 4)
    for _ in range(5):
        assert 0 == times(limiter, "sample")
        limiter.inserted()
    other = RateLimiter(2, 5, 4)
    other.inserted(5)

    assert (4, 2) == (times(limiter, "sample"), times(other, "insert"))


def test_the_state_says_who_is_blocked_and_since_when() -> None:
    """The first refusal begins a block, which ends with what makes it possible again."""
    now_s = iter([3.0, 8.0])
    limiter = RateLimiter(2, 5, 4, clock=lambda: next(now_s))

    limiter.can_sample()
    limiter.can_sample()
    assert ("sample", 3.0) == (limiter.state()["blocked"], limiter.state()["since"])
    limiter.inserted(5)

    assert {
        "inserts": 5,
        "samples": 0,
        "d": 10,
        "low": 6,
        "high": 14,
        "blocked": None,
        "since": None,
    } == limiter.state()


@pytest.mark.parametrize("numbers", [(2, 5, 1.5), (0.5, 5, 0.9), (0, 5, 4), (2, 0, 4)])
def test_a_limiter_that_would_block_for_ever_is_refused(numbers: tuple[float, int, float]) -> None:
    """A buffer below the rate or one, no rate, or no size is refused."""
    with pytest.raises(ValueError, match="expected"):
        RateLimiter(*numbers)


@given(st.lists(st.sampled_from(["insert", "sample"]), max_size=300))
def test_the_rate_holds_whatever_is_asked(asked: list[str]) -> None:
    """From the least size on d stays between low and high, and one side can always go on."""
    limiter = RateLimiter(2, 5, 4)
    for side in asked:
        times(limiter, side, 1)
        assert limiter.can_insert() or limiter.can_sample()
        assert limiter.inserts < 5 or limiter.low <= limiter.d <= limiter.high
