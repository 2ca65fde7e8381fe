from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import RemoteProtocolError
from ganglion.wire import journal
from ganglion.wire.journal import MAGIC, Kind

FRAMES = st.lists(st.binary(max_size=40), max_size=6)
RECORDS = st.lists(st.tuples(st.floats(0, 1e6), FRAMES), max_size=6)


def block(entries: list[journal.Entry]) -> bytes:
    """Return a block in one piece."""
    return b"".join(journal.block(entries))


def framed(entries: Any) -> bytes:
    """Return a block of anything, with the right size and check."""
    payload = msgpack.packb(entries)
    size, check = len(payload), zlib.crc32(payload)
    return struct.pack("<III", size, check, size ^ check ^ 0xFFFFFFFF) + payload


def written(heard: list[tuple[float, list[bytes]]], together: int = 1) -> bytes:
    """Return a journal of these messages, so many in each block."""
    entries = [(Kind.HEARD, time_s, frames) for time_s, frames in heard]
    blocks = [entries[n : n + together] for n in range(0, len(entries), together)]
    return MAGIC + b"".join(map(block, blocks))


@given(RECORDS, st.integers(1, 3))
def test_what_was_written_is_read(heard: list[tuple[float, list[bytes]]], together: int) -> None:
    """Times and frames come back as they were, in their order, however many of them were written at once."""
    whole = written(heard, together)
    found = [(one.time_s, journal.frames_of(one.payload)) for one in journal.read_records(whole)]

    assert heard == found


@given(RECORDS, st.integers(1, 3), st.data())
def test_torn_end_does_not_count(heard: list[tuple[float, list[bytes]]], together: int, data: st.DataObject) -> None:
    """A journal that ends anywhere is read up to its last whole block: nothing was done because of what is missing."""
    whole = written(heard, together)
    ends = [one.end for one in journal.read_records(whole)]
    size = data.draw(st.integers(0, len(whole)))
    found = list(journal.read_records(whole[:size]))

    assert [end for end in ends if end <= size] == [one.end for one in found]


@given(RECORDS.filter(lambda heard: len(heard) > 1), st.data())
def test_damage_before_the_end_is_found(heard: list[tuple[float, list[bytes]]], data: st.DataObject) -> None:
    """A byte of a block that is another one, also of its length, is an error and never another message or an end."""
    whole = bytearray(written(heard))
    first = next(journal.read_records(bytes(whole)))
    place = data.draw(st.integers(len(MAGIC), first.end - 1))
    whole[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(RemoteProtocolError, match="damaged"):
        list(journal.read_records(bytes(whole)))


@pytest.mark.parametrize(
    ("read", "payload"),
    [
        (journal.frames_of, None),
        (journal.frames_of, b"\x05\0\0\0abc"),
        (journal.frames_of, [b"a", "b"]),
        (journal.read_serials, {}),
        (journal.read_serials, ["a"]),
        (journal.read_serials, [True]),
        (journal.read_base, [1, None, 1]),
        (journal.read_base, [1, []]),
        (journal.read_base, 7),
    ],
)
def test_payloads_of_another_kind_are_refused(read: Callable[[object], object], payload: object) -> None:
    """A supervisor reads the journals of its participants: what they wrote ends in an error that it expects."""
    with pytest.raises(RemoteProtocolError, match="journal"):
        read(payload)


@pytest.mark.parametrize(
    "entries", [7, [7], [[1, 1.0]], [[0, 1.0, []]], [[1, 1, []]], [[True, 1.0, []]], [["1", 1.0, []]], [[[], 1.0, []]]]
)
def test_records_of_another_shape_are_damage(entries: Any) -> None:
    """What has its check right and is no list of records was written by somebody else."""
    with pytest.raises(RemoteProtocolError, match="damaged"):
        list(journal.read_records(MAGIC + framed(entries)))


def test_large_messages_leave_nothing_behind() -> None:
    """Behind a large message the next ones are as they were."""
    large = block([(Kind.HEARD, 1.0, [bytes(3 << 20)])])
    small = block([(Kind.HEARD, 2.0, [b"a"])])

    assert [1.0, 2.0] == [one.time_s for one in journal.read_records(MAGIC + large + small)]


@given(st.integers(0, 1 << 60), st.none() | st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3))
def test_base_and_late_serials_come_back(serial: int, state: object) -> None:
    """Serial and state of a base, and the serials of calls whose deadline has passed, are those that were written."""
    entries = [(Kind.BASE, 1.0, (serial, state, [["a", 1]])), (Kind.LATE, 1.0, [3, serial])]
    one, late = journal.read_records(MAGIC + block(entries))

    assert (Kind.BASE, (serial, state, [["a", 1]])) == (one.kind, journal.read_base(one.payload))
    assert [3, serial] == journal.read_serials(late.payload)


@given(FRAMES, FRAMES)
def test_digest_tells_messages_apart(one: list[bytes], other: list[bytes]) -> None:
    """Equal frames have the same digest, others another one, also where they are cut elsewhere."""
    assert (one == other) == (journal.digest(one) == journal.digest(other))
