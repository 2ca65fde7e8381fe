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
    assert 1 == restarts.count("a")


def test_names_do_not_count_for_each_other_but_for_the_run() -> None:
    """Each name has its own bound, and all together have that of the run."""
    restarts = Restarts()
    found = [restarts.next_s(f"n{n}", 0.0) for n in range(RESTARTS_PER_RUN + 1)]

    assert [0.0] * RESTARTS_PER_RUN + [None] == found
