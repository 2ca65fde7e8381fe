"""One process on the bus: its link, a thread that calls and serves, and a pulse that answers BEAT."""

from __future__ import annotations

import faulthandler
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from threading import Event
from typing import Any, Protocol, TypeVar

from ganglion.errors import (
    CallFailed,
    DeadlineExceeded,
    GanglionError,
    LocalProtocolError,
    PeerLost,
    RemoteProtocolError,
)
from ganglion.limits import BEAT_AFTER_SILENCE_S, HANDSHAKE_S, JOURNAL_BYTES, PARCEL_BYTES, RECONNECT_S, RETRY_S
from ganglion.peer.author import failure_of, show_failure, wrong_answer
from ganglion.peer.journal.write import Journal, Recorded
from ganglion.peer.wait import LateReports, Reports
from ganglion.wire.codec import CODECS, Content, codec_of, decode_map
from ganglion.wire.conversation import Answer, Incoming, Leave, Notice, Pending, Request, read_welcome
from ganglion.wire.envelope import Head, Position, decode_head, encode_head
from ganglion.wire.journal import Kind
from ganglion.wire.messages import CALL_BY_NAME, PROTOCOL_VERSION, Failure, Hello, Lost, RunEvent, Welcome
from ganglion.wire.name import topic
from ganglion.wire.parcel import PARTS, attach, detach, encoded, lower
from ganglion.wire.verb import Verb


class LinkLike(Protocol):
    """The part of a link that a participant uses."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after `timeout_s`; PeerLost: the other side has ended."""

    def close(self) -> None:
        """Close the link."""


Connect = Callable[[], LinkLike]
"""Connect to the broker; PeerLost or DeadlineExceeded: the broker cannot be reached."""


_PULSE_S = BEAT_AFTER_SILENCE_S / 2


def pulse(participant: Participant, closed: Event) -> None:
    """Read the link of a participant while a hook runs for long, until the participant is closed."""
    since_s, looks = None, 0
    while not closed.wait(_PULSE_S):
        busy_s = participant.works_since_s()
        # Looks are counted, since time passes for a stopped process, too.
        looks = looks + 1 if busy_s is not None and busy_s == since_s else 0
        since_s = busy_s
        patience_s = participant.patience_s
        if patience_s is not None and looks * _PULSE_S > patience_s:
            text = f"a hook has run for {patience_s:g} s without an end, its deadline: the process hangs and is ended"
            sys.stderr.write(f"{participant.name}: {text}\n")
            participant.hang()
        if busy_s is None or participant.clock() - busy_s < _PULSE_S:
            continue
        if not participant.read_aside():
            return


def abort() -> None:
    """Print the stacks of all threads, and end this process."""
    faulthandler.dump_traceback(all_threads=True)
    faulthandler.disable()  # the handler of SIGABRT would print the stacks again, without the interpreter's lock
    os.abort()


def asks_for_beat(frames: Sequence[bytes]) -> bool:
    """Return whether a message is a BEAT; malformed messages are left to the receiver."""
    try:
        head = decode_head(frames[1])
    except (IndexError, RemoteProtocolError):
        return False
    return head.verb is Verb.BEAT and not head.call


_FIRST_S, _MOST_S = 0.01, 0.5  # between two attempts to reach a lost broker
_T = TypeVar("_T")


def greet(connect: Connect, hello: Hello, timeout_s: float, again: bool) -> tuple[LinkLike, list[bytes], Welcome]:
    """Connect, say HELLO and return the link with WELCOME and its frames; `again` is that of `read_welcome`."""
    link = connect()
    try:
        link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        frames = link.receive(timeout_s)
        if frames is None:
            raise DeadlineExceeded(f"the kernel did not answer HELLO within {timeout_s} s")
        return link, frames, read_welcome(frames, hello, again)
    except GanglionError:
        link.close()
        raise


def insist(
    act: Callable[[], _T], clock: Callable[[], float], pause: Callable[[float], None], closed: Callable[[], bool]
) -> _T:
    """Call a function that needs the broker; retry after growing pauses while the broker is lost; return its result.

    Raises:
        PeerLost: The broker did not come back in time, or the participant is `closed`.
        RemoteProtocolError: The broker refuses.
    """
    until_s, delay_s = clock() + RECONNECT_S, _FIRST_S
    while True:
        try:
            return act()
        except RemoteProtocolError:
            raise
        except GanglionError as error:
            if clock() >= until_s or closed():
                text = f"it did not come back within {RECONNECT_S:g} s: {error}"
                raise PeerLost("broker", text) from error
        pause(delay_s)
        delay_s = min(2 * delay_s, _MOST_S)


_HEARD = int(Kind.HEARD)
_IDLE_S = 1.0  # the longest time between two checks of deadlines
_BEAT_HERE = [b"", encode_head(Head(Verb.BEAT, 0, "here")), b""]
_ASIDE = 1 << 52  # the first serial of calls outside of the journal
_BESIDE_S = 2.0  # without a reply such a call is sent again

DEFERRED: Any = object()
"""Returned by a handler that replies later, by `Participant.reply`."""

Handler = Callable[[Request, Any], Any]
"""Take a request and its decoded message; return the reply's message, or DEFERRED. An exception becomes the reply."""


Retry = Callable[[int, GanglionError], Pending]
"""Take the place of a call whose callee is lost, and the error; return a new call, or raise."""


class Participant(Recorded):
    """One peer: calls others, serves their calls, takes notices.

    Args:
        connect: Makes a link that has not joined yet.
        handlers: Name of a call -> its handler; other calls are answered by `unknown_call`.
        told: Called for each TELL and SIGNAL, between two requests or while a call is awaited.
        gone: Called for each peer that is lost.
        clock: Gives monotonic seconds.
        pulse: Whether a second thread reads the link while a hook runs for long; else the peer is silent then.
        journal: Records what is received; with a journal the participant waits for a lost broker.
        pause: Sleeps for some seconds.

    Attributes:
        incarnation: Of the participant that began the journal: all successors that replay it have the same.
        patience_s: How long a call may run without any message; then the pulse prints the stacks and ends this process.
            For processes whose replies have no deadline; None: for ever.
        hang: Ends this process.
        on_return: Called when the broker may have lost messages: behind the journal of a predecessor, and after each
            new connection. It sends by `tell` and `ask_aside`.
    """

    def __init__(
        self,
        connect: Connect,
        handlers: Mapping[str, Handler],
        told: Callable[[Notice], None] | None = None,
        gone: Callable[[Lost], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        pulse: bool = True,
        journal: Journal | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(journal)
        self.name = ""
        self.welcome: Welcome | None = None
        self.incarnation = 0
        self.contents: dict[str, Content] = {}
        self.leaving: Leave | None = None
        self.on_answer: Callable[[Answer], None] | None = None
        self.on_failure: Callable[[str, Failure], None] | None = None
        self.on_tolerated: Callable[[Any], None] | None = None
        self.on_return: Callable[[], None] | None = None
        self.patience_s: float | None = None
        self.hang: Callable[[], None] = abort
        self._connect = connect
        self._pause = pause
        self._real_clock = clock
        self._behind_s = 0.0  # how long this participant was stopped, with its clock
        self._joined = False  # whether this participant may have joined, by any connection
        self._arrived: deque[list[bytes]] = deque()  # what the pulse has read
        self._returned = False  # whether `on_return` is due
        self._aside = _ASIDE
        self._handlers = handlers
        self._told = told
        self._gone = gone
        self._pulses = pulse
        self._late_reports = LateReports(
            self._conversation, lambda overdue: self.ask_aside("", "kernel.overdue", overdue)
        )
        self._lock = threading.Lock()
        self._busy_since_s: float | None = None
        self._gave_up = False  # whether the warning about a long journal was sent
        self._now_s = 0.0  # when the link was last read
        self._closed = threading.Event()
        self._lost: PeerLost | None = None
        self._reports = Reports()

    @cached_property
    def _link(self) -> LinkLike:
        """Connect a process that has not joined, when it first sends."""
        return self._connect()

    def clock(self) -> float:
        """Return monotonic seconds; while a journal is replayed, those of its records."""
        if self._journal is not None and self._journal.playing:
            return self._journal.time_s
        return self._real_clock() - self._behind_s

    def journal_clock(self) -> float:
        """Return the time of the newest record of the journal, by which a replay decides as the predecessor did.

        Without a journal it is `clock()`.
        """
        return self.clock() if self._journal is None else self._journal.newest_s

    # -- joining and leaving -----------------------------------------------------------------------------------------
    def join(self, hello: Hello, timeout_s: float = HANDSHAKE_S * 5) -> Welcome:
        """Send HELLO and wait for WELCOME, or replay it from the journal of a predecessor.

        Raises:
            RemoteProtocolError: The kernel refuses; the message says why.
        """
        self._hello = hello
        if self._journal is not None and self._journal.playing:
            frames = self._journal.frames(self._play(self._journal, Kind.HEARD, "hears WELCOME").payload)
            self.welcome = read_welcome(frames, hello, False)
            return self._begin(frames)
        frames = self._insist(lambda: self._greet(timeout_s))
        if self._journal is not None:
            self._journal.note((_HEARD, self.clock(), frames))
        return self._begin(frames)

    def _begin(self, frames: Sequence[bytes]) -> Welcome:
        welcome = self.welcome
        assert welcome is not None
        self._joined = True
        self.name = welcome.name
        self.incarnation = welcome.incarnation
        self._conversation.begin(welcome.incarnation)
        self._welcomed = tuple(frames)
        if self._journal is not None:
            self._base = self._play_base(self._journal)
        if self._pulses:
            threading.Thread(target=pulse, args=(self, self._closed), name="pulse", daemon=True).start()
        return welcome

    def _greet(self, timeout_s: float) -> list[bytes]:
        """Connect, say HELLO and return the frames of WELCOME."""
        again, self._joined = self._joined, True  # HELLO may arrive although WELCOME does not
        self._link, frames, self.welcome = greet(self._connect, self._hello, timeout_s, again)
        return frames

    @staticmethod
    def hello(role: str, name: str, token: str, incarnation: int = 0) -> Hello:
        """Return the HELLO of a Python peer."""
        return Hello(PROTOCOL_VERSION, role, name, token, "python", "msgpack", incarnation, ["beats_in_call"])

    def leave(self, reason: str = "") -> None:
        """Send BYE, wait a short time for the reply, and close."""
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
                pass  # the broker has ended already
            self._link.close()

    # -- serving -----------------------------------------------------------------------------------------------------
    def serve(self, tick: Callable[[], None] | None = None, idle_s: float = _IDLE_S, timed: bool = False) -> Leave:
        """Serve requests until this peer is told to leave; return the reason.

        `tick` is called at least every `idle_s` seconds; with `timed` its effect depends on the time. PeerLost: the
        broker is lost for good.
        """
        while self.leaving is None:
            if self._inbox:
                self._now_s = self.clock()
            else:
                self._inbox.extend(self._receive(idle_s, None))
            self._busy_since_s = self._now_s  # a hook begins: the pulse reads the link meanwhile
            try:
                incoming = self._inbox.popleft() if self._inbox else None
                if type(incoming) is Request:
                    self._answer(incoming)
                elif incoming is not None:
                    self._take(incoming)
                elif timed and self._journal is not None and not self._journal.playing:
                    self._journal.note((Kind.TICK, self.clock(), None))
                if tick is not None:
                    tick()
            finally:
                self._busy_since_s = None
        return self.leaving

    def reply(self, request: Request, message: Any, blobs: Sequence[bytes] = ()) -> None:
        """Reply to a deferred request."""
        call = request.head.call
        content = self.contents.get(request.peer, Content.MSGPACK)
        codec = CODECS[CALL_BY_NAME[call].reply]
        try:
            body = codec.encode(message, content)
        except LocalProtocolError:
            body = None
        if body is None or len(body) > PARCEL_BYTES:
            body, blobs = encoded(codec, message, blobs, content)
        self._send(self._conversation.reply(request, body, blobs), call)

    def fail(self, request: Request, failure: Failure) -> None:
        """Reply to a request with ERROR."""
        self._send(self._conversation.fail(request, failure))

    # -- calling -----------------------------------------------------------------------------------------------------
    def ask(
        self,
        peer: str,
        call: str,
        message: Any,
        span_s: float | None,
        position: Position | None = None,
        blobs: Sequence[bytes] = (),
    ) -> Pending:
        """Send a CALL; its reply goes to `on_answer`, or is collected by `gather`."""
        content = self.contents.get(peer, Content.MSGPACK)
        if call in PARTS:
            message, parcels = detach(call, message)
            blobs = parcels or blobs
        codec = CODECS[CALL_BY_NAME[call].request]
        try:
            body = codec.encode(message, content)
        except LocalProtocolError:
            body = None
        if body is None or len(body) > PARCEL_BYTES:
            body, blobs = encoded(codec, message, blobs, content)
        journal = self._journal
        now_s = journal.time_s if journal is not None and journal.playing else self._real_clock() - self._behind_s
        pending, frames = self._conversation.call(peer, call, body, now_s, span_s, position, blobs)
        self._send(frames, call)
        return pending

    def ask_aside(self, peer: str, call: str, message: Any) -> int:
        """Send a CALL outside of the journal whose reply no host needs; return its serial."""
        self._aside += 1
        body = codec_of(CALL_BY_NAME[call].request).encode(message)
        serial = self._aside
        self._send([peer.encode(), encode_head(Head(Verb.CALL, serial, call)), body])
        return serial

    def ask_beside(self, call: str, message: Any, span_s: float | None) -> Any:
        """Call the supervisor outside of the journal and wait for the reply; None in a replay of that call.

        Other messages are handled later. The call may be sent twice and must be harmless then. A process that replays
        a journal skips the call, unless the journal ends here.

        Raises:
            CallFailed: The supervisor refuses.
            DeadlineExceeded: The supervisor does not reply within `span_s`.
        """
        journal = self._journal
        if journal is not None and journal.playing:
            if journal.peek() is not None:
                return None
            self._go_live(journal)
        row = CALL_BY_NAME[call]
        body, serial, until_s = codec_of(row.request).encode(message), None, self._real_clock() + (span_s or math.inf)
        while True:
            with self._lock:
                if serial is None:
                    self._aside = serial = self._aside + 1
                    self._send_known([[b"", encode_head(Head(Verb.CALL, serial, call)), body]])
                frames = self._heard_beside(serial)
            if frames is not None:
                if decode_head(frames[1]).verb is Verb.REPLY:
                    return codec_of(row.reply).decode(frames[2])
                tree = decode_map(frames[2])
                if tree.get("kind") != "busy":
                    raise CallFailed("the kernel", call, tree)
                self._pause(RETRY_S["call"])
            if self._real_clock() > until_s:
                raise DeadlineExceeded(f"the kernel did not answer {call} within {span_s} s")
            serial = None  # sent again: the call or its reply may be lost

    def _heard_beside(self, serial: int) -> list[bytes] | None:
        """Return the reply to a call outside of the journal, None without one; the lock is held."""
        until_s = self._real_clock() + _BESIDE_S
        while (left_s := until_s - self._real_clock()) > 0:
            try:
                frames = self._link.receive(left_s)
            except PeerLost:
                if self._journal is None or self._closed.is_set():
                    raise
                self._come_back()
                return None
            if frames is None or asks_for_beat(frames):
                self._send_known([] if frames is None else [_BEAT_HERE])
                continue
            head = decode_head(frames[1])
            if head.serial == serial and head.verb in (Verb.REPLY, Verb.ERROR):
                return frames
            if head.serial < _ASIDE:
                self._arrived.append(frames)
        return None

    def gather(self, asked: Sequence[Pending], retry: Retry | None = None, blobs: bool = False) -> list[Any]:
        """Wait for the replies to these calls; return their messages in the order of `asked`, or with their `blobs`.

        Raises the error of the first failed call, in order of arrival; replies to the other calls are dropped.
        Requests that arrive meanwhile wait; notices are handled at once. `retry` receives the place of a call whose
        callee is lost, and the error; it returns a new call, or raises.
        """
        given, asked = asked, list(asked)
        open_serials = set()
        for pending in asked:
            open_serials.add(pending.serial)
        answers: dict[int, Answer] = {}
        while open_serials:
            incoming = self._receive(_IDLE_S, open_serials)
            if not incoming and asked:
                self._tell_wait(asked[0].since_s, open_serials)
            for i, one in enumerate(incoming):
                if type(one) is Answer and one.pending.serial in open_serials:
                    open_serials.discard(one.pending.serial)
                    if one.error is None:
                        answers[one.pending.serial] = one
                        continue
                    self._inbox.extendleft(reversed(incoming[i + 1 :]))  # later messages are not lost
                    if retry is None:
                        raise one.error
                    place = next(k for k, a in enumerate(asked) if a.serial == one.pending.serial)
                    asked[place] = retry(place, one.error)
                    open_serials.add(asked[place].serial)
                    break
                if type(one) is Notice or type(one) is Lost:
                    self._hear(one)
                else:
                    self._inbox.append(one)
        found: list[Any] = []
        for first, pending in zip(given, asked, strict=True):
            answer = answers[pending.serial]
            first.answer = (answer.body, *answer.blobs)
            try:
                message = CODECS[CALL_BY_NAME[pending.call].reply].decode(answer.body)
                if answer.blobs:
                    message = lower(message, answer.blobs)
            except RemoteProtocolError as error:  # the callee is to blame, not the caller
                raise wrong_answer(pending.peer, pending.call, error) from error
            found.append((message, answer.blobs) if blobs else message)
        return found

    def first(self, asked: Mapping[int, Pending]) -> list[int]:
        """Wait until one of these calls, by serial, is answered; return the answered ones, in order of arrival.

        `gather` then returns their replies without waiting. Notices are handled at once; `asked` is not empty.
        """
        while True:
            incoming = self._receive(_IDLE_S, asked.keys())
            if not incoming:
                self._tell_wait(next(iter(asked.values())).since_s, set(asked))
            found: list[int] = []
            for one in incoming:
                if type(one) is Notice or type(one) is Lost:
                    self._hear(one)
                    continue
                self._inbox.append(one)
                if type(one) is Answer and one.pending.serial in asked:
                    found.append(one.pending.serial)
            if found:
                return found

    def ask_again(self, serial: int, asked: Sequence[Any]) -> Pending:
        """Wait for the reply to an open call of the predecessor; `Pending.as_asked` was its state."""
        return self._conversation.ask_again(serial, self.clock(), asked)

    def call(self, peer: str, call: str, message: Any, span_s: float | None, position: Position | None = None) -> Any:
        """Send a CALL and wait for its reply."""
        return self.gather([self.ask(peer, call, message, span_s, position)])[0]

    def tell(self, peer: str, name: str, message: Any, verb: Verb = Verb.TELL, blobs: Sequence[bytes] = ()) -> None:
        """Send a message without reply to a peer or a topic."""
        body = codec_of(type(message)).encode(message, self.contents.get(peer, Content.MSGPACK))
        self._send(self._conversation.tell(peer, name, body, verb, blobs))

    def _tell_wait(self, since_s: float, serials: set[int]) -> None:
        """Report waits: after two seconds without a reply, then after twice as long each time."""
        now_s = self.clock()
        if self._reports.due(since_s, now_s):
            for pending in self._conversation.waits():
                if pending.serial in serials:
                    self.tell_waiting(pending.describe(now_s))

    def tell_waiting(self, text: str) -> None:
        """Publish what this process waits for."""
        self.tell_event("waiting", {"text": text, "name": self.name})

    def warn(self, text: str) -> None:
        """Publish a warning."""
        self.tell_event("warning", {"text": text})

    def tell_event(self, name: str, fields: dict[str, Any], subject: str = "waits") -> None:
        """Publish an event of the run, if there is one; events of the topic `waits` may be lost."""
        if self.welcome is not None and self.welcome.run:
            news = RunEvent(name, fields, time.time(), subject)
            self.tell(topic(self.welcome.run, subject), "event", news)

    def told_to_leave(self) -> bool:
        """Return whether a BYE has arrived that is not handled yet."""
        with self._lock:  # the pulse may be filling the inbox
            return any(type(one) is Leave for one in self._inbox)

    def pump(self, timeout_s: float) -> None:
        """Wait once for a message, and handle notices; requests wait."""
        for one in self._receive(min(timeout_s, _IDLE_S), frozenset()):
            if type(one) is Notice or type(one) is Lost:
                self._hear(one)
            else:
                self._inbox.append(one)

    # -- the journal -------------------------------------------------------------------------------------------------
    def _go_live(self, journal: Journal) -> None:
        """Join the bus: the journal has ended.

        Messages since the last record may have left or not: open calls are sent again, and callers repeat theirs.
        """
        self._behind_s = self._real_clock() - journal.time_s
        journal.finish()
        self.flush_journal()
        with self._lock:
            self._come_back()

    def _come_back(self) -> None:
        """Connect and join again, and repeat the open calls; the lock is held.

        Raises PeerLost without a broker, or without a place at it: then this process ends, outside of its journal.
        """
        if self._lost is not None:
            raise self._lost

        def rejoin() -> None:
            self._greet(HANDSHAKE_S * 5)
            for said_again in self._conversation.repeat_all(self.clock()):
                self._link.send(said_again)

        try:
            self._insist(rejoin)
        except GanglionError as error:  # refused: another process has the name
            self._lost = error if isinstance(error, PeerLost) else PeerLost("broker", str(error))
            if self._journal is not None:
                self._journal.end()
            raise self._lost from None
        self._returned = True

    def _insist(self, act: Callable[[], Any]) -> Any:
        """Call a function that needs the broker; with a journal again while the broker is lost, until PeerLost."""
        if self._journal is None:
            return act()
        return insist(act, self._real_clock, self._pause, self._closed.is_set)

    def _return(self) -> None:
        """Tell the host that messages on their way may be lost."""
        self._returned = False
        if self.on_return is not None:
            self.on_return()

    # -- messages ----------------------------------------------------------------------------------------------------
    def _send(self, frames: Sequence[bytes], call: str = "") -> None:
        """Send a message; a replay sends nothing, and compares a CALL or REPLY (with a `call`) with the journal."""
        journal = self._journal
        if journal is not None:
            if not journal.say(frames if call else (), call):
                return
            if journal.given_up != self._gave_up:
                self._tell_given_up(journal)
        with self._lock:
            try:
                self._link.send(frames)
            except PeerLost:
                if self._journal is None or self._closed.is_set():
                    raise
                self._come_back()
        if self._returned:
            self._return()

    def flush_journal(self) -> None:
        """Write the noted records; a journal that is too long then is given up with a warning."""
        if self._journal is not None and self.journals:
            self._journal.say()
            if self._journal.given_up != self._gave_up:
                self._tell_given_up(self._journal)

    def _tell_given_up(self, journal: Journal) -> None:
        self._gave_up = journal.given_up
        if self._gave_up:
            found = f"{self.name}: expected a journal of at most {JOURNAL_BYTES} bytes (journal_bytes), it is longer"
            self.warn(f"{found}: if this process is lost, its phase begins again")

    def _next(self, wait_s: float) -> Incoming | None:
        if not self._inbox:
            self._inbox.extend(self._receive(wait_s, None))
        return self._inbox.popleft() if self._inbox else None

    def _take(self, incoming: Incoming) -> None:
        if type(incoming) is Request:
            self._answer(incoming)
        elif type(incoming) is Answer:
            if self.on_answer is not None:
                self.on_answer(incoming)
        elif type(incoming) is Leave:
            self.leaving = incoming
        else:
            self._hear(incoming)

    def _answer(self, request: Request) -> None:
        call = request.head.call
        handler = self._handlers.get(call)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            self.fail(request, Failure("unknown_call", f"expected one of {known}, found {call[:80]!r}"))
            return
        try:
            message = CODECS[CALL_BY_NAME[call].request].decode(request.body)
            if request.blobs or call in PARTS:
                message = attach(call, message, request.blobs)
            reply = handler(request, message)
            if reply is not DEFERRED:
                self.reply(request, reply)
        except PeerLost as error:
            if error is self._lost:
                raise
            self.fail(request, failure_of(error))
        except Exception as error:  # noqa: BLE001 - the outermost loop: whatever it is, the caller must hear of it
            failure = show_failure(error)
            self.fail(request, failure)
            if self.on_failure is not None:
                self.on_failure(call, failure)

    def _hear(self, incoming: Incoming) -> None:
        if type(incoming) is Notice and self._told is not None:
            self._told(incoming)
        elif type(incoming) is Lost and self._gone is not None:
            self._gone(incoming)

    def _receive(self, wait_s: float, awaited: AbstractSet[int] | None) -> list[Incoming]:
        """Return the next messages; waits for one until the nearest deadline, or for `wait_s` at most.

        With `awaited` only notices and replies to these calls are taken out of the inbox; other messages stay there.
        """
        if self._inbox:  # received by an earlier wait
            ready = [] if awaited is None else self._ready(awaited)
            if ready or awaited is None:
                return ready
        journal = self._journal
        if journal is not None and journal.playing:
            again = self._hear_again(journal, awaited)
            self._now_s = journal.time_s
            if again is not None:
                return again
            self._go_live(journal)  # from now on messages come from the bus
        if self._returned:
            self._return()
        conversation = self._conversation
        now_s = self._real_clock() - self._behind_s
        # The usual wait is always of the same length: another one would cost the link a system call.
        if conversation.nearest_s < now_s + wait_s:
            deadline_s = conversation.deadline_before(now_s + wait_s)
            wait_s = wait_s if deadline_s is None else max(0.0, deadline_s - now_s)
        busy, self._busy_since_s = self._busy_since_s is not None, None
        incoming: list[Incoming] = []
        try:
            with self._lock:
                try:
                    frames = self._arrived.popleft() if self._arrived else self._link.receive(wait_s)
                except PeerLost:  # with a journal the loss of the broker is waited out
                    if journal is None or self._closed.is_set():
                        raise
                    frames = None
                    self._come_back()
                self._now_s = now_s = self._real_clock() - self._behind_s
                if frames is not None:
                    incoming, answers = conversation.receive(frames, now_s)
                    if answers:
                        self._send_known(answers)
                    if incoming:
                        if journal is not None:
                            journal.note((_HEARD, now_s, frames))
                    elif self._late_reports.open:
                        self._late_reports.hear(frames, now_s)
                if conversation.nearest_s <= now_s:
                    self._send_known(conversation.repeat(now_s))
        except PeerLost as error:
            self._lost = error
            raise
        finally:
            if busy:
                self._busy_since_s = self._now_s
        return self._expire() if frames is None else incoming

    def _expire(self) -> list[Incoming]:
        """Return the calls whose deadline has passed; with a journal, report the late peers first."""
        conversation, journal, now_s = self._conversation, self._journal, self.clock()
        late = conversation.late(now_s)
        if journal is not None and late:
            late = self._late_reports.report(late, now_s)
            if late:
                journal.note((Kind.LATE, now_s, [pending.serial for pending in late]))
        return list(conversation.give_up(late, now_s))

    def _ready(self, awaited: AbstractSet[int]) -> list[Incoming]:
        """Take notices and the replies to these calls from the inbox; the lock is held."""
        found: list[Incoming] = [
            one
            for one in self._inbox
            if type(one) is Notice or type(one) is Lost or (type(one) is Answer and one.pending.serial in awaited)
        ]
        for one in found:
            self._inbox.remove(one)
        return found

    def _send_known(self, messages: Sequence[Sequence[bytes]]) -> None:
        """Send repeats, and messages that are in no journal; the lock is held.

        Nothing is lost with the broker: after its return open calls are sent again, and callers repeat theirs.
        """
        try:
            for message in messages:
                self._link.send(message)
        except PeerLost:
            if self._journal is None or self._closed.is_set():
                raise
            self._come_back()

    def works_since_s(self) -> float | None:
        """Return since when a hook has been running, also in a replay; None if no hook runs."""
        return self._busy_since_s

    def read_aside(self) -> bool:
        """Read the link while a hook runs: BEAT is answered, other messages are kept; False without a link."""
        if self.playing or not self._lock.acquire(blocking=False):
            return True
        try:
            while (frames := self._link.receive(0.0)) is not None:
                if asks_for_beat(frames):
                    self._link.send(_BEAT_HERE)
                else:
                    self._arrived.append(frames)
        except GanglionError:
            if self._journal is None:
                return False  # the main thread gets the same error from its next read
            try:
                self._come_back()
            except GanglionError:
                return False
        finally:
            self._lock.release()
        return True
