"""libzmq on the other side: what its DEALER says we understand, what we say it does, and no ROUTER delivers more."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.limits import MESSAGE_BYTES, MESSAGE_BYTES_LARGE, MESSAGE_FRAMES
from ganglion.transport.frames import GREETING, encode, encode_command, encode_error
from ganglion.transport.zmtp import Broken, Connection, Message, Opened
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

WAIT_MS = 10_000
READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER")
MESSAGES = [
    [b""],
    [b"x" * 255],
    [b"to", b"y" * 256, b""],
    [os.urandom(65_535), os.urandom(65_536)],
    [b"%d" % number for number in range(MESSAGE_FRAMES)],
    [b""] * MESSAGE_FRAMES,
]


def dealer(**options: Any) -> zmq.Socket[bytes]:
    """Return a DEALER of libzmq that waits for nothing for ever."""
    made = zmq.Context.instance().socket(zmq.DEALER)
    made.linger = 0
    made.rcvtimeo = made.sndtimeo = WAIT_MS
    for option, value in options.items():
        setattr(made, option, value)
    return made


def take(zmtp: Connection, data: bytes) -> tuple[list[list[bytes]], str]:
    """Return the messages of a chunk and why the connection is over, if it is; who has shaken hands has joined."""
    found, broken, position = [], "", 0
    while position < len(data):
        event, position = zmtp.advance(data, position, 0.0)
        if isinstance(event, Opened):
            zmtp.join(MESSAGE_BYTES_LARGE)
        elif isinstance(event, Message):
            found.append(event.frames)
        elif isinstance(event, Broken):
            broken = event.reason
    return found, broken


class Heard:
    """Be the broker's side of one connection by hand: bytes go to the parser in a way that the test chooses."""

    def __init__(self, listening: socket.socket) -> None:
        self.connected, _ = listening.accept()
        self.connected.settimeout(WAIT_MS / 1000)
        self.connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.zmtp = Connection(listening=True)
        self.said = b""
        self.messages: list[list[bytes]] = []

    def answer(self, step: int = 1 << 20) -> None:
        """Send what the parser has to say, so many bytes at a time."""
        data = bytes(self.zmtp.outgoing)
        self.zmtp.outgoing.clear()
        self.send(data, step)

    def send(self, data: bytes, step: int) -> None:
        """Send so many bytes at a time."""
        for start in range(0, len(data), step):
            self.connected.sendall(data[start : start + step])

    def until(self, count: int, step: int = 1 << 20) -> list[list[bytes]]:
        """Take what comes until there are so many messages."""
        self.answer(step)
        while len(self.messages) < count:
            data = self.connected.recv(65_536)
            assert data, "the other side has closed"
            self.said += data
            found, broken = take(self.zmtp, data)
            assert not broken, broken
            self.messages += found
            self.answer(step)
        return self.messages


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Return a socket that listens on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(WAIT_MS / 1000)
        yield made


def address(listening: socket.socket) -> str:
    """Return the endpoint of a listening socket."""
    return f"tcp://127.0.0.1:{listening.getsockname()[1]}"


def replay(data: bytes, step: int) -> list[list[bytes]]:
    """Return the messages of a recorded stream that comes so many bytes at a time."""
    zmtp = Connection(listening=True)
    found: list[list[bytes]] = []
    for start in range(0, len(data), step):
        messages, broken = take(zmtp, data[start : start + step])
        assert not broken, broken
        found += messages
    return found


@pytest.mark.parametrize(
    "options",
    [{}, {"identity": b"me"}, {"heartbeat_ivl": 20, "heartbeat_ttl": 1000}],
    ids=["plain", "identity", "heartbeats"],
)
def test_what_libzmq_says(listening: socket.socket, options: dict[str, Any]) -> None:
    """The bytes of a DEALER give its messages: as they come, in one segment, and byte by byte."""
    with dealer(**options) as client:
        client.connect(address(listening))
        heard = Heard(listening)
        for message in MESSAGES:
            client.send_multipart(message)
        live = heard.until(len(MESSAGES))
        heard.connected.close()

    assert live == MESSAGES
    assert replay(heard.said, len(heard.said)) == MESSAGES
    assert replay(heard.said, 1) == MESSAGES


@pytest.mark.parametrize("step", [1, 1 << 24], ids=["byte by byte", "one segment"])
def test_what_libzmq_hears(listening: socket.socket, step: int) -> None:
    """A DEALER takes our greeting, READY and messages, a segment per byte or all in one."""
    messages = [*MESSAGES[:3], MESSAGES[5], [b"z" * 300, b"", b"end"]]
    with dealer() as client:
        client.connect(address(listening))
        client.send(b"hello")
        heard = Heard(listening)
        heard.until(1, step)
        heard.send(b"".join(part for message in messages for part in encode(message)), step)
        heard.answer(step)

        assert messages == [client.recv_multipart() for _ in messages]
        heard.connected.close()


def test_what_is_sent_before_the_end_arrives(station: Any) -> None:
    """A DEALER that closes at once after its last message, and lingers, has said all of it."""
    bus = station.bus("tcp")
    store = bus.join(Role.STORE, None)
    name = bus.admit(Role.CONTROLLER)
    with dealer(linger=WAIT_MS) as client:
        client.connect(station.endpoints["tcp"])
        hello = codec_of(Hello).encode(Hello(1, "controller", name, name))
        client.send_multipart(encode_envelope(Envelope("", Head(Verb.HELLO, 1), hello)))
        assert Verb.WELCOME is decode(client.recv_multipart()).head.verb
        for serial in range(200):
            client.send_multipart(encode_envelope(Envelope(store.name, Head(Verb.TELL, serial), bytes(10_000))))

    assert list(range(200)) == [store.receive().head.serial for _ in range(200)]
    bus.close()


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("what", ["bytes", "frames"])
def test_limits_of_a_dealer(station: Any, what: str, beyond: int) -> None:
    """A message of the largest size, or of the most frames, is delivered; one more ends the connection."""
    bus = station.bus("ipc")
    controller = bus.join(Role.CONTROLLER)
    name = bus.admit(Role.ENVIRONMENT)
    with dealer(reconnect_ivl=WAIT_MS) as client:
        monitor = client.get_monitor_socket(zmq.Event.DISCONNECTED)
        monitor.rcvtimeo = WAIT_MS
        client.connect(station.endpoints["ipc"])
        hello = codec_of(Hello).encode(Hello(1, "environment", name, name))
        client.send_multipart(encode_envelope(Envelope("", Head(Verb.HELLO, 1), hello)))
        assert Verb.WELCOME is decode(client.recv_multipart()).head.verb
        controller.send(name, Head(Verb.CALL, 5, "environment.update"))
        client.recv_multipart()
        start = encode_envelope(Envelope(controller.name, Head(Verb.REPLY, 5)))
        if what == "bytes":
            blobs = [bytes(MESSAGE_BYTES - sum(map(len, start)) + beyond)]
        else:
            blobs = [b""] * (MESSAGE_FRAMES - len(start) + beyond)
        client.send_multipart([*start, *blobs])
        if beyond:
            assert monitor.recv_multipart()
            assert Verb.LOST is controller.receive().head.verb
        else:
            assert blobs == list(controller.receive().blobs)
        client.disable_monitor()
        monitor.close()
    bus.close()


TOKEN = "t" * 43


def broker(at: Path) -> subprocess.Popen[str]:
    """Start a broker at a place and wait until it listens."""
    made = subprocess.Popen(
        [sys.executable, "-m", "ganglion.transport.server"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert made.stdin is not None
    assert made.stdout is not None
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    made.stdin.write(json.dumps({"endpoints": [f"ipc://{at}"], "supervisor_token_sha256": digest}) + "\n")
    made.stdin.flush()
    assert "endpoints" in json.loads(made.stdout.readline())
    return made


def test_reconnection_over_a_restart(tmp_path: Path) -> None:
    """A DEALER whose broker is killed finds the next one at the same place by itself, and joins again."""
    at = tmp_path / "b.sock"
    hello = codec_of(Hello).encode(Hello(1, "supervisor", "supervisor", TOKEN))
    with dealer() as client:
        client.connect(f"ipc://{at}")  # before there is one: it waits for that, too
        for _ in range(2):
            running = broker(at)
            client.send_multipart(encode_envelope(Envelope("", Head(Verb.HELLO, 1), hello)))
            assert Verb.WELCOME is decode(client.recv_multipart()).head.verb
            running.kill()
            running.communicate()


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
@settings(max_examples=60)
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
