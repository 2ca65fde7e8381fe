from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.broker import Broker, Link, Note, Send
from ganglion.broker.link import Admission, State
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
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Hello, Subscribe, Watch, Welcome, Withdraw
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
def test_welcome_says_what_holds(bus: Any) -> None:
    """WELCOME has the version, name, incarnation, place, beats and limits, and what comes next."""
    bus.admit(MUSCLE, Role.MUSCLE, incarnation=2, uid="ada", worker=3)
    said = bus.hello(bus.connect(), MUSCLE, "muscle", MUSCLE)
    welcome = codec_of(Welcome).from_map(said[0][5])

    assert (Verb.WELCOME, 1) == said[0][2:4]
    assert (1, MUSCLE, 2, "farm", 3) == (
        welcome.version,
        welcome.name,
        welcome.incarnation,
        welcome.run,
        welcome.worker,
    )
    assert (BEAT_AFTER_SILENCE_S, BEAT_ANSWER_S) == (welcome.beat_after_s, welcome.beat_answer_s)
    assert {"body_bytes", "frame_bytes", "integer_max", "message_bytes", "message_frames"} == set(welcome.limits)
    assert "await muscle.setup from your controller" == welcome.next


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


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", b'{"version": 1, "token": "\\ud800"}', b"\x91" * 3000])
def test_broken_hello_ends_the_connection(bus: Any, body: bytes) -> None:
    """A HELLO that cannot be read is answered and ends the connection; nothing else happens."""
    link = bus.connect()
    said = bus.say(link, "", Verb.HELLO, 1, "", body)

    assert [(Verb.ERROR, "protocol")] == [(row[2], row[5]["kind"]) for row in said]
    assert [link] == bus.closed


def test_second_claimant_is_refused(farm: Any) -> None:
    """A name has one connection: the second claimant is refused by name, the first stays."""
    second = farm.connect()
    said = farm.hello(second, STORE, "store", STORE)

    assert [(Verb.ERROR, "name")] == [(row[2], row[5]["kind"]) for row in said]
    assert farm.broker.joined[STORE] is farm.peers[STORE]


def test_newer_incarnation_succeeds(farm: Any) -> None:
    """A successor that the supervisor announced takes the name over; the one before is ended, its callers are told."""
    farm.say(farm.peers[CONTROLLER], MUSCLE, Verb.CALL, 8, "muscle.act")
    farm.admit(MUSCLE, Role.MUSCLE, incarnation=2, uid="ada", worker=0)
    former, successor = farm.peers[MUSCLE], farm.connect()
    said = farm.hello(successor, MUSCLE, "muscle", MUSCLE)

    assert [(CONTROLLER, Verb.LOST), (MUSCLE, Verb.WELCOME)] == [(row[0], row[2]) for row in said]
    assert [former] == farm.closed
    assert [] == farm.say(former, CONTROLLER, Verb.REPLY, 8)
    said = farm.say(farm.peers[CONTROLLER], MUSCLE, Verb.CALL, 9, "muscle.act")
    assert [(MUSCLE, CONTROLLER, Verb.CALL, 9)] == [row[:4] for row in said]


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


def test_first_message_opens_the_route_for_fronts(farm: Any) -> None:
    """After one message the table of routes holds what a front needs to forward the next ones by itself."""
    farm.say(farm.peers[CONTROLLER], MUSCLE, Verb.CALL, 1, "muscle.act")
    route = farm.peers[CONTROLLER].routes[MUSCLE.encode()]

    assert (CONTROLLER.encode(), farm.peers[MUSCLE], [b"\x01"]) == (route.source, route.target, route.open)
    assert 1 << Verb.CALL == route.allowed
    assert route.back is farm.peers[MUSCLE].routes[CONTROLLER.encode()]


def test_answer_closes_the_call(farm: Any) -> None:
    """A REPLY passes while the CALL is open, once; another one is noted and dropped, and does not hit its sender."""
    farm.say(farm.peers[CONTROLLER], MUSCLE, Verb.CALL, 1, "muscle.act")

    assert [(CONTROLLER, MUSCLE, Verb.REPLY, 1)] == [
        row[:4] for row in farm.say(farm.peers[MUSCLE], CONTROLLER, Verb.REPLY, 1)
    ]
    farm.now_s += LATE_ANSWER_S + 1.0
    assert [] == farm.say(farm.peers[MUSCLE], CONTROLLER, Verb.REPLY, 1)
    assert "message.forbidden" == farm.notes[-1].event


def test_an_answer_of_another_serial_is_refused(farm: Any) -> None:
    """It leaves the call open for its own answer, and the tenth such answer ends the connection of its sender."""
    controller, muscle = farm.peers[CONTROLLER], farm.peers[MUSCLE]
    farm.say(controller, MUSCLE, Verb.CALL, 1, "muscle.act")
    assert [] == farm.say(muscle, CONTROLLER, Verb.REPLY, 2)  # it may be for somebody's predecessor
    farm.now_s += LATE_ANSWER_S + 1.0
    for _ in range(9):
        assert [] == farm.say(muscle, CONTROLLER, Verb.ERROR, 999)
    assert [(CONTROLLER, 1)] == [(row[0], row[3]) for row in farm.say(muscle, CONTROLLER, Verb.REPLY, 1)]
    assert [] == farm.closed
    farm.say(muscle, CONTROLLER, Verb.REPLY, 999)
    assert [muscle] == farm.closed


def test_unreachable(farm: Any) -> None:
    """A CALL to nobody is answered; a TELL to nobody is noted."""
    said = farm.say(farm.peers[CONTROLLER], "farm/muscle/bob/0", Verb.CALL, 4, "muscle.act")
    assert [(CONTROLLER, "", Verb.ERROR, 4, "unreachable")] == [(*row[:4], row[5]["kind"]) for row in said]

    assert [] == farm.say(farm.peers[CONTROLLER], "barn/store", Verb.TELL, 0, "record.batch")
    assert "message.undeliverable" == farm.notes[-1].event


def test_oneself_is_unreachable(farm: Any) -> None:
    """Nobody talks to itself by the bus."""
    said = farm.say(farm.peers[CONTROLLER], CONTROLLER, Verb.CALL, 4)

    assert ["unreachable"] == [row[5]["kind"] for row in said]


@pytest.mark.parametrize("to", [b"\xff\xfe", b"\x00", b"farm/muscle/ada/0\n", b"@\xff", b"x" * 100_000])
def test_any_bytes_are_no_destination(farm: Any, to: bytes) -> None:
    """A destination that is no name is one that is not there; what is said of it is short."""
    frames = [to, encode_head(Head(Verb.CALL, 4)), b""]
    said = farm.take(farm.broker.receive(farm.peers[CONTROLLER], frames, farm.now_s))

    assert [Verb.ERROR] == [row[2] for row in said]
    assert len(said[0][5]["message"]) < 1000


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


def test_calls_to_who_does_not_read_are_busy(farm: Any) -> None:
    """Beyond the mark of what waits for a destination CALLs are answered busy; answers and signals pass."""
    farm.say(farm.peers[MUSCLE], BRAIN, Verb.CALL, 1, "brain.think")
    farm.peers[BRAIN].queued_bytes = farm.peers[MUSCLE].queued_bytes = QUEUE_MARK_BYTES + 1

    assert "busy" == farm.say(farm.peers[MUSCLE], BRAIN, Verb.CALL, 2, "brain.think")[0][5]["kind"]
    assert [MUSCLE] == [row[0] for row in farm.say(farm.peers[BRAIN], MUSCLE, Verb.REPLY, 1)]


def test_wrong_token_is_answered_once_per_second(farm: Any) -> None:
    """A wrong token is answered and noted once per second and origin; a right one is never kept waiting."""
    farm.admit("farm/muscle/bob/0", Role.MUSCLE)
    said: list[list[str]] = []
    for origin, token, later_s in [
        ("process 1", "no", 0.0),
        ("process 1", "no", 0.5),
        ("process 1", "farm/muscle/bob/0", 0.0),
        ("process 2", "no", 0.0),
        ("process 1", "no", 0.5),
    ]:
        farm.now_s += later_s
        link, _ = farm.broker.connect(farm.now_s, origin)
        heard = farm.hello(link, "farm/muscle/bob/0", "muscle", token)
        said.append([row[5].get("kind", "welcome") for row in heard])
        assert (link in farm.closed) is (token == "no")

    assert [["token"], [], ["welcome"], ["token"], ["token"]] == said
    assert 3 == sum(note.event == "peer.refused" for note in farm.notes)


@pytest.mark.parametrize("verb", [Verb.TELL, Verb.SIGNAL])
@pytest.mark.parametrize("to", [CONTROLLER, "@farm/events", ""])
def test_forbidden_words_without_an_answer_are_noted(farm: Any, verb: Verb, to: str) -> None:
    """An ERROR to what is no CALL would be taken for the end of the connection: it is noted, and counted."""
    brain = farm.peers[BRAIN]

    assert [] == farm.say(brain, to, verb)
    assert ("message.forbidden", 1) == (farm.notes[-1].event, len(brain.refusals_s))


def test_tenth_forbidden_message_ends_the_connection(farm: Any) -> None:
    """Nine forbidden messages are answered; the tenth within ten seconds ends the connection."""
    brain = farm.peers[BRAIN]
    for i in range(9):
        said = farm.say(brain, CONTROLLER, Verb.CALL, i)
        assert [(BRAIN, i, "forbidden")] == [(row[0], row[3], row[5]["kind"]) for row in said]
    assert [] == farm.closed

    assert "forbidden" == farm.say(brain, CONTROLLER, Verb.CALL, 9)[0][5]["kind"]
    assert [brain] == farm.closed


def test_few_forbidden_messages_are_forgiven(farm: Any) -> None:
    """Who errs now and then stays, however long it lives."""
    for i in range(100):
        farm.now_s += 1.2
        farm.say(farm.peers[BRAIN], CONTROLLER, Verb.CALL, i)

    assert [] == farm.closed


def test_refusal_of_an_answer_does_not_hit_the_sender_s_own_calls(farm: Any) -> None:
    """Serials of answers belong to the other side: no ERROR goes out with one of them."""
    muscle = farm.peers[MUSCLE]
    farm.say(muscle, BRAIN, Verb.CALL, 5, "brain.think")
    farm.now_s += LATE_ANSWER_S + 1.0
    said = [row for _ in range(10) for row in farm.say(muscle, CONTROLLER, Verb.REPLY, 5)]

    assert [0] == [row[3] for row in said if row[0] == MUSCLE and row[2] is Verb.ERROR]


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


def test_loss_of_who_returns_is_told_as_such(recovering: Any) -> None:
    """LOST says to callers and watchers whether its bearer will come again."""
    recovering.ask(recovering.peers["farm/governor"], "kernel.watch", Watch([BRAIN, CONTROLLER]))
    recovering.say(recovering.peers[MUSCLE], BRAIN, Verb.CALL, 5, "brain.think")

    assert {("farm/governor", True), (MUSCLE, True)} == {
        (row[0], row[5]["returns"]) for row in _lose(recovering, BRAIN)
    }
    assert [("farm/governor", None)] == [(row[0], row[5].get("returns")) for row in _lose(recovering, CONTROLLER)]


def test_it_is_told_whether_an_answer_of_who_is_lost_was_awaited(recovering: Any) -> None:
    """Idle is of whom nobody has asked anything, or who has answered it; what he himself has asked does not matter."""
    recovering.ask(recovering.peers["farm/governor"], "kernel.watch", Watch([BRAIN, MUSCLE, CONTROLLER]))
    recovering.say(recovering.peers[CONTROLLER], MUSCLE, Verb.CALL, 5, "muscle.act")
    recovering.say(recovering.peers[MUSCLE], BRAIN, Verb.CALL, 6, "brain.think")
    recovering.say(recovering.peers[BRAIN], MUSCLE, Verb.REPLY, 6)

    lost = {name: {row[5].get("idle") for row in _lose(recovering, name)} for name in (BRAIN, MUSCLE, CONTROLLER)}
    assert {BRAIN: {True}, MUSCLE: {None}, CONTROLLER: {True}} == lost


def test_call_to_the_absent_is_busy(recovering: Any) -> None:
    """Who is absent is awaited: a CALL is to be said again until the successor takes it; all else is noted."""
    _lose(recovering, MUSCLE)
    controller = recovering.peers[CONTROLLER]
    for _ in range(30):  # no breach: nobody can know better
        [said] = recovering.say(controller, MUSCLE, Verb.CALL, 8, "muscle.act")
        assert (CONTROLLER, "", Verb.ERROR, 8, "busy") == (*said[:4], said[5]["kind"])
        assert (50, {"absent": True}) == (said[5]["retry_after_ms"], said[5]["data"])
    for verb in (Verb.TELL, Verb.SIGNAL, Verb.REPLY):
        assert [] == recovering.say(controller, MUSCLE, verb)
        assert "message.undeliverable" == recovering.notes[-1].event
    recovering.admit(MUSCLE, Role.MUSCLE, incarnation=2, uid="ada", worker=0, returns=True)
    assert "busy" == recovering.say(controller, MUSCLE, Verb.CALL, 8, "muscle.act")[0][5]["kind"]
    _again(recovering, MUSCLE, "muscle", incarnation=2)

    assert [(MUSCLE, CONTROLLER, Verb.CALL, 8)] == [
        row[:4] for row in recovering.say(controller, MUSCLE, Verb.CALL, 8, "muscle.act")
    ]


@pytest.mark.parametrize("call", ["brain.think", "kernel.admit", ""])
def test_the_absent_are_called_by_who_may_only(recovering: Any, call: str) -> None:
    """What may not be asked of somebody who is there may not be asked of him while he is absent."""
    _lose(recovering, MUSCLE)
    [said] = recovering.say(recovering.peers[CONTROLLER], MUSCLE, Verb.CALL, 8, call)

    assert "forbidden" == said[5]["kind"]


def test_who_is_withdrawn_does_not_return(recovering: Any) -> None:
    """Who has been given up is gone for good, whether he was absent or there."""
    supervisor, controller = recovering.peers["supervisor"], recovering.peers[CONTROLLER]
    recovering.say(recovering.peers[MUSCLE], BRAIN, Verb.CALL, 5, "brain.think")
    _lose(recovering, MUSCLE)
    said = recovering.ask(supervisor, "kernel.withdraw", Withdraw([MUSCLE, BRAIN]))
    assert [Verb.REPLY] == [row[2] for row in said]

    assert "unreachable" == recovering.say(controller, MUSCLE, Verb.CALL, 8, "muscle.act")[0][5]["kind"]


def test_withdrawal_tells_callers_that_nobody_returns(recovering: Any) -> None:
    """Who waits for an answer of somebody who is given up hears that it will not come."""
    recovering.say(recovering.peers[MUSCLE], BRAIN, Verb.CALL, 5, "brain.think")
    said = recovering.ask(recovering.peers["supervisor"], "kernel.withdraw", Withdraw([BRAIN]))

    assert [(MUSCLE, None)] == [(row[0], row[5].get("returns")) for row in said if row[2] is Verb.LOST]


def test_who_leaves_does_not_return(recovering: Any) -> None:
    """BYE is no loss: nobody is awaited after it, until the name is announced anew."""
    controller = recovering.peers[CONTROLLER]
    recovering.say(controller, MUSCLE, Verb.CALL, 8, "muscle.act")
    said = recovering.say(recovering.peers[MUSCLE], "", Verb.BYE, 1)
    assert [(CONTROLLER, None)] == [(row[0], row[5].get("returns")) for row in said if row[2] is Verb.LOST]
    assert "unreachable" == recovering.say(controller, MUSCLE, Verb.CALL, 9, "muscle.act")[0][5]["kind"]
    recovering.admit(MUSCLE, Role.MUSCLE, incarnation=2, uid="ada", worker=0, returns=True)

    assert "busy" == recovering.say(controller, MUSCLE, Verb.CALL, 9, "muscle.act")[0][5]["kind"]


def test_the_living_come_again_under_the_same_incarnation(recovering: Any) -> None:
    """Who has lost no more than its connection joins again; not beside the connection that it has."""
    recovering.say(recovering.peers[CONTROLLER], MUSCLE, Verb.CALL, 8, "muscle.act")
    second = recovering.connect()
    assert "name" == recovering.hello(second, MUSCLE, "muscle", MUSCLE, incarnation=1)[0][5]["kind"]
    _lose(recovering, MUSCLE)
    link = _again(recovering, MUSCLE, "muscle", incarnation=1)

    assert [] == recovering.say(link, CONTROLLER, Verb.REPLY, 8)  # to a call that was open before
    said = recovering.say(recovering.peers[CONTROLLER], MUSCLE, Verb.CALL, 8, "muscle.act")
    assert [(MUSCLE, Verb.CALL)] == [(row[0], row[2]) for row in said]
    assert [CONTROLLER] == [row[0] for row in recovering.say(link, CONTROLLER, Verb.REPLY, 8)]


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


def test_a_new_broker_awaits_who_has_not_come_yet() -> None:
    """A broker that begins with a table refuses the stale and awaits the living before anybody has joined."""
    table = [_admission(CONTROLLER, Role.CONTROLLER), replace(_admission(MUSCLE, Role.MUSCLE, 3), returns=True)]
    broker = Broker(b"", "1", 1, 0.0, admissions=table)
    link, _ = broker.connect(0.0)
    broker.receive(link, _hello(CONTROLLER, Role.CONTROLLER), 0.0)
    call = [MUSCLE.encode(), encode_head(Head(Verb.CALL, 7, "muscle.act")), b""]
    answers = [broker.receive(link, call, 0.0)]
    stale, _ = broker.connect(0.0)
    hello = Hello(1, "muscle", MUSCLE, MUSCLE, incarnation=2)
    answers.append(broker.receive(stale, [b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)], 0.0))
    kinds = [decode_map(effects[0].frames[2])["kind"] for effects in answers if isinstance(effects[0], Send)]

    assert ["busy", "incarnation"] == kinds


# -- losing -----------------------------------------------------------------------------------------------------------
def test_lost_is_told_to_callers_and_watchers_once(farm: Any) -> None:
    """LOST goes to those who watch a peer and to those who wait for its answer, once each, and to nobody else."""
    farm.ask(farm.peers["farm/governor"], "kernel.watch", Watch([BRAIN, MUSCLE]))
    farm.say(farm.peers["farm/governor"], BRAIN, Verb.CALL, 1, "brain.setup")
    farm.say(farm.peers[MUSCLE], BRAIN, Verb.CALL, 1, "brain.think")
    farm.say(farm.peers[CONTROLLER], MUSCLE, Verb.CALL, 1, "muscle.act")
    said = farm.take(farm.broker.disconnect(farm.peers[BRAIN], "killed", farm.now_s))

    assert ["farm/governor", MUSCLE] == sorted(row[0] for row in said)
    assert all((Verb.LOST, {"peer": BRAIN, "incarnation": 1, "reason": "killed"}) == (r[2], r[5]) for r in said)


def test_answered_calls_are_no_reason_to_be_told(farm: Any) -> None:
    """Who has got its answer does not hear of the loss."""
    farm.say(farm.peers[MUSCLE], BRAIN, Verb.CALL, 1, "brain.think")
    farm.say(farm.peers[BRAIN], MUSCLE, Verb.REPLY, 1)

    assert [] == farm.take(farm.broker.disconnect(farm.peers[BRAIN], "killed", farm.now_s))


def test_bye_is_answered_and_is_a_loss_to_watchers(farm: Any) -> None:
    """Who leaves in order is answered BYE; its watchers hear that it left."""
    farm.ask(farm.peers["farm/governor"], "kernel.watch", Watch([STORE]))
    said = farm.say(farm.peers[STORE], "", Verb.BYE, 3)

    assert [(STORE, Verb.BYE, 3), ("farm/governor", Verb.LOST, 0)] == [(r[0], r[2], r[3]) for r in said]
    assert "left" == said[1][5]["reason"]
    assert [farm.peers[STORE]] == farm.closed


# -- topics -----------------------------------------------------------------------------------------------------------
def test_topic_reaches_its_readers(farm: Any) -> None:
    """A TELL to a topic reaches all who subscribed to that topic, with the publisher's name."""
    for name in ("a", "b", "c"):
        link = farm.join(name, Role.OBSERVER, "")
        farm.ask(link, "kernel.subscribe", Subscribe("@farm/events" if name != "c" else "@barn/events"))
    said = farm.say(farm.peers["farm/governor"], "@farm/events", Verb.TELL, 0, "event", b"\x81\xa1x\x01")

    assert [(n, "farm/governor", Verb.TELL, 0, "event", {"x": 1}) for n in ("a", "b")] == said


def test_topic_without_readers_costs_nothing(farm: Any) -> None:
    """A TELL to a topic that nobody reads is no fault."""
    assert [] == farm.say(farm.peers["farm/governor"], "@farm/events", Verb.TELL, 0, "event")


@pytest.mark.parametrize("verb", [Verb.CALL, Verb.SIGNAL, Verb.REPLY])
def test_topics_take_tells_only(farm: Any, verb: Verb) -> None:
    """A topic is told, not asked."""
    farm.ask(farm.join("a", Role.OBSERVER, ""), "kernel.subscribe", Subscribe("@farm/events"))
    said = farm.say(farm.peers["farm/governor"], "@farm/events", verb, 6)

    assert "a" not in [row[0] for row in said]


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


def test_peer_that_answers_stays(bus: Any) -> None:
    """Who answers BEAT stays for ever; the answer is not answered."""
    link = bus.join(STORE, Role.STORE)
    for _ in range(20):
        for row in wait_s(bus, 1.0):
            assert Verb.BEAT is row[2]
            assert [] == bus.say(link, "", Verb.BEAT, row[3], "here")

    assert [] == bus.closed


def test_beat_of_a_peer_is_answered(bus: Any) -> None:
    """A peer may ask whether the kernel is there."""
    link = bus.join(STORE, Role.STORE)

    assert [(STORE, "", Verb.BEAT, 7, "here", {})] == bus.say(link, "", Verb.BEAT, 7)


def test_front_that_forwards_keeps_the_peer_alive(bus: Any) -> None:
    """A peer whose messages take the fast path is not silent: the front notes when it was heard."""
    link = bus.join(STORE, Role.STORE)
    for _ in range(20):
        link.heard_s = bus.now_s
        assert [] == bus.tick()


@pytest.mark.parametrize("features", [None, ["beats_in_call"]])
def test_peer_inside_a_call(bus: Any, features: list[str] | None) -> None:
    """A one-threaded peer owes nothing inside a CALL; one that said it answers there is lost when it does not."""
    controller = bus.join(CONTROLLER, Role.CONTROLLER, worker=0)
    muscle = bus.join(MUSCLE, Role.MUSCLE, uid="ada", worker=0, features=features)
    bus.say(controller, MUSCLE, Verb.CALL, 1, "muscle.act")
    for _ in range(40):
        controller.heard_s = bus.now_s
        bus.tick()
    assert ([muscle] if features else []) == bus.closed

    if not features:
        bus.say(muscle, CONTROLLER, Verb.REPLY, 1)
        bus.say(controller, MUSCLE, Verb.CALL, 2, "muscle.act")
        assert [] == bus.closed


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


def test_notes_have_a_level(farm: Any) -> None:
    """What is to be logged has a level that the log knows."""
    farm.say(farm.peers[STORE], "", Verb.BYE)

    assert farm.notes
    assert all(isinstance(note, Note) and note.level in ("debug", "info", "warning") for note in farm.notes)
