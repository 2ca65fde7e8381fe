"""Links for simple peers: one thread, one socket, no event loop; libzmq with CURVE if keys are given."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganglion.errors import PeerLost, RemoteProtocolError, UsageError
from ganglion.limits import RETRY_S
from ganglion.transport.curve import ClientKeys
from ganglion.transport.endpoint import connecting, parse_endpoint
from ganglion.transport.zmtp import Connection, State, encode

if TYPE_CHECKING:
    from ganglion.transport.zmqlink import ZmqBlockingLink

_READ_BYTES = 65_536  # one read takes the messages of a step
_READ_LARGE_BYTES = 1024 * 1024  # within a large frame
_JOIN_BYTES = 65_536  # below this size one copy is cheaper than a gathering system call
CONNECT_S = 5.0  # a broker of Ganglion answers within milliseconds
_BROKER = "broker"
_FOREVER_S = 1e6


class BlockingLink:
    """Exchange messages with a broker over native ZMTP, blocking.

    Calls must not overlap: two threads may share a link under one lock. While the broker does not read, `send` receives
    incoming messages, so that two peers that send to each other cannot deadlock.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._recv = connected.recv
        self._descriptor = connected.fileno()
        self._messages: deque[list[bytes]] = deque()
        self._connection = Connection(listening=False)
        self._timeout_s: float | None = None
        self._lost = ""
        # With a timeout Python waits in poll(2) and the socket is non-blocking. That is also used for unlimited waits:
        # a thread in recv(2) on a unix socket is also woken, needlessly, when the other side reads.
        connected.settimeout(_FOREVER_S)

    @classmethod
    def connect(cls, endpoint: str, timeout_s: float = 5.0) -> BlockingLink:
        """Connect and shake hands; PeerLost if no broker listens there, DeadlineExceeded after `timeout_s`."""
        where = parse_endpoint(endpoint)
        deadline_s = time.monotonic() + timeout_s
        family = socket.AF_UNIX if where.path else socket.AF_INET6 if ":" in where.host else socket.AF_INET
        connected = socket.socket(family, socket.SOCK_STREAM)
        with connecting(endpoint, timeout_s, connected.close):
            connected.settimeout(timeout_s)
            _reach(connected, where.path or (where.host, where.port), deadline_s)
            if not where.path:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = cls(connected)
            link._speak()
            while link._connection.state is not State.OPEN:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0.0 or not link._take(left_s):
                    raise TimeoutError
        return link

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""
        parts = encode(frames)
        if len(frames) <= 3 or sum(map(len, frames)) < _JOIN_BYTES:
            self._send_all(b"".join(parts))
        else:
            for part in parts:  # avoids another copy of a large array
                self._send_all(part)

    def _send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            sent = os.write(self._descriptor, data)
            if sent == len(data):
                return
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise self._gone(error.strerror or str(error)) from error
        self._send_rest(memoryview(data)[sent:])

    def _send_rest(self, rest: memoryview) -> None:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN | select.POLLOUT)
        while rest:
            ready = waiting.poll()[0][1]
            if ready & ~select.POLLOUT:
                self._take(None)
            if ready & select.POLLOUT:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._gone(error.strerror or str(error)) from error

    def receive(self, timeout_s: float | None = None) -> list[bytes] | None:
        """Return the next message, or None after `timeout_s` without one; a timeout of None waits without limit.

        PeerLost: the connection has ended, or the broker broke the protocol; earlier messages are returned first.
        """
        messages = self._messages
        if messages:
            return messages.popleft()
        if timeout_s is None or timeout_s <= 0.0:
            while self._take(timeout_s):
                if messages:
                    return messages.popleft()
            return None
        deadline_s = time.monotonic() + timeout_s
        while timeout_s > 0.0 and self._take(timeout_s):
            if messages:
                return messages.popleft()
            timeout_s = deadline_s - time.monotonic()
        return None

    def pending(self) -> bool:
        """Return whether `receive` would return a message that has been read already."""
        return bool(self._messages)

    def fileno(self) -> int:
        """Return the descriptor to wait for; check `pending` first."""
        return self._socket.fileno()

    def close(self, linger_s: float = 0.5) -> None:
        """Close; the system still delivers sent messages for at most `linger_s`."""
        if self._socket.fileno() >= 0:
            if self._socket.family != socket.AF_UNIX:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, int(linger_s + 0.99)))
            self._socket.close()
        self._lost = self._lost or "we closed the connection"

    # -- the socket ---------------------------------------------------------------------------------------------------
    def _take(self, timeout_s: float | None) -> bool:
        """Read once and decode; False after the timeout."""
        if self._lost:
            raise PeerLost(_BROKER, self._lost)
        connection = self._connection
        size = _READ_LARGE_BYTES if connection.unfinished_bytes > _READ_BYTES else _READ_BYTES
        try:
            if timeout_s != self._timeout_s:
                self._socket.settimeout(_FOREVER_S if timeout_s is None else timeout_s)
                self._timeout_s = timeout_s
            data = self._recv(size)
        except (BlockingIOError, TimeoutError):
            return False
        except OSError as error:
            raise self._gone(error.strerror or str(error)) from error
        if not data:
            raise self._gone("it closed the connection")
        try:
            self._messages.extend(connection.messages(data, 0.0))
        except RemoteProtocolError as error:
            self._speak()
            raise self._gone(str(error)) from error
        if connection.outgoing:
            self._speak()
        return True

    def _speak(self) -> None:
        """Send the pending output of the protocol itself."""
        data = bytes(self._connection.outgoing)
        self._connection.outgoing.clear()
        if data:
            self._send_all(data)

    def _gone(self, reason: str) -> PeerLost:
        self._lost = self._lost or reason
        return PeerLost(_BROKER, self._lost)


def _reach(connected: socket.socket, address: Any, deadline_s: float) -> None:
    """Connect, with retries: under many simultaneous connects a unix socket refuses instead of blocking."""
    while True:
        try:
            connected.connect(address)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline_s:
                raise TimeoutError from error
            time.sleep(RETRY_S["connect"])


def connect_blocking(
    endpoint: str, timeout_s: float = CONNECT_S, keys: ClientKeys | None = None
) -> BlockingLink | ZmqBlockingLink:
    """Return a blocking link to the broker at `endpoint`; PeerLost or DeadlineExceeded if there is none.

    With `keys` the link is encrypted. Without keys an endpoint on another machine raises UsageError: nothing is sent
    there in plain text.
    """
    if keys is None:
        if not parse_endpoint(endpoint).local:
            raise UsageError(
                f"{endpoint}: expected CURVE keys (GANGLION_SERVER_KEY, or a connection file that holds them) for a "
                f"kernel on another machine"
            )
        return BlockingLink.connect(endpoint, timeout_s)
    from ganglion.transport.zmqlink import ZmqBlockingLink  # libzmq is loaded only where it is needed

    return ZmqBlockingLink.connect(endpoint, keys, timeout_s)
