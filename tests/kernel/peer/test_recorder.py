from __future__ import annotations

from typing import Any

import pytest
from fakepeer import MemoryReel

from ganglion.peer.conversation import Conversation, Request
from ganglion.peer.journal import Recorder, Tape, TapeDiffers
from ganglion.wire.envelope import encode_call
from ganglion.wire.tape import Kind

HEARD = [b"r/controller/0", encode_call(7, "muscle.act", (0, 1, 2, 0, 4, 0), None), b"body"]


def recorder(reel: Any) -> Recorder:
    """Return who writes on a reel, or plays it."""
    return Recorder(Tape(reel), Conversation())


def test_a_successor_hears_and_compares() -> None:
    """What was heard comes again as it was; what is said is compared, and is new behind the end."""
    reel = MemoryReel()
    first = recorder(reel)
    digest = first.compare([b"x", b"said"], "muscle.act")
    assert digest is not None
    first.tape.heard(1.0, HEARD)
    first.tape.said(2.0, digest)
    first.tape.flush()
    second, third = recorder(reel), recorder(reel)
    (heard,) = second.hear_again(None) or [None]

    assert isinstance(heard, Request)
    assert ("muscle.act", b"body") == (heard.head.call, heard.body)
    assert "muscle.act (phase 0, worker 1, episode 2, step 4)" == second.tape.where
    assert second.compare([b"x", b"said"], "muscle.act") is None
    assert second.hear_again(None) is None
    third.hear_again(None)
    with pytest.raises(TapeDiffers, match=r"it says muscle\.act otherwise"):
        third.compare([b"x", b"other"], "muscle.act")


def test_what_waits_for_something_else_differs() -> None:
    """Who hears where it spoke, or waits for an answer where it was idle, does not do the same again."""
    reel = MemoryReel()
    first = recorder(reel)
    first.tape.tick(1.0)
    first.tape.said(2.0, b"d" * 16)
    first.tape.flush()
    second = recorder(reel)

    with pytest.raises(TapeDiffers, match="it waits for an answer"):
        second.hear_again(frozenset({3}))
    assert [] == second.hear_again(None)
    with pytest.raises(TapeDiffers, match="it says less"):
        second.hear_again(None)
    with pytest.raises(TapeDiffers, match="it hears WELCOME, and says less"):
        second.play(Kind.HEARD, "hears WELCOME")
