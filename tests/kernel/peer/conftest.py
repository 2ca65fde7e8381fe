"""The other side of a participant: a link that answers by a script, a clock that jumps, hosts that stand on both."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ganglion.errors import PeerLost
from ganglion.peer.conversation import Request
from ganglion.peer.loader import Loader
from ganglion.peer.participant import DEFERRED, Participant
from ganglion.sdk.seed import words
from ganglion.sdk.spaces import Box, Discrete, Space
from ganglion.transport.memory import MemoryBus
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import (
    CALL_BY_NAME,
    Failure,
    Lost,
    RecordAck,
    RecordBatch,
    RunEvent,
    Welcome,
)
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

STREAM = words(1, ["test"])
WAIT_S = 10.0  # nothing here takes so long unless it is broken
_BODIES: dict[str, type[Any]] = {"record.batch": RecordBatch, "record.ack": RecordAck, "event": RunEvent}


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

    def tell(self, peer: str, name: str, message: Any, verb: Verb = Verb.TELL) -> None:
        """Let somebody tell the peer something."""
        self.deliver(peer, Head(verb, 0, name), codec_of(type(message)).encode(message))

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
        """Return the answer to a request, None if there is none yet."""
        for e in self.sent:
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
        self.participant = Participant(self.link, host.handlers(), told, gone, self.clock)
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


@dataclass(frozen=True)
class FakeLoader(Loader):
    """Load classes from a map of kind and name, in the place of entry points."""

    folder: str = ""
    allow: tuple[str, ...] = ()
    classes: Mapping[tuple[str, str], type[Any]] = field(default_factory=dict)

    def load(self, kind: str, name: str) -> type[Any]:
        """Return the class."""
        return self.classes[kind, name]


class ThreadLink:
    """Be one peer's link to a bus in memory that threads share."""

    def __init__(self, bus: MemoryBus, change: threading.Condition) -> None:
        self._change = change
        with change:
            self._link = bus.connect()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        with self._change:
            self._link.send(frames)
            self._change.notify_all()

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after `timeout_s`."""
        link = self._link
        with self._change:
            self._change.wait_for(lambda: link.pending() or link._sink.ended, timeout_s)
            return link.receive()

    def close(self) -> None:
        """Close the link."""
        with self._change:
            self._link.close()
            self._change.notify_all()


class Crowd:
    """Join hosts to one broker in memory, each served by a thread of its own, and send them home at the end."""

    def __init__(self) -> None:
        self.bus = MemoryBus("supervisor")
        self.change = threading.Condition(threading.RLock())
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._done = threading.Event()
        self.supervisor = Participant(ThreadLink(self.bus, self.change), {})
        self.supervisor.join(Participant.hello("supervisor", "supervisor", "supervisor"))
        self._members: list[Participant] = [self.supervisor]

    def add(
        self, host: Any, name: str, role: Role, uid: str | None = None, worker: int | None = None
    ) -> Participant:
        """Admit a host under a name, join it, serve it in a thread."""
        with self.change:
            self.bus.admit(name, role, "r", name, uid=uid, worker=worker)
        told, gone = getattr(host, "told", None), getattr(host, "gone", None)
        member = Participant(ThreadLink(self.bus, self.change), host.handlers(), told, gone)
        host.participant = member
        member.join(Participant.hello(role.value, name, name))
        thread = threading.Thread(target=self._serve, args=(member, host), name=name, daemon=True)
        thread.start()
        self._members.append(member)
        self._threads.append(thread)
        return member

    def _serve(self, member: Participant, host: Any) -> None:
        tick = getattr(host, "tick", None)

        def look() -> None:
            if self._done.is_set():
                member._closed.set()
                raise KeyboardInterrupt
            if tick is not None:
                tick()

        try:
            member.serve(look, 0.02)
        except KeyboardInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failures.append(error)

    def close(self) -> None:
        """End all threads."""
        self._done.set()
        for thread in self._threads:
            thread.join(WAIT_S)
        for member in self._members:
            member._closed.set()
        assert [] == [thread.name for thread in self._threads if thread.is_alive()]


def declared(uid: str, space: Space, value: Any = None) -> dict[str, Any]:
    """Return a declaration as it travels."""
    found: dict[str, Any] = {"id": uid, "space": space.to_wire()}
    if value is not None:
        found["value"] = value
    return found


UNIT = Box(0.0, 1.0, ())
TEN = Discrete(10)


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that only jumps."""
    return FakeClock()


@pytest.fixture
def link(clock: FakeClock) -> FakeLink:
    """Return a link that answers by a script."""
    return FakeLink(clock)


@pytest.fixture
def hosted() -> type[Hosted]:
    """Return the class that stands a host on a fake link."""
    return Hosted


@pytest.fixture
def loader() -> Callable[..., FakeLoader]:
    """Return a function that makes a loader of `kind=class` or `kind__name=class`; the name is else `own`."""

    def make(**classes: type[Any]) -> FakeLoader:
        found = {}
        for key, cls in classes.items():
            kind, _, name = key.partition("__")
            found[kind, name or "own"] = cls
        return FakeLoader(classes=found)

    return make


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """Return hosts in threads around one broker in memory."""
    made = Crowd()
    yield made
    made.close()
