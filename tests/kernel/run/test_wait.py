from __future__ import annotations

from ganglion.run.flow import Waits


def test_a_wait_is_told_at_doubling_times() -> None:
    """A wait is told after 2, 4, 8, 16, 32, 64 seconds, then each minute, with what is left."""
    waits = Waits()
    waits.begin("k", "peer", "ada to join", 100.0, None)
    told = [t for t in range(300) if waits.due(100.0 + t)]

    assert [2, 4, 8, 16, 32, 64, 124, 184, 244] == told


def test_the_sentence_says_how_long_and_until_when() -> None:
    """The sentence has the time waited, for whom and for what, and the time that is left."""
    waits = Waits()
    waits.begin("k", "peer", "ada to join", 0.0, 30.0)

    assert ["waiting 2.5 s for ada to join; gives up in 27.5 s"] == waits.due(2.5)
    assert [] == waits.due(2.6)
