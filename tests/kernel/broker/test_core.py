from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.broker import Broker, Link, Send
from ganglion.broker.link import Admission, State
from ganglion.limits import PEERS, QUEUE_MARK_BYTES, UNJOINED_PEERS
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Hello, Subscribe
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

CONTROLLER, MUSCLE, BRAIN, STORE = "farm/controller/0", "farm/muscle/ada/0", "farm/brain/ada", "farm/store"


@pytest.fixture
def farm(bus: Any) -> Any:
    """Return a bus with one worker."""
    bus.join("supervisor", Role.SUPERVISOR)
    bus.join("farm/governor", Role.GOVERNOR)
    bus.join(CONTROLLER, Role.CONTROLLER, worker=0)
    bus.join(MUSCLE, Role.MUSCLE, uid="ada", worker=0)
    bus.join(BRAIN, Role.BRAIN, uid="ada")
    bus.join(STORE, Role.STORE)
    return bus


# -- joining ----------------------------------------------------------------------------------------------------------


REFUSED = [
    ({"version": 2}, "version"),
    ({"token": "wrong"}, "token"),
    ({"role": "brain"}, "role"),
    ({"name": "farm/muscle/bob/0"}, "name"),
    ({"incarnation": 1}, "incarnation"),
    ({"content": "yaml"}, "protocol"),
]


@pytest.mark.parametrize(("change", "kind"), REFUSED)
def test_refused_hello_says_why_and_ends(bus: Any, change: dict[str, Any], kind: str) -> None:
    """A HELLO that is entitled to nothing is answered with the reason, on its serial, and the connection ends."""
    bus.admit(MUSCLE, Role.MUSCLE, incarnation=2, uid="ada", worker=3)
    link = bus.connect()
    said = bus.hello(link, **{"name": MUSCLE, "role": "muscle", "token": MUSCLE, **change})

    assert [(Verb.ERROR, 1, kind)] == [(row[2], row[3], row[5]["kind"]) for row in said]
    assert [link] == bus.closed
    assert {} == bus.broker.joined
    assert ["peer.refused"] == [note.event for note in bus.notes]


# -- routing ----------------------------------------------------------------------------------------------------------
@given(frames=st.lists(st.binary(max_size=50), min_size=1, max_size=4))
@settings(max_examples=30)
def test_bodies_are_not_opened(frames: list[bytes]) -> None:
    """Body and blobs pass as they are, whatever they are; only the first frame changes."""
    broker, link = _broker_with(CONTROLLER, Role.CONTROLLER)
    _join(broker, MUSCLE, Role.MUSCLE)
    head = encode_head(Head(Verb.CALL, 1, "muscle.act"))
    effects = broker.receive(link, [MUSCLE.encode(), head, *frames], 0.0)

    assert [(CONTROLLER.encode(), head, *frames)] == [e.frames for e in effects if isinstance(e, Send)]


def test_nothing_passes_from_who_has_been_ended(farm: Any) -> None:
    """A front that has more of an ended peer in its hands finds no route."""
    farm.say(farm.peers[CONTROLLER], MUSCLE, Verb.CALL, 1, "muscle.act")
    for _ in range(10):
        farm.say(farm.peers[CONTROLLER], BRAIN, Verb.CALL, 2)

    assert [farm.peers[CONTROLLER]] == farm.closed
    assert {} == farm.peers[CONTROLLER].routes


# -- absent, not gone --------------------------------------------------------------------------------------------------


# -- losing -----------------------------------------------------------------------------------------------------------


# -- topics -----------------------------------------------------------------------------------------------------------


def test_slow_reader_is_told_what_it_missed(farm: Any) -> None:
    """What a reader is too slow for is counted per topic and announced before the next message that it gets."""
    reader = farm.join("a", Role.OBSERVER, "")
    other = farm.join("b", Role.OBSERVER, "")
    for link in (reader, other):
        farm.ask(link, "kernel.subscribe", Subscribe("@farm/events"))
    governor = farm.peers["farm/governor"]
    reader.queued_bytes = QUEUE_MARK_BYTES + 1
    for _ in range(3):
        assert ["b"] == [r[0] for r in farm.say(governor, "@farm/events", Verb.TELL, 0, "event")]
    reader.queued_bytes = 0
    said = [r for r in farm.say(governor, "@farm/events", Verb.TELL, 0, "event") if r[0] == "a"]

    assert [("", "kernel.gap", {"topic": "@farm/events", "missed": 3}), ("farm/governor", "event", {})] == [
        (r[1], r[4], r[5]) for r in said
    ]
    said = farm.say(governor, "@farm/events", Verb.TELL, 0, "event")
    assert ["event", "event"] == [r[4] for r in said]


# -- clocks -----------------------------------------------------------------------------------------------------------


# -- bounds -----------------------------------------------------------------------------------------------------------
def test_oldest_stranger_makes_room(bus: Any) -> None:
    """One stranger too many costs the oldest its place; who has joined is not touched."""
    store = bus.join(STORE, Role.STORE)
    strangers = [bus.connect() for _ in range(UNJOINED_PEERS)]
    assert [] == bus.closed
    newest = bus.connect()

    assert [strangers[0]] == bus.closed
    assert (State.CONNECTED, State.JOINED) == (newest.state, store.state)


def test_connections_are_bounded(bus: Any) -> None:
    """One connection beyond the limit is refused by the limit's name."""
    for i in range(PEERS):
        name = f"farm/x/{i}"
        bus.admit(name, Role.ENVIRONMENT)
        link, _ = bus.broker.connect(bus.now_s)
        bus.broker.receive(link, _hello(name, Role.ENVIRONMENT), bus.now_s)
    link, effects = bus.broker.connect(bus.now_s)
    said = bus.take(effects)

    assert "(peers)" in said[0][5]["message"]
    assert [link] == bus.closed
    assert PEERS == len(bus.broker.joined)


def test_a_silent_stranger_keeps_no_place(bus: Any) -> None:
    """Where all places are taken, the oldest stranger makes room for who comes."""
    broker = bus.broker = Broker(b"", "", 0, bus.now_s, peers_max=3)
    first, second, third = (broker.connect(bus.now_s)[0] for _ in range(3))
    bus.admit(STORE, Role.STORE)
    broker.receive(second, _hello(STORE, Role.STORE), bus.now_s)
    fourth, effects = broker.connect(bus.now_s)
    bus.take(effects)

    assert [first] == bus.closed
    assert {second, third, fourth} == set(broker.links.values())
    assert "all 3 places are taken (peers)" in effects[0].reason


def test_a_gap_is_told_without_another_message(farm: Any) -> None:
    """A reader that has caught up is told what it missed with the next tick, though nothing else is said."""
    reader = farm.join("a", Role.OBSERVER, "")
    farm.ask(reader, "kernel.subscribe", Subscribe("@farm/events"))
    reader.queued_bytes = QUEUE_MARK_BYTES + 1
    farm.say(farm.peers["farm/governor"], "@farm/events", Verb.TELL, 0, "event")
    reader.queued_bytes = QUEUE_MARK_BYTES // 2 + 1
    assert [] == [row for row in farm.tick() if row[4] == "kernel.gap"]
    reader.queued_bytes = QUEUE_MARK_BYTES // 2
    said = [row for row in farm.tick() if row[4] == "kernel.gap"]

    assert [("a", {"topic": "@farm/events", "missed": 1})] == [(row[0], row[5]) for row in said]
    assert [] == [row for row in farm.tick() if row[4] == "kernel.gap"]


@pytest.mark.parametrize("extra", [[], [b"", b""]], ids=["two frames", "four frames"])
def test_hello_has_three_frames(bus: Any, extra: list[bytes]) -> None:
    """A HELLO without a body, or with more than that, is refused by the frames that were expected."""
    bus.admit(STORE, Role.STORE)
    frames = [*_hello(STORE, Role.STORE)[: 3 if extra else 2], *extra[:1]]
    stranger = bus.connect()
    said = bus.take(bus.broker.receive(stranger, frames, bus.now_s))

    assert f"HELLO: expected the frames [][head][body], found {len(frames)}" == said[0][5]["message"]
    assert [stranger] == bus.closed


def test_one_frame_is_no_message(farm: Any) -> None:
    """A message without a head ends the connection with the reason."""
    said = farm.take(farm.broker.receive(farm.peers[STORE], [b""], farm.now_s))

    assert "expected the frames [to][head][body][blob ...], found 1" == said[0][5]["message"]
    assert [farm.peers[STORE]] == farm.closed


@given(st.lists(st.binary(max_size=40), max_size=4), st.booleans())
@settings(max_examples=300)
def test_any_frames_are_survived(frames: list[bytes], joined: bool) -> None:
    """No frames of a stranger or a peer do more than end its own connection."""
    broker, link = _broker_with(CONTROLLER, Role.CONTROLLER)
    other = _join(broker, MUSCLE, Role.MUSCLE)
    if not joined:
        link, _ = broker.connect(0.0)
    broker.receive(link, frames, 0.0)
    broker.check()

    assert State.JOINED is other.state


# -- peers without a bus ----------------------------------------------------------------------------------------------
def _hello(name: str, role: Role) -> list[bytes]:
    hello = Hello(1, role.value, name, name)
    return [b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)]


def _admission(name: str, role: Role, incarnation: int = 1) -> Admission:
    digest = hashlib.sha256(name.encode()).digest()
    parts = name.split("/")
    worker = int(parts[-1]) if parts[-1].isdigit() else None
    uid = parts[2] if role in (Role.MUSCLE, Role.BRAIN) else None
    return Admission(name, role, "farm", digest, incarnation, uid, worker)


def _join(broker: Broker, name: str, role: Role, incarnation: int = 1) -> Link:
    broker.admit(_admission(name, role, incarnation))
    link, _ = broker.connect(0.0)
    broker.receive(link, _hello(name, role), 0.0)
    return link


def _broker_with(name: str, role: Role) -> tuple[Broker, Link]:
    broker = Broker(b"", "1", 1, 0.0)
    return broker, _join(broker, name, role)
