"""Tapes: the records of what a process heard and said, as bytes; pure.

A participant writes down what it hears before it acts on it. Its successor hears it again, and stands where it stood:
message logging by the receiver (Strom and Yemini, 1985; Alvisi and Marzullo, 1998).

A tape is `MAGIC` and records `[head][payload]`; the head, little-endian, is length and CRC-32 of the payload, the kind,
the monotonic time in seconds, and the CRC-32 of all this. Writing only ever breaks off: what follows the last whole
record was never acted on, and does not count; a whole head or payload that does not fit its CRC is damage.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import Any, NamedTuple

import msgpack

from ganglion.errors import RemoteProtocolError
from ganglion.wire.envelope import decode_head
from ganglion.wire.verb import Verb

__all__ = [
    "MAGIC",
    "Kind",
    "Record",
    "base_record",
    "digest",
    "frames_of",
    "heard_record",
    "last_request",
    "late_record",
    "read_base",
    "read_records",
    "read_serials",
    "record",
]

MAGIC = b"ganglion tape 1\n"
_HEAD = struct.Struct("<IIBd")
_LENGTH = _CHECK = struct.Struct("<I")
_HEAD_BYTES = _HEAD.size + _CHECK.size
_DIGEST_BYTES = 16
_LATEST_S = 1e12  # no clock that counts from the start of a machine gets there


class Kind(IntEnum):
    """What a record says."""

    HEARD = 1  # a message: its frames
    TICK = 2  # that there was nothing to hear, and the clock was looked at
    LATE = 3  # calls whose deadline has passed: their serials
    SAID = 4  # a CALL or REPLY: its digest
    BASE = 5  # where the process stood when the tape was begun anew
    GIVEN_UP = 6  # that nothing more is written


class Record(NamedTuple):
    """One record; `end` is where it ends in the tape."""

    kind: Kind
    time_s: float
    payload: bytes
    end: int


def record(kind: Kind, time_s: float, payload: bytes = b"") -> bytes:
    """Return a record as bytes."""
    head = _HEAD.pack(len(payload), zlib.crc32(payload), kind, time_s)
    return head + _CHECK.pack(zlib.crc32(head)) + payload


def heard_record(time_s: float, frames: Sequence[bytes]) -> bytes:
    """Return the record of a message."""
    parts = [part for frame in frames for part in (_LENGTH.pack(len(frame)), frame)]
    return record(Kind.HEARD, time_s, b"".join(parts))


def late_record(time_s: float, serials: Sequence[int]) -> bytes:
    """Return the record of calls whose deadline has passed."""
    return record(Kind.LATE, time_s, msgpack.packb(list(serials)))


def base_record(time_s: float, serial: int, state: Any, answers: Any = ()) -> bytes:
    """Return the record of where a process stood: its last serial, what its host wants to know again, last answers."""
    return record(Kind.BASE, time_s, msgpack.packb([serial, state, list(answers)]))


def digest(frames: Sequence[bytes]) -> bytes:
    """Return the 16 bytes that stand for a message."""
    found = blake2b(digest_size=_DIGEST_BYTES)
    for frame in frames:
        found.update(_LENGTH.pack(len(frame)))
        found.update(frame)
    return found.digest()


def frames_of(payload: bytes) -> list[bytes]:
    """Return the frames of a message that was heard; RemoteProtocolError if they are none."""
    frames, place = [], 0
    while place < len(payload):
        start = place + _LENGTH.size
        place = start + int.from_bytes(payload[place:start], "little")
        frames.append(payload[start:place])
    if place != len(payload):
        raise RemoteProtocolError(f"tape: expected {place} bytes of frames, found {len(payload)}")
    return frames


def read_serials(payload: bytes) -> list[int]:
    """Return the serials of calls whose deadline has passed; RemoteProtocolError if they are none."""
    found = _unpacked(payload)
    if not isinstance(found, list) or not all(type(serial) is int for serial in found):
        raise RemoteProtocolError(f"tape: expected a list of serials, found {type(found).__name__}")
    return found


def read_base(payload: bytes) -> tuple[int, Any, list[Any]]:
    """Return serial, state and answers of a base; RemoteProtocolError if it is none."""
    found = _unpacked(payload)
    if not isinstance(found, list) or [int, list] != [type(part) for part in found[::2]] or len(found) != 3:
        raise RemoteProtocolError(
            f"tape: expected serial, state and answers of a base, found {type(found).__name__}"
        )
    return found[0], found[1], found[2]


def _unpacked(payload: bytes) -> Any:
    try:
        return msgpack.unpackb(payload, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"tape: expected msgpack, found {payload[:16].hex()}") from error


def read_records(tape: Any) -> Iterator[Record]:
    """Yield the whole records of a tape, which is anything with slices and a length.

    Raises:
        RemoteProtocolError: It is no tape, or a record is damaged.
    """
    size, place = len(tape), len(MAGIC)
    if size < place:
        return  # it was begun, and nothing was heard
    if bytes(tape[:place]) != MAGIC:
        raise RemoteProtocolError(f"expected a tape, found {bytes(tape[:16])!r}")
    while place + _HEAD_BYTES <= size:
        head, start = bytes(tape[place : place + _HEAD.size]), place + _HEAD_BYTES
        (check,) = _CHECK.unpack(tape[place + _HEAD.size : start])
        length, payload_check, kind, time_s = _HEAD.unpack(head)
        known = kind in _KINDS and abs(time_s) < _LATEST_S  # nor is it not a number
        if zlib.crc32(head) != check or not known:
            raise RemoteProtocolError(f"tape: the head of the record at byte {place} of {size} is damaged")
        end = start + length
        if end > size:
            return  # the last one was not written to its end
        payload = bytes(tape[start:end])
        if zlib.crc32(payload) != payload_check:
            raise RemoteProtocolError(f"tape: the record at byte {place} of {size} is damaged")
        yield Record(Kind(kind), time_s, payload, end)
        place = end


def last_request(tape: Any) -> str:
    """Return which call a process heard last, and where in the run; empty if it heard none."""
    found = ""
    for one in read_records(tape):
        if one.kind is Kind.HEARD:
            head = decode_head((*frames_of(one.payload), b"", b"")[1])
            if head.verb is Verb.CALL:
                place = (
                    "" if head.position is None else f", episode {head.position[2]}, step {head.position[4]}"
                )
                found = f"{head.call}{place}"
    return found


_KINDS = frozenset(Kind)
