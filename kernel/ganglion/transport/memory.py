"""A bus in one process: broker and links without a socket, a thread or a clock of their own."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Link, Note
from ganglion.errors import PeerLost
from ganglion.transport.exchange import Exchange, Sink
from ganglion.wire.name import Role

_BROKER = "broker"


class MemoryLink:
    """Hold one peer's link; the same calls as `BlockingLink`, but none of them waits."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        exchange = bus.exchange
        self._link, effects = exchange.broker.connect(bus.now_s)
        self._sink = self._link.sink = MemorySink(self._link)
        exchange.perform(effects)
        exchange.flush()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message, which has arrived on return; PeerLost when the connection has ended."""
        self._check()
        exchange = self._bus.exchange
        exchange.perform(exchange.broker.receive(self._link, [bytes(frame) for frame in frames], self._bus.now_s))
        exchange.flush(self._sink)

    def receive(self, timeout_s: float | None = None) -> list[bytes] | None:
        """Return the next message; None when there is none, whatever the timeout; PeerLost after the end."""
        if self._sink.inbox:
            return self._sink.pop()
        self._check()
        return None

    def pending(self) -> bool:
        """Return whether `receive` would return a message."""
        return bool(self._sink.inbox)

    def fileno(self) -> int:
        """Return -1: there is nothing to wait for."""
        return -1

    def close(self, linger_s: float = 0.5) -> None:
        """End the connection without BYE, as the death of a process does."""
        if not self._sink.ended:
            self._sink.ended = "we closed the connection"
            exchange = self._bus.exchange
            exchange.perform(exchange.broker.disconnect(self._link, "it closed the connection", self._bus.now_s))
            exchange.flush()

    def _check(self) -> None:
        if self._sink.ended:
            raise PeerLost(_BROKER, self._sink.ended)


class MemorySink(Sink):
    """Queue the messages to one link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.inbox: deque[list[bytes]] = deque()
        self.ended = ""  # reason of the end; empty while the link is open
        self._link = link

    def pop(self) -> list[bytes]:
        """Return the first message."""
        frames = self.inbox.popleft()
        self._link.queued_bytes -= sum(map(len, frames))
        return frames

    def send(self, frames: Sequence[bytes]) -> None:
        """Queue one message."""
        self.inbox.append(list(frames))
        self._link.queued_bytes += sum(map(len, frames))

    def flush(self) -> bool:
        """Do nothing: sent messages have arrived, and no other front shares this bus."""
        return False

    def finish(self, reason: str) -> None:
        """End the link; queued messages can still be received."""
        self.ended = self.ended or f"it closed the connection: {reason}"


def never_later(seconds: float, call: Callable[[], None]) -> None:
    """Refuse a delayed call: a bus in memory has no loop, and a lost call would be a hang."""
    raise AssertionError("nothing of a memory bus asks to be called later")


class MemoryBus:
    """Join links by the real broker, in one thread; time passes only by `advance`."""

    def __init__(self, supervisor_token: str = "", now_s: float = 0.0) -> None:
        self.now_s = now_s
        self.notes: list[Note] = []  # log entries of the broker
        broker = Broker(hashlib.sha256(supervisor_token.encode()).digest(), "memory", 0, now_s)
        self.exchange = Exchange(broker, self.notes.append, lambda: self.now_s, never_later)

    def admit(
        self,
        name: str,
        role: Role,
        run: str,
        token: str,
        uid: str | None = None,
        worker: int | None = None,
        incarnation: int = 1,
        returns: bool = False,
    ) -> None:
        """Let a name join, as the supervisor would."""
        digest = hashlib.sha256(token.encode()).digest()
        self.exchange.broker.admit(Admission(name, role, run, digest, incarnation, uid, worker, returns=returns))

    def connect(self) -> MemoryLink:
        """Return a new connection, which has not joined."""
        return MemoryLink(self)

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`; the broker checks its time limits once, at the end."""
        self.now_s += seconds
        self.exchange.tick()
