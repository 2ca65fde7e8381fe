from __future__ import annotations

from typing import Any

import pytest
from fakepeer import MemoryJournalFile

from ganglion.peer.conversation import Request
from ganglion.peer.journal.write import Journal, JournalDiffers, Recorded
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.journal import Kind
from ganglion.wire.verb import Verb

HEARD = [b"r/controller/0", encode_head(Head(Verb.CALL, 7, "muscle.act", (0, 1, 2, 0, 4, 0))), b"body"]


class Writer(Recorded):
    """Be who writes on a storage, or plays it."""

    def __init__(self, storage: Any) -> None:
        self.journal = Journal(storage)
        super().__init__(self.journal)

    def clock(self) -> float:
        return 0.0

    def flush_journal(self) -> None:
        self.journal.say()

    def hear_again(self, awaited: Any) -> Any:
        return self._hear_again(self.journal, awaited)

    def play(self, kind: Kind, what: str) -> Any:
        return self._play(self.journal, kind, what)


recorder = Writer


def test_a_successor_hears_and_compares() -> None:
    """What was heard comes again as it was; what is said is compared, and is new behind the end."""
    storage = MemoryJournalFile()
    first = recorder(storage)
    first.journal.note((Kind.HEARD, 1.0, HEARD))
    assert first.journal.say([b"x", b"said"], "muscle.act")
    first.journal.say()
    second, third = recorder(storage), recorder(storage)
    (heard,) = second.hear_again(None) or [None]

    assert isinstance(heard, Request)
    assert ("muscle.act", b"body") == (heard.head.call, heard.body)
    assert "muscle.act (phase 0, worker 1, episode 2, step 4)" == second.journal.where
    assert not second.journal.say([b"x", b"said"], "muscle.act")
    assert second.hear_again(None) is None
    third.hear_again(None)
    with pytest.raises(JournalDiffers, match=r"it says muscle\.act otherwise"):
        third.journal.say([b"x", b"other"], "muscle.act")


def test_what_is_said_between_two_messages_is_compared_with_the_next() -> None:
    """What was said beside the first word after a message is compared with the first word after the next one."""
    storage = MemoryJournalFile()
    first = recorder(storage)
    for word in (b"a", b"b"):
        first.journal.note((Kind.HEARD, 1.0, HEARD))
        first.journal.say([word], "x")
        first.journal.say([word, b"too"], "x")
        first.journal.say()
    second = recorder(storage)
    second.hear_again(None)
    second.journal.say([b"a"], "x")
    second.journal.say([b"a", b"others"], "x")
    second.hear_again(None)

    with pytest.raises(JournalDiffers, match="it says x otherwise"):
        second.journal.say([b"b"], "x")


def test_behind_the_end_nothing_leaves_before_the_bus_is_heard_again() -> None:
    """What is said after the last message that was heard may have left: it is noted, and not sent."""
    storage = MemoryJournalFile()
    first = recorder(storage)
    first.journal.note((Kind.HEARD, 1.0, HEARD))
    first.journal.say()
    second = recorder(storage)
    second.hear_again(None)

    assert not second.journal.say([b"x"], "muscle.act")
    second.journal.finish()
    second.journal.say()
    third = recorder(storage)
    third.hear_again(None)
    with pytest.raises(JournalDiffers, match="otherwise"):
        third.journal.say([b"y"], "muscle.act")


def test_what_waits_for_something_else_differs() -> None:
    """Who hears where it spoke, or waits for an answer where it was idle, does not do the same again."""
    storage = MemoryJournalFile()
    first = recorder(storage)
    first.journal.note((Kind.TICK, 1.0, None))
    first.journal.say([b"x"], "muscle.act")
    first.journal.say()
    second = recorder(storage)

    with pytest.raises(JournalDiffers, match="it waits for an answer"):
        second.hear_again(frozenset({3}))
    assert [] == second.hear_again(None)
    with pytest.raises(JournalDiffers, match="it says less"):
        second.hear_again(None)
    with pytest.raises(JournalDiffers, match="it hears WELCOME, and says less"):
        second.play(Kind.HEARD, "hears WELCOME")


def test_who_says_more_differs() -> None:
    """Who speaks where its predecessor heard something else first does not do the same again."""
    storage = MemoryJournalFile()
    first = recorder(storage)
    first.journal.note((Kind.HEARD, 1.0, HEARD))
    first.journal.note((Kind.HEARD, 1.0, HEARD))
    first.journal.say()
    second = recorder(storage)
    second.hear_again(None)

    with pytest.raises(JournalDiffers, match="it says x, and says or waits for something else"):
        second.journal.say([b"x"], "x")
