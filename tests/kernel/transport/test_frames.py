from __future__ import annotations

import pytest

from ganglion.errors import LocalProtocolError
from ganglion.limits import GREETING_BYTES
from ganglion.transport.frames import GREETING, encode, encode_command, encode_error, encode_ready, frame_header, split


def test_no_message_without_frames() -> None:
    """A message of no frame cannot be said in ZMTP and is our own mistake."""
    with pytest.raises(LocalProtocolError):
        encode([])


def test_the_greeting_is_that_of_the_specification() -> None:
    """Signature, version 3.1, mechanism NULL, and zeros up to 64 bytes."""
    assert GREETING_BYTES == len(GREETING)
    assert bytes.fromhex("ff00000000000000017f0301") + b"NULL" + bytes(48) == GREETING


@pytest.mark.parametrize(
    ("size", "more", "header"),
    [(0, False, "0000"), (255, True, "01ff"), (256, False, "020000000000000100"), (256, True, "030000000000000100")],
)
def test_headers_are_short_where_they_can_be(size: int, more: bool, header: str) -> None:
    """Up to 255 bytes a length is one byte, else eight; the first bit says that a frame follows."""
    assert bytes.fromhex(header) == frame_header(size, more)
    assert bytes.fromhex(header) == encode([bytes(size), b""] if more else [bytes(size)])[0]


def test_commands_are_frames_with_a_flag() -> None:
    """A command has its name before its data; READY says type and identity, a long ERROR is cut."""
    assert b"\x04\x06\x04PINGx" == encode_command(b"PING", b"x")
    assert encode_command(b"PING", bytes(300)).startswith(b"\x06" + (305).to_bytes(8, "big"))
    assert b"Socket-Type\0\0\0\x06ROUTER" in encode_ready(b"ROUTER")
    assert encode_error("x" * 300).endswith(b"\xff" + b"x" * 255)


def test_split_stops_where_it_is_not_plain() -> None:
    """Whole messages are taken; a command, a cut one, or one of too many frames is left where it begins."""
    whole = b"".join(encode([b"to", b"x"]))
    found: list[list[bytes]] = []

    assert 2 * len(whole) == split(whole * 2 + encode_command(b"PING", b"\0\0"), 0, found)
    assert [[b"to", b"x"]] * 2 == found
    assert 0 == split(whole[:-1], 0, [])
    assert 0 == split(whole, 0, [], frames_max=1)
