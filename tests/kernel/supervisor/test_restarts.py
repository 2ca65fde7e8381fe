from __future__ import annotations

from ganglion.supervisor.child import Restarts


def test_a_document_sets_the_bound() -> None:
    """How many restarts within how long are no accident any more is the document's to say."""
    restarts = Restarts()

    assert [0.0, 0.1, None] == [restarts.next_s("a", 0.0, 2, 10.0) for _ in range(3)]
    assert 0.0 == restarts.next_s("a", 10.1, 2, 10.0)


def test_equal_deaths_are_counted_until_there_is_another() -> None:
    """Who dies again where and how it died before is told from who dies elsewhere, or otherwise."""
    restarts = Restarts()
    found = [restarts.died("a", place) for place in ((1, "SIGSEGV"), (1, "SIGSEGV"), (2, "SIGSEGV"))]
    others = [restarts.died("b", (2, "SIGSEGV")), restarts.died("a", (2, "SIGKILL"))]

    assert ([1, 2, 1], [1, 1]) == (found, others)
