from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.broker.link import Link, Route
from ganglion.errors import RemoteProtocolError
from ganglion.limits import INTEGER_MAX
from ganglion.transport.exchange import LARGE_BYTES, Budget, Waiting, passes
from ganglion.wire.envelope import Head, decode_head, encode_call, encode_head, packed_call
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


def route(allowed: int, limit: int = 1) -> Route:
    """Return a route whose way back has one open call."""
    there = Route(allowed, b"a", Link(1, 0.0), limit, frozenset({packed_call(UPDATE)}))
    back = Route(0, b"b", Link(2, 0.0), 1)
    there.back, back.back, back.open = back, there, [b"\x01"]
    return there


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
    head = bytearray(encode_call(serial, call, (0, 0, 1, 1, 2, 3), None))
    for place, byte in changes:
        head[place % len(head)] = byte
    found = bytes(head[: length or len(head)])
    if found[1:2] == b"\x03" and passes(route(-1), found):
        try:
            read = decode_head(found)
        except RemoteProtocolError:
            return
        assert (Verb.CALL, UPDATE) == (read.verb, read.call)
