"""One process joined to the bus: a thread that asks and answers, and a pulse that says it is there.

The thread that runs the hooks also reads the link: a message costs no change of thread. While a hook runs for long, a
second thread, the pulse, reads in its place: it answers BEAT and keeps everything else for later. A process whose
interpreter hangs runs neither, and is found by its silence.

With a tape a participant writes down what it hears before anything leaves that follows from it. Whoever finds a tape of
a predecessor hears all that first, says nothing, and compares what it would say; where the tape ends it joins the bus.
What the thread that runs the hooks hears, in this order, decides what it does: the pulse reads and hears nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from ganglion.errors import CallFailed, DeadlineExceeded, GanglionError, PeerLost, RemoteProtocolError
from ganglion.limits import BEAT_AFTER_SILENCE_S, HANDSHAKE_S, RECONNECT_S, TAPE_BYTES, WAIT_REPORT_S
from ganglion.peer.conversation import Answer, Conversation, Gone, Incoming, Leave, Pending, Request, Told
from ganglion.peer.failure import failure_of
from ganglion.peer.tape import Tape
from ganglion.wire import tape as wire_tape
from ganglion.wire.codec import Content, codec_of, decode_map
from ganglion.wire.envelope import Head, Position, decode_head, encode_head
from ganglion.wire.messages import (
    CALL_BY_NAME,
    PROTOCOL_VERSION,
    Failure,
    Hello,
    Overdue,
    RunEvent,
    Welcome,
)
from ganglion.wire.name import topic
from ganglion.wire.parcel import attach, detach
from ganglion.wire.tape import Kind
from ganglion.wire.verb import Verb

__all__ = [
    "DEFERRED",
    "Connect",
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
_BACK_FIRST_S, _BACK_MOST_S = 0.01, 0.5  # between two tries to reach a broker that is lost
_BEAT_HERE = [b"", encode_head(Head(Verb.BEAT, 0, "here")), b""]
_ASIDE = 1 << 52  # serials of calls that are on no tape begin here

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


Connect = Callable[[], LinkLike]
"""Connect to the broker; raise PeerLost or DeadlineExceeded if it cannot be reached."""


class Participant:
    """Be a peer: call others, answer their calls, hear what is told.

    Args:
        connect: Makes a link that is joined to nothing yet.
        handlers: By the name of a call; what is not in it is answered `unknown_call`.
        told: Called for each TELL and SIGNAL, between two requests or while a call is awaited.
        gone: Called for each peer that is lost.
        clock: Gives monotonic seconds.
        pulse: Whether a second thread reads the link while a hook runs for long; without it such a peer falls silent.
        tape: What is heard is written there; with one the loss of the broker is waited out.
        pause: Sleeps for some seconds.

    Attributes:
        patience_s: How long we may work without hearing anything; then the pulse ends this process, which prints its
            stacks. For those whose answer nobody awaits by a deadline; None: for ever.
        hang: Ends this process.
        on_return: Called when the broker may have lost what was on its way: after the tape of a predecessor has ended,
            and after each new connection. What it says goes by `tell` and `ask_aside`.
    """

    def __init__(
        self,
        connect: Connect,
        handlers: Mapping[str, Handler],
        told: Callable[[Told], None] | None = None,
        gone: Callable[[Gone], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        pulse: bool = True,
        tape: Tape | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = ""
        self.welcome: Welcome | None = None
        self.contents: dict[str, Content] = {}
        self.leaving: Leave | None = None
        self.on_answer: Callable[[Answer], None] | None = None
        self.on_failure: Callable[[str, Failure], None] | None = None
        self.on_return: Callable[[], None] | None = None
        self.patience_s: float | None = None
        self.hang: Callable[[], None] = _abort
        self._connect = connect
        self._link: LinkLike = _Unjoined(connect)
        self._tape = tape
        self._pause = pause
        self._real_clock = clock
        self._behind_s = 0.0  # how long this participant was not there: its clock stood
        self._welcomed: tuple[bytes, ...] = ()
        self._arrived: deque[list[bytes]] = deque()  # what the pulse has read
        self._returned = False  # whether `on_return` is due
        self._aside = _ASIDE
        self._base: Any = None
        self._accused: dict[int, Pending] = {}  # serial of what was told to the supervisor -> the late call
        self._handlers = handlers
        self._told = told
        self._gone = gone
        self._pulses = pulse
        self._conversation = Conversation()
        self._inbox: deque[Incoming] = deque()
        self._lock = threading.Lock()
        self._busy_since_s: float | None = None
        self._closed = threading.Event()
        self._lost: PeerLost | None = None
        self._told_wait_s = 0.0
        self._tell_after_s = WAIT_REPORT_S

    def clock(self) -> float:
        """Return monotonic seconds; while a tape is heard, those of its records."""
        if self._tape is not None and self._tape.playing:
            return self._tape.time_s
        return self._real_clock() - self._behind_s

    # -- joining and leaving ------------------------------------------------------------------------------------------
    def join(self, hello: Hello, timeout_s: float = HANDSHAKE_S * 5) -> Welcome:
        """Say HELLO and wait for WELCOME, or hear it from the tape of a predecessor.

        Raises:
            RemoteProtocolError: Says why the kernel refuses.
        """
        self._hello = hello
        if self._tape is not None and self._tape.playing:
            frames = wire_tape.frames_of(self._play(Kind.HEARD, "hears WELCOME").payload)
            self._take_welcome(frames)
            return self._begin(frames)
        frames = self._greet(timeout_s)
        if self._tape is not None:
            self._tape.heard(self.clock(), frames)
        return self._begin(frames)

    def _begin(self, frames: Sequence[bytes]) -> Welcome:
        welcome = self.welcome
        assert welcome is not None
        self._welcomed = tuple(frames)
        self.name = welcome.name
        self._conversation.begin(welcome.incarnation)
        self._play_base()
        if self._pulses:
            threading.Thread(target=self._pulse, name="pulse", daemon=True).start()
        return welcome

    def _greet(self, timeout_s: float) -> list[bytes]:
        """Connect, say HELLO and return the frames of WELCOME."""
        self._link = link = self._connect()
        try:
            link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(self._hello)])
            frames = link.receive(timeout_s)
            if frames is None:
                raise DeadlineExceeded(f"the kernel did not answer HELLO within {timeout_s} s")
            self._take_welcome(frames)
        except GanglionError:
            link.close()
            raise
        return frames

    def _take_welcome(self, frames: Sequence[bytes]) -> None:
        head = decode_head(frames[1])
        body = frames[2] if len(frames) > 2 else b""
        if head.verb is Verb.ERROR:
            tree = decode_map(body)
            text = f"the kernel refuses {self._hello.name!r}: {tree.get('message', 'no reason given')}"
            if self._welcomed and tree.get("kind") == "name":
                raise PeerLost("broker", text)  # it has not noticed yet that our former connection has ended
            raise RemoteProtocolError(text)
        if head.verb is not Verb.WELCOME:
            raise RemoteProtocolError(f"expected WELCOME, found {head.verb.name}")
        self.welcome = codec_of(Welcome).decode(body)

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
    def serve(
        self, tick: Callable[[], None] | None = None, idle_s: float = _IDLE_S, timed: bool = False
    ) -> Leave:
        """Answer requests until we are told to leave; returns why.

        `tick` is called at least every `idle_s` seconds; `timed` says that what it does then depends on the time.
        PeerLost is raised when the broker is gone for good.
        """
        while self.leaving is None:
            incoming = self._next(idle_s)
            if incoming is not None:
                self._take(incoming)
            elif timed and self._tape is not None and not self._tape.playing:
                self._tape.tick(self.clock())
            if tick is not None:
                self._work(tick)
        return self.leaving

    def reply(self, request: Request, message: Any, blobs: Sequence[bytes] = ()) -> None:
        """Answer a request that was deferred."""
        call = CALL_BY_NAME[request.head.call]
        body = codec_of(call.reply).encode(message, self.contents.get(request.peer, Content.MSGPACK))
        self._say(self._conversation.reply(request, body, blobs), request.head.call)

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
        self._say(frames, call)
        return pending

    def ask_aside(self, peer: str, call: str, message: Any) -> None:
        """Send a CALL whose answer nobody wants, and which is on no tape."""
        self._aside += 1
        body = codec_of(CALL_BY_NAME[call].request).encode(message)
        self._send([peer.encode(), encode_head(Head(Verb.CALL, self._aside, call)), body])

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

    # -- the tape -----------------------------------------------------------------------------------------------------
    @property
    def playing(self) -> bool:
        """Say whether what happens is heard from the tape of a predecessor, and nothing leaves."""
        return self._tape is not None and self._tape.playing

    def answer_digest(self, request: Request) -> bytes | None:
        """Return what stands on a tape for the answer to a request; None if it is not given, or forgotten."""
        answer = self._conversation.answered(request)
        return None if answer is None else wire_tape.digest(answer)

    def begin_tape(self, heard: Sequence[tuple[Request | Told, bytes | None]], state: Any = None) -> bool:
        """Forget what was heard before these requests: a successor needs to hear no more than them.

        With each goes the digest of its answer, None if that is still to be given, or if none is due. `state` is what
        `take_base` gives the successor. Nothing happens, and False is returned, without a tape or where something else
        is open.
        """
        tape, conversation = self._tape, self._conversation
        if tape is None or tape.playing or not self.idle:
            return False
        now_s = self.clock()
        records = [wire_tape.heard_record(now_s, self._welcomed)]
        again = {(request.peer, request.head.serial, request.head.call) for request, _ in heard}
        answers = [one for one in conversation.remembered() if tuple(one[:3]) not in again]
        records.append(wire_tape.base_record(now_s, conversation.serial, state, answers))
        for request, answer in heard:
            frames = [request.peer.encode(), encode_head(request.head), request.body, *request.blobs]
            records.append(wire_tape.heard_record(now_s, frames))
            if answer is not None:
                records.append(wire_tape.record(Kind.SAID, now_s, answer))
        tape.begin_anew(records)
        return True

    @property
    def tapes(self) -> bool:
        """Say whether a tape is being written."""
        return self._tape is not None and not self._tape.playing

    @property
    def tape_bytes(self) -> int:
        """Return how long the tape is that is being written; 0 without one."""
        return self._tape.size_bytes if self._tape is not None and self.tapes else 0

    def told_on_tape(self) -> Iterator[Told]:
        """Yield what was told since the tape was begun, read from there: it may be more than memory should hold."""
        for record in [] if self._tape is None else self._tape.records():
            if record.kind is Kind.HEARD:
                peer, head, *rest = wire_tape.frames_of(record.payload)
                found = decode_head(head)
                if found.verb is Verb.TELL:
                    yield Told(peer.decode(), found, rest[0] if rest else b"", tuple(rest[1:]))

    @property
    def idle(self) -> bool:
        """Say whether nothing is asked, and nothing heard that is not answered but for one request."""
        return not self._inbox and self._conversation.idle

    def take_base(self) -> Any:
        """Return, once, the state with which a predecessor began its tape; None if there is none."""
        found, self._base = self._base, None
        return found

    def _play(self, kind: Kind, what: str) -> wire_tape.Record:
        """Take the next record of the tape, which must be of this kind."""
        tape = self._tape
        assert tape is not None
        found = tape.peek()
        if found is not kind:
            other = "says less" if found is Kind.SAID else "says or waits for something else"
            raise tape.differs(f"it {what}, and {other}")
        return tape.take()

    def _play_base(self) -> None:
        """Go on where a tape was begun anew."""
        tape = self._tape
        if tape is not None and tape.playing and tape.peek() is Kind.BASE:
            serial, self._base, answers = wire_tape.read_base(tape.take().payload)
            self._conversation.go_on(serial, answers)

    def _hear_again(self, awaited: AbstractSet[int] | None) -> list[Incoming] | None:
        """Return what was heard here before; None behind the end of the tape: from now on the bus is heard."""
        tape = self._tape
        assert tape is not None
        kind = tape.peek()
        if kind is None:
            self._go_live(tape)
            return None
        if kind is Kind.SAID:
            raise tape.differs("it says less")
        if kind is Kind.TICK and awaited is not None:
            raise tape.differs("it waits for an answer")
        one = tape.take()
        if kind is Kind.TICK:
            return []
        if kind is Kind.LATE:
            late = self._conversation.open(wire_tape.read_serials(one.payload))
            return list(self._conversation.give_up(late, tape.time_s))
        frames = wire_tape.frames_of(one.payload)
        incoming, _ = self._conversation.receive(frames, tape.time_s)
        for found in incoming:
            if type(found) is Request:
                place = "" if found.head.position is None else _words(found.head.position)
                tape.where = f"{found.head.call}{place}"
        return incoming

    def _go_live(self, tape: Tape) -> None:
        """Join the bus: the tape has ended."""
        self._behind_s = self._real_clock() - tape.time_s
        tape.finish()
        with self._lock:
            self._come_back()

    def _come_back(self) -> None:
        """Connect and join, say again what is not answered; the lock is held. PeerLost if there is no broker."""
        until_s, delay_s = self._real_clock() + RECONNECT_S, _BACK_FIRST_S
        while True:
            try:
                self._greet(HANDSHAKE_S * 5)
                for said_again in self._conversation.repeat_all(self.clock()):
                    self._link.send(said_again)
                break
            except RemoteProtocolError as error:  # refused: somebody else has our name
                raise PeerLost("broker", str(error)) from error
            except GanglionError as error:
                if self._real_clock() >= until_s or self._closed.is_set():
                    raise PeerLost(
                        "broker", f"it did not come back within {RECONNECT_S:g} s: {error}"
                    ) from error
            self._pause(delay_s)
            delay_s = min(2 * delay_s, _BACK_MOST_S)
        self._returned = True

    def _return(self) -> None:
        """Tell the host that what was on its way may be lost."""
        if self._returned:
            self._returned = False
            if self.on_return is not None:
                self.on_return()

    # -- inside -------------------------------------------------------------------------------------------------------
    def _say(self, frames: Sequence[bytes], call: str) -> None:
        """Send a CALL or REPLY; while a tape is heard, compare it with what was said before."""
        tape = self._tape
        if tape is not None:
            digest = wire_tape.digest(frames)
            if tape.playing and tape.peek() is not None:
                if self._play(Kind.SAID, f"says {call}").payload != digest:
                    raise tape.differs(f"it says {call} otherwise")
                return
            if tape.playing:
                self._go_live(tape)
            tape.said(self.clock(), digest)
        self._send(frames)

    def _send(self, frames: Sequence[bytes]) -> None:
        tape = self._tape
        if tape is None:
            with self._lock:
                self._link.send(frames)
            return
        if tape.playing:
            return
        if not tape.flush():
            found = f"{self.name}: expected a tape of at most {TAPE_BYTES} bytes (tape_bytes), it is longer"
            self._warn(f"{found}: if this process is lost, its phase begins again")
        with self._lock:
            try:
                self._link.send(frames)
            except PeerLost:
                if self._closed.is_set():
                    raise
                self._come_back()
        self._return()

    def _warn(self, text: str) -> None:
        if self.welcome is not None and self.welcome.run:
            event = RunEvent("warning", {"text": text}, time.time())
            self.tell(topic(self.welcome.run, "events"), "event", event)

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
        if self._inbox:  # an earlier wait has heard it
            ready = [] if awaited is None else self._ready(awaited)
            if ready or awaited is None:
                return ready
        if self._tape is not None and self._tape.playing:
            again = self._hear_again(awaited)
            if again is not None:
                return again
        self._return()
        conversation = self._conversation
        now_s = self.clock()
        # The usual wait is always of the same length: another one would cost the link a system call.
        deadline_s = conversation.deadline_before(now_s + wait_s)
        if deadline_s is not None:
            wait_s = max(0.0, deadline_s - now_s)
        busy, self._busy_since_s = self._busy_since_s is not None, None
        try:
            with self._lock:
                frames = self._arrived.popleft() if self._arrived else self._hear_link(wait_s)
                incoming = self._read(frames)
                self._send_known(conversation.repeat(self.clock()))
        except PeerLost as error:
            self._lost = error
            raise
        finally:
            if busy:
                self._busy_since_s = self.clock()
        return self._expire() if frames is None else incoming

    def _hear_link(self, wait_s: float) -> list[bytes] | None:
        """Return the next message; with a tape the loss of the broker is waited out. The lock is held."""
        try:
            return self._link.receive(wait_s)
        except PeerLost:
            if self._tape is None or self._closed.is_set():
                raise
            self._come_back()
            return None

    def _expire(self) -> list[Incoming]:
        """Return the calls whose deadline has passed; with a tape, who is late is accused first."""
        conversation, tape, now_s = self._conversation, self._tape, self.clock()
        late = conversation.late(now_s)
        if tape is not None and late:
            fresh = [pending for pending in late if pending.peer and not pending.accused]
            for pending in fresh:
                self._accuse(pending, now_s)
            late = [pending for pending in late if pending not in fresh]
            if late:
                tape.late(now_s, [pending.serial for pending in late])
        return list(conversation.give_up(late, now_s))

    def _accuse(self, pending: Pending, now_s: float) -> None:
        """Tell the supervisor who is late; if it can do nothing about it, the call is given up."""
        pending.accused = True
        self._conversation.wait_on(pending, now_s)
        self.ask_aside("", "kernel.overdue", Overdue(pending.peer, pending.call, now_s - pending.since_s))
        self._accused[self._aside] = pending

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
        self._send_known(answers)
        if incoming:
            if self._tape is not None:
                self._tape.heard(self.clock(), frames)
        elif self._accused:
            self._hear_aside(frames)
        return incoming

    def _send_known(self, messages: Sequence[Sequence[bytes]]) -> None:
        """Send what was said before, or belongs to no tape; the lock is held.

        If the broker is gone nothing of it is missed: calls are repeated when it is back, answers are asked for again.
        """
        try:
            for message in messages:
                self._link.send(message)
        except PeerLost:
            if self._tape is None or self._closed.is_set():
                raise
            self._come_back()

    def _hear_aside(self, frames: Sequence[bytes]) -> None:
        """Hear what the supervisor makes of somebody who is late."""
        head = decode_head(frames[1])
        pending = self._accused.pop(head.serial, None) if head.verb in (Verb.REPLY, Verb.ERROR) else None
        if pending is None:
            return
        if head.verb is Verb.REPLY:
            pending.accused = False  # it is seen to; his time has begun again
        else:
            pending.deadline_s = self.clock()

    def _pulse(self) -> None:
        """Read the link while a hook runs for long, so that BEAT is answered; what else comes is kept."""
        since_s, looks = None, 0
        while not self._closed.wait(_PULSE_S):
            busy_s = self._busy_since_s
            # Looks are counted, since time passes for who is stopped, too.
            looks = looks + 1 if busy_s is not None and busy_s == since_s and not self.playing else 0
            since_s = busy_s
            if self.patience_s is not None and looks * _PULSE_S > self.patience_s:
                sys.stderr.write(f"{self.name}: it has heard nothing for {self.patience_s:g} s: it hangs\n")
                self.hang()
            if busy_s is None or self.playing or self.clock() - busy_s < _PULSE_S:
                continue
            if not self._lock.acquire(blocking=False):
                continue
            try:
                while (frames := self._link.receive(0.0)) is not None:
                    if _asks_for_beat(frames):
                        self._link.send(_BEAT_HERE)
                    else:
                        self._arrived.append(frames)
            except GanglionError:
                if self._tape is None:
                    return  # the main thread meets the same error as soon as it reads
                try:
                    self._come_back()
                except GanglionError:
                    return
            finally:
                self._lock.release()


class _Unjoined:
    """Be the link of who has not joined: made when it is used."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._made: LinkLike | None = None

    @property
    def made(self) -> LinkLike:
        """Return the link itself."""
        if self._made is None:
            self._made = self._connect()
        return self._made

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        self.made.send(frames)

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message."""
        return self.made.receive(timeout_s)

    def close(self) -> None:
        """Close what was made."""
        if self._made is not None:
            self._made.close()


def _abort() -> None:
    """End this process; its stacks are printed by whoever handles that signal."""
    os.kill(os.getpid(), signal.SIGABRT)


def _asks_for_beat(frames: Sequence[bytes]) -> bool:
    """Say whether a message asks whether we are there; what is no message at all is read by who hears it."""
    try:
        head = decode_head(frames[1])
    except (IndexError, RemoteProtocolError):
        return False
    return head.verb is Verb.BEAT and not head.call


def _words(position: Position) -> str:
    return f" (phase {position[0]}, worker {position[1]}, episode {position[2]}, step {position[4]})"


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
