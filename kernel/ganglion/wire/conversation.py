"""A peer's side of the protocol: serials, pending calls, deadlines, repeats; pure."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgpack

from ganglion.errors import CallFailed, DeadlineExceeded, GanglionError, PeerLost, RemoteProtocolError
from ganglion.limits import ANSWERS_PER_CALLER, RETRY_S
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, Position, decode_head, encode_head
from ganglion.wire.messages import Failure, Hello, Lost, Welcome
from ganglion.wire.name import label
from ganglion.wire.verb import Verb


# These are made for each message; not frozen, since a frozen dataclass takes three times as long to make.
@dataclass(slots=True)
class Request:
    """A CALL of another peer, to be answered by `Conversation.reply` or `Conversation.fail`."""

    peer: str
    head: Head
    body: bytes
    blobs: tuple[bytes, ...]


def episode_of(request: Request) -> int:
    """Return the episode of a request: the first one unless its position names another."""
    return 0 if request.head.position is None else request.head.position[2]


@dataclass(slots=True)
class Pending:
    """An open CALL of this peer: its callee, its call, its begin, its deadline."""

    serial: int
    peer: str
    call: str
    since_s: float
    deadline_s: float | None  # a point in time, not a span
    position: Position | None = None
    frames: tuple[bytes, ...] = ()  # as sent, for repeats
    again_s: float | None = None  # when to send the call again, if the kernel was busy
    busy: str = ""  # what the kernel said then
    span_s: float | None = None  # how long the reply may take
    reported: bool = False  # whether the supervisor knows that the reply is late
    absent: bool = False  # whether the callee has been absent
    carried: bool = False  # whether a successor can wait for the reply: a journal may be compacted meanwhile
    answer: tuple[bytes, ...] = ()  # body and blobs of the reply, once received

    def as_asked(self) -> list[Any]:
        """Return the state that a successor needs to wait for the reply."""
        return [self.peer, self.call, self.position, self.span_s, list(self.frames)]

    def describe(self, now_s: float) -> str:
        """Return the wait in words."""
        left = "" if self.deadline_s is None else f"; gives up in {max(0.0, self.deadline_s - now_s):.1f} s"
        return f"waiting {now_s - self.since_s:.1f} s for {self.what()}{left}"

    def what(self) -> str:
        """Return callee, call and position in words."""
        place = "" if self.position is None else f" (episode {self.position[2]}, step {self.position[4]})"
        return f"{label(self.peer)} to answer {self.call}{place}"


@dataclass(slots=True)
class Answer:
    """The outcome of a CALL of this peer: a body, or the error that ended it."""

    pending: Pending
    body: bytes
    blobs: tuple[bytes, ...]
    error: GanglionError | None = None


@dataclass(slots=True)
class Notice:
    """A TELL or SIGNAL, which has no reply."""

    peer: str
    head: Head
    body: bytes
    blobs: tuple[bytes, ...]


@dataclass(slots=True)
class Leave:
    """This peer must leave: the kernel sent BYE, or ended the connection with an ERROR."""

    reason: str
    refused: bool = False
    serial: int = 0


Incoming = Request | Answer | Notice | Lost | Leave


def read_welcome(frames: Sequence[bytes], hello: Hello, again: bool) -> Welcome:
    """Return the reply to HELLO.

    Raises:
        PeerLost: With `again`: the broker has not noticed yet that the former connection has ended.
        RemoteProtocolError: The kernel refuses; the message says why.
    """
    head = decode_head(frames[1])
    body = frames[2] if len(frames) > 2 else b""
    if head.verb is Verb.ERROR:
        tree = decode_map(body)
        text = f"the kernel refuses {hello.name!r}: {tree.get('message', 'no reason given')}"
        if again and tree.get("kind") == "name":
            raise PeerLost("broker", text)
        raise RemoteProtocolError(text)
    if head.verb is not Verb.WELCOME:
        raise RemoteProtocolError(f"expected WELCOME, found {head.verb.name}")
    return codec_of(Welcome).decode(body)


_CARRIED = attrgetter("carried")
_CALL, _REPLY = Verb.CALL.value, Verb.REPLY.value
_pack = msgpack.Packer().pack
_ABSENT_MS = int(1000 * RETRY_S["call"])  # the time between two repeats of a CALL to an absent callee
_BEAT_HERE = encode_head(Head(Verb.BEAT, 0, "here"))


class Conversation:
    """Keep the open calls of one peer and the requests to it.

    `receive` takes a message and returns its meaning, and the frames to send at once. `call`, `reply`, `fail`, `tell`
    return frames to send. `late` returns the calls whose deadline has passed, `give_up` ends them. `repeat` returns the
    calls for which the kernel was busy: these are sent again, and the caller does not notice.

    Attributes:
        serial: Of the last CALL.
        nearest_s: No call is late, and none is to be repeated, before this time.
    """

    def __init__(self) -> None:
        self.serial = 0
        self._pending: dict[int, Pending] = {}
        self._answers: dict[str, OrderedDict[tuple[int, str], tuple[bytes, ...]]] = {}
        self._busy: dict[int, Pending] = {}  # pending calls to be sent again
        self._doing: set[tuple[str, int, str]] = set()  # unanswered requests: caller, serial, call
        self._repeated: set[int] = set()  # serials that were sent more than once
        self._said_before = 0  # serials up to here may have been sent twice, on a lost connection
        self._doubted: set[int] = set()  # serials that were answered twice
        self.nearest_s = math.inf  # nothing is due before; nothing need be due at that time

    def begin(self, incarnation: int) -> None:
        """Begin with serials that no earlier incarnation used, so that callees do not take new calls for repeats.

        A process with a predecessor's journal continues the serials, so that callees recognise repeats.
        """
        self.serial = max(0, incarnation - 1) << 32

    @property
    def idle(self) -> bool:
        """Return whether no call is open except carried ones, and at most one request is unanswered."""
        return len(self._doing) <= 1 and all(map(_CARRIED, self._pending.values()))

    @property
    def calm(self) -> bool:
        """Return whether no call is open and no request is unanswered."""
        return not self._pending and not self._doing

    def go_on(self, serial: int, answers: Sequence[Any] = ()) -> None:
        """Continue after a serial, with the replies that `remembered` returned."""
        self.serial = serial
        self._answers.clear()
        for peer, at, call, frames in answers:
            self._answers.setdefault(peer, OrderedDict())[at, call] = tuple(frames)

    def remembered(self) -> list[list[Any]]:
        """Return the newest replies to all callers: caller, serial, call, frames."""
        return [
            [peer, serial, call, list(frames)]
            for peer, memory in self._answers.items()
            for (serial, call), frames in memory.items()
        ]

    def forget(self, names: tuple[str, ...]) -> None:
        """Forget the requests of peers whose names begin so, and the replies to them: other peers get these names."""
        self._doing = {one for one in self._doing if not one[0].startswith(names)}
        self._answers = {peer: memory for peer, memory in self._answers.items() if not peer.startswith(names)}

    def answered(self, request: Request) -> tuple[bytes, ...] | None:
        """Return the reply to a request as sent, if still remembered."""
        memory = self._answers.get(request.peer)
        return None if memory is None else memory.get((request.head.serial, request.head.call))

    # -- sending -----------------------------------------------------------------------------------------------------
    def call(
        self,
        peer: str,
        call: str,
        body: bytes,
        now_s: float,
        span_s: float | None,
        position: Position | None = None,
        blobs: Sequence[bytes] = (),
    ) -> tuple[Pending, list[bytes]]:
        """Call a peer; the outcome comes from `receive` or, after `span_s`, from `give_up`."""
        self.serial += 1
        deadline_s = None if span_s is None else now_s + span_s
        deadline_ms = None if span_s is None else int(span_s * 1000)
        if deadline_s is not None and deadline_s < self.nearest_s:
            self.nearest_s = deadline_s
        head = [_CALL, self.serial, call] if position is None else [_CALL, self.serial, call, position]
        if deadline_ms is not None:
            head = [_CALL, self.serial, call, position, deadline_ms]
        frames = [peer.encode(), _pack(head), body, *blobs]
        pending = Pending(self.serial, peer, call, now_s, deadline_s, position, tuple(frames), span_s=span_s)
        self._pending[self.serial] = pending
        return pending, frames

    def ask_again(self, serial: int, now_s: float, asked: Sequence[Any]) -> Pending:
        """Wait for the reply to a call of a predecessor; `asked` is what `Pending.as_asked` returned."""
        peer, call, position, span_s, frames = asked
        deadline_s = None if span_s is None else now_s + span_s
        if deadline_s is not None and deadline_s < self.nearest_s:
            self.nearest_s = deadline_s
        place = None if position is None else tuple(position)
        pending = Pending(serial, peer, call, now_s, deadline_s, place, tuple(frames), span_s=span_s, carried=True)
        self._pending[serial] = pending
        return pending

    def reply(
        self, request: Request, body: bytes, blobs: Sequence[bytes] = (), verb: int = _REPLY, kept: bool = True
    ) -> tuple[bytes, ...]:
        """Reply to a CALL; the reply is kept for repeats of the CALL, unless `kept` is False."""
        serial = request.head.serial
        frames = (request.peer.encode(), _pack([verb, serial]), body, *blobs)
        self._doing.discard((request.peer, serial, request.head.call))
        if not kept:
            return frames
        memory = self._answers.get(request.peer)
        if memory is None:
            memory = self._answers[request.peer] = OrderedDict()
        memory[(serial, request.head.call)] = frames
        while len(memory) > ANSWERS_PER_CALLER:
            memory.popitem(last=False)
        return frames

    def fail(self, request: Request, failure: Failure) -> tuple[bytes, ...]:
        """Answer a CALL with ERROR."""
        return self.reply(request, codec_of(Failure).encode(failure), verb=Verb.ERROR.value)

    def tell(
        self, peer: str, name: str, body: bytes, verb: Verb = Verb.TELL, blobs: Sequence[bytes] = ()
    ) -> list[bytes]:
        """Send a message without reply to a peer or a topic."""
        return [peer.encode(), encode_head(Head(verb, 0, name)), body, *blobs]

    def bye(self, reason: str = "") -> list[bytes]:
        """Return the frames of BYE."""
        return [b"", encode_head(Head(Verb.BYE, 1)), b""]

    # -- receiving ---------------------------------------------------------------------------------------------------
    def receive(self, frames: Sequence[bytes], now_s: float) -> tuple[list[Incoming], list[Sequence[bytes]]]:
        """Return the meaning of a message, and the messages to send because of it.

        Raises RemoteProtocolError for a message that breaks the protocol; the state is as before.
        """
        if len(frames) < 2:
            raise RemoteProtocolError(f"expected the frames [from][head][body][blob ...], found {len(frames)}")
        peer = frames[0].decode(errors="replace")
        try:
            head = decode_head(frames[1])
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{label(peer)} sent what is no message: {error}") from error
        body = frames[2] if len(frames) > 2 else b""
        verb = head.verb
        if peer and self._busy:
            self._hasten(peer, now_s)
        if verb is Verb.CALL:
            request = Request(peer, head, body, tuple(frames[3:]))
            doing = (peer, head.serial, head.call)
            if doing in self._doing or doing[1:] in self._answers.get(peer, ()):
                return [], self._repeated_request(request)
            self._doing.add(doing)
            return [request], []
        if verb is Verb.REPLY:
            pending = self._pending.get(head.serial)
            if pending is not None and pending.peer == peer and not self._busy:
                del self._pending[head.serial]
            else:
                pending = self._settle(head.serial, peer, now_s)
            return ([Answer(pending, body, tuple(frames[3:]))] if pending else []), []
        if verb is Verb.ERROR:
            return self._error(peer, head, body, now_s), []
        if verb is Verb.TELL or verb is Verb.SIGNAL:
            return [Notice(peer, head, body, tuple(frames[3:]))], []
        if verb is Verb.BEAT:
            return [], ([] if head.call else [[b"", _BEAT_HERE, b""]])
        if verb is Verb.LOST:
            return self._lost(codec_of(Lost).decode(body), now_s), []
        if verb is Verb.BYE:
            return [Leave(str(decode_map(body).get("reason", "")) or "asked to leave", serial=head.serial)], []
        raise RemoteProtocolError(f"{peer or 'the kernel'} said {verb.name}, which is not for peers that have joined")

    def late(self, now_s: float) -> list[Pending]:
        """Return the calls whose deadline has passed; nothing changes."""
        return [p for p in self._pending.values() if p.deadline_s is not None and p.deadline_s <= now_s]

    def open(self, serials: Sequence[int]) -> list[Pending]:
        """Return the calls of these serials that are not answered."""
        return [self._pending[serial] for serial in serials if serial in self._pending]

    def wait_on(self, pending: Pending, now_s: float) -> None:
        """Restart the deadline of a call."""
        if pending.span_s is not None:
            pending.deadline_s = now_s + pending.span_s
            self.nearest_s = min(self.nearest_s, pending.deadline_s)

    def wait_no_longer(self, pending: Pending, now_s: float) -> None:
        """End the deadline of a call at once."""
        pending.deadline_s = now_s
        self.nearest_s = min(self.nearest_s, now_s)

    def give_up(self, late: Sequence[Pending], now_s: float) -> list[Answer]:
        """End calls by the error of a passed deadline; return their answers."""
        answers: list[Answer] = []
        for pending in late:
            del self._pending[pending.serial]
            text = f"waited {now_s - pending.since_s:.1f} s in vain for {pending.what()}"
            if self._busy.pop(pending.serial, None) is not None and pending.busy:
                text += f"; the kernel was busy to the end: {pending.busy}"
            answers.append(Answer(pending, b"", (), DeadlineExceeded(text, pending.peer)))
        return answers

    def repeat(self, now_s: float) -> list[tuple[bytes, ...]]:
        """Return the messages to be sent again now."""
        if not self._busy:
            return []
        due = [p for p in self._busy.values() if p.again_s is not None and p.again_s <= now_s]
        for pending in due:
            del self._busy[pending.serial]
            pending.again_s = None
        return self._said(due)

    def repeat_all(self, now_s: float) -> list[tuple[bytes, ...]]:
        """Return all unanswered calls for a new connection; their deadlines restart."""
        self._busy.clear()
        self._said_before = self.serial
        self._doubted.clear()
        for pending in self._pending.values():
            pending.again_s = None
            pending.reported = False  # the report of a late peer may have been lost as well
            self.wait_on(pending, now_s)
        return self._said(list(self._pending.values()))

    def _said(self, again: Sequence[Pending]) -> list[tuple[bytes, ...]]:
        self._repeated.update(pending.serial for pending in again)
        return [pending.frames for pending in again]

    def waits(self) -> list[Pending]:
        """Return the open calls, oldest first."""
        return list(self._pending.values())

    def next_deadline_s(self) -> float | None:
        """Return the earliest deadline of an open call, or time of a repeat."""
        times_s = [p.deadline_s for p in self._pending.values()] + [p.again_s for p in self._busy.values()]
        return min((time_s for time_s in times_s if time_s is not None), default=None)

    def deadline_before(self, until_s: float) -> float | None:
        """Return `next_deadline_s` if it is before `until_s`; cheap where nothing is near."""
        if self.nearest_s >= until_s:
            return None
        nearest_s = self.next_deadline_s()
        self.nearest_s = math.inf if nearest_s is None else nearest_s
        return nearest_s if nearest_s is not None and nearest_s < until_s else None

    def check(self) -> None:
        """Assert that the state is consistent; for tests."""
        for serial, pending in self._pending.items():
            assert serial == pending.serial
            assert serial <= self.serial, f"serial {serial} was given out after {self.serial}"
            assert pending.call, f"call {serial} is answered in parts, and its parts are not known"
            assert pending.deadline_s is None or pending.deadline_s >= self.nearest_s
        for serial, pending in self._busy.items():
            assert self._pending.get(serial) is pending, f"call {serial} has an outcome, and is to be said again"
            assert pending.again_s is not None
        for peer, serial, call in self._doing:
            assert (serial, call) not in self._answers.get(peer, {}), f"{call} of {peer} is answered, and is not"

    # -- repeats -----------------------------------------------------------------------------------------------------
    def _repeated_request(self, request: Request) -> list[Sequence[bytes]]:
        """Return the reply to a repeated request; nothing while the request is being handled."""
        known = self.answered(request)
        return [] if known is None else [known]

    def _settle(self, serial: int, peer: str, now_s: float) -> Pending | None:
        pending = self._pending.get(serial)
        if pending is None or (pending.peer != peer and not self._in_its_place(pending, peer)):
            if pending is None and (serial in self._repeated or self._may_be_doubled(serial)):
                self._doubt(serial, peer, now_s)
            return None  # late, doubled or forged: no call waits for it
        self._busy.pop(serial, None)
        return self._pending.pop(serial)

    def _may_be_doubled(self, serial: int) -> bool:
        """Return, once per call, whether it may have been sent twice, by this process or a predecessor."""
        return serial <= self._said_before and serial not in self._doubted

    def _doubt(self, serial: int, peer: str, now_s: float) -> None:
        """Schedule repeats of the open calls to a peer that sent one reply twice.

        The broker counts the open calls between two peers and forwards as many replies: the second copy took the place
        of the next reply, which will not arrive.
        """
        self._repeated.discard(serial)
        self._doubted.add(serial)
        for pending in self._pending.values():
            if pending.peer == peer and pending.serial not in self._busy:
                pending.again_s = now_s + RETRY_S["duplicate"]
                self._busy[pending.serial] = pending
                self.nearest_s = min(self.nearest_s, pending.again_s)

    @staticmethod
    def _in_its_place(pending: Pending, peer: str) -> bool:
        """Return whether `peer` may reply: the kernel in place of a peer, the supervisor in place of the kernel."""
        return peer == "" or (pending.peer == "" and peer == "supervisor")

    def _error(self, peer: str, head: Head, body: bytes, now_s: float) -> list[Incoming]:
        try:
            tree = decode_map(body)
        except RemoteProtocolError as broken:  # still an ERROR: the call has ended
            tree = {"kind": broken.kind, "message": f"an ERROR that cannot be read: {broken}"}
        if peer == "" and head.serial == 0:
            return [Leave(f"{tree.get('kind', 'failed')}: {tree.get('message', 'no reason given')}", refused=True)]
        if peer == "" and tree.get("kind") == "busy" and self._postpone(head.serial, tree, now_s):
            return []
        pending = self._settle(head.serial, peer, now_s)
        if pending is None:
            return []
        error: GanglionError = CallFailed(pending.peer or "the kernel", pending.call, tree)
        return [Answer(pending, b"", (), error)]

    def _postpone(self, serial: int, tree: dict[str, Any], now_s: float) -> bool:
        """Schedule the repeat of a CALL for which the kernel was busy; False if there is none."""
        pending, after_ms = self._pending.get(serial), tree.get("retry_after_ms")
        if pending is None or type(after_ms) is not int or after_ms <= 0:
            return False
        data = tree.get("data")
        pending.absent = type(data) is dict and bool(data.get("absent"))
        if pending.absent:
            self.wait_on(pending, now_s)  # its deadline is suspended while the callee is absent
            pending.reported = False
        pending.again_s, pending.busy = now_s + after_ms / 1000, str(tree.get("message"))
        self._busy[serial] = pending
        self.nearest_s = min(self.nearest_s, pending.again_s)
        return True

    def _hasten(self, peer: str, now_s: float) -> None:
        """Repeat at once the calls to a peer that was absent and sends messages again.

        Otherwise the peer might leave before the repeat of a call whose first reply was lost.
        """
        for pending in self._busy.values():
            if pending.absent and pending.peer == peer:
                pending.again_s = self.nearest_s = now_s

    def _lost(self, lost: Lost, now_s: float) -> list[Incoming]:
        found: list[Incoming] = [lost]
        waiting = [p for p in self._pending.values() if p.peer == lost.peer or self._in_its_place(p, lost.peer)]
        if lost.returns:
            absent = {"retry_after_ms": _ABSENT_MS, "data": {"absent": True}, "message": f"{lost.peer} is absent"}
            for pending in waiting:
                self._postpone(pending.serial, absent, now_s)
            return found
        self._answers.pop(lost.peer, None)
        for pending in waiting:
            del self._pending[pending.serial]
            self._busy.pop(pending.serial, None)
            found.append(Answer(pending, b"", (), PeerLost(lost.peer, lost.reason)))
        return found
