"""The native front: ZMTP on uvloop."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from ganglion.broker.link import Note
from ganglion.limits import (
    CLOSING_S,
    CLOSING_UNJOINED_S,
    GREETING_PAUSE_S,
    LISTENER_REST_S,
    MESSAGE_BYTES,
    MESSAGE_BYTES_LARGE,
    MESSAGE_FRAMES,
    MESSAGES_PER_CALLBACK,
    PROGRESS_S,
    QUEUE_MARK_BYTES,
    UNFINISHED_IDLE_S,
    URGENT_MESSAGES,
)
from ganglion.transport.binding import Bound, bind_local
from ganglion.transport.exchange import (
    ANSWERS,
    CALL,
    LARGE_BYTES,
    SERIAL_BYTES,
    TELL,
    URGENT,
    Exchange,
    Sink,
    Waiting,
    passes,
)
from ganglion.transport.frames import encode, encode_error, frame_header
from ganglion.transport.zmtp import Broken, Connection, Message, State
from ganglion.wire.name import Role

_ACCEPTS_PER_TURN = 16  # then those who are connected already have their turn


class Listener:
    """Hand each connection to a protocol of its own; needs a running event loop.

    Without descriptors (or memory) left the system goes on to say that somebody waits, and accepts nobody: who listens
    on spins. We rest instead, and look again ten times a second. Those who are connected are served meanwhile.
    """

    def __init__(
        self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol], note: Callable[[Note], None]
    ) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._protocol = protocol
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._taking: set[asyncio.Task[None]] = set()
        self._waking: asyncio.TimerHandle | None = None
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        """Listen no more; connections stay."""
        if self._listening.fileno() >= 0:
            if self._waking is None:
                self._loop.remove_reader(self._listening.fileno())
            else:
                self._waking.cancel()
            self._listening.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connected, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM
                self._rest(error)
                return
            connected.setblocking(False)
            if connected.family != socket.AF_UNIX:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._take(connected))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connected)
        except OSError as error:
            connected.close()
            self._note(Note("warning", "connection.failed", {"reason": error.strerror or str(error)}))

    def _rest(self, error: OSError) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._waking = self._loop.call_later(LISTENER_REST_S, self._wake)
        self._note(Note("warning", "listener.resting", {"reason": error.strerror or str(error)}))

    def _wake(self) -> None:
        self._waking = None
        self._loop.add_reader(self._listening.fileno(), self._accept)
        self._accept()


_LARGE_ROLES = (Role.BRAIN, Role.GOVERNOR)
_BODY_FRAMES = range(MESSAGE_FRAMES - 2)
_WALK = range(MESSAGES_PER_CALLBACK)
_DECISIONS_PER_CALLBACK = MESSAGES_PER_CALLBACK // 16  # a decision takes as long as so many that need none
_FULL_READ_BYTES = 250_000  # uvloop reads 256,000 at once, up to 32 times before anybody else has a turn
_SLEEPER_S = 0.75  # a look that comes so late accuses nobody: it was us who slept
_SHAKING_HANDS = (State.SIGNATURE, State.VERSION, State.IDENTITY, State.READY)


class NativeConnection(asyncio.Protocol):
    """Serve one connection: walk what arrives, forward it, ask the broker about everything else.

    It is also the sink of its peer. At most one write of the event loop is under way; what comes after it waits in a
    backlog of our own, where urgent messages go first.
    """

    __slots__ = (
        "_arrived_s",
        "_backlog",
        "_closing",
        "_coming",
        "_exchange",
        "_going",
        "_held",
        "_link",
        "_looked_s",
        "_pauses",
        "_prefix",
        "_rest",
        "_tired",
        "_transport",
        "_urgent",
        "_wait_s",
        "_waiting_bytes",
        "_writing",
        "_zmtp",
        "large",
        "out",
    )

    def __init__(self, exchange: Exchange) -> None:
        now_s = exchange.clock()
        self._exchange = exchange
        self._zmtp = Connection(listening=True)
        self.out: list[bytes] = []
        self.large = False
        self._prefix = b""  # the `from` frame of what this peer sends; empty until it has joined
        self._urgent: deque[list[bytes]] = deque()
        self._backlog: deque[list[bytes]] = deque()
        self._waiting_bytes = 0  # in these two
        self._rest: tuple[bytes, int] | None = None  # of a chunk: what was too much for one turn
        self._tired = False  # the walk has forwarded as much as one turn allows
        self._writing = False  # the event loop has not written all that we gave it
        self._closing = False
        self._held = Waiting()  # for less to wait here
        self._pauses = 0
        self._wait_s = 0.0  # before more of it is taken: it has used up its share of our time
        self._arrived_s = now_s
        self._looked_s = now_s
        self._coming = (now_s, 0)  # since when so much has come of messages, while one is unfinished
        self._going = (now_s, 0)  # since when so much waits to be written

    # -- what the event loop calls ------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet; who connects from another user is sent away without a word."""
        exchange = self._exchange
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its type
        # Every write is tried at once, and `pause_writing` says that it was not completed.
        self._transport.set_write_buffer_limits(high=0)
        begun_s = exchange.clock()
        user, origin = _other_end(self._transport)
        self._link, effects = exchange.broker.connect(begun_s, origin)
        self._link.sink = self
        if user not in (None, 0, os.getuid()):  # root may be anybody
            self._lose("it belongs to another user")
        else:
            self._speak()
            exchange.perform(effects)
        exchange.flush()
        ended_s = exchange.clock()
        self._wait_s = exchange.shares.spend(self._link, ended_s - begun_s, ended_s)
        if self._wait_s:
            self._yield(b"", 0)

    def data_received(self, data: bytes) -> None:
        """Take a chunk, as much of it as one turn allows; the rest when everybody else has had his."""
        self._arrived_s = self._exchange.clock()
        try:
            position = self._work(data, 0)
        except Exception as error:  # noqa: BLE001  # a defect of ours ends this connection and no other
            self._fail(error)
            return
        if position < len(data) or len(data) >= _FULL_READ_BYTES or self._wait_s:
            self._yield(data, position)

    def _work(self, data: bytes, position: int) -> int:
        """Take a chunk: the fast way while it leads on, else one event after the other; return how far it came."""
        exchange = self._exchange
        now_s = exchange.clock()
        zmtp = self._zmtp
        end, taken_bytes = len(data), zmtp.taken_bytes
        decisions = 0
        while position < end and not self._closing:
            if zmtp.plain:
                start, position = position, self._walk(data, position)
                if position > start:
                    self._link.heard_s = now_s
                if position == end or self._tired:
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
        self._tired = False
        if zmtp.taken_bytes > taken_bytes:
            self._link.heard_s = now_s  # who sends a large message cannot answer a BEAT in its midst
        answered = bool(self.out)
        if exchange.dirty:
            exchange.flush(self)
        if answered and self._link.queued_bytes > QUEUE_MARK_BYTES and not self._closing:
            self.hold(self)  # who does not read our answers may wait with his questions
        return position

    def _account(self) -> None:
        peer = self._link.peer
        if (peer is None or peer.role is not Role.BRAIN) and not self._closing:
            self._exchange.budget.account(self, self._zmtp.arrived_bytes, self._zmtp.unfinished_bytes)

    def _yield(self, data: bytes, position: int) -> None:
        """Let all others have their turn before the rest of a chunk, and before more is read."""
        if not self._closing:
            self._rest = data, position
            self._transport.pause_reading()
            self._exchange.later(self._wait_s, self._go_on)
            self._wait_s = 0.0

    def _go_on(self) -> None:
        """Take the rest of a chunk, unless somebody wants us to wait; he will call again."""
        rest = self._rest
        if rest is None or self._pauses:
            return
        self._rest = None
        data, position = rest
        try:
            position = self._work(data, position)
        except Exception as error:  # noqa: BLE001  # as in `data_received`
            self._fail(error)
            return
        if position < len(data) or self._wait_s:
            self._yield(data, position)
        else:
            self._read_on()

    def _fail(self, error: Exception) -> None:
        """End the connection at which we failed."""
        reason = f"{type(error).__name__}: {error}"[:300]
        self._exchange.note(Note("error", "connection.failed", {"name": self._link.name, "reason": reason}))
        if not self._closing:
            self._lose("we failed at what it sent")

    def _walk(self, data: bytes, start: int) -> int:
        """Forward the messages at `start` that need no decision; return where the first other one begins.

        This is the hot path: per message one look at the table of routes, one at the verb, and two appends to the
        destination's list. What is not plain, allowed and complete is left to the slow way, which knows all rules;
        `exchange.passes` is the readable twin of the conditions here. No function is called per message: a call costs
        as much as all of it.
        """
        end = len(data)
        routes = self._link.routes
        dirty = self._exchange.dirty
        prefix = self._prefix
        try:
            for _ in _WALK:
                if start == end:
                    return start
                if data[start] != 1:  # [to]: short, more follows
                    return start
                head = start + 2 + data[start + 1]
                route = routes.get(data[start + 2 : head])
                # [head]: short, more follows, an array of 1 to 5 that begins with the verb
                if route is None or data[head] != 1 or data[head + 1] < 2 or not 0x90 < data[head + 2] < 0x96:
                    return start
                stop = head + 2 + data[head + 1]
                for _ in _BODY_FRAMES:
                    flags = data[stop]
                    if flags < 2:
                        stop += 2 + data[stop + 1]
                    elif flags < 4:
                        stop += 9 + int.from_bytes(data[stop + 1 : stop + 9], "big")
                    else:
                        return start
                    if not flags & 1:
                        break
                else:
                    return start
                if stop > end:
                    return start
                verb = data[head + 3]
                if not route.allowed >> verb & 1:
                    return start
                if verb == CALL:
                    if len(route.open) >= route.limit or route.target.queued_bytes > QUEUE_MARK_BYTES:
                        return start
                    # the name of the call: behind the serial, of an array of three or more, within its frame
                    named = head + 4 + SERIAL_BYTES[data[head + 4]]
                    tail = named + 1 + (data[named] & 31)
                    if data[head + 2] < 0x93 or tail > head + 2 + data[head + 1] or data[named:tail] not in route.calls:
                        return start
                    route.open.append(data[head + 4 : named])
                elif verb in ANSWERS:
                    back = route.back
                    # the serial: of an array of two or more, within its frame
                    named = head + 4 + SERIAL_BYTES[data[head + 4]]
                    serial = data[head + 4 : named]
                    if (
                        back is None
                        or serial not in back.open
                        or data[head + 2] < 0x92
                        or named > head + 2 + data[head + 1]
                    ):
                        return start
                    back.open.remove(serial)
                elif verb != TELL:
                    return start
                sink = route.target.sink
                out = sink.out
                if not out:
                    dirty.append(sink)
                out.append(prefix)
                out.append(data[head:stop])
                start = stop
            self._tired = True
        except IndexError:  # the chunk ends within a header
            pass
        return start

    def pause_writing(self) -> None:
        """Remember that the other side does not take what we write."""
        self._writing = True
        self._count()

    def resume_writing(self) -> None:
        """Write on: urgent messages first."""
        self._writing = False
        self._pump()
        if self._link.queued_bytes <= QUEUE_MARK_BYTES // 2:
            self._held.release()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the broker."""
        exchange, link = self._exchange, self._link
        self._closing = True
        self._zmtp.close()
        exchange.budget.forget(self)
        self._held.release()
        self._rest = None
        reason = str(error) if error else "it closed the connection"
        exchange.perform(exchange.broker.disconnect(link, reason, exchange.clock()))
        exchange.flush()
        link.sink = None

    # -- the slow way in ----------------------------------------------------------------------------------------------
    def _take(self, message: Message, now_s: float) -> None:
        """Take one message that the walk has left over."""
        link, exchange = self._link, self._exchange
        if self._prefix and self._forward(message):
            link.heard_s = now_s
            return
        begun_s = exchange.clock()
        exchange.perform(exchange.broker.receive(link, message.frames, now_s))
        ended_s = exchange.clock()
        self._wait_s = exchange.shares.spend(link, ended_s - begun_s, ended_s)
        if not self._prefix and link.peer is not None:
            name = link.peer.name.encode()
            self._prefix = frame_header(len(name), more=True) + name
            self._zmtp.join(MESSAGE_BYTES_LARGE if link.peer.role in _LARGE_ROLES else MESSAGE_BYTES)

    def _forward(self, message: Message) -> bool:
        """Forward a message whose way is known, its frames in the pieces in which they came."""
        pieces = message.pieces
        route = self._link.routes.get(b"".join(pieces[0]))
        head = b"".join(pieces[1]) if len(pieces) > 2 else b""
        if route is None or not passes(route, head):
            return False
        sink: Sink = route.target.sink
        if not sink.out:
            self._exchange.dirty.append(sink)
        sink.out.append(self._prefix)
        sink.out += message.encode_tail(1)
        sink.large = sink.large or any(len(piece) >= LARGE_BYTES for piece in sink.out)
        return True

    def _break(self, reason: str) -> None:
        """End the connection of one who broke the protocol of the transport."""
        exchange = self._exchange
        effects = exchange.broker.disconnect(self._link, reason, exchange.clock())
        exchange.perform([Note("warning", "connection.broken", {"name": self._link.name, "reason": reason}), *effects])
        self.finish(reason)

    def _speak(self) -> None:
        """Send what the protocol itself has to say."""
        if not self.out:
            self._exchange.dirty.append(self)
        self.out.append(bytes(self._zmtp.outgoing))
        self._zmtp.outgoing.clear()

    # -- the way out: the sink of this peer ---------------------------------------------------------------------------
    def send(self, frames: Sequence[bytes]) -> None:
        """Take one message of the kernel's decision; an urgent one overtakes what waits."""
        if self._zmtp.state in _SHAKING_HANDS:
            return  # a message before READY would be a breach of ours; `finish` says what there is to say
        parts = encode(frames)
        if self._writing and frames[1][1] in URGENT:
            self._urgent.append(parts)
            self._waiting_bytes += sum(map(len, parts))
            if len(self._urgent) > URGENT_MESSAGES:
                self._lose(f"it left {URGENT_MESSAGES} urgent messages unread")
        else:
            self.out += parts

    def flush(self) -> bool:
        """Write what has been collected; True if more than the mark was waiting before."""
        out = self.out
        if not out:
            return False
        if not self._writing and not self.large:
            self._transport.write(b"".join(out))
            out.clear()
            return False
        above = self._link.queued_bytes > QUEUE_MARK_BYTES
        item = out if self.large else [b"".join(out)]
        self._backlog.append(item)
        self._waiting_bytes += sum(map(len, item))
        self.out, self.large = [], False
        self._pump()
        return above

    def _pump(self) -> None:
        """Give the event loop the next pieces until it cannot write them at once."""
        while not self._writing and (self._urgent or self._backlog):
            item = (self._urgent or self._backlog).popleft()
            self._waiting_bytes -= sum(map(len, item))
            self._transport.writelines(item)
        self._count()
        if self._closing and not self._writing:
            self._transport.close()

    def _count(self) -> None:
        self._link.queued_bytes = self._waiting_bytes + self._transport.get_write_buffer_size()

    def hold(self, sender: Sink) -> None:
        """Stop reading from `sender` until half of what may wait here is left."""
        self._held.stop(sender)

    def pause(self) -> None:
        """Stop reading, until `resume` was called as often."""
        self._pauses += 1
        if self._pauses == 1 and not self._closing:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on reading."""
        self._pauses -= 1
        self._read_on()

    def _read_on(self) -> None:
        """Go on with the rest of a chunk, else read, unless somebody wants us to wait."""
        if self._pauses or self._closing:
            return
        if self._rest is None:
            self._transport.resume_reading()
        else:
            self._exchange.later(0.0, self._go_on)

    def finish(self, reason: str) -> None:
        """Write what is waiting, for half a second at most, then close; a stranger has less."""
        if self._closing:
            return
        if self._zmtp.state in _SHAKING_HANDS and self._zmtp.greeted:
            self.out.append(encode_error(reason))
        self.flush()
        self._closing = True
        self._zmtp.close()
        self._exchange.budget.forget(self)
        self._held.release()
        self._rest = None
        self._exchange.later(CLOSING_S if self._prefix else CLOSING_UNJOINED_S, self._transport.abort)
        if self._writing:
            if not self._pauses:
                self._transport.pause_reading()
        else:
            self._transport.close()

    def _lose(self, reason: str) -> None:
        """End the connection at once."""
        exchange = self._exchange
        exchange.perform(exchange.broker.disconnect(self._link, reason, exchange.clock()))
        self._closing = True
        self._zmtp.close()
        self._rest = None
        exchange.budget.forget(self)
        self._held.release()
        self._transport.abort()

    def look(self, now_s: float) -> None:
        """End the connection of one who takes nothing, sends nothing of what he has begun, or asked us to."""
        if self._closing:
            return
        zmtp = self._zmtp
        if not zmtp.greeted and now_s - self._arrived_s > GREETING_PAUSE_S:
            zmtp.greet()
            if zmtp.outgoing:
                self._speak()
        late = now_s - self._looked_s > _SLEEPER_S
        self._looked_s = now_s
        going = self._transport.get_write_buffer_size()
        # Where others wait for the room that it takes, a message must get on, and not by single bytes.
        step = LARGE_BYTES if self._exchange.budget.pressed else 1
        grown = zmtp.taken_bytes - self._coming[1] >= step
        if late or grown or not zmtp.unfinished or self._pauses or self._rest:
            self._coming = (now_s, zmtp.taken_bytes)
        if late or not going or going != self._going[1]:
            self._going = (now_s, going)
        if late:
            self._arrived_s = now_s
        if self._pauses:
            self._link.heard_s, self._link.asked_s = now_s, None  # it is we who do not listen
        if now_s - self._coming[0] > UNFINISHED_IDLE_S:
            self._lose(f"it began a message and sent nothing of it for {UNFINISHED_IDLE_S} s (unfinished_idle_s)")
        elif now_s - self._going[0] > PROGRESS_S:
            self._lose(f"it took nothing of {self._link.queued_bytes} bytes for {PROGRESS_S} s (progress_s)")
        elif zmtp.silence_s is not None and now_s - self._arrived_s > zmtp.silence_s and not self._pauses:
            self._lose(f"it was silent for longer than the {zmtp.silence_s} s that its PING allowed")


def _other_end(transport: asyncio.Transport) -> tuple[int | None, str]:
    """Return user, None if the system does not tell, and origin of who has connected: his process or his address."""
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
    """Listen at endpoints of this machine and serve who connects."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._listeners: list[Listener] = []
        self._bound: list[Bound] = []

    async def listen(self, text: str) -> str:
        """Listen at an endpoint and return it as bound; LaunchError says why it cannot be."""
        bound = bind_local(text)
        self._bound.append(bound)
        self.adopt(bound.listening)
        return bound.endpoint

    def adopt(self, listening: socket.socket) -> None:
        """Serve who connects, or has connected already, to a socket that listens; its file is somebody else's."""
        made = Listener(listening, lambda: NativeConnection(self._exchange), self._exchange.note)
        self._listeners.append(made)

    def close(self) -> None:
        """Listen no more and remove our socket files; connections end with the event loop."""
        for listener in self._listeners:
            listener.close()
        for bound in self._bound:
            bound.close()
