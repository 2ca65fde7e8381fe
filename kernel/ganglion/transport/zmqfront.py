"""The front of libzmq: ROUTER with CURVE, for other machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from ganglion import limits
from ganglion.broker.link import Note
from ganglion.errors import LaunchError
from ganglion.transport.endpoint import parse_endpoint
from ganglion.transport.exchange import Exchange, Served
from ganglion.transport.zmqlink import readable, set_options
from ganglion.transport.zmtp import encode, split

DOMAIN = b"ganglion"
_ENDPOINT = "inproc://zeromq.zap.01"  # fixed by ZeroMQ; one for each context
_VERSION = b"1.0"
_KEY_BYTES = 32


def judged(question: Sequence[bytes], allows: Callable[[str], bool]) -> tuple[str, str]:
    """Return the Z85 key of an admitted connection, or the reason of its refusal.

    A ZAP request has version, number, domain, address, identity, mechanism and credentials. `allows` returns True for a
    key in the table of keys.
    """
    if len(question) != 7 or (question[0], question[2], question[5]) != (_VERSION, DOMAIN, b"CURVE"):
        return "", "expected a question about CURVE"
    key = z85.encode(question[6]).decode() if len(question[6]) == _KEY_BYTES else ""
    return (key, "") if allows(key) else ("", "the key is not in the table of keys")


def key_of(user: str) -> str:
    """Return the public key in a User-Id of this front; empty for any other User-Id."""
    return user.partition(" ")[2]


RETRY_S = 0.01  # a ROUTER does not report when one of its connections is writable again
TURN_BYTES = limits.WORK_PER_CALLBACK_BYTES
_MESSAGE_WORK_BYTES = 64  # the work that a message or frame without content counts for


class ZmqSink(Served):
    """Pass the messages to one connection on to libzmq, which may accept them later."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._progress_s = exchange.clock()

    def send(self, frames: Sequence[bytes]) -> None:
        """Take one message that the broker sends; an urgent message overtakes queued ones."""
        if not self._backlog or not self.overtakes(frames, list(frames)):
            self.out += encode(frames)

    def flush(self) -> bool:
        """Pass the collected messages to libzmq; True if more than the mark was queued before."""
        above = self.link.queued_bytes > limits.QUEUE_MARK_BYTES
        if self.out:
            messages: list[list[bytes]] = []
            data = b"".join(self.out)
            self.out = []
            end = split(data, 0, messages)
            assert end == len(data), "a front has put something else than whole messages into a sink"
            self._backlog.extend(messages)
        self.pump()
        return above

    def pump(self) -> None:
        """Pass queued messages to libzmq until it accepts no more."""
        waiting = len(self._backlog) + len(self._urgent)
        if waiting:
            self._drain_soon()  # a send swallows the descriptor's signal for incoming messages
        while self._urgent or self._backlog:
            queue = self._urgent or self._backlog
            try:
                self._hand_over(queue[0])
            except zmq.Again:
                self._retry()
                break
            except zmq.ZMQError as error:  # EHOSTUNREACH: the connection is gone
                self.lose(error.strerror or str(error))
                return
            queue.popleft()
        left = len(self._backlog) + len(self._urgent)
        if left < waiting or not left:
            self._progress_s = self._exchange.clock()
        self.link.queued_bytes = sum(len(part) for item in (*self._urgent, *self._backlog) for part in item)
        if self.link.queued_bytes <= limits.QUEUE_MARK_BYTES // 2:
            self.release()

    def look(self, now_s: float) -> None:
        """End a connection that reads nothing."""
        if self._backlog and now_s - self._progress_s > limits.PROGRESS_S:
            self.lose(f"it took nothing of {self.link.queued_bytes} bytes for {limits.PROGRESS_S} s (progress_s)")

    def _hand_over(self, frames: Sequence[bytes]) -> None:
        """Pass one message to libzmq; zmq.Again if it accepts none now."""
        raise NotImplementedError

    def _retry(self) -> None:
        """Schedule another call of `pump`."""
        raise NotImplementedError

    def _drain_soon(self) -> None:
        """Schedule a receive, because the descriptor may not signal it."""
        raise NotImplementedError


class ZmqConnection(ZmqSink):
    """Serve one connection of a ROUTER.

    The connection is identified by the User-Id of its handshake, which libzmq attaches to each of its messages. Its
    routing id, which a peer may have chosen, addresses messages to it and proves nothing.
    """

    def __init__(self, front: ZmqFront, exchange: Exchange, user: str, identity: bytes, address: str = "") -> None:
        super().__init__(exchange)
        self.user = user
        self.identity = identity
        self.bytes_max = limits.UNJOINED_MESSAGE_BYTES
        self.frames_max = limits.UNJOINED_MESSAGE_FRAMES
        self._front = front
        self.link, effects = exchange.broker.connect(self._progress_s, address)
        self.link.sink = self
        self.link.curve_key = key_of(user)
        exchange.perform(effects)

    def take(self, frames: Sequence[bytes]) -> None:
        """Process one message of this peer."""
        exchange, link = self._exchange, self.link
        now_s = exchange.clock()
        size = sum(map(len, frames))
        if len(frames) > self.frames_max or size > self.bytes_max:
            self.lose(f"it sent a message of {len(frames)} frames and {size} bytes")
            return
        if frames[0] in link.routes and len(frames) > 2 and self.forward(frames[0], frames[1], encode(frames[2:])):
            link.heard_s = now_s
            return
        exchange.perform(exchange.broker.receive(link, frames, now_s))
        message_bytes = self.joined()
        if message_bytes:
            self.bytes_max, self.frames_max = message_bytes, limits.MESSAGE_FRAMES

    def _hand_over(self, frames: Sequence[bytes]) -> None:
        self._front.router.send_multipart([self.identity, *frames], zmq.NOBLOCK)

    def _retry(self) -> None:
        self._front.retry(self)

    def _drain_soon(self) -> None:
        self._front.drain_soon()

    def pause(self) -> None:
        """Stop reading; a ROUTER can only stop reading from all peers."""
        self._front.pause()

    def resume(self) -> None:
        """Resume reading."""
        self._front.resume()

    def finish(self, reason: str) -> None:
        """Remove the connection; a ROUTER cannot close one, the other side learns of the end from the last message."""
        self.pump()
        self._front.forget(self)
        self.release()

    def _end(self) -> None:
        self._backlog.clear()
        self._urgent.clear()
        self.out = []
        self._front.forget(self)
        self.release()


class ZmqFront:
    """Serve connections through one ROUTER, drained through its descriptor.

    A peer that connects must know the public half of `secret_key` and have a key in the register. This is checked in
    the handshake and for each message, because a key may be withdrawn in between.
    """

    def __init__(self, exchange: Exchange, secret_key: str) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._connections: dict[str, ZmqConnection] = {}
        self._users: dict[bytes, str] = {}  # the last sender with a routing id
        self._bound: list[str] = []
        self._waiting: list[ZmqConnection] = []
        self._pauses = 0
        self._drain_due = False
        self._draining = False  # repeats by itself
        self._closed = False
        self._skipping = False  # within a message that is too large
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()  # one ZAP handler per context
        self._handshakes = 0
        self.zap: zmq.Socket[bytes] = self._context.socket(zmq.REP)
        self.zap.setsockopt(zmq.LINGER, 0)
        self.zap.bind(_ENDPOINT)
        self.router: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._set_up(secret_key)
        self._monitor: zmq.Socket[bytes] = self.router.get_monitor_socket(int(zmq.Event.ACCEPT_FAILED))
        self._loop.add_reader(self.zap.fileno(), self._judge)
        self._loop.add_reader(self.router.fileno(), self._drain)
        self._loop.add_reader(self._monitor.fileno(), self._look)
        self._judge()  # libzmq signals nothing before a socket was found empty once
        self._look()

    def _set_up(self, secret_key: str) -> None:
        router = self.router
        set_options(router)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # an undeliverable message is an error, not dropped
        router.setsockopt(zmq.CURVE_SERVER, 1)
        router.setsockopt(zmq.CURVE_SECRETKEY, secret_key.encode())
        router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without it, a dead ZAP handler would admit every key

    def listen(self, text: str) -> str:
        """Listen at a tcp endpoint and return it as bound; LaunchError gives the reason of a failure."""
        endpoint = parse_endpoint(text)
        if endpoint.path:
            raise LaunchError(f"endpoint {text!r}: expected tcp://host:port for connections with CURVE")
        if ":" in endpoint.host:
            self.router.setsockopt(zmq.IPV6, 1)
        self._bind(text)
        bound = self.router.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        self._bound.append(bound.rstrip(b"\0").decode())
        return self._bound[-1]

    def _bind(self, text: str) -> None:
        try:
            self.router.bind(text)
        except zmq.ZMQError as error:
            if error.errno == zmq.EADDRINUSE:
                raise LaunchError(f"{text} is in use: another process listens there already") from error
            raise LaunchError(f"{text} cannot be bound: {error.strerror or error}") from error

    def close(self) -> None:
        """Stop listening; queued messages are delivered for at most half a second, during which this blocks."""
        if not self._closed:
            for text in self._bound:
                self.router.unbind(text)
            self._bound = []
            self._look()  # libzmq may be blocked by unread monitor events
            self._closed = True
            for socket in (self.zap, self.router, self._monitor):
                self._loop.remove_reader(socket.fileno())
            self.router.disable_monitor()
            self._monitor.close(0)
            self.router.close()
            self.zap.close()
            self._context.term()

    def forget(self, connection: ZmqConnection) -> None:
        """Remove a connection from the tables."""
        self._connections.pop(connection.user, None)
        if self._users.get(connection.identity) == connection.user:
            del self._users[connection.identity]

    # -- admission ----------------------------------------------------------------------------------------------------
    def _judge(self) -> None:
        """Answer libzmq's ZAP requests for new connections.

        Each admitted handshake gets its own User-Id, which libzmq attaches to each message of the connection. No two
        connections share one, and no peer can choose one.
        """
        while not self._closed and readable(self.zap):
            question = self.zap.recv_multipart()
            key, reason = judged(question, self._admits)
            if reason:
                self._refuse(question[3].decode(errors="replace") if len(question) > 3 else "", reason)
            self._handshakes += 1
            user = f"{self._handshakes:x} {key}".encode() if key else b""
            number = question[1] if len(question) > 1 else b""
            self.zap.send_multipart([_VERSION, number, b"400" if reason else b"200", reason.encode(), user, b""])

    def _admits(self, key: str) -> bool:
        """Return whether a key is in the table of keys, now."""
        return self._exchange.broker.register.knows_key(key)

    def _refuse(self, address: str, reason: str) -> None:
        """Log a refusal; the exchange limits the rate, because libzmq's peers may retry without limit."""
        self._exchange.note(Note("warning", "handshake.refused", {"address": address, "reason": reason}))

    def _look(self) -> None:
        """Pause the listeners when the system has no descriptor for another connection.

        libzmq retries and reports endlessly, and blocks while reports are unread: so unbind first, then read.
        """
        while not self._closed and readable(self._monitor):
            if self._bound:
                bound, self._bound = self._bound, []
                for text in bound:
                    self.router.unbind(text)
                self._loop.call_later(limits.LISTENER_REST_S, self._listen_again, bound)
                self._exchange.perform([Note("warning", "listener.rests", {"endpoints": ", ".join(bound)})])
            recv_monitor_message(self._monitor)

    def _listen_again(self, endpoints: list[str]) -> None:
        if self._closed:
            return
        left = []
        for text in endpoints:
            try:
                self._bind(text)
                self._bound.append(text)
            except LaunchError:  # no descriptor yet, or the old listener still exists
                left.append(text)
        if left:
            self._loop.call_later(limits.LISTENER_REST_S, self._listen_again, left)

    def retry(self, connection: ZmqConnection) -> None:
        """Schedule another attempt to pass on what a connection did not accept."""
        if not self._waiting:
            self._loop.call_later(RETRY_S, self._retry)
        if connection not in self._waiting:
            self._waiting.append(connection)

    def _retry(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not self._closed:
            for connection in waiting:
                connection.pump()
            self._exchange.flush()

    def pause(self) -> None:
        """Stop reading until `resume` has been called equally often."""
        self._pauses += 1

    def resume(self) -> None:
        """Resume reading."""
        self._pauses -= 1
        if not self._pauses:
            self.drain_soon()

    # -- receiving ----------------------------------------------------------------------------------------------------
    def drain_soon(self) -> None:
        """Schedule a receive, because the descriptor may not signal it."""
        if not self._drain_due and not self._draining:
            self._drain_due = True
            self._loop.call_soon(self._drain_again)

    def _drain_again(self) -> None:
        self._drain_due = False
        self._drain()

    def _drain(self) -> None:
        """Receive messages up to a bound, then give the other fronts their turn.

        The descriptor signals changes only, and a send swallows them: the loop continues until no message is left.
        """
        taken = 0
        self._draining = True
        try:
            while not self._closed and not self._pauses and readable(self.router) and taken < TURN_BYTES:
                if self._skipping:
                    taken += self._skip()
                    continue
                connection, frames = self._receive()
                taken += sum(map(len, frames)) + _MESSAGE_WORK_BYTES
                if connection is not None:
                    connection.take(frames)
                self._exchange.flush(connection)
        finally:
            self._draining = False
        if taken >= TURN_BYTES:
            self.drain_soon()

    def _receive(self) -> tuple[ZmqConnection | None, list[bytes]]:
        """Return the next message with its connection; of an oversized message only the first part, without the rest.

        libzmq limits the size of frames but not their number, and would return all frames at once.
        """
        part = self.router.recv(zmq.NOBLOCK, copy=False)
        connection = self._connection_of(part)
        frames_max, bytes_left = (connection.frames_max, connection.bytes_max) if connection else (0, 0)
        frames: list[bytes] = []
        while part.more and len(frames) <= frames_max and bytes_left >= 0:
            part = self.router.recv(zmq.NOBLOCK, copy=False)
            frames.append(part.bytes)
            bytes_left -= len(frames[-1])
        self._skipping = bool(part.more)
        return connection, frames

    def _skip(self) -> int:
        """Drop more of an oversized message; return the work that this counts for."""
        frames = 0
        while self._skipping and frames < limits.MESSAGE_FRAMES:
            self._skipping = bool(self.router.recv(zmq.NOBLOCK, copy=False).more)
            frames += 1
        return frames * _MESSAGE_WORK_BYTES

    def _connection_of(self, origin: zmq.Frame) -> ZmqConnection | None:
        """Return the connection of a message, made if it is new; None if its key is not in the table."""
        user, address = _said(origin, "User-Id"), _said(origin, "Peer-Address")
        connection = self._connections.get(user)
        if not self._admits(key_of(user)):
            self._refuse(address, "a message came with a key that is not in the table of keys")
            if connection is not None:
                connection.lose("its key was withdrawn")
            return None
        if connection is None:
            identity = origin.bytes
            former = self._connections.get(self._users.get(identity, ""))
            if former is not None:  # it has ended, otherwise libzmq would not reuse its routing id
                former.lose("its connection ended")
            self._users[identity] = user
            connection = ZmqConnection(self, self._exchange, user, identity, address)
            self._connections[user] = connection
        return connection


def _said(frame: zmq.Frame, name: str) -> str:
    """Return libzmq's property of the connection of a frame; empty if there is none."""
    try:
        return str(frame.get(name))
    except zmq.ZMQError:
        return ""
