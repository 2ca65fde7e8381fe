from __future__ import annotations

from ganglion.limits import RESTARTS_PER_NAME, RESTARTS_PER_RUN, RESTARTS_WITHIN_S
from ganglion.supervisor.restarts import Restarts


def test_the_first_is_at_once_and_each_later_one_waits_longer() -> None:
    """A name that dies again and again is started later and later, then not any more."""
    restarts = Restarts()
    found = [restarts.next_s("a", float(n)) for n in range(RESTARTS_PER_NAME + 1)]

    assert [0.0, 0.1, 0.4, 1.6, 5.0, None] == found


def test_old_restarts_are_forgotten() -> None:
    """What lies further back than the window does not count against a name."""
    restarts = Restarts()
    for _ in range(RESTARTS_PER_NAME):
        restarts.next_s("a", 0.0)

    assert restarts.next_s("a", RESTARTS_WITHIN_S) is None
    assert 0.0 == restarts.next_s("a", RESTARTS_WITHIN_S + 0.1)


def test_names_do_not_count_for_each_other_but_for_the_run() -> None:
    """Each name has its own bound, and all together have that of the run."""
    restarts = Restarts()
    found = [restarts.next_s(f"n{n}", 0.0) for n in range(RESTARTS_PER_RUN + 1)]

    assert [0.0] * RESTARTS_PER_RUN + [None] == found


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
