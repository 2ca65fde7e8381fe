from __future__ import annotations

from typing import Any

import pytest
from fakepeer import MemoryReel

from ganglion.peer.conversation import Request
from ganglion.peer.journal import Recorded, Tape, TapeDiffers
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.tape import Kind
from ganglion.wire.verb import Verb

HEARD = [b"r/controller/0", encode_head(Head(Verb.CALL, 7, "muscle.act", (0, 1, 2, 0, 4, 0))), b"body"]


class Writer(Recorded):
    """Be who writes on a reel, or plays it."""

    def __init__(self, reel: Any) -> None:
        self.tape = Tape(reel)
        super().__init__(self.tape)

    def clock(self) -> float:
        return 0.0

    def flush_tape(self) -> None:
        self.tape.say()

    def hear_again(self, awaited: Any) -> Any:
        return self._hear_again(self.tape, awaited)

    def play(self, kind: Kind, what: str) -> Any:
        return self._play(self.tape, kind, what)


recorder = Writer


def test_a_successor_hears_and_compares() -> None:
    """What was heard comes again as it was; what is said is compared, and is new behind the end."""
    reel = MemoryReel()
    first = recorder(reel)
    first.tape.note((Kind.HEARD, 1.0, HEARD))
    assert first.tape.say([b"x", b"said"], "muscle.act")
    first.tape.say()
    second, third = recorder(reel), recorder(reel)
    (heard,) = second.hear_again(None) or [None]

    assert isinstance(heard, Request)
    assert ("muscle.act", b"body") == (heard.head.call, heard.body)
    assert "muscle.act (phase 0, worker 1, episode 2, step 4)" == second.tape.where
    assert not second.tape.say([b"x", b"said"], "muscle.act")
    assert second.hear_again(None) is None
    third.hear_again(None)
    with pytest.raises(TapeDiffers, match=r"it says muscle\.act otherwise"):
        third.tape.say([b"x", b"other"], "muscle.act")


def test_what_is_said_between_two_messages_is_compared_with_the_next() -> None:
    """What was said beside the first word after a message is compared with the first word after the next one."""
    reel = MemoryReel()
    first = recorder(reel)
    for word in (b"a", b"b"):
        first.tape.note((Kind.HEARD, 1.0, HEARD))
        first.tape.say([word], "x")
        first.tape.say([word, b"too"], "x")
        first.tape.say()
    second = recorder(reel)
    second.hear_again(None)
    second.tape.say([b"a"], "x")
    second.tape.say([b"a", b"others"], "x")
    second.hear_again(None)

    with pytest.raises(TapeDiffers, match="it says x otherwise"):
        second.tape.say([b"b"], "x")


def test_behind_the_end_nothing_leaves_before_the_bus_is_heard_again() -> None:
    """What is said after the last message that was heard may have left: it is noted, and not sent."""
    reel = MemoryReel()
    first = recorder(reel)
    first.tape.note((Kind.HEARD, 1.0, HEARD))
    first.tape.say()
    second = recorder(reel)
    second.hear_again(None)

    assert not second.tape.say([b"x"], "muscle.act")
    second.tape.finish()
    second.tape.say()
    third = recorder(reel)
    third.hear_again(None)
    with pytest.raises(TapeDiffers, match="otherwise"):
        third.tape.say([b"y"], "muscle.act")


def test_what_waits_for_something_else_differs() -> None:
    """Who hears where it spoke, or waits for an answer where it was idle, does not do the same again."""
    reel = MemoryReel()
    first = recorder(reel)
    first.tape.note((Kind.TICK, 1.0, None))
    first.tape.say([b"x"], "muscle.act")
    first.tape.say()
    second = recorder(reel)

    with pytest.raises(TapeDiffers, match="it waits for an answer"):
        second.hear_again(frozenset({3}))
    assert [] == second.hear_again(None)
    with pytest.raises(TapeDiffers, match="it says less"):
        second.hear_again(None)
    with pytest.raises(TapeDiffers, match="it hears WELCOME, and says less"):
        second.play(Kind.HEARD, "hears WELCOME")


def test_who_says_more_differs() -> None:
    """Who speaks where its predecessor heard something else first does not do the same again."""
    reel = MemoryReel()
    first = recorder(reel)
    first.tape.note((Kind.HEARD, 1.0, HEARD))
    first.tape.note((Kind.HEARD, 1.0, HEARD))
    first.tape.say()
    second = recorder(reel)
    second.hear_again(None)

    with pytest.raises(TapeDiffers, match="it says x, and says or waits for something else"):
        second.tape.say([b"x"], "x")
