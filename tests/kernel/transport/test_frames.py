from __future__ import annotations

import pytest

from ganglion.errors import LocalProtocolError
from ganglion.limits import GREETING_BYTES
from ganglion.transport.frames import GREETING, encode, encode_command, encode_error, encode_ready


def test_no_message_without_frames() -> None:
    """A message of no frame cannot be said in ZMTP and is our own mistake."""
    with pytest.raises(LocalProtocolError):
        encode([])


def test_the_greeting_is_that_of_the_specification() -> None:
    """Signature, version 3.1, mechanism NULL, and zeros up to 64 bytes."""
    assert GREETING_BYTES == len(GREETING)
    assert bytes.fromhex("ff00000000000000017f0301") + b"NULL" + bytes(48) == GREETING


def test_commands_are_frames_with_a_flag() -> None:
    """A command has its name before its data; READY says type and identity, a long ERROR is cut."""
    assert b"\x04\x06\x04PINGx" == encode_command(b"PING", b"x")
    assert encode_command(b"PING", bytes(300)).startswith(b"\x06" + (305).to_bytes(8, "big"))
    assert b"Socket-Type\0\0\0\x06ROUTER" in encode_ready(b"ROUTER")
    assert encode_error("x" * 300).endswith(b"\xff" + b"x" * 255)
