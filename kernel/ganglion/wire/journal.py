"""Journals: the records of what a process received and sent, as bytes; pure.

A participant records a message before it acts on the message. Its successor replays the records and reaches the same
state: message logging by the receiver (Strom and Yemini, 1985; Alvisi and Marzullo, 1998).

A journal is `MAGIC` and blocks `[head][payload]`, each written at once. The head has three words of 32 bits,
little-endian: length and CRC-32 of the payload, and the complement of the two, one xor the other. The payload is a list
of records `[kind, time, payload]` in msgpack, the time in monotonic seconds. An incomplete block at the end was never
acted on and does not count; a complete head or payload with a wrong checksum is damage.

A blob of more than `LARGE_BYTES` is a file beside the journals, which name it by checksum and length.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgpack

from ganglion.errors import LimitExceeded, RemoteProtocolError
from ganglion.wire.envelope import decode_head
from ganglion.wire.verb import Verb

MAGIC = b"ganglion journal 5\n"
HEAD = struct.Struct("<III")
ONES = 0xFFFFFFFF
LARGE_BYTES = 64 * 1024
LARGE_FOLDER = "large"
_DIGEST_BYTES = 16
_BIN = struct.Struct(">BI")  # msgpack's head of bytes with a length of 32 bits
_LATEST_S = 1e12  # beyond any clock that counts from the start of a machine

Entry: TypeAlias = tuple[int, float, Any]
"""A record to be written: kind, time, and payload as described by `Kind`."""


class Kind(IntEnum):
    """The kind of a record."""

    HEARD = 1  # a received message: its frames
    TICK = 2  # nothing was received; the clock was read
    LATE = 3  # calls whose deadline passed: their serials
    SAID = 4  # a CALL or REPLY was sent: digest of all since the last such record
    BASE = 5  # a compacted journal: last serial, state of the host, last answers
    GIVEN_UP = 6  # the journal was given up


class Record(NamedTuple):
    """One record; `end` is the end of its block in the journal."""

    kind: Kind
    time_s: float
    payload: Any
    end: int


def block(entries: Sequence[Entry]) -> list[bytes | memoryview]:
    """Return records as one block, in pieces of bytes.

    Large bytes are pieces of their own and not copied, since packing gigabytes would block all threads. LimitExceeded:
    the records are too large for a block.
    """
    pieces: list[bytes | memoryview] = []
    packer = msgpack.Packer(autoreset=False, unicode_errors="surrogatepass")
    _cut(entries, packer, pieces)
    pieces.append(packer.bytes())
    size, check = sum(map(len, pieces)), 0
    if size > ONES:
        raise LimitExceeded(f"journal: expected a state of less than 4 GiB, found {size} bytes")
    for piece in pieces:
        check = zlib.crc32(piece, check)
    return [HEAD.pack(size, check, size ^ check ^ ONES), *pieces]


def _cut(tree: Any, packer: msgpack.Packer, pieces: list[bytes | memoryview]) -> None:
    """Pack a tree into pieces, large bytes uncopied; together they are what msgpack makes."""
    if isinstance(tree, list | tuple):
        packer.pack_array_header(len(tree))
        for inner in tree:
            _cut(inner, packer, pieces)
    elif isinstance(tree, dict):
        packer.pack_map_header(len(tree))
        for key, inner in tree.items():
            packer.pack(key)
            _cut(inner, packer, pieces)
    elif isinstance(tree, bytes | memoryview) and len(tree) > LARGE_BYTES:
        pieces += [packer.bytes() + _BIN.pack(0xC6, len(tree)), tree]
        packer.reset()
    else:
        packer.pack(tree)


def digest(frames: Sequence[bytes]) -> bytes:
    """Return the 16-byte digest of a message."""
    found = blake2b(digest_size=_DIGEST_BYTES)
    for frame in frames:
        found.update(len(frame).to_bytes(8, "little"))  # the lengths of frames count
        found.update(frame)
    return found.digest()


def large_name(frame: bytes) -> str:
    """Return the name of a large blob in journals; another blob may have the same name."""
    return f"{zlib.crc32(frame):08x}-{len(frame)}"


def large_names(payload: Any) -> dict[str, int]:
    """Return the large blobs of a received message, with lengths; RemoteProtocolError: the payload is no message."""
    frames: list[Any] = payload if type(payload) is list else [None]
    names = [frame for frame in frames if type(frame) is not bytes]
    if not all(type(name) is str and _NAME.fullmatch(name) for name in names):
        raise RemoteProtocolError(f"journal: expected a list of frames, found {type(payload).__name__}")
    return {name: int(name.partition("-")[2]) for name in names}


def frames_of(payload: Any, large: Callable[[str], bytes] = lambda name: b"") -> list[bytes]:
    """Return the frames of a received message, with blobs read by `large`; RemoteProtocolError: they are none."""
    names = large_names(payload)
    return [large(frame) if type(frame) is str else frame for frame in payload] if names else payload


def read_serials(payload: Any) -> list[int]:
    """Return the serials of calls whose deadline passed; RemoteProtocolError: the payload has none."""
    if type(payload) is not list or not all(type(serial) is int for serial in payload):
        raise RemoteProtocolError(f"journal: expected a list of serials, found {type(payload).__name__}")
    return payload


def read_base(payload: Any) -> tuple[int, Any, list[Any]]:
    """Return serial, state and answers of a compacted journal; RemoteProtocolError: the payload has none."""
    if type(payload) is not list or len(payload) != 3 or [int, list] != [type(part) for part in payload[::2]]:
        raise RemoteProtocolError(
            f"journal: expected serial, state and answers of a base, found {type(payload).__name__}"
        )
    return payload[0], payload[1], payload[2]


def read_records(journal: Any) -> Iterator[Record]:
    """Yield the records of the complete blocks of a journal, given as an object with slices and a length.

    RemoteProtocolError: the bytes are no journal, or a block is damaged.
    """
    size, place = len(journal), len(MAGIC)
    if size < place:
        return  # begun, and nothing was received
    if bytes(journal[:place]) != MAGIC:
        raise RemoteProtocolError(f"expected a journal, found {bytes(journal[:16])!r}")
    while place + HEAD.size <= size:
        start = place + HEAD.size
        length, check, both = HEAD.unpack(journal[place:start])
        if both != length ^ check ^ ONES:
            raise RemoteProtocolError(f"journal: the head of the block at byte {place} of {size} is damaged")
        end = start + length
        if end > size:
            return  # the last block is incomplete
        payload = bytes(journal[start:end])
        entries = _unpacked(payload) if zlib.crc32(payload) == check else None
        if type(entries) is not list or not all(map(_is_entry, entries)):
            raise RemoteProtocolError(f"journal: the block at byte {place} of {size} is damaged")
        for kind, time_s, what in entries:
            yield Record(Kind(kind), time_s, what, end)
        place = end


def _unpacked(payload: bytes) -> Any:
    """Return the value of msgpack bytes, None if they are invalid."""
    try:
        return msgpack.unpackb(payload, strict_map_key=False, unicode_errors="surrogatepass")
    except (ValueError, TypeError, msgpack.UnpackException):
        return None


def _is_entry(found: Any) -> bool:
    return (
        type(found) is list
        and len(found) == 3
        and type(found[0]) is int
        and found[0] in _KINDS
        and type(found[1]) is float
        and abs(found[1]) < _LATEST_S  # nor NaN
    )


def last_request(journal: Any) -> str:
    """Return the last received call of a process, and its place in the run; empty without one."""
    found = ""
    for one in read_records(journal):
        if one.kind is Kind.HEARD:
            head = decode_head((*frames_of(one.payload), b"", b"")[1])
            if head.verb is Verb.CALL:
                place = "" if head.position is None else f", episode {head.position[2]}, step {head.position[4]}"
                found = f"{head.call}{place}"
    return found


_KINDS = frozenset(Kind)
_NAME = re.compile(r"[0-9a-f]{8}-[0-9]{1,12}")
