from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Link, Note, Send, State
from ganglion.limits import (
    BEAT_AFTER_SILENCE_S,
    BEAT_ANSWER_S,
    HANDSHAKE_S,
    LATE_ANSWER_S,
    OPEN_CALLS,
    PEERS,
    QUEUE_MARK_BYTES,
    UNJOINED_PEERS,
)
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Hello, Subscribe, Watch
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


def test_open_calls_are_bounded(farm: Any) -> None:
    """One open call too many between two peers is answered busy; after an answer there is room again."""
    farm.join("farm/muscle/ada/1", Role.MUSCLE, uid="ada", worker=1)
    asker, other = farm.peers[MUSCLE], farm.peers["farm/muscle/ada/1"]
    for i in range(OPEN_CALLS):
        assert [BRAIN] == [row[0] for row in farm.say(asker, BRAIN, Verb.CALL, i, "brain.think")]
    said = farm.say(asker, BRAIN, Verb.CALL, 99, "brain.think")

    assert ("busy", 50) == (said[0][5]["kind"], said[0][5]["retry_after_ms"])
    assert [BRAIN] == [row[0] for row in farm.say(other, BRAIN, Verb.CALL, 1, "brain.think")]
    farm.say(farm.peers[BRAIN], MUSCLE, Verb.ERROR, 0)
    assert [BRAIN] == [row[0] for row in farm.say(asker, BRAIN, Verb.CALL, 99, "brain.think")]


@pytest.mark.parametrize("verb", [Verb.TELL, Verb.SIGNAL])
@pytest.mark.parametrize("to", [CONTROLLER, "@farm/events", ""])
def test_forbidden_words_without_an_answer_are_noted(farm: Any, verb: Verb, to: str) -> None:
    """An ERROR to what is no CALL would be taken for the end of the connection: it is noted, and counted."""
    brain = farm.peers[BRAIN]

    assert [] == farm.say(brain, to, verb)
    assert ("message.forbidden", 1) == (farm.notes[-1].event, len(brain.refusals_s))


def test_nothing_passes_from_who_has_been_ended(farm: Any) -> None:
    """A front that has more of an ended peer in its hands finds no route."""
    farm.say(farm.peers[CONTROLLER], MUSCLE, Verb.CALL, 1, "muscle.act")
    for _ in range(10):
        farm.say(farm.peers[CONTROLLER], BRAIN, Verb.CALL, 2)

    assert [farm.peers[CONTROLLER]] == farm.closed
    assert {} == farm.peers[CONTROLLER].routes


# -- absent, not gone --------------------------------------------------------------------------------------------------
@pytest.fixture
def recovering(bus: Any) -> Any:
    """Return a bus with one worker whose muscle and brain return if they are lost."""
    bus.join("supervisor", Role.SUPERVISOR)
    bus.join("farm/governor", Role.GOVERNOR)
    bus.join(CONTROLLER, Role.CONTROLLER, worker=0)
    bus.join(MUSCLE, Role.MUSCLE, uid="ada", worker=0, returns=True)
    bus.join(BRAIN, Role.BRAIN, uid="ada", returns=True)
    return bus


def _lose(bus: Any, name: str) -> list[tuple[Any, ...]]:
    said: list[tuple[Any, ...]] = bus.take(bus.broker.disconnect(bus.peers[name], "killed", bus.now_s))
    return said


def _again(bus: Any, name: str, role: str, **more: Any) -> Link:
    link: Link = bus.connect()
    assert Verb.WELCOME in [row[2] for row in bus.hello(link, name, role, name, **more)]
    bus.peers[name] = link
    return link


def test_it_is_told_whether_an_answer_of_who_is_lost_was_awaited(recovering: Any) -> None:
    """Idle is of whom nobody has asked anything, or who has answered it; what he himself has asked does not matter."""
    recovering.ask(recovering.peers["farm/governor"], "kernel.watch", Watch([BRAIN, MUSCLE, CONTROLLER]))
    recovering.say(recovering.peers[CONTROLLER], MUSCLE, Verb.CALL, 5, "muscle.act")
    recovering.say(recovering.peers[MUSCLE], BRAIN, Verb.CALL, 6, "brain.think")
    recovering.say(recovering.peers[BRAIN], MUSCLE, Verb.REPLY, 6)

    lost = {name: {row[5].get("idle") for row in _lose(recovering, name)} for name in (BRAIN, MUSCLE, CONTROLLER)}
    assert {BRAIN: {True}, MUSCLE: {None}, CONTROLLER: {True}} == lost


@pytest.mark.parametrize("joins", [CONTROLLER, MUSCLE])
def test_late_answers_are_no_breach(recovering: Any, joins: str) -> None:
    """For ten seconds after either side has joined an answer that nobody awaits is noted, then it is a breach."""
    recovering.now_s += 100.0
    _lose(recovering, joins)
    _again(recovering, joins, joins.split("/")[1])
    recovering.now_s += LATE_ANSWER_S
    for _ in range(20):
        assert [] == recovering.say(recovering.peers[MUSCLE], CONTROLLER, Verb.REPLY, 8)
        assert ("answer.late", "info") == (recovering.notes[-1].event, recovering.notes[-1].level)
    assert [] == recovering.peers[MUSCLE].refusals_s
    recovering.now_s += 0.001
    assert [] == recovering.say(recovering.peers[MUSCLE], CONTROLLER, Verb.REPLY, 8)

    assert "message.forbidden" == recovering.notes[-1].event


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
def wait_s(bus: Any, span_s: float) -> list[tuple[Any, ...]]:
    """Let time pass in ticks; returns all that is said."""
    said: list[tuple[Any, ...]] = []
    for _ in range(int(span_s / 0.25)):
        said += bus.tick()
    return said


def test_silent_peer_is_asked_once_then_lost(bus: Any) -> None:
    """A silent peer is asked after half a second, once, and lost when it owes the answer for too long."""
    link = bus.join(STORE, Role.STORE)
    said = wait_s(bus, BEAT_AFTER_SILENCE_S + 0.25)
    assert [(STORE, Verb.BEAT, "")] == [(row[0], row[2], row[4]) for row in said]
    assert [] == wait_s(bus, BEAT_ANSWER_S)
    assert [] == bus.closed

    assert [] == wait_s(bus, 0.25)
    assert [link] == bus.closed
    assert "silent for 2.5 s" == bus.notes[-1].fields["reason"]


def test_stranger_has_little_time(bus: Any) -> None:
    """A connection that does not say HELLO in time is told so and ended."""
    link = bus.connect()
    said = wait_s(bus, HANDSHAKE_S)
    assert [] == said

    said = bus.tick()
    assert ["deadline"] == [row[5]["kind"] for row in said]
    assert [link] == bus.closed


def test_sleeping_watcher_accuses_nobody(bus: Any) -> None:
    """After a tick that came late all clocks begin anew: nobody is lost for what was not heard meanwhile."""
    bus.join(STORE, Role.STORE)
    stranger = bus.connect()
    wait_s(bus, 1.0)
    for _ in range(5):
        assert [] == bus.tick(60.0)
    assert [] == bus.closed

    wait_s(bus, HANDSHAKE_S)
    assert [stranger] == bus.closed


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


def test_alarm_before_the_places_are_taken() -> None:
    """At four of five places there is an alarm, once, and again after there was room."""
    broker = Broker(b"", "", 0, 0.0, peers_max=10)
    links, alarms = [], []
    for least in (7, 6, 0):
        while len(links) < 9:
            link, effects = broker.connect(0.0)
            links.append(link)
            alarms += [effect.fields["connections"] for effect in effects if isinstance(effect, Note)]
        while len(links) > least:
            broker.disconnect(links.pop(), "", 0.0)

    assert [9, 9] == alarms  # from seven it is not far enough down


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
