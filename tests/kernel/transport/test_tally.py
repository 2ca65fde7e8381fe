from __future__ import annotations

import pytest

from ganglion.broker.link import Note
from ganglion.transport.exchange import Tally


class Log:
    """Keep what a tally lets through; the clock is set by hand."""

    def __init__(self) -> None:
        self.now_s = 5.0
        self.said: list[Note] = []
        self.tally = Tally(self.said.append, lambda: self.now_s)

    def pass_time(self, seconds: float) -> None:
        """Let time pass and look at it."""
        self.now_s += seconds
        self.tally.tick(self.now_s)


@pytest.mark.parametrize("event", ["peer.joined", "peer.lost", "peers.crowded"])
def test_what_nobody_can_repeat_passes(event: str) -> None:
    """Notes of what strangers cannot cause at will are not held back."""
    log, note = Log(), Note("info", event, {"name": "a"})
    for _ in range(3):
        log.tally(note)

    assert [note] * 3 == log.said
