"""One process joined to the bus: a thread that asks and answers, and a pulse that says it is there.

The thread that runs the hooks also reads the link: a message costs no change of thread. While a hook runs for long, a
second thread, the pulse, reads in its place: it answers BEAT and keeps everything else for later. A process whose
interpreter hangs runs neither, and is found by its silence.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from ganglion.errors import CallFailed, DeadlineExceeded, GanglionError, PeerLost, RemoteProtocolError
from ganglion.limits import BEAT_AFTER_SILENCE_S, HANDSHAKE_S, WAIT_REPORT_S
from ganglion.peer.conversation import Answer, Conversation, Gone, Incoming, Leave, Pending, Request, Told
from ganglion.peer.failure import failure_of
from ganglion.wire.codec import Content, codec_of, decode_map
from ganglion.wire.envelope import Head, Position, decode_head, encode_head
from ganglion.wire.messages import CALL_BY_NAME, PROTOCOL_VERSION, Failure, Hello, RunEvent, Welcome
from ganglion.wire.name import topic
from ganglion.wire.parcel import attach, detach
from ganglion.wire.verb import Verb

__all__ = [
    "DEFERRED",
    "Handler",
    "LinkLike",
    "Mend",
    "Participant",
    "is_loss",
    "show_failure",
    "wrong_answer",
]

_PULSE_S = BEAT_AFTER_SILENCE_S / 2
_TELL_LONGEST_S = 64.0
_IDLE_S = 1.0  # how long a quiet peer sleeps between looks at its deadlines

DEFERRED: Any = object()
"""What a handler returns when it answers later, by `Participant.reply`."""

Handler = Callable[[Request, Any], Any]
"""Take a request and its decoded message; return the reply's message, or DEFERRED. What it raises is answered."""


Mend = Callable[[int, GanglionError], Pending]
"""Take the place of a call whose callee is lost, and the error; return the call asked anew, or raise."""


class LinkLike(Protocol):
    """What a participant needs of a link."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after `timeout_s`; raise PeerLost when the other side is gone."""

    def close(self) -> None:
        """Close the link."""


class Participant:
    """Be a peer: call others, answer their calls, hear what is told.

    Args:
        link: Joined to nothing yet.
        handlers: By the name of a call; what is not in it is answered `unknown_call`.
        told: Called for each TELL and SIGNAL, between two requests or while a call is awaited.
        gone: Called for each peer that is lost.
        clock: Gives monotonic seconds.
        pulse: Whether a second thread reads the link while a hook runs for long; without it such a peer falls silent.
    """

    def __init__(
        self,
        link: LinkLike,
        handlers: Mapping[str, Handler],
        told: Callable[[Told], None] | None = None,
        gone: Callable[[Gone], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        pulse: bool = True,
    ) -> None:
        self.name = ""
        self.welcome: Welcome | None = None
        self.contents: dict[str, Content] = {}
        self.leaving: Leave | None = None
        self.on_answer: Callable[[Answer], None] | None = None
        self.on_failure: Callable[[str, Failure], None] | None = None
        self._link = link
        self._handlers = handlers
        self._told = told
        self._gone = gone
        self.clock = clock
        self._pulses = pulse
        self._conversation = Conversation()
        self._inbox: deque[Incoming] = deque()
        self._lock = threading.Lock()
        self._busy_since_s: float | None = None
        self._closed = threading.Event()
        self._lost: PeerLost | None = None
        self._told_wait_s = 0.0
        self._tell_after_s = WAIT_REPORT_S

    # -- joining and leaving ------------------------------------------------------------------------------------------
    def join(self, hello: Hello, timeout_s: float = HANDSHAKE_S * 5) -> Welcome:
        """Say HELLO and wait for WELCOME; RemoteProtocolError says why the kernel refuses."""
        self._link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        frames = self._link.receive(timeout_s)
        if frames is None:
            raise DeadlineExceeded(f"the kernel did not answer HELLO within {timeout_s} s")
        head = decode_head(frames[1])
        body = frames[2] if len(frames) > 2 else b""
        if head.verb is Verb.ERROR:
            tree = decode_map(body)
            raise RemoteProtocolError(
                f"the kernel refuses {hello.name!r}: {tree.get('message', 'no reason given')}"
            )
        if head.verb is not Verb.WELCOME:
            raise RemoteProtocolError(f"expected WELCOME, found {head.verb.name}")
        self.welcome = codec_of(Welcome).decode(body)
        self.name = self.welcome.name
        self._conversation.begin(self.welcome.incarnation)
        if self._pulses:
            threading.Thread(target=self._pulse, name="pulse", daemon=True).start()
        return self.welcome

    @staticmethod
    def hello(role: str, name: str, token: str, incarnation: int = 0) -> Hello:
        """Return the HELLO of a Python peer."""
        return Hello(PROTOCOL_VERSION, role, name, token, "python", "msgpack", incarnation, ["beats_in_call"])

    def leave(self, reason: str = "") -> None:
        """Say BYE and close; waits for the answer for a moment, then goes all the same."""
        self._closed.set()
        with self._lock:
            try:
                self._link.send(self._conversation.bye(reason))
                deadline_s = self.clock() + HANDSHAKE_S
                while self.clock() < deadline_s:
                    frames = self._link.receive(0.2)
                    if frames is not None and decode_head(frames[1]).verb is Verb.BYE:
                        break
            except GanglionError:
                pass  # the broker is gone before us: there is nobody to say it to
            self._link.close()

    # -- serving ------------------------------------------------------------------------------------------------------
    def serve(self, tick: Callable[[], None] | None = None, idle_s: float = _IDLE_S) -> Leave:
        """Answer requests until we are told to leave; returns why.

        `tick` is called at least every `idle_s` seconds. PeerLost is raised when the broker is gone.
        """
        while self.leaving is None:
            incoming = self._next(idle_s)
            if incoming is not None:
                self._take(incoming)
            if tick is not None:
                self._work(tick)
        return self.leaving

    def reply(self, request: Request, message: Any, blobs: Sequence[bytes] = ()) -> None:
        """Answer a request that was deferred."""
        call = CALL_BY_NAME[request.head.call]
        body = codec_of(call.reply).encode(message, self.contents.get(request.peer, Content.MSGPACK))
        self._send(self._conversation.reply(request, body, blobs))

    def fail(self, request: Request, failure: Failure) -> None:
        """Answer a request with ERROR."""
        self._send(self._conversation.fail(request, failure))

    # -- asking -------------------------------------------------------------------------------------------------------
    def ask(
        self,
        peer: str,
        call: str,
        message: Any,
        span_s: float | None,
        position: Position | None = None,
        blobs: Sequence[bytes] = (),
    ) -> Pending:
        """Send a CALL; the answer goes to `on_answer`, or is collected by `gather`."""
        content = self.contents.get(peer, Content.MSGPACK)
        message, parcels = detach(call, message)
        blobs = parcels or blobs
        body = codec_of(CALL_BY_NAME[call].request).encode(message, content)
        pending, frames = self._conversation.call(peer, call, body, self.clock(), span_s, position, blobs)
        self._send(frames)
        return pending

    def gather(self, asked: Sequence[Pending], mend: Mend | None = None) -> list[Any]:
        """Wait for the answers to these calls; return their messages in the order of `asked`."""
        return [message for message, _ in self.collect(asked, mend)]

    def collect(
        self, asked: Sequence[Pending], mend: Mend | None = None
    ) -> list[tuple[Any, tuple[bytes, ...]]]:
        """Wait for the answers to these calls; return their messages and blobs in the order of `asked`.

        Raises the first failed answer's error, in order of arrival: what else was asked is still awaited by nobody.
        Requests that come meanwhile wait; what is told is heard at once. `mend` gets the place of a call whose callee
        is lost, and the error; it returns the call as it was asked anew, or raises.
        """
        given, asked = asked, list(asked)
        open_serials = {pending.serial for pending in asked}
        answers: dict[int, Answer] = {}
        while open_serials:
            incoming = self._receive(_IDLE_S, open_serials)
            if not incoming and asked:
                self._tell_wait(asked[0].since_s, open_serials)
            for i, one in enumerate(incoming):
                if type(one) is Answer and one.pending.serial in open_serials:
                    if one.error is not None:
                        self._inbox.extendleft(reversed(incoming[i + 1 :]))  # not ours to lose
                        if mend is None or not is_loss(one.error):
                            raise one.error
                        place = next(k for k, a in enumerate(asked) if a.serial == one.pending.serial)
                        open_serials.discard(one.pending.serial)
                        asked[place] = mend(place, one.error)
                        open_serials.add(asked[place].serial)
                        break
                    open_serials.discard(one.pending.serial)
                    answers[one.pending.serial] = one
                elif type(one) is Told or type(one) is Gone:
                    self._hear(one)
                else:
                    self._inbox.append(one)
        found = []
        for first, pending in zip(given, asked, strict=True):
            answer = answers[pending.serial]
            first.body = answer.body
            try:
                message = codec_of(CALL_BY_NAME[pending.call].reply).decode(answer.body)
            except RemoteProtocolError as error:  # who answered is to blame, not who asked
                raise wrong_answer(pending.peer, pending.call, error) from error
            found.append((message, answer.blobs))
        return found

    def call(
        self, peer: str, call: str, message: Any, span_s: float | None, position: Position | None = None
    ) -> Any:
        """Send a CALL and wait for its answer."""
        return self.gather([self.ask(peer, call, message, span_s, position)])[0]

    def tell(
        self, peer: str, name: str, message: Any, verb: Verb = Verb.TELL, blobs: Sequence[bytes] = ()
    ) -> None:
        """Tell a peer or a topic something."""
        body = codec_of(type(message)).encode(message, self.contents.get(peer, Content.MSGPACK))
        self._send(self._conversation.tell(peer, name, body, verb, blobs))

    def _tell_wait(self, since_s: float, serials: set[int]) -> None:
        """Say for whom we wait: after two seconds without anything, then after twice as long each time."""
        now_s = self.clock()
        if self._told_wait_s < since_s:
            self._told_wait_s, self._tell_after_s = since_s, WAIT_REPORT_S
        if now_s - self._told_wait_s < self._tell_after_s or self.welcome is None or not self.welcome.run:
            return
        self._told_wait_s, self._tell_after_s = now_s, min(2 * self._tell_after_s, _TELL_LONGEST_S)
        for pending in self._conversation.waits():
            if pending.serial in serials:
                fields = {"text": pending.describe(now_s), "name": self.name}
                self.tell(
                    topic(self.welcome.run, "waits"),
                    "event",
                    RunEvent("waiting", fields, time.time(), "waits"),
                )

    def told_to_leave(self) -> bool:
        """Say whether a BYE waits to be obeyed."""
        with self._lock:  # the pulse may be filling the inbox
            return any(type(one) is Leave for one in self._inbox)

    def pump(self, timeout_s: float) -> None:
        """Wait once for something to happen, and let what is told be heard; requests wait."""
        for one in self._receive(min(timeout_s, _IDLE_S), frozenset()):
            if type(one) is Told or type(one) is Gone:
                self._hear(one)
            else:
                self._inbox.append(one)

    # -- inside -------------------------------------------------------------------------------------------------------
    def _send(self, frames: Sequence[bytes]) -> None:
        with self._lock:
            self._link.send(frames)

    def _next(self, wait_s: float) -> Incoming | None:
        if not self._inbox:
            self._inbox.extend(self._receive(wait_s, None))
        return self._inbox.popleft() if self._inbox else None

    def _take(self, incoming: Incoming) -> None:
        if type(incoming) is Request:
            self._work(lambda: self._answer(incoming))
        elif type(incoming) is Answer:
            if self.on_answer is not None:
                self.on_answer(incoming)
        elif type(incoming) is Leave:
            self.leaving = incoming
        else:
            self._hear(incoming)

    def _work(self, act: Callable[[], None]) -> None:
        """Do what may take long; the pulse reads in our place meanwhile."""
        self._busy_since_s = self.clock()
        try:
            act()
        finally:
            self._busy_since_s = None

    def _answer(self, request: Request) -> None:
        handler = self._handlers.get(request.head.call)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            text = f"expected one of {known}, found {request.head.call[:80]!r}"
            self.fail(request, Failure("unknown_call", text))
            return
        try:
            message = codec_of(CALL_BY_NAME[request.head.call].request).decode(request.body)
            reply = handler(request, attach(request.head.call, message, request.blobs))
            if reply is not DEFERRED:
                self.reply(request, reply)
        except PeerLost as error:
            if error is self._lost:
                raise
            self.fail(request, failure_of(error))
        except Exception as error:  # noqa: BLE001 - the outermost loop: whatever it is, the caller must hear of it
            failure = failure_of(error)
            show_failure(error, failure)
            self.fail(request, failure)
            if self.on_failure is not None:
                self.on_failure(request.head.call, failure)

    def _hear(self, incoming: Incoming) -> None:
        if type(incoming) is Told and self._told is not None:
            self._told(incoming)
        elif type(incoming) is Gone and self._gone is not None:
            self._gone(incoming)

    def _receive(self, wait_s: float, awaited: AbstractSet[int] | None) -> list[Incoming]:
        """Return what comes next; waits for one message, until a deadline of ours or for `wait_s` at the longest.

        With `awaited` only what is told and the answers to these calls end the wait if they are in the inbox; all else
        that is there stays.
        """
        conversation = self._conversation
        now_s = self.clock()
        # The usual wait is always of the same length: another one would cost the link a system call.
        deadline_s = conversation.deadline_before(now_s + wait_s)
        if deadline_s is not None:
            wait_s = max(0.0, deadline_s - now_s)
        busy, self._busy_since_s = self._busy_since_s is not None, None
        try:
            with self._lock:
                if self._inbox:  # the pulse has read, or an earlier wait
                    ready = [] if awaited is None else self._ready(awaited)
                    if ready or awaited is None:
                        return ready
                frames = self._link.receive(wait_s)
                incoming = self._read(frames)
                for said_again in conversation.repeat(self.clock()):
                    self._link.send(said_again)
        except PeerLost as error:
            self._lost = error
            raise
        finally:
            if busy:
                self._busy_since_s = self.clock()
        if frames is None:
            expired: list[Incoming] = list(conversation.expire(self.clock()))
            return expired
        return incoming

    def _ready(self, awaited: AbstractSet[int]) -> list[Incoming]:
        """Take from the inbox what is told and the answers to these calls; the lock is held."""
        found: list[Incoming] = [
            one
            for one in self._inbox
            if type(one) is Told
            or type(one) is Gone
            or (type(one) is Answer and one.pending.serial in awaited)
        ]
        for one in found:
            self._inbox.remove(one)
        return found

    def _read(self, frames: list[bytes] | None) -> list[Incoming]:
        """Take one message into the books; the lock is held."""
        if frames is None:
            return []
        incoming, answers = self._conversation.receive(frames, self.clock())
        for answer in answers:
            self._link.send(answer)
        return incoming

    def _pulse(self) -> None:
        """Read the link while a hook runs for long, so that BEAT is answered."""
        while not self._closed.wait(_PULSE_S):
            busy_s = self._busy_since_s
            if busy_s is None or self.clock() - busy_s < _PULSE_S or not self._lock.acquire(blocking=False):
                continue
            try:
                while (frames := self._link.receive(0.0)) is not None:
                    self._inbox.extend(self._read(frames))
            except GanglionError:
                return  # the main thread meets the same error as soon as it reads
            finally:
                self._lock.release()


def is_loss(error: GanglionError) -> bool:
    """Say whether a call failed because its callee is not there any more."""
    return isinstance(error, PeerLost) or (
        isinstance(error, CallFailed) and error.remote_kind == "unreachable"
    )


def wrong_answer(peer: str, call: str, error: GanglionError) -> CallFailed:
    """Return the error that blames a peer for an answer which cannot be taken."""
    return CallFailed(peer, call, {"kind": error.kind, "message": f"its answer to {call}: {error}"})


def show_failure(error: BaseException, failure: Failure) -> None:
    """Print what went wrong where the supervisor keeps a process's last words.

    What somebody else answered, or failed to answer, is his to print.
    """
    if isinstance(error, CallFailed | DeadlineExceeded | PeerLost):
        return
    text = failure.traceback or f"{type(error).__name__}: {failure.message}\n"
    sys.stderr.write(f"{text}{failure.where}\n" if failure.where else text)
    sys.stderr.flush()
