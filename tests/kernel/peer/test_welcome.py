from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.limits import RECONNECT_S
from ganglion.peer.participant import insist
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Failure
from ganglion.wire.verb import Verb


def refusal(kind: str) -> list[bytes]:
    """Return the frames with which a kernel refuses somebody."""
    return [b"", encode_head(Head(Verb.ERROR, 1)), codec_of(Failure).encode(Failure(kind, "it is taken"))]


def test_a_broker_that_does_not_come_back_is_given_up(clock: Any) -> None:
    """After half a minute, or when we have closed, it is lost for good; a refusal is its last word at once."""
    began_s = clock()

    def lose() -> None:
        raise PeerLost("broker", "nobody listens")

    def refuse() -> None:
        raise RemoteProtocolError("stale")

    def pause(span_s: float) -> None:
        clock.now_s += span_s

    with pytest.raises(PeerLost, match=r"did not come back within 30 s: .*nobody listens"):
        insist(lose, clock, pause, lambda: False)
    assert RECONNECT_S <= clock() - began_s < RECONNECT_S + 1.0
    with pytest.raises(PeerLost, match="did not come back"):
        insist(lose, clock, pytest.fail, lambda: True)
    with pytest.raises(RemoteProtocolError, match="stale"):
        insist(refuse, clock, pytest.fail, lambda: False)
