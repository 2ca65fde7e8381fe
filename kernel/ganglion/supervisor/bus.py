"""The supervisor's own place on the bus: asks, answers, watches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.errors import (
    CallFailed,
    DeadlineExceeded,
    GanglionError,
    LocalProtocolError,
    PeerLost,
    RemoteProtocolError,
)
from ganglion.limits import DEADLINE_OTHER_S, HANDSHAKE_S
from ganglion.supervisor.answers import Answers
from ganglion.transport.asynclink import AsyncLink
from ganglion.wire.codec import Content, codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import (
    CALL_BY_NAME,
    PROTOCOL_VERSION,
    Failure,
    Hello,
    Joined,
    Lost,
    RunEvent,
    Subscribe,
    Watch,
)
from ganglion.wire.name import KERNEL, Role
from ganglion.wire.parcel import detach
from ganglion.wire.verb import Verb

__all__ = ["Bus", "Handler", "Listener"]

Handler = Callable[[str, Any], Awaitable[Any]]
"""Take the caller's name and its request; return the reply's message. A GanglionError is answered as ERROR."""

_ABSENT_S = 0.05  # between two tries to reach who will return
_NUMBERED = ("operator/", "observer/")  # names that a new broker gives to others
_BEAT_HERE = [b"", encode_head(Head(Verb.BEAT, 0, "here")), b""]
_BEAT_ASK = [b"", encode_head(Head(Verb.BEAT, 1)), b""]


class Listener:
    """Hear what nobody asked for; a supervisor overrides what it wants to know."""

    def peer_joined(self, joined: Joined) -> None:
        """Hear that a peer that is watched has joined."""

    def peer_lost(self, lost: Lost) -> None:
        """Hear that a peer that is watched is gone."""

    def told(self, peer: str, event: RunEvent) -> None:
        """Hear an event of a run."""

    def bus_closed(self, reason: str) -> bool:
        """Hear that the broker is gone; say whether questions are to wait until `join` is called again."""
        return False


@dataclass(slots=True)
class _Question:
    to: str
    call: str
    frames: list[bytes]
    answer: asyncio.Future[bytes]
    span_s: float | None
    scope: asyncio.Timeout | None = None  # of who waits for the answer

    def wait_on(self, now_s: float) -> None:
        """Let the whole time begin again: there was nobody who could have answered."""
        if self.span_s is not None and self.scope is not None and not self.answer.done():
            self.scope.reschedule(now_s + self.span_s)


class Bus:
    """Speak to the broker as the supervisor, on the running loop.

    `handlers` are called by the name of a call, each in a task of its own: a supervisor is asked a few times a
    second, not a few thousand times; what is asked twice is carried out once. `heard_s` is when the broker last spoke.

    A broker that is lost may be replaced: if the listener says so, questions wait for the next `join` and are said
    again then. `closed` says that nothing more will be answered.
    """

    def __init__(self, handlers: Mapping[str, Handler], listener: Listener) -> None:
        self._handlers = dict(handlers)
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._link: AsyncLink | None = None
        self._serial = 0
        self._pending: dict[int, _Question] = {}
        self._answers = Answers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._welcome: asyncio.Future[None] = self._loop.create_future()
        self.heard_s = self._loop.time()
        self.closed = False
        self._reason = "we have left"

    async def join(
        self, endpoint: str, token: str, topics: Sequence[str] = (), watched: Sequence[str] = ()
    ) -> None:
        """Connect, join, read topics, watch peers, and say again what is not answered.

        PeerLost, DeadlineExceeded or RemoteProtocolError say why that failed; it may be tried again, unless the bus is
        closed.
        """
        self.heard_s = self._loop.time()
        self._welcome = self._loop.create_future()
        self._answers.forget(_NUMBERED)
        self._link = link = await AsyncLink.connect(
            endpoint, self._receive, self._lost, timeout_s=HANDSHAKE_S
        )
        hello = Hello(PROTOCOL_VERSION, Role.SUPERVISOR.value, "supervisor", token, "python")
        try:
            link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
            async with asyncio.timeout(HANDSHAKE_S):
                await self._welcome
        except BaseException as error:
            link.close()
            self._link = None
            if isinstance(error, TimeoutError):
                text = f"the broker did not answer HELLO within {HANDSHAKE_S} s"
                raise DeadlineExceeded(text) from error
            raise
        held = list(self._pending)
        await self.ask_all("kernel.subscribe", [Subscribe(topic) for topic in topics])
        if watched:
            await self.ask(KERNEL, "kernel.watch", Watch(list(watched)))
        for serial in held:
            self._repeat(serial)

    def close(self) -> None:
        """Say BYE and close; no callback follows."""
        if self._link is not None:
            self._send([b"", encode_head(Head(Verb.BYE, 1)), b""])
            self._link.close()
        self.fail(self._reason)
        for task in self._tasks:
            task.cancel()

    def lose(self, reason: str) -> None:
        """Take note that the broker is gone, whatever the connection says."""
        self._lost(reason)

    def fail(self, reason: str) -> None:
        """Close without a word: all that is asked, now or later, fails for this reason."""
        if self.closed:
            return
        self.closed, self._reason = True, reason
        for question in self._pending.values():
            if not question.answer.done():
                question.answer.set_exception(PeerLost("broker", reason))

    # -- what we say --------------------------------------------------------------------------------------------------
    async def ask(self, to: str, call: str, request: Any, span_s: float | None = DEADLINE_OTHER_S) -> Any:
        """Ask a peer (or the kernel, empty) and return its reply.

        Raises CallFailed with what the other side says, DeadlineExceeded after `span_s`, PeerLost when the peer or
        the broker is gone.
        """
        if self.closed:
            raise PeerLost("broker", self._reason)
        row = CALL_BY_NAME[call]
        self._serial = serial = self._serial + 1
        deadline_ms = None if span_s is None else int(1000 * span_s)
        head = encode_head(Head(Verb.CALL, serial, call, None, deadline_ms))
        try:
            request, parcels = detach(call, request)
            frames = [to.encode(), head, codec_of(row.request).encode(request), *parcels]
            question = _Question(to, call, frames, self._loop.create_future(), span_s)
            self._pending[serial] = question
            self._send(frames)
            async with asyncio.timeout(span_s) as question.scope:
                body = await question.answer
        except TimeoutError as error:
            raise DeadlineExceeded(f"{to or 'the broker'} did not answer {call} within {span_s} s") from error
        finally:
            self._pending.pop(serial, None)
        return codec_of(row.reply).decode(body)

    async def ask_all(self, call: str, requests: Sequence[Any]) -> None:
        """Ask the kernel the same for several names at once; the first failure is raised."""
        await asyncio.gather(*(self.ask(KERNEL, call, request) for request in requests))

    def tell(self, topic: str, event: RunEvent) -> None:
        """Tell those who look on what happened; a broker that is gone is found out elsewhere."""
        self._send(
            [topic.encode(), encode_head(Head(Verb.TELL, 0, "event")), codec_of(RunEvent).encode(event)]
        )

    def bid_leave(self, peer: str) -> None:
        """Ask a peer to leave."""
        self._send([peer.encode(), encode_head(Head(Verb.BYE, 1)), b""])

    def beat(self) -> None:
        """Ask the broker whether it is there; `heard_s` tells the answer."""
        self._send(_BEAT_ASK)

    def _send(self, frames: list[bytes]) -> None:
        if self._link is None or self.closed:
            return  # questions are said again, or have been answered with PeerLost
        try:
            self._link.send(frames)
        except PeerLost as error:
            self._lost(error.reason)

    # -- what we hear -------------------------------------------------------------------------------------------------
    def _receive(self, frames: list[bytes]) -> None:
        self.heard_s = self._loop.time()
        try:
            self._take(frames)
        except RemoteProtocolError as error:
            self._lost(str(error))  # only the broker speaks on this connection: it cannot be trusted any more

    def _take(self, frames: list[bytes]) -> None:
        peer, head = frames[0].decode(), decode_head(frames[1])
        body = frames[2] if len(frames) > 2 else b""
        match head.verb:
            case Verb.CALL:
                self._hear_call(peer, head, body)
            case Verb.REPLY | Verb.ERROR:
                self._settle(peer, head, body)
            case Verb.BEAT:
                if not head.call:
                    self._send(_BEAT_HERE)
            case Verb.WELCOME:
                self._welcome.set_result(None)
            case Verb.LOST:
                self._lose(codec_of(Lost).decode(body))
            case Verb.TELL if head.call == "kernel.joined":
                self._listener.peer_joined(codec_of(Joined).decode(body))
            case Verb.TELL if head.call == "event":
                self._listener.told(peer, codec_of(RunEvent).decode(body))
            case _:
                pass  # a BYE is followed by the end of the connection; other news are not for a supervisor

    def _settle(self, peer: str, head: Head, body: bytes) -> None:
        if head.verb is Verb.ERROR and not self._welcome.done():
            tree = decode_map(body)
            self._welcome.set_exception(RemoteProtocolError(f"the broker refuses: {tree.get('message')}"))
            return
        question = self._pending.get(head.serial)
        if question is None or question.answer.done():
            return  # late: nobody waits for it any more
        if head.verb is Verb.REPLY:
            question.answer.set_result(body)
            return
        tree = decode_map(body)
        after_ms = tree.get("retry_after_ms")
        if peer == KERNEL and tree.get("kind") == "busy" and type(after_ms) is int and after_ms > 0:
            data = tree.get("data")
            if type(data) is dict and data.get("absent"):
                question.wait_on(self._loop.time())
            self._loop.call_later(after_ms / 1000, self._repeat, head.serial)
        else:
            question.answer.set_exception(CallFailed(question.to or "the broker", question.call, tree))

    def _repeat(self, serial: int) -> None:
        """Ask again what was not answered, unless nobody waits for it any more."""
        question = self._pending.get(serial)
        if question is not None and not question.answer.done():
            self._send(question.frames)

    def _lose(self, lost: Lost) -> None:
        for serial, question in self._pending.items():
            if question.to == lost.peer and not question.answer.done():
                if lost.returns:
                    question.wait_on(self._loop.time())
                    self._loop.call_later(_ABSENT_S, self._repeat, serial)
                else:
                    question.answer.set_exception(PeerLost(lost.peer, lost.reason))
        self._listener.peer_lost(lost)

    def _lost(self, reason: str) -> None:
        if self.closed or self._link is None:
            return
        link, self._link = self._link, None
        link.close()
        if not self._welcome.done():
            self._welcome.set_exception(PeerLost("broker", reason))
            self._welcome.exception()  # `join` may have given up already
        if not self._listener.bus_closed(reason):
            self.fail(reason)
            return
        for question in self._pending.values():
            question.wait_on(self._loop.time())

    def _hear_call(self, peer: str, head: Head, body: bytes) -> None:
        known = self._answers.begin(peer, head.serial, head.call)
        if known is None:
            task = self._loop.create_task(self._answer(peer, head, body, self._link))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif known:
            self._send(known)

    async def _answer(self, peer: str, head: Head, body: bytes, link: AsyncLink | None) -> None:
        row, handler = CALL_BY_NAME.get(head.call), self._handlers.get(head.call)
        content = Content.JSON if body[:1] == b"{" else Content.MSGPACK  # as we are asked, so we answer
        try:
            if row is None or handler is None:
                raise LocalProtocolError(f"the supervisor knows no call {head.call[:80]!r}")
            reply = await handler(peer, codec_of(row.request).decode(body))
            verb, data = Verb.REPLY, codec_of(row.reply).encode(reply, content)
        except GanglionError as error:
            failure = Failure(error.kind, str(error))
            verb, data = Verb.ERROR, codec_of(Failure).encode(failure, content)
        except Exception as error:  # noqa: BLE001 - the outermost frame of the task: a caller is answered always
            failure = Failure("internal", f"{type(error).__name__}: {error}")
            verb, data = Verb.ERROR, codec_of(Failure).encode(failure, content)
        frames = [peer.encode(), encode_head(Head(verb, head.serial)), data]
        self._answers.end(peer, head.serial, head.call, frames)
        if link is self._link or not peer.startswith(_NUMBERED):
            self._send(frames)
