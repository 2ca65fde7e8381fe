from __future__ import annotations

import pytest

from ganglion.errors import PeerLost
from ganglion.limits import BEAT_AFTER_SILENCE_S, BEAT_ANSWER_S, HANDSHAKE_S
from ganglion.transport.memory import MemoryBus, MemoryLink
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


def join(bus: MemoryBus, link: MemoryLink, name: str, role: Role) -> None:
    """Admit a name and say HELLO under it."""
    bus.admit(name, role, "r", name, worker=0)
    link.send(encode_envelope(Envelope("", Head(Verb.HELLO, 1), codec_of(Hello).encode(Hello(1, role, name, name)))))


def test_time_passes_only_by_advance() -> None:
    """A stranger has his time to join, a peer its time to answer a BEAT, by the bus's own clock."""
    bus = MemoryBus()
    stranger, peer = bus.connect(), bus.connect()
    join(bus, peer, "r/environment/0", Role.ENVIRONMENT)
    assert peer.receive() is not None
    steps = int((HANDSHAKE_S + BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S) / 0.5) + 2
    for _ in range(steps):
        bus.advance(0.5)
    beat, refusal = peer.receive(), stranger.receive()

    assert beat is not None
    assert refusal is not None
    assert (Verb.BEAT, Verb.ERROR) == (decode(beat).head.verb, decode(refusal).head.verb)
    for link in (peer, stranger):
        with pytest.raises(PeerLost):
            link.receive()
        with pytest.raises(PeerLost):
            link.send([b"", b"", b""])
    assert ["peer.joined", "peer.refused", "peer.lost"] == [note.event for note in bus.notes]
