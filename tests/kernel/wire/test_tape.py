from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import RemoteProtocolError
from ganglion.wire import tape
from ganglion.wire.envelope import Head, encode_call, encode_head
from ganglion.wire.tape import MAGIC, Kind
from ganglion.wire.verb import Verb

FRAMES = st.lists(st.binary(max_size=40), max_size=6)
RECORDS = st.lists(st.tuples(st.floats(0, 1e6), FRAMES), max_size=6)


def written(heard: list[tuple[float, list[bytes]]]) -> bytes:
    """Return a tape of these messages."""
    return MAGIC + b"".join(tape.heard_record(time_s, frames) for time_s, frames in heard)


@given(RECORDS)
def test_what_was_written_is_read(heard: list[tuple[float, list[bytes]]]) -> None:
    """Times and frames come back as they were, in their order."""
    found = [(one.time_s, tape.frames_of(one.payload)) for one in tape.read_records(written(heard))]

    assert heard == found


@given(RECORDS, st.data())
def test_torn_end_does_not_count(heard: list[tuple[float, list[bytes]]], data: st.DataObject) -> None:
    """A tape that ends anywhere is read up to its last whole record: nothing was done because of what is not there."""
    whole = written(heard)
    ends = [one.end for one in tape.read_records(whole)]
    size = data.draw(st.integers(0, len(whole)))
    found = list(tape.read_records(whole[:size]))

    assert [end for end in ends if end <= size] == [one.end for one in found]


@given(RECORDS.filter(lambda heard: len(heard) > 1), st.data())
def test_damage_before_the_end_is_found(heard: list[tuple[float, list[bytes]]], data: st.DataObject) -> None:
    """A byte of a record that is another one, with whole records behind it, is an error and never another message.

    Its length apart: a tape may end within any record.
    """
    whole = bytearray(written(heard))
    first = next(tape.read_records(bytes(whole)))
    place = data.draw(st.integers(len(MAGIC) + 4, first.end - 1))
    whole[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(RemoteProtocolError, match="damaged"):
        list(tape.read_records(bytes(whole)))


@pytest.mark.parametrize("time_s", [float("nan"), float("inf"), float("-inf"), 1e300])
def test_a_time_that_is_none_is_damage(time_s: float) -> None:
    """A clock never says such a time, and nothing is reckoned with it."""
    whole = MAGIC + tape.record(Kind.TICK, time_s) + tape.record(Kind.TICK, 1.0)

    with pytest.raises(RemoteProtocolError, match="damaged"):
        list(tape.read_records(whole))


@pytest.mark.parametrize(
    ("read", "payload"),
    [
        (tape.frames_of, b"\x05\0\0\0abc"),
        (tape.frames_of, b"\x01"),
        (tape.read_serials, b"\xc1"),
        (tape.read_serials, b"\x91\xa1a"),
        (tape.read_serials, b"\x80"),
        (tape.read_base, b"\x93\x01\xc0\x01"),
        (tape.read_base, b"\x92\x01\x90"),
        (tape.read_base, b"\x07"),
    ],
)
def test_payloads_of_another_kind_are_refused(read: Callable[[bytes], object], payload: bytes) -> None:
    """A supervisor reads the tapes of its participants: what they wrote ends in an error that it expects."""
    with pytest.raises(RemoteProtocolError, match="tape"):
        read(payload)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """Whatever a file holds, it is a tape or a RemoteProtocolError."""
    for content in (data, MAGIC + data):
        with contextlib.suppress(RemoteProtocolError):
            list(tape.read_records(content))


@given(
    st.integers(0, 1 << 60), st.none() | st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3)
)
def test_base_comes_back(serial: int, state: object) -> None:
    """Serial and state of a base are those that were written."""
    (one,) = tape.read_records(MAGIC + tape.base_record(1.0, serial, state, [["a", 1]]))

    assert (Kind.BASE, (serial, state, [["a", 1]])) == (one.kind, tape.read_base(one.payload))


def test_late_serials_come_back() -> None:
    """The serials of calls whose deadline has passed are those that were written."""
    (one,) = tape.read_records(MAGIC + tape.late_record(1.0, [3, 1 << 40]))

    assert [3, 1 << 40] == tape.read_serials(one.payload)


@given(FRAMES, FRAMES)
def test_digest_tells_messages_apart(one: list[bytes], other: list[bytes]) -> None:
    """Equal frames have the same digest, others another one, also where they are cut elsewhere."""
    assert (one == other) == (tape.digest(one) == tape.digest(other))


def test_last_request_says_where() -> None:
    """Where a process stood is told by the last CALL that it heard."""
    call = encode_call(7, "muscle.act", (0, 1, 4, 0, 118, 0), None)
    heard = [(1.0, [b"a", call, b""]), (2.0, [b"b", encode_head(Head(Verb.REPLY, 3)), b""])]

    assert "muscle.act, episode 4, step 118" == tape.last_request(written(heard))
    assert not tape.last_request(MAGIC)
