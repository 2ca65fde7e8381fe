"""libzmq on the other side: what its DEALER says we understand, what we say it does, and no ROUTER delivers more."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import select
import socket
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from ganglion.limits import MESSAGE_BYTES_LARGE
from ganglion.transport.zmtp import GREETING, Broken, Connection, Message, State, encode, encode_command, encode_error

READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER")


def take(zmtp: Connection, data: bytes) -> tuple[list[list[bytes]], str]:
    """Return the messages of a chunk and why the connection is over, if it is; who has shaken hands has joined."""
    found, broken, position = [], "", 0
    while position < len(data):
        event, position = zmtp.advance(data, position, 0.0)
        if zmtp.state is State.HELLO:
            zmtp.join(MESSAGE_BYTES_LARGE)
        if isinstance(event, Message):
            found.append(event.frames)
        elif isinstance(event, Broken):
            broken = event.reason
    return found, broken


# == what a ROUTER delivers ===========================================================================================
class Router:
    """Be a ROUTER of libzmq to which raw bytes are said."""

    def __init__(self, folder: Path) -> None:
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.linger = 0
        self.at = str(folder / "router.sock")
        self.socket.bind(f"ipc://{self.at}")

    def deliver(self, shake: bytes, pieces: Sequence[bytes]) -> list[list[bytes]]:
        """Return what it delivers of a handshake and what follows; the last message is END.

        It is given time for its READY: libzmq takes no message that comes before that is out.
        """
        found: list[list[bytes]] = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw, contextlib.suppress(OSError):
            raw.connect(self.at)
            raw.sendall(shake)
            heard = 0
            while heard <= len(GREETING) and select.select([raw], [], [], 0.2)[0]:
                data = raw.recv(4096)
                if not data:
                    return found
                heard += len(data)
            for piece in pieces:
                raw.sendall(piece)
            while not found or found[-1] != END:
                if self.socket.poll(50):
                    found.append(self.socket.recv_multipart()[1:])
                elif _over(raw):
                    break
        while self.socket.poll(0):
            found.append(self.socket.recv_multipart()[1:])
        return found


def _over(raw: socket.socket) -> bool:
    """Say whether the other side has closed, or has read all that was said."""
    left = bytearray(4)
    fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, left)
    return not any(left) or bool(select.select([raw], [], [], 0)[0] and not raw.recv(65_536))


END = [b"end of the test"]
message = st.lists(st.sampled_from([b"", b"a", b"x" * 255, b"y" * 256, b"z" * 700]), min_size=1, max_size=4)
ping = st.binary(max_size=16).map(lambda context: encode_command(b"PING", b"\0\0" + context))


def long_form(frames: list[bytes]) -> bytes:
    """Return a message with all lengths in eight bytes."""
    last = len(frames) - 1
    return b"".join(bytes((2 | (i < last),)) + len(frame).to_bytes(8, "big") + frame for i, frame in enumerate(frames))


def broken_by_ping(frames: list[bytes], command: bytes) -> bytes:
    """Return a message with a command before each frame."""
    parts = encode(frames)
    return b"".join(command + parts[i] + parts[i + 1] for i in range(0, len(parts), 2))


said = st.one_of(
    message.map(lambda frames: b"".join(encode(frames))),
    message.map(long_form),
    st.builds(broken_by_ping, message, ping),
    ping,
    st.sampled_from(
        [encode_error("no"), encode_command(b"PONG", b""), READY, b"\x05\0", b"\x08\0", b"\x02" + b"\xff" * 8]
    ),
)
flips = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 255)), max_size=2)


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Router]:
    """Return one ROUTER for all examples."""
    made = Router(tmp_path_factory.mktemp("router"))
    yield made
    made.socket.close()


@given(st.lists(said, max_size=5).map(b"".join), flips, st.integers(0, 1), st.lists(st.integers(0, 3000), max_size=5))
def test_no_router_delivers_what_we_do_not(
    router: Router, data: bytes, flips: list[tuple[int, int]], minor: int, cuts: list[int]
) -> None:
    """Whatever is said: we deliver what a ROUTER of libzmq delivers, or end the connection by a rule of ours."""
    shake = GREETING[:11] + bytes((minor,)) + GREETING[12:] + READY
    changed = bytearray(shake + data)
    for position, bits in flips:
        if position < len(changed):
            changed[position] ^= bits
    stream = bytes(changed) + b"".join(encode(END))
    edges = [len(shake), *sorted(len(shake) + cut % (len(stream) - len(shake)) for cut in cuts), len(stream)]
    theirs = router.deliver(stream[: len(shake)], [stream[a:b] for a, b in itertools.pairwise(edges)])
    ours, broken = take(Connection(listening=True), stream)
    common = min(len(ours), len(theirs))

    assert theirs[:common] == ours[:common]
    assert broken or len(ours) >= len(theirs)
