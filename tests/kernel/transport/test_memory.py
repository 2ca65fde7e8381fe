from __future__ import annotations

import pytest

from ganglion.errors import PeerLost
from ganglion.limits import BEAT_AFTER_SILENCE_S, BEAT_ANSWER_S, HANDSHAKE_S
from ganglion.transport.frames import encode
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


def test_callbacks_are_pumped() -> None:
    """A peer with a callback works when the bus is pumped, which `receive` does where nothing is there."""
    bus = MemoryBus()
    controller = bus.connect()

    def answer(frames: list[bytes]) -> None:
        asked = decode(frames)
        if asked.head.verb is Verb.CALL:
            environment.send(encode_envelope(Envelope(asked.peer, Head(Verb.REPLY, asked.head.serial), asked.body)))

    environment = bus.connect(answer)
    join(bus, controller, "r/controller/0", Role.CONTROLLER)
    join(bus, environment, "r/environment/0", Role.ENVIRONMENT)
    assert controller.receive() is not None
    assert 1 == bus.pump()
    controller.send(encode_envelope(Envelope("r/environment/0", Head(Verb.CALL, 7, "environment.update"), b"?")))
    assert not controller.pending()
    frames = controller.receive()

    assert frames is not None
    assert Envelope("r/environment/0", Head(Verb.REPLY, 7), b"?") == decode(frames)
    assert controller.receive() is None
    assert -1 == controller.fileno()
    bus.exchange.broker.check()


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


def test_what_waits_is_counted() -> None:
    """The broker knows how many bytes a peer has not fetched; other fronts may deliver wire bytes."""
    bus = MemoryBus()
    link = bus.connect()
    core = next(iter(bus.exchange.broker.links.values()))
    core.sink.out += encode([b"from", b"12345"])
    bus.exchange.dirty.append(core.sink)
    bus.exchange.flush()

    assert 9 == core.queued_bytes
    assert [b"from", b"12345"] == link.receive()
    assert 0 == core.queued_bytes
