from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Close, Link, Note, Peer, Route, Send
from ganglion.errors import RemoteProtocolError
from ganglion.limits import DECISION_SHARE, INTEGER_MAX, QUEUE_MARK_BYTES
from ganglion.transport.exchange import LARGE_BYTES, Budget, Exchange, Shares, Waiting, passes
from ganglion.wire.envelope import Head, decode_head, encode_head, packed_call
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


class RecordingSink:
    """Note what is asked of it."""

    def __init__(self, above: bool = False) -> None:
        self.out: list[bytes] = []
        self.large = False
        self.did: list[Any] = []
        self._above = above

    def send(self, frames: Any) -> None:
        """Take a message."""
        self.out += frames

    def flush(self) -> bool:
        """Note what was written."""
        self.did.append(("flush", self.out))
        self.out = []
        return self._above

    def hold(self, sender: Any) -> None:
        """Note who is held."""
        self.did.append(("hold", sender))

    def pause(self) -> None:
        """Note it."""
        self.did.append("pause")

    def resume(self) -> None:
        """Note it."""
        self.did.append("resume")

    def finish(self, reason: str) -> None:
        """Note it."""
        self.did.append(("finish", reason))

    def look(self, now_s: float) -> None:
        """Note it."""
        self.did.append(("look", now_s))


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
    waiting, one, two = Waiting(), RecordingSink(), RecordingSink()
    for sender in (one, two, one):
        waiting.stop(sender)
    waiting.release()
    waiting.release()
    waiting.stop(one)

    assert ["pause", "resume", "pause"] == one.did
    assert ["pause", "resume"] == two.did


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
HEADS = {verb: encode_head(Head(verb, 1, UPDATE)) for verb in Verb}


def route(allowed: int, limit: int = 1) -> Route:
    """Return a route whose way back has one open call."""
    there = Route(allowed, b"a", Link(1, 0.0), limit, frozenset({packed_call(UPDATE)}))
    back = Route(0, b"b", Link(2, 0.0), 1)
    there.back, back.back, back.open = back, there, [b"\x01"]
    return there


@pytest.mark.parametrize("verb", Verb)
def test_only_plain_verbs_pass(verb: Verb) -> None:
    """Without a decision pass CALL, its answers and TELL, where they are allowed."""
    plain = verb in (Verb.CALL, Verb.REPLY, Verb.ERROR, Verb.TELL)

    assert plain == passes(route(1 << verb), HEADS[verb])
    assert not passes(route(~(1 << verb)), HEADS[verb])


def test_calls_are_counted() -> None:
    """As many CALLs pass as may be open, and none to a full destination; as many answers as are owed."""
    way = route(-1)
    assert passes(way, HEADS[Verb.CALL])
    assert not passes(way, HEADS[Verb.CALL])
    assert passes(way, HEADS[Verb.REPLY])
    assert not passes(way, HEADS[Verb.ERROR])
    other = route(-1)
    assert not passes(other, encode_head(Head(Verb.REPLY, 2)))
    assert passes(other, HEADS[Verb.ERROR])
    full = route(-1)
    full.target.queued_bytes = QUEUE_MARK_BYTES + 1
    assert not passes(full, HEADS[Verb.CALL])
    assert ([b"\x01"], []) == (way.open, full.open)


@pytest.mark.parametrize("head", [b"", b"\x93", b"\xdc\x06", b"\x90\x06", b"\x96\x06", b"\x93\x06" + bytes(255)])
def test_odd_heads_do_not_pass(head: bytes) -> None:
    """A head whose second byte need not be its verb is left to the broker."""
    assert not passes(route(-1), head)


# Heads whose call is no right of the route, or stands elsewhere than where a receiver reads it.
DETOURS = [
    encode_head(Head(Verb.CALL, 1)),
    encode_head(Head(Verb.CALL, 1, "environment.reset")),
    encode_head(Head(Verb.CALL, 1, UPDATE + "x")),
    b"\x92\x03\x01" + packed_call(UPDATE),  # behind the end of the array
    b"\x93\x03\xd3" + bytes(7) + b"\x01" + packed_call(UPDATE),  # a signed serial: known, not usual
    b"\x93\x03\x01\xd9\x12" + UPDATE.encode(),  # a name with a length of its own
    b"\x93\x03\x01" + packed_call(UPDATE)[:-1],
    b"\x93\x03\xcf\x01",
    b"\x93\x03",
]


@pytest.mark.parametrize("head", DETOURS)
def test_only_usual_heads_with_a_right_call_pass(head: bytes) -> None:
    """A CALL whose name is no right of this way, or is not where names usually are, is left to the broker."""
    way = route(-1)

    assert (False, []) == (passes(way, head), way.open)


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
    if found[1:2] == b"\x03" and passes(route(-1), found):
        try:
            read = decode_head(found)
        except RemoteProtocolError:
            return
        assert (Verb.CALL, UPDATE) == (read.verb, read.call)


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
