"""Links by libzmq's DEALER, encrypted by CURVE, for brokers on other machines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

import zmq
from zmq.utils.monitor import recv_monitor_message

from ganglion.errors import PeerLost
from ganglion.limits import FRAME_BYTES, HANDSHAKE_S
from ganglion.transport.curve import ClientKeys
from ganglion.transport.endpoint import connecting, parse_endpoint

_BROKER = "broker"
_QUEUE_MESSAGES = 1000  # libzmq's own default, finite, per connection and direction; more messages wait with the sender
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 500, 1500  # detects a half-open connection, which TCP alone does not
_LINGER_MS = 500
SETTLE_S = 0.02  # libzmq reports the end of a connection before it returns the last messages
_NEVER_MS = 24 * 60 * 60 * 1000  # far longer than a lost connection is kept
_EVENTS = zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED
_FAILURES = (
    zmq.Event.CLOSED
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)


def set_options(zmq_socket: zmq.Socket[bytes]) -> None:
    """Set the options that both sides of a connection share."""
    zmq_socket.setsockopt(zmq.SNDHWM, _QUEUE_MESSAGES)
    zmq_socket.setsockopt(zmq.RCVHWM, _QUEUE_MESSAGES)
    zmq_socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES)
    zmq_socket.setsockopt(zmq.HANDSHAKE_IVL, int(1000 * HANDSHAKE_S))
    zmq_socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    zmq_socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
    zmq_socket.setsockopt(zmq.LINGER, _LINGER_MS)


def dealer(endpoint: str, keys: ClientKeys) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
    """Return a DEALER that connects to `endpoint`, and the socket that reports the state of the connection."""
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    set_options(dealer)
    # The peer itself reconnects, because it must join again, which libzmq cannot do. Never (-1) is not used here,
    # because libzmq would then drop messages that have arrived and are not yet received.
    dealer.setsockopt(zmq.RECONNECT_IVL, _NEVER_MS)
    dealer.setsockopt(zmq.CURVE_SERVERKEY, keys.server.encode())  # a server without the secret half learns nothing
    dealer.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
    dealer.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
    if ":" in parse_endpoint(endpoint).host:
        dealer.setsockopt(zmq.IPV6, 1)
    monitor: zmq.Socket[bytes] = dealer.get_monitor_socket(int(_EVENTS | _FAILURES))
    dealer.connect(endpoint)
    return dealer, monitor


def readable(zmq_socket: zmq.Socket[bytes]) -> bool:
    """Return whether a message can be received; libzmq requires this check after each send and receive."""
    return bool(cast(int, zmq_socket.get(zmq.EVENTS)) & zmq.POLLIN)


class ZmqBlockingLink:
    """Exchange messages with a broker through libzmq, blocking; the same calls as `BlockingLink`."""

    def __init__(self, endpoint: str, keys: ClientKeys) -> None:
        self._endpoint = endpoint
        self._socket, self._monitor = dealer(endpoint, keys)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._open = False
        self._lost = ""

    @classmethod
    def connect(cls, endpoint: str, keys: ClientKeys, timeout_s: float = 5.0) -> ZmqBlockingLink:
        """Connect and shake hands; PeerLost if no broker listens there, DeadlineExceeded after `timeout_s`."""
        link = cls(endpoint, keys)
        deadline_s = time.monotonic() + timeout_s
        with connecting(endpoint, timeout_s, link.close):
            while not link._open:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0.0 or not link._monitor.poll(int(1000 * left_s) + 1):
                    raise TimeoutError
                link._look()
        return link

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""
        self._check()
        self._socket.send_multipart(frames)

    def receive(self, timeout_s: float | None = None) -> list[bytes] | None:
        """Return the next message, or None after `timeout_s` without one; PeerLost when the connection has ended."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self.pending():
                return self._socket.recv_multipart()
            self._check()
            left_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0.0)
            ready = dict(self._poller.poll(None if left_s is None else int(1000 * left_s)))
            if not ready and left_s is not None and left_s < 0.001:
                return None

    def pending(self) -> bool:
        """Return whether `receive` would return at once."""
        return not self._socket.closed and readable(self._socket)

    def fileno(self) -> int:
        """Return the descriptor to wait for; check `pending` first, and after each `send` too."""
        return self._socket.fileno()

    def close(self, linger_s: float = 0.5) -> None:
        """Close; sent messages are still delivered for at most `linger_s`."""
        self._lost = self._lost or "we closed the connection"
        if not self._socket.closed:
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close(int(1000 * linger_s))

    def _check(self) -> None:
        if not self._lost and readable(self._monitor):
            try:
                self._look()
            except PeerLost:
                if not self._socket.poll(int(1000 * SETTLE_S)):
                    raise
                return  # messages from before the end are returned first
        if self._lost and not self.pending():
            raise PeerLost(_BROKER, self._lost)

    def _look(self) -> None:
        """Process one event of the connection."""
        self._lost = end_told(self._monitor, self._endpoint)
        if self._lost:
            raise PeerLost(_BROKER, self._lost)
        self._open = True


def end_told(monitor: zmq.Socket[bytes], endpoint: str) -> str:
    """Read one event of a connection; return the reason of its end, empty for its begin."""
    event = recv_monitor_message(monitor)["event"]
    return "" if event == zmq.Event.HANDSHAKE_SUCCEEDED else f"{endpoint}: {_ENDS.get(event, _OTHER_END)}"


_ENDS: dict[int, str] = {
    zmq.Event.DISCONNECTED: "it closed the connection",
    zmq.Event.CLOSED: "no process listens there",
    zmq.Event.HANDSHAKE_FAILED_AUTH: "the kernel does not admit the key of this process, or no longer",
}
_OTHER_END = "the handshake failed: the process that listens there does not have the expected server key"
