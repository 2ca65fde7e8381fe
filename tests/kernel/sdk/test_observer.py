from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ganglion.sdk.observer import Observer


class _Counting(Observer):
    """Count the events by name."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        self.seen[event] = self.seen.get(event, 0) + 1


def test_observe_is_all_that_it_takes() -> None:
    """An observer that only observes is complete; the other hooks do nothing."""
    observer = _Counting()
    observer.setup()
    observer.observe("events", "episode.ended", {"worker": 0}, 0.0)
    observer.missed("events", 2, 5)
    observer.teardown()

    assert {"episode.ended": 1} == observer.seen
    assert ("events",) == observer.topics


def test_without_observe_it_is_none() -> None:
    """A class that does not observe is refused when it is made."""
    with pytest.raises(TypeError, match="observe"):
        type("Blind", (Observer,), {})()
