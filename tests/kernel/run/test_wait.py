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


def test_what_came_is_no_longer_awaited() -> None:
    """A wait that ended is neither told nor late; ending an unknown one is no fault."""
    waits = Waits()
    waits.begin("k", "peer", "x", 0.0, 1.0)
    waits.came("k")
    waits.came("k")

    assert ([], None) == (waits.due(5.0), waits.late(5.0))


def test_late_names_the_first_wait_beyond_its_span() -> None:
    """The deadline is a span from the begin of the wait; one without a span is never late."""
    waits = Waits()
    waits.begin("a", "peer a", "a", 0.0, None)
    waits.begin("b", "peer b", "b to join", 0.0, 10.0)
    waits.begin("c", "peer c", "c", 0.0, 10.0)

    assert waits.late(9.9) is None
    assert ("peer b", "waited 10.0 s for b to join") == waits.late(10.0)
    waits.clear()
    assert waits.late(100.0) is None
