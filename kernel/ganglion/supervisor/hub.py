"""The supervisor's own peer on the bus, and the broker that the supervisor starts and replaces."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion import errors, limits
from ganglion.supervisor.connection import Access, retry_after_s
from ganglion.supervisor.launch.local import Local
from ganglion.supervisor.launch.process import Process, end, within
from ganglion.supervisor.life import Restarts
from ganglion.transport.asynclink import AsyncLink
from ganglion.transport.endpoint import Bound, bind_local
from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.name import KERNEL, Role
from ganglion.wire.parcel import detach
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from ganglion.supervisor.recovery import Restarter
    from ganglion.supervisor.supervisor import Supervisor


Handler = Callable[[str, Any], Awaitable[Any]]
"""Take the caller's name and its request; return the reply message. A GanglionError is answered as ERROR."""

_ANSWERS_KEPT = limits.ANSWERS_PER_CALLER * limits.PEERS
_DONE_AGAIN = frozenset({"kernel.model", "kernel.keep"})  # too large to be kept, and safe to repeat
_ABSENT_S = 0.05  # between two attempts to reach a peer that will return
_NUMBERED = ("operator/", "observer/")  # a new broker may give these names to other peers
_BEAT_HERE = [b"", encode_head(Head(Verb.BEAT, 0, "here")), b""]
_BEAT_ASK = [b"", encode_head(Head(Verb.BEAT, 1)), b""]


@dataclass(slots=True)
class _Call:
    to: str
    call: str
    frames: list[bytes]
    answer: asyncio.Future[bytes]
    span_s: float | None
    scope: asyncio.Timeout | None = None  # of the task that waits for the answer

    def extend(self, now_s: float) -> None:
        """Restart the call's time span, because no peer could have answered."""
        if self.span_s is not None and self.scope is not None and not self.answer.done():
            self.scope.reschedule(now_s + self.span_s)


class Bus:
    """Connect the supervisor to the broker, on the running loop.

    `handlers` maps the name of a call to its handler. Each call runs in its own task: a supervisor receives a few calls
    per second, not thousands. A repeated call is executed once. `heard_s` is the time of the broker's last message.

    `listener` receives the messages that answer no call. A lost broker may be replaced: if the listener's `bus_closed`
    returns True, open calls wait for the next `join` and are then repeated. When `closed` is True, no call is answered
    any more.
    """

    def __init__(self, handlers: Mapping[str, Handler], listener: Supervisor) -> None:
        self._handlers = dict(handlers)
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._link: AsyncLink | None = None
        # Milliseconds since 1970, 1,024 serials each. No earlier supervisor has used these serials; a governor's
        # successor therefore never takes a new signal for a repetition of one in its journal.
        self._serial = time.time_ns() // 1_000_000 << 10
        self._pending: dict[int, _Call] = {}
        # (caller, serial, call) -> the answer; empty while the call is executed.
        self._answers: OrderedDict[tuple[str, int, str], list[bytes]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._welcome: asyncio.Future[None] = self._loop.create_future()
        self.heard_s = self._loop.time()
        self.closed = False
        self._reason = "the supervisor has left the bus"

    async def join(self, endpoint: str, token: str, topics: Sequence[str] = (), watched: Sequence[str] = ()) -> None:
        """Connect and join, subscribe to topics, watch peers, repeat open calls; it may be called again on failure."""
        self.heard_s = self._loop.time()
        self._welcome = self._loop.create_future()
        for key in [key for key in self._answers if key[0].startswith(_NUMBERED)]:
            del self._answers[key]
        self._link = link = await AsyncLink.connect(endpoint, self._receive, self.lose, timeout_s=limits.HANDSHAKE_S)
        hello = messages.Hello(messages.PROTOCOL_VERSION, Role.SUPERVISOR.value, "supervisor", token, "python")
        try:
            link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(messages.Hello).encode(hello)])
            async with asyncio.timeout(limits.HANDSHAKE_S):
                await self._welcome
        except BaseException as error:
            link.close()
            self._link = None
            if isinstance(error, TimeoutError):
                text = f"the broker did not answer HELLO within {limits.HANDSHAKE_S} s"
                raise errors.DeadlineExceeded(text) from error
            raise
        held = list(self._pending)
        await self.ask_all("kernel.subscribe", [messages.Subscribe(topic) for topic in topics])
        if watched:
            await self.ask(KERNEL, "kernel.watch", messages.Watch(list(watched)))
        for serial in held:
            self._repeat(serial)

    def close(self) -> None:
        """Send BYE and close the connection; no callback follows."""
        if self._link is not None:
            self._send([b"", encode_head(Head(Verb.BYE, 1)), b""])
            self._link.close()
        self.fail(self._reason)
        for task in self._tasks:
            task.cancel()

    def fail(self, reason: str) -> None:
        """Close without BYE; every open and every later call fails with this reason."""
        if self.closed:
            return
        self.closed, self._reason = True, reason
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(errors.PeerLost("broker", reason))

    # -- sending ------------------------------------------------------------------------------------------------------
    async def ask(self, to: str, call: str, request: Any, span_s: float | None = limits.DEADLINE_OTHER_S) -> Any:
        """Call a peer (the kernel: empty); return its reply, or raise CallFailed, DeadlineExceeded or PeerLost."""
        if self.closed:
            raise errors.PeerLost("broker", self._reason)
        row = messages.CALL_BY_NAME[call]
        self._serial = serial = self._serial + 1
        deadline_ms = None if span_s is None else int(1000 * span_s)
        head = encode_head(Head(Verb.CALL, serial, call, None, deadline_ms))
        try:
            request, parcels = detach(call, request)
            frames = [to.encode(), head, codec_of(row.request).encode(request), *parcels]
            pending = _Call(to, call, frames, self._loop.create_future(), span_s)
            self._pending[serial] = pending
            self._send(frames)
            async with asyncio.timeout(span_s) as pending.scope:
                body = await pending.answer
        except TimeoutError as error:
            raise errors.DeadlineExceeded(f"{to or 'the broker'} did not answer {call} within {span_s} s") from error
        finally:
            self._pending.pop(serial, None)
        return codec_of(row.reply).decode(body)

    async def ask_all(self, call: str, requests: Sequence[Any]) -> None:
        """Send several calls to the kernel concurrently; the first failure is raised."""
        await asyncio.gather(*(self.ask(KERNEL, call, request) for request in requests))

    def tell(self, topic: str, event: messages.RunEvent) -> None:
        """Publish an event; the loss of the broker is not reported here."""
        body = codec_of(messages.RunEvent).encode(event)
        self._send([topic.encode(), encode_head(Head(Verb.TELL, 0, "event")), body])

    def bid_leave(self, peer: str) -> None:
        """Ask a peer to leave."""
        self._send([peer.encode(), encode_head(Head(Verb.BYE, 1)), b""])

    def beat(self) -> None:
        """Send a BEAT to the broker; its answer updates `heard_s`."""
        self._send(_BEAT_ASK)

    def _send(self, frames: list[bytes]) -> None:
        if self._link is None or self.closed:
            return  # open calls are repeated later, or have failed with PeerLost
        try:
            self._link.send(frames)
        except errors.PeerLost as error:
            self.lose(error.reason)

    # -- receiving ----------------------------------------------------------------------------------------------------
    def _receive(self, frames: list[bytes]) -> None:
        self.heard_s = self._loop.time()
        try:
            self._dispatch(frames)
        except errors.RemoteProtocolError as error:
            self.lose(str(error))  # only the broker sends on this connection: it can no longer be trusted

    def _dispatch(self, frames: list[bytes]) -> None:
        peer, head = frames[0].decode(), decode_head(frames[1])
        body = frames[2] if len(frames) > 2 else b""
        match head.verb:
            case Verb.CALL:
                self._receive_call(peer, head, body)
            case Verb.REPLY | Verb.ERROR:
                self._settle(peer, head, body)
            case Verb.BEAT:
                if not head.call:
                    self._send(_BEAT_HERE)
            case Verb.WELCOME:
                self._welcome.set_result(None)
            case Verb.LOST:
                self._peer_lost(codec_of(messages.Lost).decode(body))
            case Verb.TELL if head.call == "kernel.joined":
                self._listener.peer_joined(codec_of(messages.Joined).decode(body))
            case Verb.TELL if head.call == "event":
                self._listener.told(peer, codec_of(messages.RunEvent).decode(body))
            case _:
                pass  # a BYE precedes the end of the connection; other messages are not for a supervisor

    def _settle(self, peer: str, head: Head, body: bytes) -> None:
        if head.verb is Verb.ERROR and not self._welcome.done():
            tree = decode_map(body)
            self._welcome.set_exception(errors.RemoteProtocolError(f"the broker refuses: {tree.get('message')}"))
            return
        pending = self._pending.get(head.serial)
        if pending is None or pending.answer.done():
            return  # late: no task waits for the reply any more
        if head.verb is Verb.REPLY:
            pending.answer.set_result(body)
            return
        tree = decode_map(body)
        again_s = retry_after_s(tree)
        if peer == KERNEL and again_s is not None:
            data = tree.get("data")
            if type(data) is dict and data.get("absent"):
                pending.extend(self._loop.time())
            self._loop.call_later(again_s, self._repeat, head.serial)
        else:
            pending.answer.set_exception(errors.CallFailed(pending.to or "the broker", pending.call, tree))

    def _repeat(self, serial: int) -> None:
        pending = self._pending.get(serial)
        if pending is not None and not pending.answer.done():
            self._send(pending.frames)

    def _peer_lost(self, lost: messages.Lost) -> None:
        for serial, pending in self._pending.items():
            if pending.to == lost.peer and not pending.answer.done():
                if lost.returns:
                    pending.extend(self._loop.time())
                    self._loop.call_later(_ABSENT_S, self._repeat, serial)
                else:
                    pending.answer.set_exception(errors.PeerLost(lost.peer, lost.reason))
        self._listener.peer_lost(lost)

    def lose(self, reason: str) -> None:
        """Treat the broker as lost, whatever the state of the connection."""
        if self.closed or self._link is None:
            return
        link, self._link = self._link, None
        link.close()
        if not self._welcome.done():
            self._welcome.set_exception(errors.PeerLost("broker", reason))
            self._welcome.exception()  # mark as retrieved: `join` may have given up already
        if not self._listener.bus_closed(reason):
            self.fail(reason)
            return
        for pending in self._pending.values():
            pending.extend(self._loop.time())

    def _receive_call(self, peer: str, head: Head, body: bytes) -> None:
        key = (peer, head.serial, head.call)
        if key in self._answers:
            if self._answers[key]:
                self._send(self._answers[key])
            return
        self._answers[key] = []
        task = self._loop.create_task(self._answer(peer, head, body, self._link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, peer: str, head: Head, body: bytes, link: AsyncLink | None) -> None:
        row, handler = messages.CALL_BY_NAME.get(head.call), self._handlers.get(head.call)
        content = Content.JSON if body[:1] == b"{" else Content.MSGPACK  # the answer uses the encoding of the request
        try:
            if row is None or handler is None:
                raise errors.LocalProtocolError(f"the supervisor knows no call {head.call[:80]!r}")
            reply = await handler(peer, codec_of(row.request).decode(body))
            verb, data = Verb.REPLY, codec_of(row.reply).encode(reply, content)
        except Exception as error:  # noqa: BLE001 - the outermost frame of the task: every caller gets an answer
            failure = messages.Failure("internal", f"{type(error).__name__}: {error}")
            if isinstance(error, errors.GanglionError):
                failure = messages.Failure(error.kind, str(error))
            verb, data = Verb.ERROR, codec_of(messages.Failure).encode(failure, content)
        frames = [peer.encode(), encode_head(Head(verb, head.serial)), data]
        key = (peer, head.serial, head.call)
        if head.call in _DONE_AGAIN:
            self._answers.pop(key, None)
        elif key in self._answers:
            self._answers[key] = frames
        while len(self._answers) > _ANSWERS_KEPT:
            self._answers.popitem(last=False)
        if link is self._link or not peer.startswith(_NUMBERED):
            self._send(frames)


NAME = "broker"
_DYING_S = 1.0  # between the end of the broker's connections and the end of its process


class Hub:
    """Keep a broker running at endpoints that stay bound while there is none.

    The hub holds the listening sockets and passes them to each broker: a peer that connects while there is no broker
    waits, and no other process can listen there. A broker knows the admissions and the superseded incarnations before
    it receives its first message. `bus` joins each broker in turn.
    """

    def __init__(self, launcher: Local, access: Access, owner: Restarter, bus: Bus, log: Path | None = None) -> None:
        self.process: Process | None = None
        self.since_s = math.inf  # when the present broker was joined, in the loop's time
        self.bus = bus
        self._launcher = launcher
        self._access = access
        self._owner = owner
        self._log = log
        self._bound: list[Bound] = []
        self._remote: list[str] = []
        self._lifeline = -1
        self._restarts = Restarts()
        self._coming: asyncio.Task[dict[str, list[str]]] | None = None  # until a broker has been joined
        self._closing = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def open(self, endpoints: Sequence[str], remote: Sequence[str] = ()) -> dict[str, list[str]]:
        """Bind, start a broker and join it; replace it if it is lost. Return the endpoints, or raise LaunchError."""
        for text in endpoints:
            self._bound.append(bind_local(text))
        self._remote = list(remote)
        self._coming = asyncio.ensure_future(self._come_up(0.0, first=True))
        return await self._coming

    async def close(self) -> None:
        """Leave the bus and stop the broker."""
        self._closing.set()
        if self._coming is not None:
            await asyncio.wait([self._coming])
        self.bus.close()
        self._cut_lifeline()
        if self.process is not None:
            await end(self.process)
        self._release_endpoints()

    def there_since(self, moment_s: float) -> bool:
        """Return True if there has been a broker without interruption since `moment_s` in the loop's time."""
        return self._coming is None and not self.bus.closed and self.since_s <= moment_s

    def bus_closed(self) -> bool:
        """Stop a broker whose connection is lost; return True if a successor will be started."""
        process = self.process
        if process is not None and not self._closing.is_set():
            self._loop.call_later(_DYING_S, process.signal, signal.SIGTERM)
            self._loop.call_later(_DYING_S + limits.LEAVE_TERMINATE_S, process.signal, signal.SIGKILL)
        wanted = not self._closing.is_set() and self._owner.wants_broker()
        return wanted or self._coming is not None

    # -- one broker ---------------------------------------------------------------------------------------------------
    async def _start_and_join(self) -> dict[str, list[str]]:
        """Start a broker at the bound endpoints and join it; PeerLost if it was killed, LaunchError if that fails."""
        self._cut_lifeline()
        descriptors = [bound.listening.fileno() for bound in self._bound]
        endpoints, admissions = [bound.endpoint for bound in self._bound], self._owner.admissions()
        order = self._access.order(endpoints, self._remote, descriptors, admissions)
        process = Process(NAME, self._log, self._ended)
        program = ["-m", "ganglion.transport.server"]
        line, self._lifeline = await self._launcher.serve(process, program, order, descriptors)
        self.process = process
        self.bus.heard_s = self._loop.time()
        answer: dict[str, list[str]] = json.loads(line)
        if "endpoints" not in answer:
            raise errors.LaunchError(f"the broker does not come up: {answer.get('error', 'no reason given')}")
        self._remote = answer.get("remote", [])
        topics, watched = self._owner.interests()
        joining = asyncio.ensure_future(
            self.bus.join(self._bound[0].endpoint, self._access.supervisor_token, topics, watched)
        )
        ending = asyncio.ensure_future(process.ended.wait())
        await asyncio.wait([joining, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if process.ended.is_set():
            joining.cancel()
            await asyncio.wait([joining])
            raise errors.PeerLost(NAME, f"it {process.end_text}")
        await joining
        self.since_s = self._loop.time()
        return answer

    async def _clear_away(self) -> None:
        """Kill a broker that was started but could not be joined."""
        self.bus.lose("a new broker is being started")
        self._cut_lifeline()
        if self.process is not None:
            self.process.signal(signal.SIGKILL)
            await self.process.ended.wait()

    def _cut_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _release_endpoints(self) -> None:
        for bound in self._bound:
            bound.close()
        self._bound = []

    # -- replacement --------------------------------------------------------------------------------------------------
    def _ended(self, process: Process) -> None:
        if self._closing.is_set() or process is not self.process or self._coming is not None:
            return  # the task that is starting a broker handles this end
        if self._loop.time() - self.since_s > limits.RESTARTS_WITHIN_S:
            self._restarts = Restarts()  # earlier losses are too old to count
        how, words, delay_s = process.end_text, list(process.output.lines), self._delay_s()
        if delay_s is None:
            self._give_up(how, words)
            return
        self._owner.broker_lost(how, words, True)
        self._coming = asyncio.ensure_future(self._come_up(delay_s))
        self.bus.lose(how)

    def _delay_s(self) -> float | None:
        """Return the delay before the next broker is started; None if none is to be started."""
        wanted = not self._closing.is_set() and self._owner.wants_broker()
        return self._restarts.next_s(NAME, self._loop.time()) if wanted else None

    def _give_up(self, how: str, words: list[str]) -> None:
        self._owner.broker_lost(how, words, False)
        self.bus.fail(f"it {how}")
        self._release_endpoints()

    async def _come_up(self, delay_s: float | None, first: bool = False) -> dict[str, list[str]]:
        """Start brokers until one is joined, none is wanted, or too many were lost; return the broker's answer.

        With `first` a caller waits for the result: LaunchError if no broker was joined.
        """
        lost_s, how = self._loop.time(), ""
        while delay_s is not None and not await within(self._closing, delay_s):
            try:
                answer = await self._start_and_join()
            except (errors.GanglionError, OSError) as error:
                await self._clear_away()
                if first and not isinstance(error, errors.PeerLost):
                    raise
                how, delay_s = str(error), self._delay_s()
                continue
            self._coming = None
            if not first:
                self._owner.broker_back(self.since_s - lost_s)
            return answer
        self._coming = None
        if first:
            raise errors.LaunchError(f"the broker does not come up: {how}")
        if not self._closing.is_set():
            self._give_up(f"is gone, and a new one does not come up: {how}", [])
        return {}
