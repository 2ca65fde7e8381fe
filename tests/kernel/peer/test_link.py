from __future__ import annotations

from typing import Any

from ganglion.peer.participant import Unjoined


def test_a_link_is_made_when_it_is_used(link: Any) -> None:
    """Who has not joined has connected to nothing until it says or hears something; then it stays with one link."""
    made: list[Any] = []
    one = Unjoined(lambda: made.append(link) or link)  # type: ignore[func-returns-value]
    one.close()
    before = len(made)
    one.receive(0.0)
    one.close()

    assert (0, 1, True) == (before, len(made), link.closed)
    assert link is one.made
