"""One message: its peer, its head, its body, its blobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from ganglion.errors import RemoteProtocolError
from ganglion.limits import HEAD_BYTES, INTEGER_MAX
from ganglion.wire.verb import Verb

Position = tuple[int, int, int, int, int, int]
"""(phase, worker, episode, attempt, step, leg): the place in the run, and the identity of a repeated message."""

_VERBS = {verb.value: verb for verb in Verb}
_pack = msgpack.Packer(autoreset=True).pack


class Head(NamedTuple):
    """Describe a message: verb, serial, call, position, deadline."""

    verb: Verb
    serial: int = 0  # counts the CALLs of one caller and correlates REPLY and ERROR
    call: str = ""  # a name of the table of calls
    position: Position | None = None  # the place in the run
    deadline_ms: int | None = None  # how long the caller waits


@dataclass(frozen=True, slots=True)
class Envelope:
    """Hold one message as sent or received by a peer."""

    peer: str  # destination or source; empty is the kernel
    head: Head
    body: bytes = b""  # encoded; empty for none
    blobs: tuple[bytes, ...] = ()


def encode_head(head: Head) -> bytes:
    """Return the head as one msgpack array without trailing elements that have their default."""
    if head.deadline_ms is not None:
        return _pack([head.verb.value, head.serial, head.call, head.position, head.deadline_ms])
    if head.position is not None:
        return _pack([head.verb.value, head.serial, head.call, head.position])
    if head.call:
        return _pack([head.verb.value, head.serial, head.call])
    return _pack([head.verb.value, head.serial])


def packed(element: str | int) -> bytes:
    """Return a serial, or the name of a call, as an element of a head."""
    return _pack(element)


def decode_head(data: bytes) -> Head:
    """Return the head in `data`; RemoteProtocolError names a wrong element."""
    if len(data) > HEAD_BYTES:
        raise RemoteProtocolError(f"head: expected at most {HEAD_BYTES} bytes, found {len(data)}")
    try:
        fields = msgpack.unpackb(data, use_list=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:  # TypeError: a map as the key of a map
        raise RemoteProtocolError(f"head: expected a msgpack array, found {data[:16].hex()}") from error
    if type(fields) is not tuple or not fields:
        raise RemoteProtocolError(f"head: expected an array that begins with a verb, found {type(fields).__name__}")
    number, serial, call, position, deadline_ms = (fields + _NOTHING[len(fields) :])[:5]
    verb = _VERBS.get(number) if type(number) is int else None
    if verb is None:
        raise RemoteProtocolError(f"head[0]: expected a verb 1 to {max(_VERBS)}, found {str(number)[:40]}")
    if type(serial) is not int or not 0 <= serial <= INTEGER_MAX:
        raise RemoteProtocolError(f"head[1]: expected a serial 0 to 2**53 - 1, found {str(serial)[:40]}")
    if call is None:
        call = ""
    if type(call) is not str:
        raise RemoteProtocolError(f"head[2]: expected the name of a call, found {type(call).__name__}")
    if position is not None:
        if type(position) is not tuple or len(position) != 6:
            raise RemoteProtocolError("head[3]: expected [phase, worker, episode, attempt, step, leg] or nil")
        for element in position:
            if type(element) is not int or not 0 <= element <= INTEGER_MAX:
                raise RemoteProtocolError(f"head[3]: expected six counts, found {str(element)[:40]}")
    if deadline_ms is not None and (type(deadline_ms) is not int or not 0 <= deadline_ms <= INTEGER_MAX):
        raise RemoteProtocolError(f"head[4]: expected milliseconds, found {str(deadline_ms)[:40]}")
    return _tuple(Head, (verb, serial, call, position, deadline_ms))  # without its constructor: this is done so often


_NOTHING: tuple[Any, ...] = (0, 0, "", None, None)  # what the elements of a head are if they are left out
_tuple = tuple.__new__


def encode(envelope: Envelope) -> list[bytes]:
    """Return the frames `[peer][head][body][blob ...]`."""
    return [envelope.peer.encode(), encode_head(envelope.head), envelope.body, *envelope.blobs]


def decode(frames: Sequence[bytes]) -> Envelope:
    """Return the envelope in `frames`; RemoteProtocolError names a wrong frame."""
    if len(frames) < 2:
        raise RemoteProtocolError(f"expected the frames [peer][head][body][blob ...], found {len(frames)}")
    try:
        peer = bytes(frames[0]).decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError("frame 0: expected the name of a peer in UTF-8") from error
    body = frames[2] if len(frames) > 2 else b""
    return Envelope(peer, decode_head(frames[1]), body, tuple(frames[3:]))
