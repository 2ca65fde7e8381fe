from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import DeadlineExceeded, PeerLost
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.frames import GREETING, encode, encode_command
from ganglion.wire.name import Role

READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06ROUTER")


@pytest.fixture
def listener(tmp_path: Path) -> Any:
    """Return a socket that listens, and nothing behind it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "x.sock"))
        listening.listen()
        yield listening


def connect(listening: socket.socket, said: bytes) -> tuple[BlockingLink, socket.socket]:
    """Return a link and the raw other side, which has said what it is told to."""
    accepted: list[socket.socket] = []

    def serve() -> None:
        other, _ = listening.accept()
        accepted.append(other)
        other.sendall(said)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        link = BlockingLink.connect(f"ipc://{listening.getsockname()}", 5.0)
    finally:
        thread.join()
        if len(said) < len(GREETING + READY):
            accepted[0].close()
    return link, accepted[0]


def test_nobody_listens(tmp_path: Path) -> None:
    """Where nobody listens, connecting fails at once with the reason."""
    with pytest.raises(PeerLost, match="No such file"):
        BlockingLink.connect(f"ipc://{tmp_path}/none.sock")


def test_silence_has_a_deadline(listener: socket.socket) -> None:
    """Who accepts and says nothing costs no more than the deadline."""
    with pytest.raises(DeadlineExceeded, match="handshake"):
        BlockingLink.connect(f"ipc://{listener.getsockname()}", 0.05)


def test_wrong_protocol(listener: socket.socket) -> None:
    """Who speaks something else is refused with what was found."""
    with pytest.raises(PeerLost, match="signature"):
        connect(listener, b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_receive_and_its_timeouts(listener: socket.socket) -> None:
    """Messages come one by one, None after a timeout, and an error after the end, last messages first."""
    link, other = connect(listener, GREETING + READY)
    with other:
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
        with pytest.raises(PeerLost, match="closed"):
            link.receive(5.0)
        with pytest.raises(PeerLost, match="closed"):
            link.receive(5.0)
    link.close()


def test_closed_link_says_so(native: Any) -> None:
    """A link that we have closed raises instead of touching its socket; closing twice is harmless."""
    peer = native.peer(Role.ENVIRONMENT)
    peer.link.close()
    peer.link.close()

    with pytest.raises(PeerLost):
        peer.link.send([b"", b"x", b""])
    with pytest.raises(PeerLost):
        peer.link.receive(0.0)


def crowd(path: str) -> list[socket.socket]:
    """Connect until no more fit."""
    waiting = []
    while True:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        waiting.append(made)
        try:
            made.connect(path)
        except BlockingIOError:
            return waiting


def test_a_crowd_at_the_door(tmp_path: Path) -> None:
    """Where so many connect that no more fit, a link waits for its turn instead of giving up; in vain for its time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "x.sock"))
        listening.listen(1)
        before = crowd(str(tmp_path / "x.sock"))
        with pytest.raises(DeadlineExceeded):
            BlockingLink.connect(f"ipc://{tmp_path}/x.sock", 0.05)
        made: list[BlockingLink] = []
        connecting = threading.Thread(
            target=lambda: made.append(BlockingLink.connect(f"ipc://{tmp_path}/x.sock", 10.0))
        )
        connecting.start()
        taken: list[socket.socket] = []
        while len(taken) < len(before):  # the last of these has not been let in: its place is the link's
            taken.append(listening.accept()[0])
        taken[-1].sendall(GREETING + READY)
        connecting.join(10.0)

        assert 1 == len(made)
        made[0].close()
    for one in (*before, *taken):
        one.close()
