"""The native front: ZMTP on uvloop."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Sequence
from typing import cast

from ganglion import limits
from ganglion.broker.link import Note
from ganglion.transport.endpoint import Bound, bind_local
from ganglion.transport.exchange import LARGE_BYTES, Exchange, Served
from ganglion.transport.zmtp import Broken, Connection, Message, State, encode, encode_error
from ganglion.wire.name import Role

_ACCEPTS_PER_TURN = 16  # then existing connections have their turn
_DECISIONS_PER_CALLBACK = limits.MESSAGES_PER_CALLBACK // 16  # a decision costs as much as this many messages without
_FULL_READ_BYTES = 250_000  # uvloop reads 256,000 bytes at once, up to 32 times before the turn of another connection
_SLEEPER_S = 0.75  # a check this late reports no timeout: the broker itself was stopped
_SHAKING_HANDS = (State.SIGNATURE, State.VERSION, State.READY)


class NativeConnection(Served, asyncio.Protocol):
    """Serve one connection: forward what the fast path allows, and pass everything else to the broker.

    The connection is also the sink of its peer. At most one write of the event loop is in progress. Later messages wait
    in a backlog, where urgent messages come first.
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        now_s = exchange.clock()
        self._zmtp = Connection(listening=True)
        self._waiting_bytes = 0  # in the backlog
        self._rest: tuple[bytes, int] | None = None  # the part of a chunk beyond one turn, and the position in it
        self._writing = False  # the event loop has not written all data yet
        self._closing = False
        self._pauses = 0
        self._wait_s = 0.0  # delay before the next read: the peer has used up its share of time
        self._arrived_s = now_s
        self._looked_s = now_s
        self._coming = (now_s, 0)  # time and byte count of the last progress of an unfinished message
        self._going = (now_s, 0)  # time and byte count of the last progress in writing

    # -- callbacks of the event loop ----------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting; close the connection of another user without an answer."""
        exchange = self._exchange
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has the same methods but another type
        # Every write is tried at once; `pause_writing` reports that it was incomplete.
        self._transport.set_write_buffer_limits(high=0)
        begun_s = exchange.clock()
        user, origin = _other_end(self._transport)
        self.link, effects = exchange.broker.connect(begun_s, origin)
        self.link.sink = self
        if user not in (None, 0, os.getuid()):  # root may act for any user
            self.lose("it belongs to another user")
        else:
            self._speak()
            exchange.perform(effects)
        exchange.flush()
        ended_s = exchange.clock()
        self._wait_s = exchange.shares.spend(self.link, ended_s - begun_s, ended_s)
        if self._wait_s:
            self._yield(b"", 0)

    def data_received(self, data: bytes) -> None:
        """Process as much of a chunk as one turn allows; the rest follows after the turns of all others."""
        self._turn(data, 0, len(data) >= _FULL_READ_BYTES)

    def _turn(self, data: bytes, position: int, full: bool = False) -> None:
        try:
            position = self._work(data, position)
        except Exception as error:  # noqa: BLE001  # a defect of the broker ends this connection and no other
            reason = f"{type(error).__name__}: {error}"[:300]
            self._exchange.note(Note("error", "connection.failed", {"name": self.link.name, "reason": reason}))
            if not self._closing:
                self.lose("the broker failed at what it sent")
            return
        if position < len(data) or full or self._wait_s:
            self._yield(data, position)

    def _work(self, data: bytes, position: int) -> int:
        """Process a chunk by the fast path where possible, else event by event; return the position reached."""
        exchange = self._exchange
        now_s = self._arrived_s = exchange.clock()
        zmtp = self._zmtp
        end, taken_bytes = len(data), zmtp.taken_bytes
        decisions = 0
        while position < end and not self._closing:
            if zmtp.plain:
                start, position = position, self.walk(data, position)
                if position > start:
                    self.link.heard_s = now_s
                if position == end or self.tired:
                    break
            if decisions == _DECISIONS_PER_CALLBACK:
                break
            decisions += 1
            event, position = zmtp.advance(data, position, now_s)
            if zmtp.outgoing:
                self._speak()
            if type(event) is Message:
                self._take(event, now_s)
            elif type(event) is Broken:
                self._break(event.reason)
            self._account()
            if self._wait_s:
                break
        self.tired = False
        if zmtp.taken_bytes > taken_bytes:
            self.link.heard_s = now_s  # a peer cannot answer a BEAT within a large message
        answered = bool(self.out)
        if exchange.dirty:
            exchange.flush(self)
        if answered and self.link.queued_bytes > limits.QUEUE_MARK_BYTES and not self._closing:
            self.hold(self)  # a peer that does not read answers may not send more calls
        return position

    def _account(self) -> None:
        peer = self.link.peer
        if (peer is None or peer.role is not Role.BRAIN) and not self._closing:
            self._exchange.budget.account(self, self._zmtp.arrived_bytes, self._zmtp.unfinished_bytes)

    def _yield(self, data: bytes, position: int) -> None:
        """Give all others their turn before the rest of a chunk is processed or more is read."""
        if not self._closing:
            self._rest = data, position
            self._transport.pause_reading()
            self._exchange.later(self._wait_s, self._go_on)
            self._wait_s = 0.0

    def _go_on(self) -> None:
        """Process the rest of a chunk, unless reading is paused: then `resume` calls again."""
        if self._rest is None or self._pauses:
            return
        rest, self._rest = self._rest, None
        self._turn(*rest)
        if self._rest is None:
            self._read_on()

    def pause_writing(self) -> None:
        """Record that the other side does not read fast enough."""
        self._writing = True
        self._count()

    def resume_writing(self) -> None:
        """Continue writing, urgent messages first."""
        self._writing = False
        self._pump()
        if self.link.queued_bytes <= limits.QUEUE_MARK_BYTES // 2:
            self.release()

    def connection_lost(self, error: Exception | None) -> None:
        """Report the end of the connection to the broker."""
        exchange, link = self._exchange, self.link
        self._shut()
        reason = str(error) if error else "it closed the connection"
        exchange.perform(exchange.broker.disconnect(link, reason, exchange.clock()))
        exchange.flush()
        link.sink = None

    def _shut(self) -> None:
        """Stop receiving, and release all stopped senders."""
        self._closing = True
        self._zmtp.close()
        self._exchange.budget.forget(self)
        self.release()
        self._rest = None

    # -- receiving without the fast path ------------------------------------------------------------------------------
    def _take(self, message: Message, now_s: float) -> None:
        """Process one message that the fast path has left over."""
        link, exchange = self.link, self._exchange
        pieces = message.pieces
        to = b"".join(pieces[0])
        if to in link.routes and len(pieces) > 2 and self.forward(to, b"".join(pieces[1]), message.encode_body()):
            link.heard_s = now_s
            return
        begun_s = exchange.clock()
        exchange.perform(exchange.broker.receive(link, message.frames, now_s))
        ended_s = exchange.clock()
        self._wait_s = exchange.shares.spend(link, ended_s - begun_s, ended_s)

    def _break(self, reason: str) -> None:
        """End the connection of a peer that broke the transport protocol."""
        exchange = self._exchange
        effects = exchange.broker.disconnect(self.link, reason, exchange.clock())
        exchange.perform([Note("warning", "connection.broken", {"name": self.link.name, "reason": reason}), *effects])
        self.finish(reason)

    def _speak(self) -> None:
        """Send the pending output of the protocol itself."""
        if not self.out:
            self._exchange.dirty.append(self)
        self.out.append(bytes(self._zmtp.outgoing))
        self._zmtp.outgoing.clear()

    # -- sending: the sink of this peer -------------------------------------------------------------------------------
    def send(self, frames: Sequence[bytes]) -> None:
        """Take one message that the broker sends; an urgent message overtakes queued ones."""
        if self._zmtp.state in _SHAKING_HANDS:
            return  # a message before READY would break the protocol; `finish` sends the reason
        if not self._prefix and (message_bytes := self.joined()):
            self._zmtp.join(message_bytes)
        parts = encode(frames)
        if self._writing and self.overtakes(frames, parts):
            self._waiting_bytes += sum(map(len, parts))
        else:
            self.out += parts

    def flush(self) -> bool:
        """Write the collected messages; True if more than the mark was queued before."""
        out = self.out
        if not out:
            return False
        if not self._writing and not self.large:
            self._transport.write(b"".join(out))
            out.clear()
            return False
        above = self.link.queued_bytes > limits.QUEUE_MARK_BYTES
        item = out if self.large else [b"".join(out)]
        self._backlog.append(item)
        self._waiting_bytes += sum(map(len, item))
        self.out, self.large = [], False
        self._pump()
        return above

    def _pump(self) -> None:
        """Pass pieces to the event loop until it cannot write them at once."""
        while not self._writing and (self._urgent or self._backlog):
            item = (self._urgent or self._backlog).popleft()
            self._waiting_bytes -= sum(map(len, item))
            self._transport.writelines(item)
        self._count()
        if self._closing and not self._writing:
            self._transport.close()

    def _count(self) -> None:
        self.link.queued_bytes = self._waiting_bytes + self._transport.get_write_buffer_size()

    def pause(self) -> None:
        """Stop reading until `resume` has been called equally often."""
        self._pauses += 1
        if self._pauses == 1 and not self._closing:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Resume reading."""
        self._pauses -= 1
        self._read_on()

    def _read_on(self) -> None:
        """Continue with the rest of a chunk, else read, unless reading is paused."""
        if self._pauses or self._closing:
            return
        if self._rest is None:
            self._transport.resume_reading()
        else:
            self._exchange.later(0.0, self._go_on)

    def finish(self, reason: str) -> None:
        """Write the queue, for half a second at most, then close; an unjoined connection gets less time."""
        if self._closing:
            return
        if self._zmtp.state in _SHAKING_HANDS:
            self.out.append(encode_error(reason))
        self.flush()
        self._shut()
        self._exchange.later(limits.CLOSING_S if self._prefix else limits.CLOSING_UNJOINED_S, self._transport.abort)
        if self._writing:
            if not self._pauses:
                self._transport.pause_reading()
        else:
            self._transport.close()

    def _end(self) -> None:
        self._shut()
        self._transport.abort()

    def look(self, now_s: float) -> None:
        """End a connection that reads nothing, does not finish a message, or is silent beyond its own PING."""
        if self._closing:
            return
        zmtp = self._zmtp
        late = now_s - self._looked_s > _SLEEPER_S
        self._looked_s = now_s
        going = self._transport.get_write_buffer_size()
        # While others wait for its room, a message must progress by more than single bytes.
        step = LARGE_BYTES if self._exchange.budget.pressed else 1
        grown = zmtp.taken_bytes - self._coming[1] >= step
        if late or grown or not zmtp.unfinished or self._pauses or self._rest:
            self._coming = (now_s, zmtp.taken_bytes)
        if late or not going or going != self._going[1]:
            self._going = (now_s, going)
        if late:
            self._arrived_s = now_s
        if self._pauses:
            self.link.heard_s, self.link.asked_s = now_s, None  # the broker itself does not read
        if now_s - self._coming[0] > limits.UNFINISHED_IDLE_S:
            self.lose(f"it began a message and sent nothing of it for {limits.UNFINISHED_IDLE_S} s (unfinished_idle_s)")
        elif now_s - self._going[0] > limits.PROGRESS_S:
            self.lose(f"it took nothing of {self.link.queued_bytes} bytes for {limits.PROGRESS_S} s (progress_s)")
        elif zmtp.silence_s is not None and now_s - self._arrived_s > zmtp.silence_s and not self._pauses:
            self.lose(f"it was silent for longer than the {zmtp.silence_s} s that its PING allowed")


def _other_end(transport: asyncio.Transport) -> tuple[int | None, str]:
    """Return the user (None if unknown) and the origin of a connection: its process or its address."""
    connected = transport.get_extra_info("socket")
    if connected is None:
        return None, ""
    if connected.family != socket.AF_UNIX:
        address = transport.get_extra_info("peername")
        return None, str(address[0]) if address else ""
    if not hasattr(socket, "SO_PEERCRED"):
        return None, ""
    pid, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user, f"process {pid}"


class NativeFront:
    """Listen at endpoints of this machine and serve all connections; needs a running event loop.

    Without descriptors (or memory) left, the system keeps reporting a waiting connection and accepts none, so that a
    listening loop would spin. The listener then pauses and retries ten times a second; connections are served.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._bound: list[Bound] = []
        self._taking: set[asyncio.Task[None]] = set()

    async def listen(self, text: str) -> str:
        """Listen at an endpoint and return it as bound; LaunchError gives the reason of a failure."""
        bound = bind_local(text)
        self._bound.append(bound)
        self.adopt(bound.listening)
        return bound.endpoint

    def adopt(self, listening: socket.socket) -> None:
        """Serve all connections to an already listening socket; `close` does not remove its file."""
        listening.setblocking(False)
        self._listening.append(listening)
        self._look_at(listening)

    def close(self) -> None:
        """Stop listening and remove the socket files; connections end with the event loop."""
        for listening in self._listening:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._listening = []
        for bound in self._bound:
            bound.close()

    def _look_at(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connected, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(limits.LISTENER_REST_S, self._look_at, listening)
                self._warn("listener.resting", error)
                return
            connected.setblocking(False)
            if connected.family != socket.AF_UNIX:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._take(connected))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: NativeConnection(self._exchange), connected)
        except OSError as error:
            connected.close()
            self._warn("connection.failed", error)

    def _warn(self, event: str, error: OSError) -> None:
        self._exchange.note(Note("warning", event, {"reason": error.strerror or str(error)}))
