from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Close, Link, Note, Peer, Send
from ganglion.errors import RemoteProtocolError
from ganglion.limits import DECISION_SHARE, INTEGER_MAX, QUEUE_MARK_BYTES
from ganglion.transport.exchange import LARGE_BYTES, Budget, Exchange, Served, Shares, Sink, Tally
from ganglion.transport.zmtp import encode
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode_head, encode_head, packed
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


class RecordingSink(Sink):
    """Note what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.did: list[Any] = []

    def send(self, frames: Any) -> None:
        self.out += frames

    def flush(self) -> bool:
        self.did.append(("flush", self.out))
        self.out = []
        return False

    def pause(self) -> None:
        self.did.append("pause")

    def resume(self) -> None:
        self.did.append("resume")

    def finish(self, reason: str) -> None:
        self.did.append(("finish", reason))


def exchange(notes: list[Note]) -> Exchange:
    """Return an exchange whose clock stands at 5 s."""
    return Exchange(Broker(b"", "", 0, 5.0), notes.append, lambda: 5.0, lambda seconds, call: None)


def test_effects_are_carried_out_in_order() -> None:
    """Messages are collected and written once; a close comes after what was to be said; notes go to the log."""
    notes: list[Note] = []
    here, link, sink = exchange(notes), Link(1, 0.0), RecordingSink()
    link.sink = sink
    note = Note("info", "x")
    here.perform([Send(link, (b"a",)), note, Send(link, (b"b",))])
    assert [] == sink.did
    here.perform([Close(link, "enough")])
    here.flush()

    assert [("flush", [b"a", b"b"]), ("finish", "enough"), ("flush", [])] == sink.did
    assert [note] == notes


def test_a_sender_waits_once() -> None:
    """Who is stopped again goes on all the same when the destination is free; who comes later waits anew."""
    destination, one, two = RecordingSink(), RecordingSink(), RecordingSink()
    for sender in (one, two, one):
        destination.hold(sender)
    destination.release()
    destination.release()
    destination.hold(one)

    assert ["pause", "resume", "pause"] == one.did
    assert ["pause", "resume"] == two.did


def test_a_stranger_gets_one_line_a_second() -> None:
    """Of what strangers can cause at will the first note passes and the others are counted; all else passes."""
    said: list[Note] = []
    tally = Tally(said.append, lambda: 5.0)
    for number in range(3):
        tally(Note("warning", "peer.refused", {"name": f"stranger {number}"}))
        tally(Note("info", "peer.joined", {"name": "a"}))
    for now_s in (5.5, 6.5, 9.0, 9.5):
        tally.tick(now_s)
    tally(Note("warning", "peer.refused", {"name": "stranger 9"}))

    refused = [note.fields for note in said if note.event == "peer.refused"]
    assert [{"name": "stranger 0"}, {"name": "stranger 2", "count": 2}, {"name": "stranger 9"}] == refused
    assert 3 == sum(note.event == "peer.joined" for note in said)


def test_budget_stops_who_comes_last() -> None:
    """Above the bound the later one waits and the first never does; when the first is done, the later goes on."""
    budget, first, second = Budget(4 * LARGE_BYTES), RecordingSink(), RecordingSink()
    announced = 3 * LARGE_BYTES  # of the first all of it is set aside
    budget.account(first, 1, announced)
    budget.account(second, LARGE_BYTES, announced)
    assert ([], []) == (first.did, second.did)
    budget.account(second, LARGE_BYTES + 1, announced)
    budget.account(first, 9 * LARGE_BYTES, 9 * LARGE_BYTES)
    budget.account(second, LARGE_BYTES + 2, announced)
    assert ([], ["pause"], True) == (first.did, second.did, budget.tight)
    budget.account(first, 0, 0)
    assert (["pause", "resume"], False) == (second.did, budget.tight)
    budget.account(second, announced, announced)
    budget.forget(second)

    assert ([], ["pause", "resume"]) == (first.did, second.did)


UPDATE = "environment.update"
CONTROLLER, ENVIRONMENT = "r/controller/0", "r/environment/x/0"


class Desk(Served):
    """Serve a peer that has joined; with `fast` its messages are walked first."""

    def __init__(self, exchange: Exchange, name: str, role: Role, fast: bool = True) -> None:
        super().__init__(exchange)
        broker = exchange.broker
        broker.admit(Admission(name, role, "r", hashlib.sha256(name.encode()).digest(), uid="x", worker=0))
        self.link, _ = broker.connect(5.0)
        self.link.sink = self
        hello = codec_of(Hello).encode(Hello(1, role.value, name, name))
        exchange.perform(broker.receive(self.link, encode_envelope(Envelope("", Head(Verb.HELLO, 1), hello)), 5.0))
        self.joined()
        self.out.clear()
        self._fast = fast

    def say(self, to: str, head: bytes) -> bool:
        """Take a message of this peer; say whether the broker was not asked."""
        frames = [to.encode(), head, b"body"]
        data = b"".join(encode(frames))
        if self._fast and self.walk(data, 0) == len(data):
            return True
        self._exchange.perform(self._exchange.broker.receive(self.link, frames, 5.0))
        return False

    def send(self, frames: Any) -> None:
        self.out += encode(frames)

    def flush(self) -> bool:
        return False

    def finish(self, reason: str) -> None:
        pass


def desks(fast: bool = True) -> list[Desk]:
    """Return a controller and an environment of one broker, which know the way to each other."""
    here = exchange([])
    made = [Desk(here, CONTROLLER, Role.CONTROLLER, fast), Desk(here, ENVIRONMENT, Role.ENVIRONMENT, fast)]
    for serial in (1, 2):
        made[0].say(ENVIRONMENT, encode_head(Head(Verb.CALL, serial, UPDATE)))
        made[1].say(CONTROLLER, encode_head(Head(Verb.REPLY, serial)))
    return made


heads = st.builds(
    lambda verb, serial, call, position: encode_head(Head(verb, serial, call, position)),
    st.sampled_from([Verb.CALL, Verb.REPLY, Verb.ERROR, Verb.TELL, Verb.SIGNAL]),
    st.sampled_from([0, 1, 2, 200, 70_000, 2**40]),
    st.sampled_from(["", UPDATE, "environment.reset", UPDATE + "x", "x" * 60]),
    st.sampled_from([None, (0, 0, 1, 1, 2, 3)]),
)
talk = st.lists(st.tuples(st.booleans(), st.sampled_from([CONTROLLER, ENVIRONMENT, "", "nobody"]), heads), max_size=8)


@given(talk, st.booleans())
def test_the_fast_path_decides_as_the_broker(said: list[tuple[bool, str, bytes]], full: bool) -> None:
    """Whatever two peers say to each other: the walk forwards, and counts as open, what the broker alone would."""
    walked, asked = desks(), desks(fast=False)
    for pair in (walked, asked):
        pair[1].link.queued_bytes = QUEUE_MARK_BYTES + 1 if full else 0
        for second, to, head in said:
            pair[second].say(to, head)

    for one, other in zip(walked, asked, strict=True):
        assert b"".join(other.out) == b"".join(one.out)
        assert [route.open for route in other.link.routes.values()] == [r.open for r in one.link.routes.values()]


def test_what_is_usual_is_not_asked() -> None:
    """Calls that are a right, as many as may be open, their answers and tells pass without the broker."""
    controller, environment = desks()
    serials = range(10, 10 + controller.link.routes[ENVIRONMENT.encode()].limit)
    calls = [encode_head(Head(Verb.CALL, serial, UPDATE, (0, 0, 1, 1, 2, 3), 5)) for serial in serials]
    answers = [encode_head(Head(verb, serial)) for serial in serials for verb in (Verb.REPLY,)]

    assert all(controller.say(ENVIRONMENT, head) for head in calls)
    assert not controller.say(ENVIRONMENT, calls[0])
    assert all(environment.say(CONTROLLER, head) for head in answers)
    assert not environment.say(CONTROLLER, answers[0])


# Heads whose call is no right of the route, or stands elsewhere than where a receiver reads it.
DETOURS = [
    *(b"", b"\x93", b"\xdc\x06", b"\x90\x06", b"\x96\x06", b"\x93\x06" + bytes(255)),
    encode_head(Head(Verb.CALL, 1)),
    encode_head(Head(Verb.CALL, 1, "environment.resets")),
    encode_head(Head(Verb.CALL, 1, UPDATE + "x")),
    b"\x92\x03\x01" + packed(UPDATE),  # behind the end of the array
    b"\x93\x03\xd3" + bytes(7) + b"\x01" + packed(UPDATE),  # a signed serial: known, not usual
    b"\x93\x03\x01\xd9\x12" + UPDATE.encode(),  # a name with a length of its own
    b"\x93\x03\x01" + packed(UPDATE)[:-1],
    b"\x93\x03\xcf\x01",
    b"\x93\x03",
]


@pytest.mark.parametrize("head", DETOURS)
def test_unusual_heads_do_not_pass(head: bytes) -> None:
    """A head whose verb, serial or call is not where it usually is, is left to the broker."""
    controller, _ = desks()
    data = b"".join(encode([ENVIRONMENT.encode(), head, b""]))

    assert 0 == controller.walk(data, 0)
    assert [] == controller.link.routes[ENVIRONMENT.encode()].open


@given(
    st.integers(0, INTEGER_MAX),
    st.sampled_from([UPDATE, "environment.reset", ""]),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=3),
    st.integers(0, 60),
)
def test_receiver_reads_the_call_that_was_judged(
    serial: int, call: str, changes: list[tuple[int, int]], length: int
) -> None:
    """Of heads with any bytes changed or cut off, none passes that a receiver would read as another call."""
    head = bytearray(encode_head(Head(Verb.CALL, serial, call, (0, 0, 1, 1, 2, 3))))
    for place, byte in changes:
        head[place % len(head)] = byte
    found = bytes(head[: length or len(head)])
    if found[1:2] == b"\x03" and desks()[0].walk(b"".join(encode([ENVIRONMENT.encode(), found, b""])), 0):
        try:
            read = decode_head(found)
        except RemoteProtocolError:
            return
        assert read.verb is Verb.CALL
        assert packed(read.call) in desks()[0].link.routes[ENVIRONMENT.encode()].calls


def link_of(name: str, role: Role | None, origin: str = "pid 1") -> Link:
    """Return the link of a peer, of a stranger without a role."""
    link = Link(1, 0.0, origin)
    link.peer = None if role is None else Peer.of(Admission(name, role, "r", b""))
    return link


@pytest.mark.parametrize("role", [Role.OBSERVER, Role.OPERATOR, Role.ENVIRONMENT, Role.MUSCLE, None])
def test_who_has_much_decided_waits(role: Role | None) -> None:
    """One peer, and all strangers of one origin together, get their share of the broker's time, others their own."""
    shares, link, other = Shares(), link_of("a", role), link_of("b", role, "pid 2")
    waits = [shares.spend(link, 0.01, number * 0.01) for number in range(100)]
    used_s = sum(0.01 for wait in waits if not wait)

    assert waits[0] == 0.0 < waits[-1] <= 0.25
    assert used_s < 0.1 + DECISION_SHARE + 0.02
    assert 0.0 == shares.spend(other, 0.01, 1.0)
    assert 0.0 == shares.spend(link, 0.01, 100.0)


@pytest.mark.parametrize("role", [Role.SUPERVISOR, Role.GOVERNOR, Role.CONTROLLER, Role.STORE])
def test_who_leads_a_run_does_not_wait(role: Role) -> None:
    """However much they ask, nothing of it is held back."""
    shares = Shares()

    assert {0.0} == {shares.spend(link_of("a", role), 1.0, 0.0) for _ in range(9)}
