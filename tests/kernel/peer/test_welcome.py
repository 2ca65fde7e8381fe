from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import GanglionError, PeerLost, RemoteProtocolError
from ganglion.peer.welcome import greet, read_welcome
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Failure, Hello
from ganglion.wire.verb import Verb

HELLO = Hello(1, "muscle", "a", "t", "python", "msgpack", 2, [])


def refusal(kind: str) -> list[bytes]:
    """Return the frames with which a kernel refuses somebody."""
    return [b"", encode_head(Head(Verb.ERROR, 1)), codec_of(Failure).encode(Failure(kind, "it is taken"))]


@pytest.mark.parametrize(
    ("kind", "again", "error"),
    [
        ("name", True, PeerLost),
        ("name", False, RemoteProtocolError),
        ("refused", True, RemoteProtocolError),
    ],
)
def test_a_name_that_is_taken_may_be_our_own(kind: str, again: bool, error: type[GanglionError]) -> None:
    """Only who joins again, and finds his name taken, has to wait for the end of his own former connection."""
    with pytest.raises(error, match="it is taken"):
        read_welcome(refusal(kind), HELLO, again)


def test_who_is_refused_leaves_no_link(link: Any) -> None:
    """The link of a handshake that fails is closed; one that succeeds gives it with the frames that were heard."""
    found, frames = greet(lambda: link, HELLO, 1.0, False)
    assert (link, "r/muscle/a/0", False) == (found, read_welcome(frames, HELLO, False).name, link.closed)

    link.send = lambda frames: None
    with pytest.raises(GanglionError, match="HELLO"):
        greet(lambda: link, HELLO, 1.0, False)
    assert link.closed
