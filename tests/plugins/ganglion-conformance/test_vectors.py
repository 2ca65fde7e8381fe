from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.transport.frames import encode as encode_zmtp
from ganglion.transport.memory import MemoryBus
from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of, decode_map, encode_map
from ganglion.wire.envelope import Head, decode, decode_head, encode
from ganglion.wire.messages import CALLS, TELLS
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb
from ganglion_conformance.bench import TOKEN, Bench, Order
from ganglion_conformance.drivers import Place, PluginDriver
from ganglion_conformance.session import Session
from ganglion_conformance.talk import ENVIRONMENT
from ganglion_conformance.vectors import NAMES, read
from ganglion_conformance.world import World

MESSAGES = [*read("messages"), *(row for row in read("session") if "frames" in row)]
REFUSED = read("refused")


def _by(who: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in REFUSED if row["by"] == who]


def _frames(row: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(frame) for frame in row["frames"]]


def test_every_call_and_message_has_its_vector() -> None:
    """Each call has its request and its answer, each one-way message its line; no name is there twice."""
    names = [row["name"] for row in read("messages")]
    expected = [word for call in CALLS for word in (call.name, f"{call.name} answered")]
    expected += [tell.name or tell.verb.name for tell in TELLS] + ["BEAT here"]

    assert sorted(expected) == sorted(names)
    assert ("messages", "session", "refused") == NAMES


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row["name"])
def test_vector_is_decoded_encoded_and_compared(row: dict[str, Any]) -> None:
    """The frames mean what is written beside them, and what is written is encoded to the same frames."""
    frames, meaning = _frames(row), row["meaning"]
    envelope = decode(frames)
    position = meaning["head"]["position"]
    head = Head(
        Verb(meaning["head"]["verb"]),
        meaning["head"]["serial"],
        meaning["head"]["call"],
        None if position is None else tuple(position),
        meaning["head"]["deadline_ms"],
    )
    body = decode_map(frames[2]) if frames[2] else {}

    assert (meaning["peer"], head) == (envelope.peer, envelope.head)
    assert meaning["body"] == json.loads(encode_map(body, Content.JSON))
    assert frames == encode(envelope)
    again = decode_map(json.dumps(meaning["body"]).encode())
    assert frames[2] == (encode_map(again) if again or frames[2] else b"")
    if "message" in row and frames[2]:
        codec = codec_of(getattr(messages, row["message"]))
        assert frames[2] == codec.encode(codec.decode(frames[2]))


def test_session_is_its_bytes() -> None:
    """The bytes of a message of the session are its frames with their headers."""
    for row in read("session"):
        if "frames" in row:
            assert row["bytes"] == b"".join(encode_zmtp(_frames(row))).hex()


@pytest.mark.parametrize("row", _by("decoder"))
def test_decoder_refuses(row: dict[str, Any]) -> None:
    """Heads and bodies that are none are refused by who reads them."""
    _, head, body = _frames(row)
    read_it: dict[str, Callable[[], object]] = {
        "refuse the head": lambda: decode_head(head),
        "refuse the body": lambda: decode_map(body),
        "refuse the field seed": lambda: codec_of(messages.EnvironmentReset).decode(body),
    }

    with pytest.raises(RemoteProtocolError):
        read_it[row["how"]]()
    if row["how"] != "refuse the head":
        decode_head(head)


@pytest.mark.parametrize("row", _by("kernel"))
def test_kernel_refuses(row: dict[str, Any]) -> None:
    """The broker answers what it must not take by ERROR of that kind, and ends the connection."""
    bus = MemoryBus()
    bus.admit(ENVIRONMENT, Role.ENVIRONMENT, "demo-1", "A" * 43, "field", 0)
    link = bus.connect()
    link.send(_frames(row))
    answer = decode(link.receive() or [])

    assert (Verb.ERROR, row["kind"]) == (answer.head.verb, decode_map(answer.body)["kind"])
    with pytest.raises(PeerLost):
        link.receive()


def test_environment_refuses_and_goes_on() -> None:
    """A host of ours answers each of them by ERROR, and the step behind it as if nothing had been."""
    with Bench(PluginDriver("pendulum"), Order(plugin="pendulum", curve=False)) as bench:
        world = World.begun(bench)
        for row in (row for row in REFUSED if row["by"] == "environment"):
            _, head, body = _frames(row)
            answer = world.session.ask(decode_head(head).call, body)

            assert answer.failed, row["name"]
            assert row["kind"] != "unknown_call" or answer.fields["kind"] == "unknown_call"
            assert not world.update().failed


@pytest.mark.parametrize("row", _by("peer"))
def test_peer_ends_when_it_is_refused(row: dict[str, Any]) -> None:
    """A peer of ours ends with the kernel's reason."""
    place = Place("environment", "kit/environment/peer/0", TOKEN)
    session = Session(PluginDriver("pendulum").start(place), place, 5.0)
    session.listen(10.0)
    session.peer.send(_frames(row))
    end = session.peer.ended(10.0)

    assert end is not None
    assert end.status != 0
    assert decode_map(_frames(row)[2])["message"] in end.words
