"""Listeners for one peer, blocking: the bus's end of a conversation where a test plays the bus."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.limits import GREETING_PAUSE_S, HANDSHAKE_S, MESSAGE_BYTES_LARGE
from ganglion.transport.curve import KeyPair
from ganglion.transport.frames import encode
from ganglion.transport.zmtp import Connection, State

__all__ = ["CurveListener", "Listener", "NativeListener"]

_READ_BYTES = 65_536
_PEER = "the peer"
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 500, 1500


class Listener(Protocol):
    """Be one place to connect to, for one peer."""

    @property
    def endpoint(self) -> str:
        """Return where it listens."""

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return the next message; None if none comes within `span_s`; PeerLost when the connection has ended."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""

    def close(self) -> None:
        """End the connection without a word, and listen no more."""


class NativeListener:
    """Listen on loopback as the native front does, for one peer.

    A connection that ends before its first message makes room for the next: libraries try again by themselves.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1)
        self._socket: socket.socket | None = None
        self._connection = Connection(listening=True)
        self._messages: deque[list[bytes]] = deque()
        self._lost = ""
        self._spoken = False  # a message has come
        self.endpoint = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return the next message; None if none comes within `span_s`; PeerLost when the connection has ended."""
        until_s = time.monotonic() + span_s
        while not self._messages:
            left_s = until_s - time.monotonic()
            if self._lost:
                raise PeerLost(_PEER, self._lost)
            if left_s < 0.0 or not self._step(left_s):
                if left_s <= 0.0:
                    return None
        return self._messages.popleft()

    def _step(self, span_s: float) -> bool:
        """Wait for one thing to happen; False if nothing did."""
        greeted = self._connection.state is not State.SIGNATURE
        waits = span_s if greeted or self._socket is None else min(span_s, GREETING_PAUSE_S)
        source = self._socket or self._listening
        if not select.select([source], [], [], waits)[0]:
            if not greeted and self._socket is not None:
                self._connection.greet()
                self._speak()
            return False
        if self._socket is None:
            self._socket, _ = self._listening.accept()
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(HANDSHAKE_S * 5)
            self._speak()
        else:
            self._take(self._socket)
        return True

    def _take(self, connected: socket.socket) -> None:
        try:
            data = connected.recv(_READ_BYTES)
            if not data:
                raise PeerLost(_PEER, "it closed the connection")
            found = self._connection.messages(data, time.monotonic())
        except (OSError, PeerLost, RemoteProtocolError) as error:
            self._speak()
            if self._spoken or isinstance(error, RemoteProtocolError):
                self._lost = error.reason if isinstance(error, PeerLost) else str(error)
            else:
                connected.close()
                self._socket, self._connection = None, Connection(listening=True)
            return
        self._speak()
        self._spoken = self._spoken or bool(found)
        if found and self._connection.state is State.HELLO:
            self._connection.join(MESSAGE_BYTES_LARGE)
        self._messages.extend(found)

    def _speak(self) -> None:
        """Send what the handshake has to say."""
        if self._connection.outgoing and self._socket is not None:
            try:
                self._socket.sendall(self._connection.outgoing)
            except OSError as error:
                self._lost = self._lost or str(error)
            self._connection.outgoing.clear()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""
        if self._socket is None or self._lost:
            raise PeerLost(_PEER, self._lost or "it has not connected")
        try:
            self._socket.sendall(b"".join(encode(frames)))
        except OSError as error:
            self._lost = error.strerror or str(error)
            raise PeerLost(_PEER, self._lost) from error

    def close(self) -> None:
        """End the connection without a word, and listen no more."""
        self._lost = self._lost or "we closed the connection"
        self._listening.close()
        if self._socket is not None:
            self._socket.close()


class CurveListener:
    """Listen on loopback by libzmq with CURVE, for one peer that knows the public half of the key."""

    def __init__(self, keys: KeyPair) -> None:
        import zmq  # not before it is needed

        self._zmq = zmq
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        self._router.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
        self._router.setsockopt(zmq.CURVE_SERVER, 1)
        self._router.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        port = self._router.bind_to_random_port("tcp://127.0.0.1")
        self._identity: bytes | None = None
        self.endpoint = f"tcp://127.0.0.1:{port}"

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return the next message; None if none comes within `span_s`."""
        if self._router.closed:
            raise PeerLost(_PEER, "we closed the connection")
        if not self._router.poll(int(1000 * span_s)):
            return None
        self._identity, *frames = self._router.recv_multipart()
        return frames

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""
        if self._router.closed or self._identity is None:
            raise PeerLost(_PEER, "it has not connected")
        try:
            self._router.send_multipart([self._identity, *frames])
        except self._zmq.ZMQError as error:  # EHOSTUNREACH
            raise PeerLost(_PEER, error.strerror or str(error)) from error

    def close(self) -> None:
        """End the connection without a word, and listen no more."""
        self._router.close(0)
        self._context.destroy(0)
