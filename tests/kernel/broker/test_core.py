from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.broker.core import Broker
from ganglion.broker.link import Link, Note, Send, State
from ganglion.limits import (
    BEAT_AFTER_SILENCE_S,
    BEAT_ANSWER_S,
    HANDSHAKE_S,
    LATE_ANSWER_S,
    QUEUE_MARK_BYTES,
    UNJOINED_PEERS,
)
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Subscribe, Watch
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

HELLO = encode_head(Head(Verb.HELLO, 1))
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


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"token": "wrong"}, "token"), ({"incarnation": 1}, "incarnation"), ({"content": "yaml"}, "protocol")],
)
def test_refused_hello_says_why_and_ends(bus: Any, change: dict[str, Any], kind: str) -> None:
    """A HELLO that is entitled to nothing is answered with the reason, on its serial, and the connection ends."""
    bus.admit(MUSCLE, Role.MUSCLE, incarnation=2, uid="ada", worker=3)
    link = bus.connect()
    said = bus.hello(link, **{"name": MUSCLE, "role": "muscle", "token": MUSCLE, **change})

    assert [(Verb.ERROR, 1, kind)] == [(row[2], row[3], row[5]["kind"]) for row in said]
    assert [link] == bus.closed
    assert ["peer.refused"] == [note.event for note in bus.notes]


# -- routing ----------------------------------------------------------------------------------------------------------
@given(frames=st.lists(st.binary(max_size=50), min_size=1, max_size=4))
def test_bodies_are_not_opened(new_bus: Any, frames: list[bytes]) -> None:
    """Body and blobs pass as they are, whatever they are; only the first frame changes."""
    bus = new_bus()
    link = bus.join(CONTROLLER, Role.CONTROLLER, worker=0)
    bus.join(MUSCLE, Role.MUSCLE, uid="ada", worker=0)
    head = encode_head(Head(Verb.CALL, 1, "muscle.act"))
    effects = bus.broker.receive(link, [MUSCLE.encode(), head, *frames], 0.0)

    assert [(CONTROLLER.encode(), head, *frames)] == [e.frames for e in effects if isinstance(e, Send)]


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


# -- topics -----------------------------------------------------------------------------------------------------------
def test_slow_reader_is_told_what_it_missed(farm: Any) -> None:
    """What a reader is too slow for is counted, and announced before the next message, or with the next tick."""
    reader, other = farm.join("a", Role.OBSERVER, ""), farm.join("b", Role.OBSERVER, "")
    for link in (reader, other):
        farm.ask(link, "kernel.subscribe", Subscribe("@farm/events"))

    def heard(said: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [(row[4], row[5]) for row in said if row[0] == "a" and row[4]]

    def tell() -> list[tuple[Any, ...]]:
        said = farm.say(farm.peers["farm/governor"], "@farm/events", Verb.TELL, 0, "event")
        assert "b" in [row[0] for row in said]
        return heard(said)

    reader.queued_bytes = QUEUE_MARK_BYTES + 1
    assert [] == tell() + tell()
    reader.queued_bytes = QUEUE_MARK_BYTES // 2 + 1
    assert [] == heard(farm.tick())
    reader.queued_bytes = QUEUE_MARK_BYTES // 2
    assert [("kernel.gap", {"topic": "@farm/events", "missed": 2})] == heard(farm.tick())
    assert [("event", {})] == tell()
    reader.queued_bytes = QUEUE_MARK_BYTES + 1
    assert [] == tell()
    reader.queued_bytes = 0
    assert [("kernel.gap", {"topic": "@farm/events", "missed": 1}), ("event", {})] == tell()


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


@pytest.mark.parametrize("incarnation", [1, 2])
def test_who_imports_what_it_is_to_run_is_not_silent(bus: Any, incarnation: int) -> None:
    """A peer owes no BEAT in its first call, which has a deadline; a successor, or who has answered once, owes it."""
    caller = bus.join(CONTROLLER, Role.CONTROLLER, worker=0)
    more = {"features": ["beats_in_call"], "incarnation": incarnation}
    link = bus.join(MUSCLE, Role.MUSCLE, uid="ada", worker=0, **more)

    def wait() -> None:
        for _ in range(4):
            wait_s(bus, (BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S) / 2)
            if link not in bus.closed:
                bus.say(caller, "", Verb.BEAT, 0)

    bus.say(caller, MUSCLE, Verb.CALL, 1, "muscle.setup")
    wait()
    assert [link] * (incarnation > 1) == bus.closed
    if bus.closed:
        return
    bus.say(link, CONTROLLER, Verb.REPLY, 1)
    bus.say(caller, MUSCLE, Verb.CALL, 2, "muscle.act")
    wait()
    assert [link] == bus.closed


def test_who_joins_anew_in_its_first_call_has_lost_its_connection(bus: Any) -> None:
    """A connection of which the broker has not seen the end is not excused once its peer comes by another one."""
    caller = bus.join(CONTROLLER, Role.CONTROLLER, worker=0)
    link = bus.join(MUSCLE, Role.MUSCLE, uid="ada", worker=0, features=["beats_in_call"])
    bus.say(caller, MUSCLE, Verb.CALL, 1, "muscle.setup")
    for _ in range(4):
        wait_s(bus, (BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S) / 2)
        bus.say(caller, "", Verb.BEAT, 0)
    assert [] == bus.closed
    said = bus.hello(bus.connect(), MUSCLE, "muscle", MUSCLE)
    assert ["name"] == [row[5]["kind"] for row in said if row[2] is Verb.ERROR]

    bus.tick()
    assert link in bus.closed
    _again(bus, MUSCLE, "muscle")


def test_a_program_sends_back_what_it_got(bus: Any) -> None:
    """The frames of BEAT and BYE, sent back as they came, are their answers: nothing is forbidden, and it leaves."""
    boss = bus.join("supervisor", Role.SUPERVISOR)
    link = bus.join("farm/environment/world/0", Role.ENVIRONMENT)
    asked = [row for row in wait_s(bus, BEAT_AFTER_SILENCE_S + 0.25) if row[0] == "farm/environment/world/0"]
    assert [("", Verb.BEAT, 0, "")] == [row[1:5] for row in asked]
    assert [] == bus.say(link, "", Verb.BEAT, 0)
    assert [] == [row for row in wait_s(bus, BEAT_AFTER_SILENCE_S) if row[2] is not Verb.BEAT]

    bidden = bus.say(boss, "farm/environment/world/0", Verb.BYE, 1)
    assert [("farm/environment/world/0", "supervisor", Verb.BYE)] == [row[:3] for row in bidden]
    left = bus.say(link, "supervisor", Verb.BYE, 1)
    assert ("farm/environment/world/0", "", Verb.BYE) in [row[:3] for row in left]
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
    strangers = [bus.connect() for _ in range(UNJOINED_PEERS + 1)]

    assert [strangers[0]] == bus.closed
    assert State.JOINED is store.state


def test_places_are_bounded(bus: Any) -> None:
    """Where all places are taken, the oldest stranger makes room for who comes; where all have joined, it goes."""
    broker = bus.broker = Broker(b"", "", 0, bus.now_s, peers_max=3)
    first, second, third = (bus.connect() for _ in range(3))
    fourth, effects = broker.connect(bus.now_s)
    bus.take(effects)
    assert [first] == bus.closed
    assert "all 3 places are taken (peers)" in effects[0].reason

    for number, link in enumerate((second, third, fourth)):
        bus.admit(f"farm/x/{number}", Role.ENVIRONMENT)
        bus.hello(link, f"farm/x/{number}", "environment", f"farm/x/{number}")
    fifth, effects = broker.connect(bus.now_s)
    assert "(peers)" in bus.take(effects)[0][5]["message"]
    assert [first, fifth] == bus.closed


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


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([b""], "expected the frames [to][head][body][blob ...], found 1"),
        ([b"", HELLO], "HELLO: expected the frames [][head][body], found 2"),
        ([b"", HELLO, b"", b""], "HELLO: expected the frames [][head][body], found 4"),
    ],
)
def test_frames_of_no_message(bus: Any, frames: list[bytes], text: str) -> None:
    """A message without a head, and a HELLO without a body or with more, end the connection with the reason."""
    stranger = bus.connect()
    said = bus.take(bus.broker.receive(stranger, frames, bus.now_s))

    assert text == said[0][5]["message"]
    assert [stranger] == bus.closed


@given(st.lists(st.binary(max_size=40), max_size=4), st.booleans())
def test_any_frames_are_survived(new_bus: Any, frames: list[bytes], joined: bool) -> None:
    """No frames of a stranger or a peer do more than end its own connection."""
    bus = new_bus()
    other = bus.join(MUSCLE, Role.MUSCLE, uid="ada", worker=0)
    link = bus.join(CONTROLLER, Role.CONTROLLER, worker=0) if joined else bus.connect()
    bus.broker.receive(link, frames, 0.0)
    bus.broker.check()

    assert State.JOINED is other.state
