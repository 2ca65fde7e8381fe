from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import RemoteProtocolError
from ganglion.limits import (
    COMMAND_BYTES,
    COMMANDS_PER_S,
    FRAME_BYTES,
    MESSAGE_BYTES_LARGE,
    MESSAGE_FRAMES,
    UNJOINED_MESSAGE_BYTES,
    UNJOINED_MESSAGE_FRAMES,
)
from ganglion.transport.zmtp import (
    GREETING,
    Broken,
    Connection,
    Event,
    Message,
    State,
    encode,
    encode_command,
    encode_error,
    frame_header,
    split,
)

READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\x02me")
SHAKEN = GREETING + READY


def events(connection: Connection, data: bytes, now_s: float = 0.0) -> list[Event]:
    """Return all events of some bytes."""
    found: list[Event] = []
    position = 0
    while position < len(data):
        event, position = connection.advance(data, position, now_s)
        found += [] if event is None else [event]
    return found


def listening(joined: bool = True) -> Connection:
    """Return the broker's side of a connection after its handshake."""
    connection = Connection(listening=True)
    assert [] == events(connection, SHAKEN)
    assert State.HELLO is connection.state
    if joined:
        connection.join(MESSAGE_BYTES_LARGE)
    connection.outgoing.clear()
    return connection


def plain(found: list[Event]) -> list[object]:
    """Return events so that they compare by what was sent and not by the pieces in which it came."""
    return [event.frames if isinstance(event, Message) else event for event in found]


def wire(*frames: bytes) -> bytes:
    """Return a message as bytes."""
    return b"".join(encode(frames))


def reason(found: list[Event]) -> str:
    """Return why a connection broke."""
    assert isinstance(found[-1], Broken)
    return found[-1].reason


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (GREETING[:12] + b"PLAIN".ljust(20, b"\0") + bytes(32), "mechanism: expected NULL, found 'PLAIN'"),
        (GREETING + encode_command(b"READY", b"\x0bSocket-Type\0\0\0\3PUB"), "expected Socket-Type DEALER"),
        (GREETING + encode_command(b"READY", b""), "expected Socket-Type DEALER"),
        (GREETING + encode_command(b"READY", b"\x0bSocket-Type\0\0\0\7DEALER"), "one that is cut"),
        (GREETING + encode_command(b"READY", b"\x0bSocket"), "one that is cut"),
        (GREETING + encode_command(b"READY", b"".join(bytes((1, i, 0, 0, 0, 0)) for i in range(65, 75))), "at most 8"),
        (GREETING + encode_command(b"READY", b"\1a\0\0\0\0\1A\0\0\0\0"), "each once"),
        (
            GREETING + encode_command(b"READY", b"\x0bSocket-Type\0\0\0\6DEALER\x08Identity\0\0\1\0" + bytes(256)),
            "Identity of at most 255",
        ),
        (GREETING + wire(b"x"), "expected READY or ERROR, found MESSAGE"),
        (GREETING + encode_command(b"PING", b"\0\0"), "expected READY or ERROR, found PING"),
        (SHAKEN + READY, "found READY"),
        (SHAKEN + encode_command(b"PONG", b""), "found PONG"),
        (SHAKEN + encode_command(b"SUBSCRIBE", b"a"), "found b'SUBSCRIBE'"),
        (SHAKEN + b"\x04\x00", "found b''"),
        (SHAKEN + b"\x04\x02\x05P", "found b'P'"),
        (SHAKEN + b"\x05", "expected flags"),
        (SHAKEN + b"\x08", "expected flags"),
        (SHAKEN + b"\x81", "expected flags"),
        (SHAKEN + b"\x02\x80" + bytes(7), "frame_bytes"),
        (SHAKEN + b"\x06" + (COMMAND_BYTES + 1).to_bytes(8, "big"), "command_bytes"),
        (SHAKEN + encode_command(b"PING", b"\0"), "PING"),
        (SHAKEN + encode_command(b"PING", bytes(19)), "PING"),
    ],
)
def test_breaches_are_answered_with_an_error(data: bytes, text: str) -> None:
    """A breach behind a good greeting is answered by an ERROR command with the reason, and ends the connection."""
    connection = Connection(listening=True)
    broken = reason(events(connection, data))

    assert text in broken
    assert bytes(connection.outgoing).endswith(encode_error(broken))
    assert [] == events(connection, wire(b"more"))


@pytest.mark.parametrize("major", [0, 1, 2])
def test_an_old_version_is_refused_without_an_error(major: int) -> None:
    """A peer of ZMTP 1 or 2 gets no command, which it could not read."""
    connection = Connection(listening=True)

    assert f"found major version {major}" in reason(events(connection, GREETING[:10] + bytes((major, 5, 0, 0))))
    assert GREETING == bytes(connection.outgoing)


@pytest.mark.parametrize(
    ("joined", "sizes", "text"),
    [
        (True, [FRAME_BYTES], ""),
        (True, [FRAME_BYTES + 1], "frame_bytes"),
        (True, [FRAME_BYTES] * 8, ""),
        (True, [FRAME_BYTES] * 8 + [1], "message_bytes"),
        (True, [0] * MESSAGE_FRAMES, ""),
        (True, [0] * (MESSAGE_FRAMES + 1), "message_frames"),
        (False, [0, 8, UNJOINED_MESSAGE_BYTES - 8], ""),
        (False, [0, 8, UNJOINED_MESSAGE_BYTES - 7], "message_bytes"),
        (False, [0] * UNJOINED_MESSAGE_FRAMES, ""),
        (False, [0] * (UNJOINED_MESSAGE_FRAMES + 1), "message_frames"),
    ],
)
def test_limits_before_memory(joined: bool, sizes: list[int], text: str) -> None:
    """Each limit passes and one more does not, and the refusal comes with the header, before the bytes."""
    connection = listening(joined)
    found: list[Event] = []
    for size in sizes[:-1]:
        found += events(connection, frame_header(size, more=True))
        connection._left = -1 if not size else connection._left
        if size:  # the bytes themselves are of no interest: tell the books that they came
            connection._left = 0
            connection._finish_frame()
    found += events(connection, frame_header(sizes[-1], more=False))

    assert text in (reason(found) if found and isinstance(found[-1], Broken) else "")
    assert bool(text) == (connection.state is State.CLOSING)


def test_ping_and_error() -> None:
    """A PING is answered with its context, except to minor version 0, which knows no PONG; an ERROR is the end."""
    for minor, answer in ((1, encode_command(b"PONG", b"ctx")), (0, b"")):
        connection = Connection(listening=True)
        events(connection, GREETING[:11] + bytes((minor,)) + GREETING[12:] + READY)
        connection.outgoing.clear()
        assert [] == events(connection, encode_command(b"PING", b"\0\0ctx"))
        assert answer == bytes(connection.outgoing)
        assert [Broken("the other side says: no")] == events(connection, encode_error("no"))


def test_commands_have_a_rate() -> None:
    """So many commands in a second pass, one more breaks the connection; the next second is a new one."""
    connection = listening()
    ping = encode_command(b"PING", b"\0\0")

    assert [] == events(connection, ping * (COMMANDS_PER_S - 1), 0.5)  # READY was one
    assert [] == events(connection, ping * COMMANDS_PER_S, 1.6)
    assert "in a second" in reason(events(connection, ping, 1.7))


pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([GREETING, READY, b"\xff", b"\x7f", encode_error("x"), encode_command(b"PING", b"\0\1c")]),
    st.lists(st.binary(max_size=300), min_size=1, max_size=4).map(lambda frames: wire(*frames)),
    st.tuples(st.integers(0, 255), st.integers(0, 2**64 - 1)).map(lambda t: bytes((t[0],)) + t[1].to_bytes(8, "big")),
)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return `data` in the pieces that `cuts` make."""
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(pieces, max_size=8).map(b"".join), st.sampled_from([b"", GREETING]))
def test_only_one_error_comes_out(data: bytes, before: bytes) -> None:
    """The side that decides nothing gets messages or a RemoteProtocolError, and nothing else, from any bytes."""
    connection = Connection(listening=False)
    broken = False
    try:
        assert all(connection.messages(before + data, 0.0))
    except RemoteProtocolError:
        broken = True

    assert broken == (connection.state is State.CLOSING)


@given(st.integers(1, 5), st.integers(1, 5000), st.integers(0, 40))
def test_unfinished_messages_cost_what_has_come(step: int, size: int, before: int) -> None:
    """However small the pieces, an unfinished message is kept in little more than its own bytes, and is counted."""
    connection = listening()
    events(connection, wire(*[b""] * before, b"x")[:-3])
    header = frame_header(MESSAGE_BYTES_LARGE // 8, more=False)
    events(connection, header)
    for _ in range(size // step):
        events(connection, b"y" * step)
    kept = sum(map(sys.getsizeof, connection._frame)) + sys.getsizeof(connection._tail or b"")

    assert size // step * step == connection.arrived_bytes
    assert before == len(connection._frames)
    assert len(connection._frame) <= size // 60_000 + 1
    assert kept <= 2 * size + 1024


@given(st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=5), max_size=6), st.binary(max_size=20))
def test_fast_and_slow_way_agree(messages: list[list[bytes]], noise: bytes) -> None:
    """What `split` takes out of any bytes is what the table of states gives, in the same order."""
    data = b"".join(wire(*frames) for frames in messages) + noise
    fast: list[list[bytes]] = []
    split(data, 0, fast)
    slow = plain(events(listening(), data))

    assert messages == fast[: len(messages)]
    assert fast == slow[: len(fast)]
