"""Frames of ZMTP 3: messages and commands as bytes, and the fast way back for plain messages."""

from __future__ import annotations

from collections.abc import Sequence

from ganglion.errors import LocalProtocolError
from ganglion.limits import GREETING_BYTES, MESSAGE_FRAMES

MORE, LONG, COMMAND = 1, 2, 4  # the flag bits of a frame's first byte; all others are reserved

_ERROR_TEXT_BYTES = 255  # the length of an ERROR's reason is one byte

GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
assert len(GREETING) == GREETING_BYTES

_SHORT_LAST = tuple(bytes((0, n)) for n in range(256))
_SHORT_MORE = tuple(bytes((MORE, n)) for n in range(256))


def frame_header(size: int, more: bool) -> bytes:
    """Return the header of a frame of `size` bytes: two bytes up to 255, else nine."""
    if size < 256:
        return _SHORT_MORE[size] if more else _SHORT_LAST[size]
    return (b"\x03" if more else b"\x02") + size.to_bytes(8, "big")


def encode(frames: Sequence[bytes]) -> list[bytes]:
    """Return a message as the pieces that go on the wire, frames uncopied; LocalProtocolError if there is none."""
    if not frames:
        raise LocalProtocolError("expected a message of at least one frame, found none")
    parts: list[bytes] = []
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        size = len(frame)
        if size > 255:
            parts.append((b"\x03" if index < last else b"\x02") + size.to_bytes(8, "big"))
        else:
            parts.append(_SHORT_MORE[size] if index < last else _SHORT_LAST[size])
        parts.append(frame)
    return parts


def encode_command(name: bytes, data: bytes) -> bytes:
    """Return a command frame."""
    body = bytes((len(name),)) + name + data
    if len(body) < 256:
        return bytes((COMMAND, len(body))) + body
    return bytes((COMMAND | LONG,)) + len(body).to_bytes(8, "big") + body


def encode_error(reason: str) -> bytes:
    """Return an ERROR command; the reason is cut to what its length byte can say."""
    data = reason.encode("ascii", "replace")[:_ERROR_TEXT_BYTES]
    return encode_command(b"ERROR", bytes((len(data),)) + data)


def encode_ready(socket_type: bytes) -> bytes:
    """Return a READY command with a socket type and an empty identity."""
    data = b""
    for name, value in ((b"Socket-Type", socket_type), (b"Identity", b"")):
        data += bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value
    return encode_command(b"READY", data)


def split(data: bytes, start: int, messages: list[list[bytes]], frames_max: int = MESSAGE_FRAMES) -> int:
    """Append the plain messages that begin at `start` and are complete, and return where the first other one begins.

    Whatever is not plain (a command, an unfinished message, a breach of the protocol) is left to `Connection.advance`.
    """
    end = len(data)
    try:
        while start < end:
            frames: list[bytes] = []
            stop = start
            more = 1
            while more:
                flags = data[stop]
                if flags < 2:
                    begin = stop + 2
                    stop = begin + data[stop + 1]
                elif flags < 4:
                    begin = stop + 9
                    stop = begin + int.from_bytes(data[stop + 1 : begin], "big")
                else:
                    return start
                frames.append(data[begin:stop])
                more = flags & 1
            if stop > end or len(frames) > frames_max:
                return start
            messages.append(frames)
            start = stop
    except IndexError:  # the chunk ends within a header; cheaper than asking at each byte
        pass
    return start
