from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakepeer import MemoryJournalFile

from ganglion.peer.journal import renewal as module
from ganglion.peer.journal.renewal import Renewal
from ganglion.peer.journal.write import Journal
from ganglion.peer.participant import Participant
from ganglion.wire.messages import RecordAck

LONG_BYTES = 100_000


@pytest.fixture
def peer(link: Any, clock: Any) -> Callable[[MemoryJournalFile | None], Participant]:
    """Return what joins a participant with a journal."""

    def join(storage: MemoryJournalFile | None) -> Participant:
        journal = None if storage is None else Journal(storage)
        made = Participant(lambda: link, {}, lambda it: None, clock=clock, pulse=False, journal=journal)
        made.join(made.hello("muscle", "a", "?"))
        return made

    return join


def hear(link: Any, participant: Participant, size_bytes: int = 10) -> None:
    """Let a participant hear something of a length."""
    link.tell("r/x", "record.ack", RecordAck(1, waiting="x" * size_bytes))
    participant.pump(0.0)
    participant.flush_journal()


def test_long_journals_are_begun_anew(peer: Any, link: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal is begun anew when it is longer than the limit and than twice what it begins with; then it is short."""
    monkeypatch.setattr(module, "JOURNAL_BEGIN_BYTES", LONG_BYTES)
    storage, taken = MemoryJournalFile(), list[bytes]()
    participant = peer(storage)
    renewal = Renewal(participant, "muscle a", lambda: None)
    state = bytes(LONG_BYTES)
    longest = 0
    for _ in range(100):
        renewal.stand(lambda: taken.append(state) or state, taken.append)
        hear(link, participant, LONG_BYTES // 4)
        longest = max(longest, len(storage.data))

    assert 8 <= len(taken) <= 13
    assert longest < 4 * LONG_BYTES


def test_large_states_are_taken_seldom(peer: Any, link: Any, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a phase lasts, states that are written for their age are so many bytes in a second at most."""
    monkeypatch.setattr(module, "_STATE_BYTES_PER_S", 4 << 10)
    storage, taken = MemoryJournalFile(), list[Any]()
    participant = peer(storage)
    renewal = Renewal(participant, "muscle a", lambda: None)
    for _ in range(1000):
        clock.now_s += 1.0
        renewal.stand(lambda: taken.append(clock.now_s) or bytes(100 << 10), taken.append)
        hear(link, participant)

    assert 35 <= len(taken) <= 40
