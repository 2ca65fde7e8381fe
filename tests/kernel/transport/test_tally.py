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


def refused(name: str, reason: str = "token", kind: str = "token") -> Note:
    """Return what is said of somebody who was refused."""
    return Note("warning", "peer.refused", {"name": name, "kind": kind, "reason": reason})


@pytest.mark.parametrize("event", ["peer.joined", "peer.lost", "peers.crowded"])
def test_what_nobody_can_repeat_passes(event: str) -> None:
    """Notes of what strangers cannot cause at will are not held back."""
    log, note = Log(), Note("info", event, {"name": "a"})
    for _ in range(3):
        log.tally(note)

    assert [note] * 3 == log.said


def test_the_first_passes_and_the_others_are_counted() -> None:
    """One line at once, one a second with the last reason and how many there were, then none."""
    log = Log()
    for number in range(5):
        log.tally(refused(f"stranger {number}", f"reason {number}"))
    log.pass_time(0.9)
    assert [refused("stranger 0", "reason 0")] == log.said
    log.pass_time(0.1)
    log.tally(refused("stranger 9"))
    log.pass_time(1.0)
    log.pass_time(1.0)
    log.tally(refused("stranger 10"))

    assert [None, 4, 1, None] == [note.fields.get("count") for note in log.said]
    assert ["stranger 0", "stranger 4", "stranger 9", "stranger 10"] == [n.fields["name"] for n in log.said]


def test_kinds_and_peers_are_counted_apart() -> None:
    """A flood of one kind, or about one peer, does not hide what is said of others."""
    log = Log()
    for _ in range(3):
        for note in (refused("stranger 1"), refused("stranger 1", kind="name"), refused("r/brain/a")):
            log.tally(note)
        log.tally(Note("warning", "message.undeliverable", {"source": "r/brain/a"}))
    assert 4 == len(log.said)
    log.pass_time(1.0)

    assert [2] * 4 == [note.fields["count"] for note in log.said[4:]]


def test_nothing_is_kept_of_who_is_quiet() -> None:
    """After two quiet seconds there is nothing in the books."""
    log = Log()
    for number in range(100):
        log.tally(refused(f"peer {number}"))
        log.tally(refused(f"peer {number}"))
    log.pass_time(1.0)
    log.pass_time(1.0)

    assert {} == log.tally._held
