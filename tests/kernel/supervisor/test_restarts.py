from __future__ import annotations

from ganglion.supervisor.restarts import Restarts


def test_a_document_sets_the_bound() -> None:
    """How many restarts within how long are no accident any more is the document's to say."""
    restarts = Restarts()

    assert [0.0, 0.1, None] == [restarts.next_s("a", 0.0, 2, 10.0) for _ in range(3)]
    assert 0.0 == restarts.next_s("a", 10.1, 2, 10.0)
