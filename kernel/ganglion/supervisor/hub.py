"""The supervisor's own peer on the bus, and the broker that the supervisor starts and replaces."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion import errors, limits
from ganglion.supervisor.connection import Access
from ganglion.supervisor.launch.local import Local
from ganglion.supervisor.launch.process import Process, end, within
from ganglion.supervisor.life import Restarts
from ganglion.transport.asynclink import AsyncLink
from ganglion.transport.endpoint import Bound, bind_local
from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of
from ganglion.wire.conversation import Answer, Conversation, Incoming, Notice, Request, read_welcome
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.name import KERNEL, Role
from ganglion.wire.parcel import detach
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from ganglion.supervisor.recovery import Restarter
    from ganglion.supervisor.supervisor import Supervisor


Handler = Callable[[str, Any], Awaitable[Any]]
"""Take the caller's name and its request; return the reply message. A GanglionError is answered as ERROR."""

_DONE_AGAIN = frozenset({"kernel.model", "kernel.keep"})  # their replies are too large to be kept
_NUMBERED = ("operator/", "observer/")  # a new broker may give these names to other peers
_BEAT_ASK = [b"", encode_head(Head(Verb.BEAT, 1)), b""]


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
        self._conversation = Conversation()
        # Milliseconds since 1970, 1,024 serials each. No earlier supervisor has used these serials; a governor's
        # successor therefore never takes a new signal for a repetition of one in its journal.
        self._conversation.go_on(time.time_ns() // 1_000_000 << 10)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}  # serial of an open call -> the body of its reply
        self._alarm: asyncio.TimerHandle | None = None  # calls `_tick`
        self._alarm_s = math.inf
        self._tasks: set[asyncio.Task[None]] = set()
        self._hello: messages.Hello  # set by `join`
        self._welcome: asyncio.Future[None] = self._loop.create_future()
        self.heard_s = self._loop.time()
        self.closed = False
        self._reason = "the supervisor has left the bus"

    async def join(self, endpoint: str, token: str, topics: Sequence[str] = (), watched: Sequence[str] = ()) -> None:
        """Connect and join, subscribe to topics, watch peers, repeat open calls; it may be called again on failure."""
        self.heard_s = self._loop.time()
        self._welcome = self._loop.create_future()
        self._conversation.forget(_NUMBERED)
        self._link = link = await AsyncLink.connect(endpoint, self._receive, self.lose, timeout_s=limits.HANDSHAKE_S)
        role, name = Role.SUPERVISOR.value, "supervisor"
        self._hello = messages.Hello(messages.PROTOCOL_VERSION, role, name, token, "python")
        try:
            link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(messages.Hello).encode(self._hello)])
            async with asyncio.timeout(limits.HANDSHAKE_S):
                await self._welcome
        except BaseException as error:
            link.close()
            self._link = None
            if isinstance(error, TimeoutError):
                text = f"the broker did not answer HELLO within {limits.HANDSHAKE_S} s"
                raise errors.DeadlineExceeded(text) from error
            raise
        again = self._conversation.repeat_all(self._loop.time())
        await self.ask_all("kernel.subscribe", [messages.Subscribe(topic) for topic in topics])
        if watched:
            await self.ask(KERNEL, "kernel.watch", messages.Watch(list(watched)))
        for frames in again:
            self._send(frames)

    def close(self) -> None:
        """Send BYE and close the connection; no callback follows."""
        if self._link is not None:
            self._send(self._conversation.bye())
            self._link.close()
        self.fail(self._reason)
        for task in self._tasks:
            task.cancel()

    def fail(self, reason: str) -> None:
        """Close without BYE; every open and every later call fails with this reason."""
        if self.closed:
            return
        self.closed, self._reason = True, reason
        if self._alarm is not None:
            self._alarm.cancel()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(errors.PeerLost("broker", reason))

    # -- sending ------------------------------------------------------------------------------------------------------
    async def ask(self, to: str, call: str, request: Any, span_s: float | None = limits.DEADLINE_OTHER_S) -> Any:
        """Call a peer (the kernel: empty); return its reply, or raise CallFailed, DeadlineExceeded or PeerLost."""
        if self.closed:
            raise errors.PeerLost("broker", self._reason)
        row = messages.CALL_BY_NAME[call]
        request, parcels = detach(call, request)
        body, now_s = codec_of(row.request).encode(request), self._loop.time()
        pending, frames = self._conversation.call(to, call, body, now_s, span_s, blobs=parcels)
        waiting = self._waiting[pending.serial] = self._loop.create_future()
        try:
            self._send(frames)
            self._set_alarm()
            return codec_of(row.reply).decode(await waiting)
        finally:
            del self._waiting[pending.serial]
            # A call that is still open has lost its caller.
            self._conversation.give_up(self._conversation.open([pending.serial]), self._loop.time())

    async def ask_all(self, call: str, requests: Sequence[Any]) -> None:
        """Send several calls to the kernel concurrently; the first failure is raised."""
        await asyncio.gather(*(self.ask(KERNEL, call, request) for request in requests))

    def tell(self, topic: str, event: messages.RunEvent) -> None:
        """Publish an event; the loss of the broker is not reported here."""
        self._send(self._conversation.tell(topic, "event", codec_of(messages.RunEvent).encode(event)))

    def bid_leave(self, peer: str) -> None:
        """Ask a peer to leave."""
        self._send([peer.encode(), *self._conversation.bye()[1:]])

    def beat(self) -> None:
        """Send a BEAT to the broker; its answer updates `heard_s`."""
        self._send(_BEAT_ASK)

    def _send(self, frames: Sequence[bytes]) -> None:
        if self._link is None or self.closed or not self._welcome.done():
            return  # open calls are repeated later, or have failed with PeerLost
        try:
            self._link.send(frames)
        except errors.PeerLost as error:
            self.lose(error.reason)

    def _set_alarm(self) -> None:
        """Have `_tick` called when a call is late, or is to be repeated."""
        due_s = self._conversation.nearest_s
        if due_s < self._alarm_s and not self.closed:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm, self._alarm_s = self._loop.call_at(due_s + 0.001, self._tick), due_s

    def _tick(self) -> None:
        self._alarm, self._alarm_s, now_s = None, math.inf, self._loop.time()
        for frames in self._conversation.repeat(now_s):
            self._send(frames)
        for answer in self._conversation.give_up(self._conversation.late(now_s), now_s):
            self._settle(answer)
        self._conversation.deadline_before(math.inf)  # it finds the nearest anew
        self._set_alarm()

    def forget(self, run: str) -> None:
        """Forget the replies to the participants of a run that is over."""
        self._conversation.forget((f"{run}/",))

    # -- receiving ----------------------------------------------------------------------------------------------------
    def _receive(self, frames: list[bytes]) -> None:
        now_s = self.heard_s = self._loop.time()
        try:
            if not self._welcome.done():
                read_welcome(frames, self._hello, False)
                self._welcome.set_result(None)
                return
            incoming, known = self._conversation.receive(frames, now_s)
            for reply in known:
                self._send(reply)
            for one in incoming:
                self._take(one)
            self._set_alarm()
        except errors.RemoteProtocolError as error:
            if not self._welcome.done():
                self._welcome.set_exception(error)
            self.lose(str(error))  # only the broker sends on this connection: it can no longer be trusted

    def _take(self, one: Incoming) -> None:
        match one:
            case Answer():
                self._settle(one)
            case Request():
                task = self._loop.create_task(self._answer(one, self._link))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case messages.Lost():
                self._listener.peer_lost(one)
            case Notice() if one.head.call == "kernel.joined":
                self._listener.peer_joined(codec_of(messages.Joined).decode(one.body))
            case Notice() if one.head.call == "event":
                self._listener.told(one.peer, codec_of(messages.RunEvent).decode(one.body))
            case _:
                pass  # a BYE precedes the end of the connection; other messages are not for a supervisor

    def _settle(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.pending.serial)
        if waiting is None or waiting.done():
            return
        if answer.error is None:
            waiting.set_result(answer.body)
        else:
            waiting.set_exception(answer.error)

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
        for pending in self._conversation.waits():
            self._conversation.wait_on(pending, self._loop.time())

    async def _answer(self, request: Request, link: AsyncLink | None) -> None:
        call = request.head.call
        row, handler = messages.CALL_BY_NAME.get(call), self._handlers.get(call)
        content = Content.JSON if request.body[:1] == b"{" else Content.MSGPACK  # the answer uses the same encoding
        try:
            if row is None or handler is None:
                raise errors.LocalProtocolError(f"the supervisor knows no call {call[:80]!r}")
            reply = await handler(request.peer, codec_of(row.request).decode(request.body))
            verb, data = Verb.REPLY, codec_of(row.reply).encode(reply, content)
        except Exception as error:  # noqa: BLE001 - the outermost frame of the task: every caller gets an answer
            failure = messages.Failure("internal", f"{type(error).__name__}: {error}")
            if isinstance(error, errors.GanglionError):
                failure = messages.Failure(error.kind, str(error))
            verb, data = Verb.ERROR, codec_of(messages.Failure).encode(failure, content)
        numbered = request.peer.startswith(_NUMBERED)
        if link is self._link or not numbered:
            kept = not numbered and call not in _DONE_AGAIN
            self._send(self._conversation.reply(request, data, (), verb.value, kept))


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
