from __future__ import annotations

import re

from ganglion.supervisor import event


def test_events_are_named_alike() -> None:
    """Each event is a noun and what happened to it, or one word; no name is given twice."""
    names = [getattr(event, name) for name in event.__all__ if name != "TOPIC"]

    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+)?", name) for name in names)
    assert len(names) == len(set(names))
