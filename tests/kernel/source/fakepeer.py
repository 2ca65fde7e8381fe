"""The other side of a participant: a link that answers by a script, a clock that jumps, a host that stands on both.

The messages with which a phase begins come filled in; what a test is about it names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ganglion.errors import PeerLost
from ganglion.peer.participant import DEFERRED, Participant
from ganglion.peer.step.layout import Layout
from ganglion.sdk import Box, Discrete, Space
from ganglion.sdk.seed import words
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Request
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import (
    CALL_BY_NAME,
    BrainSetup,
    EnvironmentStart,
    Failure,
    Lost,
    MuscleSetup,
    RecordAck,
    RecordBatch,
    RunEvent,
    Welcome,
)
from ganglion.wire.verb import Verb

_BODIES: dict[str, type[Any]] = {"record.batch": RecordBatch, "record.ack": RecordAck, "event": RunEvent}

STREAM = words(1, ["test"])
OWN: dict[str, Any] = {"name": "own", "params": {}}
UNIT, TEN = Box(0.0, 1.0, ()), Discrete(10)
_PLACE: tuple[Any, ...] = ("r", 0, "one", "train")


def declared(uid: str, space: Space, value: Any = None) -> dict[str, Any]:
    """Return a declaration as it travels."""
    return {"id": uid, "space": space.to_wire()} | ({} if value is None else {"value": value})


def declarations(layout: Layout, *values: Any) -> list[dict[str, Any]]:
    """Return those of a layout, with these values if there are any."""
    return [declared(*pair, *values[i : i + 1]) for i, pair in enumerate(layout.pairs())]


def muscle_setup(**fields: Any) -> MuscleSetup:
    """Return what begins the phase of muscle `a` of worker 0: it sees `w.s`, sets `w.a`, earns `w.r`, has a brain."""
    ids = [declared("w.s", TEN)], [declared("w.a", TEN, 3)], [declared("w.r", UNIT)]
    streams = words(1, ["muscle"]), words(1, ["objective"])
    return replace(MuscleSetup(*_PLACE, 0, "a", OWN, OWN, *ids, *streams, brain="r/brain/a"), **fields)


def brain_setup(**fields: Any) -> BrainSetup:
    """Return what begins the phase of brain `a` of three muscles; `models` is where it stores its own."""
    ids = [declared("w.s", TEN)], [declared("w.a", TEN, 3)], [declared("w.r", UNIT)]
    return replace(BrainSetup(*_PLACE, "a", OWN, *ids, ["a/0", "a/1", "a/2"], 3, words(1, ["brain"]), ""), **fields)


def environment_start(**fields: Any) -> EnvironmentStart:
    """Return what begins the phase of environment `w` of worker 2."""
    return replace(EnvironmentStart(*_PLACE, 2, "w", {}, 1, 2, STREAM, STREAM, OWN), **fields)


class FakeClock:
    """Be a clock that only jumps, to the end of a wait for nothing."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class FakeLink:
    """Be the bus and everybody on it: a CALL is answered by the function that `answers` has for it, at once.

    The function takes the peer's name and the message, and returns a message, a message with blobs, a Failure, or
    None for no answer. `idle` holds what happens when the peer waits for nothing: one function per wait. Without one
    the clock jumps to the end of the wait.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.inbox: deque[list[bytes]] = deque()
        self.sent: list[Envelope] = []
        self.answers: dict[str, Callable[[str, Any], Any]] = {}
        self.idle: deque[Callable[[], Any]] = deque()
        self.lost = ""
        self.closed = False
        self._calls: dict[int, str] = {}
        self._ends_s = clock.now_s + 100_000.0

    # -- the peer's side ----------------------------------------------------------------------------------------------
    def send(self, frames: Sequence[bytes]) -> None:
        """Take a message of the peer."""
        if self.lost:
            raise PeerLost("broker", self.lost)
        envelope = decode([bytes(frame) for frame in frames])
        self.sent.append(envelope)
        head = envelope.head
        if head.verb is Verb.HELLO:
            welcome = Welcome(1, "r/muscle/a/0", 0, 0.5, 1.5, {}, "r", 0)
            self.deliver("", Head(Verb.WELCOME, head.serial), codec_of(Welcome).encode(welcome))
        elif head.verb is Verb.BYE:
            self.deliver("", Head(Verb.BYE, head.serial))
        elif head.verb is Verb.CALL and head.call in self.answers:
            call = CALL_BY_NAME[head.call]
            answer = self.answers[head.call](envelope.peer, codec_of(call.request).decode(envelope.body))
            self.answer(envelope, answer)

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return what has been delivered; else let the next idle event happen, or the clock jump."""
        if not self.inbox and self.idle and timeout_s:
            self.idle.popleft()()
        if self.inbox:
            return self.inbox.popleft()
        if self.lost:
            raise PeerLost("broker", self.lost)
        self.clock.now_s += timeout_s or 0.0
        assert self.clock.now_s < self._ends_s, "it waits for ever"
        return None

    def close(self) -> None:
        """Note that the peer has closed."""
        self.closed = True

    # -- the test's side ----------------------------------------------------------------------------------------------
    def deliver(self, peer: str, head: Head, body: bytes = b"", *blobs: bytes) -> None:
        """Put a message into the peer's inbox."""
        self.inbox.append(encode(Envelope(peer, head, body, tuple(blobs))))

    def answer(self, asked: Envelope, answer: Any) -> None:
        """Answer a CALL of the peer."""
        if answer is None:
            return
        if isinstance(answer, Failure):
            head = Head(Verb.ERROR, asked.head.serial)
            self.deliver(asked.peer, head, codec_of(Failure).encode(answer))
            return
        message, blobs = answer if isinstance(answer, tuple) else (answer, ())
        body = codec_of(CALL_BY_NAME[asked.head.call].reply).encode(message)
        self.deliver(asked.peer, Head(Verb.REPLY, asked.head.serial), body, *blobs)

    def request(self, peer: str, call: str, message: Any, serial: int) -> None:
        """Let somebody call the peer."""
        self._calls[serial] = call
        body = codec_of(CALL_BY_NAME[call].request).encode(message)
        self.deliver(peer, Head(Verb.CALL, serial, call), body)

    def tell(self, peer: str, name: str, message: Any, verb: Verb = Verb.TELL, blobs: Sequence[bytes] = ()) -> None:
        """Let somebody tell the peer something."""
        self.deliver(peer, Head(verb, 0, name), codec_of(type(message)).encode(message), *blobs)

    def lose(self, peer: str, reason: str = "exit 9") -> None:
        """Let the kernel say that a peer is lost."""
        self.deliver("", Head(Verb.LOST), codec_of(Lost).encode(Lost(peer, 1, reason)))

    def asked(self, call: str) -> list[tuple[str, Any]]:
        """Return the CALLs of this name so far: whom, and with which message."""
        codec = codec_of(CALL_BY_NAME[call].request)
        return [(e.peer, codec.decode(e.body)) for e in self.calls(call)]

    def calls(self, call: str | None = None) -> list[Envelope]:
        """Return the CALLs of the peer so far."""
        return [e for e in self.sent if e.head.verb is Verb.CALL and call in (None, e.head.call)]

    def told(self, name: str) -> list[tuple[str, Any]]:
        """Return the TELLs of this name so far: to whom, and what."""
        return [
            (e.peer, codec_of(_BODIES[name]).decode(e.body))
            for e in self.sent
            if e.head.verb is Verb.TELL and e.head.call == name
        ]

    def replied(self, serial: int, call: str = "") -> Any:
        """Return the newest answer to a request, None if there is none yet."""
        for e in reversed(self.sent):
            if e.head.serial == serial and e.head.verb is Verb.ERROR:
                return codec_of(Failure).decode(e.body)
            if e.head.serial == serial and e.head.verb is Verb.REPLY:
                return codec_of(CALL_BY_NAME[call or self._calls[serial]].reply).decode(e.body)
        return None


class Hosted:
    """Stand a host on a participant on a fake link; `ask` calls its handlers as the wire would."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.clock = FakeClock()
        self.link = FakeLink(self.clock)
        told, gone = getattr(host, "told", None), getattr(host, "gone", None)
        self.participant = Participant(lambda: self.link, host.handlers(), told, gone, self.clock)
        host.participant = self.participant
        self.serial = 1000

    def ask(self, call: str, message: Any, peer: str = "r/controller/0", *blobs: bytes) -> Any:
        """Return the answer of a handler; what it raises passes through. A deferred answer is its serial."""
        self.serial += 1
        row = CALL_BY_NAME[call]
        body = codec_of(row.request).encode(message)
        request = Request(peer, Head(Verb.CALL, self.serial, call), body, tuple(blobs))
        reply = self.host.handlers()[call](request, codec_of(row.request).decode(body))
        if reply is DEFERRED:
            return self.serial
        return codec_of(row.reply).decode(codec_of(row.reply).encode(reply))


class MemoryJournalFile:
    """Keep a journal in memory, for processes that are none."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.blobs: dict[str, bytes] = {}

    def keep(self, name: str, blob: bytes) -> bool:
        """Keep a large blob."""
        return self.blobs.setdefault(name, blob) == blob

    def large(self, name: str) -> bytes:
        """Return one."""
        return self.blobs[name]

    def forget(self, names: Any) -> None:
        """Keep no others."""
        self.blobs = {name: self.blobs[name] for name in names}

    def read(self) -> Any:
        """Return its bytes."""
        return bytes(self.data)

    def cut(self, size: int) -> None:
        """Forget what is behind `size`."""
        del self.data[size:]

    def append(self, *pieces: bytes | memoryview) -> None:
        """Write at the end."""
        self.data += b"".join(pieces)

    def replace(self, *pieces: bytes | memoryview) -> None:
        """Begin anew."""
        self.data[:] = b"".join(pieces)
