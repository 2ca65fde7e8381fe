"""The judge of handshakes: libzmq asks it about every key, and nobody passes while it is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq
from zmq.utils import z85

__all__ = ["DOMAIN", "ZapHandler", "key_of"]

DOMAIN = b"ganglion"
_ENDPOINT = "inproc://zeromq.zap.01"  # fixed by ZeroMQ; one for each context
_VERSION = b"1.0"
_KEY_BYTES = 32


class ZapHandler:
    """Answer libzmq's question whether a connection may go on, on the running loop.

    `allows` says whether a public key, in Z85, is in the table of keys. Each handshake that passes gets a User-Id of
    its own, which libzmq then hands over with each of its messages: no two connections share one, and no peer can
    choose one. `refused` gets address and reason of those that do not pass.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        allows: Callable[[str], bool],
        refused: Callable[[str, str], None],
    ) -> None:
        self._allows = allows
        self._refused = refused
        self._handshakes = 0
        self._loop = asyncio.get_running_loop()
        self.socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(_ENDPOINT)
        self._loop.add_reader(self.socket.fileno(), self._drain)

    def close(self) -> None:
        """Judge no more: from now on every handshake fails."""
        if not self.socket.closed:
            self._loop.remove_reader(self.socket.fileno())
            self.socket.close()

    def _drain(self) -> None:
        """Answer all that is asked; the descriptor tells of changes only."""
        while not self.socket.closed:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.socket.send_multipart(self._judge(frames))

    def _judge(self, frames: list[bytes]) -> list[bytes]:
        """Return the answer to one question: version, number, domain, address, identity, mechanism, credentials."""
        number = frames[1] if len(frames) > 1 else b""
        address = frames[3].decode(errors="replace") if len(frames) > 3 else ""
        user = b""
        if len(frames) != 7 or (frames[0], frames[2], frames[5]) != (_VERSION, DOMAIN, b"CURVE"):
            reason = "expected a question about CURVE"
        elif len(frames[6]) != _KEY_BYTES or not self._allows(key := z85.encode(frames[6]).decode()):
            reason = "the key is not in the table of keys"
        else:
            reason = ""
            self._handshakes += 1
            user = f"{self._handshakes:x} {key}".encode()
        if reason:
            self._refused(address, reason)
        return [_VERSION, number, b"400" if reason else b"200", reason.encode(), user, b""]


def key_of(user: str) -> str:
    """Return the public key that a User-Id of ours stands for; empty for one that is not ours."""
    return user.partition(" ")[2]
