"""The two native links of peers: with an event loop, and without one."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import DeadlineExceeded, PeerLost
from ganglion.transport import loop
from ganglion.transport.asynclink import AsyncLink
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.zmtp import GREETING, encode, encode_command
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

WELL = GREETING + encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06ROUTER")


def connect_async(endpoint: str, timeout_s: float) -> None:
    """Connect with an event loop, and close."""

    async def main() -> None:
        (await AsyncLink.connect(endpoint, print, print, timeout_s)).close()

    loop.run(main())


def connect_blocking(endpoint: str, timeout_s: float) -> None:
    """Connect without an event loop, and close."""
    BlockingLink.connect(endpoint, timeout_s).close()


both = pytest.mark.parametrize("connect", [connect_async, connect_blocking])


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """Return a socket that listens, and nothing behind it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "x.sock"))
        listening.listen(1)
        yield listening


def serve(listening: socket.socket, said: bytes) -> tuple[threading.Thread, list[socket.socket]]:
    """Accept one connection in a thread, and say something to it."""
    accepted: list[socket.socket] = []

    def run() -> None:
        accepted.append(listening.accept()[0])
        accepted[0].sendall(said)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, accepted


@both
def test_nobody_or_nobody_fit(tmp_path: Path, listener: socket.socket, connect: Callable[[str, float], None]) -> None:
    """Where nobody listens, or somebody who says nothing or something else, connecting fails with the reason."""
    with pytest.raises(PeerLost, match="No such file"):
        connect(f"ipc://{tmp_path}/none.sock", 5.0)
    for said, kind, text in ((b"", DeadlineExceeded, "handshake"), (b"220 mail ESMTP\r\n", PeerLost, "signature")):
        thread, accepted = serve(listener, said)
        with pytest.raises(kind, match=text):
            connect(f"ipc://{listener.getsockname()}", 5.0 if said else 0.05)
        thread.join()
        accepted[0].close()


@both
def test_a_crowd_at_the_door(listener: socket.socket, connect: Callable[[str, float], None]) -> None:
    """Where so many connect that no more fit, a link waits for its turn instead of giving up; in vain for its time."""
    path = listener.getsockname()
    before = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(9)]
    for one in before:
        one.setblocking(False)
    inside = [one for one in before if not one.connect_ex(path)]
    with pytest.raises(DeadlineExceeded):
        connect(f"ipc://{path}", 0.05)
    connecting = threading.Thread(target=connect, args=(f"ipc://{path}", 10.0))
    connecting.start()
    taken = [listener.accept()[0] for _ in (*inside, "the link")]
    taken[-1].sendall(WELL)
    assert taken[-1].recv(100)
    connecting.join(10.0)

    assert not connecting.is_alive()
    for one in (*before, *taken):
        one.close()


def test_receive_and_its_timeouts(listener: socket.socket) -> None:
    """Messages come one by one, None after a timeout, and an error after the end, last messages first."""
    thread, accepted = serve(listener, WELL)
    link = BlockingLink.connect(f"ipc://{listener.getsockname()}", 5.0)
    thread.join()
    with accepted[0] as other:
        assert link.receive(0.0) is None
        assert link.receive(0.01) is None
        other.sendall(b"".join(encode([b"a"]) + encode([b"b", b"c"])))
        assert [b"a"] == link.receive(None)
        assert link.pending()
        assert [b"b", b"c"] == link.receive(0.0)
        assert not link.pending()
        other.sendall(b"".join(encode([b"last"])))
        other.shutdown(socket.SHUT_WR)
        assert [b"last"] == link.receive(5.0)
        for _ in range(2):
            with pytest.raises(PeerLost, match="closed"):
                link.receive(5.0)
    link.close()
    link.close()
    with pytest.raises(PeerLost):
        link.send([b"", b"x", b""])


@pytest.mark.parametrize("front", ["ipc", "tcp"])
def test_join_and_call(station: Any, front: str) -> None:
    """A peer with a loop joins, asks and gets its answers by callbacks, in order, large ones too."""
    bus = station.bus(front)
    name = bus.admit(Role.CONTROLLER)
    environment = bus.join(Role.ENVIRONMENT)

    async def main() -> None:
        came: asyncio.Queue[Envelope] = asyncio.Queue()
        link = await AsyncLink.connect(
            station.endpoints[front], lambda frames: came.put_nowait(decode(frames)), came.put_nowait
        )
        hello = codec_of(Hello).encode(Hello(1, "controller", name, name))
        link.send(encode_envelope(Envelope("", Head(Verb.HELLO, 1), hello)))
        assert Verb.WELCOME is (await came.get()).head.verb
        for size in (1, 70_000, 300_000):
            call = Head(Verb.CALL, 2, "environment.update")
            link.send(encode_envelope(Envelope(environment.name, call, b"", (bytes(size),))))
            asked = await asyncio.to_thread(environment.receive)
            environment.send(asked.peer, Head(Verb.REPLY, 2), b"", *asked.blobs)
            assert (bytes(size),) == (await came.get()).blobs
        link.close()
        assert came.empty()
        with pytest.raises(PeerLost):
            link.send([b"", b"x"])

    loop.run(asyncio.wait_for(main(), 10.0))
    bus.close()
