"""Exchange: the shared part of the fronts: the fast path, routes, queues, room, turns, shares of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ganglion.broker.core import Broker
from ganglion.broker.link import Climb, Close, Effect, Link, Note, Send
from ganglion.limits import (
    DECISION_SHARE,
    MESSAGE_BYTES,
    MESSAGE_BYTES_LARGE,
    MESSAGE_FRAMES,
    MESSAGES_PER_CALLBACK,
    PEERS,
    QUEUE_MARK_BYTES,
    UNFINISHED_BYTES,
    URGENT_MESSAGES,
)
from ganglion.transport.zmtp import encode, frame_header
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

LARGE_BYTES = 65_536  # pieces from this size on are forwarded without a copy
_SPAN_S = 1.0
_SAVED_S = 0.1
_WAIT_MAX_S = 0.25  # much less than the silence allowed to a peer
_UNBOUNDED = frozenset({Role.SUPERVISOR, Role.GOVERNOR, Role.CONTROLLER, Role.STORE})
_LARGE_ROLES = frozenset({Role.BRAIN, Role.GOVERNOR, Role.TABLE})
_NOISY = "connection.broken connection.failed handshake.refused listener.resting message.forbidden"
_COUNTED = frozenset(f"{_NOISY} message.undeliverable peer.refused".split())
_CALL, _TELL = int(Verb.CALL), int(Verb.TELL)  # as encoded in a head: an enum would cost a call per message
_ANSWERS = (int(Verb.REPLY), int(Verb.ERROR))
_URGENT = frozenset({Verb.SIGNAL, Verb.BEAT, Verb.LOST, Verb.BYE})  # these overtake queued data
_SERIAL_BYTES = bytes({0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}.get(first, first < 0x80) for first in range(256))
"""The length of a serial by its first byte; 0 for invalid first bytes and unusual encodings."""
_BODY_FRAMES = range(MESSAGE_FRAMES - 2)
_WALK = range(MESSAGES_PER_CALLBACK)


class Sink:
    """Receive the messages to one connection; each front has its own kind of sink.

    After an append to an empty `out` the sink must be added to `Exchange.dirty`; `Exchange.flush` then writes it.
    """

    def __init__(self) -> None:
        self.out: list[bytes] = []  # messages in wire format (ZMTP frames), in pieces of any size
        self.large = False  # whether `out` has a piece that is forwarded without a copy
        self._held: list[Sink] = []

    def send(self, frames: Sequence[bytes]) -> None:
        """Take one message that the broker sends; `flush` writes it, as with an append to `out`."""
        raise NotImplementedError

    def flush(self) -> bool:
        """Write `out`; return True if more than the mark was queued before, so that the sender must slow down."""
        raise NotImplementedError

    def hold(self, sender: Sink) -> None:
        """Stop reading from `sender`, unless it is stopped already, until half of the queue here is written."""
        if sender not in self._held:
            self._held.append(sender)
            sender.pause()

    def release(self) -> None:
        """Resume reading from all senders that were stopped for this destination."""
        held, self._held = self._held, []
        for sender in held:
            sender.resume()

    def pause(self) -> None:
        """Stop reading until `resume` has been called equally often."""

    def resume(self) -> None:
        """Resume reading."""

    def finish(self, reason: str) -> None:
        """Write the queue, for half a second at most, then close."""
        raise NotImplementedError

    def look(self, now_s: float) -> None:
        """Check the time limits; called with each tick."""


class Served(Sink):
    """Serve one connection of a front: forward messages that need no decision, pass the others to the broker."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange
        self._prefix = b""  # the `from` frame of this peer's messages; empty until it has joined
        self._urgent: deque[list[bytes]] = deque()
        self._backlog: deque[list[bytes]] = deque()
        self.link: Link
        self.tired = False  # whether `walk` has forwarded as many messages as one turn allows

    def walk(self, data: bytes, start: int) -> int:
        """Forward the messages at `start` that need no decision; return the position of the first other one.

        This is the hot path: per message one lookup in the table of routes, one of the verb, and two appends to the
        destination's list. A message that is not plain, permitted and complete is left to `Broker.receive`, which knows
        all rules. No function is called per message: a call costs as much as all the rest.
        """
        end = len(data)
        routes = self.link.routes
        dirty = self._exchange.dirty
        prefix = self._prefix
        try:
            for _ in _WALK:
                if start == end:
                    return start
                if data[start] != 1:  # [to]: short, more follows
                    return start
                head = start + 2 + data[start + 1]
                route = routes.get(data[start + 2 : head])
                # [head]: short, more follows, an array of 1 to 5 that begins with the verb
                if route is None or data[head] != 1 or data[head + 1] < 2 or not 0x90 < data[head + 2] < 0x96:
                    return start
                stop = head + 2 + data[head + 1]
                for _ in _BODY_FRAMES:
                    flags = data[stop]
                    if flags < 2:
                        stop += 2 + data[stop + 1]
                    elif flags < 4:
                        stop += 9 + int.from_bytes(data[stop + 1 : stop + 9], "big")
                    else:
                        return start
                    if not flags & 1:
                        break
                else:
                    return start
                if stop > end:
                    return start
                verb = data[head + 3]
                if not route.allowed >> verb & 1:
                    return start
                if verb == _CALL:
                    if len(route.open) >= route.limit or route.target.queued_bytes > QUEUE_MARK_BYTES:
                        return start
                    # the name of the call: after the serial, of an array of three or more, within its frame
                    named = head + 4 + _SERIAL_BYTES[data[head + 4]]
                    tail = named + 1 + (data[named] & 31)
                    if data[head + 2] < 0x93 or tail > head + 2 + data[head + 1] or data[named:tail] not in route.calls:
                        return start
                    route.open.append(data[head + 4 : named])
                elif verb in _ANSWERS:
                    back = route.back
                    # the serial: of an array of two or more, within its frame
                    named = head + 4 + _SERIAL_BYTES[data[head + 4]]
                    serial = data[head + 4 : named]
                    if (
                        back is None
                        or serial not in back.open
                        or data[head + 2] < 0x92
                        or named > head + 2 + data[head + 1]
                    ):
                        return start
                    back.open.remove(serial)
                elif verb != _TELL:
                    return start
                sink = route.target.sink
                out = sink.out
                if not out:
                    dirty.append(sink)
                out.append(prefix)
                out.append(data[head:stop])
                route.count += 1
                start = stop
            self.tired = True
        except IndexError:  # the chunk ends within a header
            pass
        return start

    def forward(self, to: bytes, head: bytes, body: Sequence[bytes]) -> bool:
        """Forward one message that needs no decision; `body` is in wire format. Return True if it was forwarded."""
        short = encode([to, head, b""])  # the part that `walk` checks
        data = b"".join(short)
        if self.walk(data, 0) < len(data):
            return False
        sink: Sink = self.link.routes[to].target.sink
        sink.out[-1:] = [*short[2:4], *body]
        sink.large = sink.large or any(len(piece) >= LARGE_BYTES for piece in body)
        return True

    def joined(self) -> int:
        """Record the name of a peer that has just joined; return its largest message in bytes, else 0."""
        peer = self.link.peer
        if peer is None or self._prefix:
            return 0
        name = peer.name.encode()
        self._prefix = frame_header(len(name), more=True) + name
        return MESSAGE_BYTES_LARGE if peer.role in _LARGE_ROLES else MESSAGE_BYTES

    def overtakes(self, frames: Sequence[bytes], item: list[bytes]) -> bool:
        """Queue an urgent message before all data; too many urgent messages end the connection."""
        if frames[1][1] not in _URGENT:
            return False
        self._urgent.append(item)
        if len(self._urgent) > URGENT_MESSAGES:
            self.lose(f"it left {URGENT_MESSAGES} urgent messages unread")
        return True

    def lose(self, reason: str) -> None:
        """End the connection at once."""
        exchange = self._exchange
        exchange.perform(exchange.broker.disconnect(self.link, reason, exchange.clock()))
        self._end()

    def _end(self) -> None:
        raise NotImplementedError


class Tally:
    """Pass log entries on; those that any peer can cause at will are limited to one per second.

    The first entry of a kind passes at once. Those of the next second are counted; `tick` then passes the last one on
    with the `count`. Entries of one event about one peer are of one kind; all unjoined connections count as one peer.
    """

    def __init__(self, note: Callable[[Note], None], clock: Callable[[], float]) -> None:
        self._note = note
        self._clock = clock
        self._held: dict[tuple[str, ...], tuple[float, int, Note]] = {}  # since when, how many, the last

    def __call__(self, note: Note) -> None:
        """Pass a log entry on, or count it."""
        name = str(note.fields.get("name", note.fields.get("source", "")))
        key = (note.event, str(note.fields.get("kind", "")), "" if name.startswith("stranger ") else name)
        if key in self._held:
            since_s, count, _ = self._held[key]
            self._held[key] = since_s, count + 1, note
            return
        if note.event in _COUNTED:
            self._held[key] = self._clock(), 0, note
        self._note(note)

    def tick(self, now_s: float) -> None:
        """Pass on the entries that were counted for a second."""
        for key, (since_s, count, last) in list(self._held.items()):
            if now_s - since_s < _SPAN_S:
                continue
            del self._held[key]
            if count:
                self._held[key] = now_s, 0, last
                self._note(Note(last.level, last.event, {**last.fields, "count": count}))


class Budget:
    """Bound the unfinished messages of all connections together: beyond the bound, the newest connection waits.

    The connection that began first is never stopped, so that some message always gets finished. It counts with all
    bytes that it has announced; the others count with the bytes received.
    """

    def __init__(self, bytes_max: int = UNFINISHED_BYTES) -> None:
        self._bytes_max = bytes_max
        self._open: dict[Sink, tuple[int, int]] = {}  # bytes received, and bytes announced
        self._stopped: list[Sink] = []
        self.pressed = False  # whether a connection waited for room at the last tick

    @property
    def tight(self) -> bool:
        """Return whether a connection waits for room."""
        return bool(self._stopped)

    def account(self, sink: Sink, arrived: int, announced: int) -> None:
        """Record the bytes received and announced of a connection's unfinished message."""
        if announced < LARGE_BYTES:
            if sink in self._open:
                self.forget(sink)
            return
        self._open[sink] = arrived, announced
        first = next(iter(self._open))
        if first is sink or sink in self._stopped:
            return
        came, whole = self._open[first]
        if sum(size for size, _ in self._open.values()) - came + whole > self._bytes_max:
            self._stopped.append(sink)
            sink.pause()

    def forget(self, sink: Sink) -> None:
        """Release the room of a finished or ended message; waiting connections resume, and may be stopped again."""
        if self._open.pop(sink, None) is not None:
            stopped, self._stopped = self._stopped, []
            for other in stopped:
                other.resume()


class Shares:
    """Bound the time of the broker's decisions for one peer, or for the unjoined connections of one origin.

    Each may use a `share` of the time, and save up a tenth of a second. Beyond that its connection is not read for a
    while. Peers that a run needs have no bound.
    """

    def __init__(self, share: float = DECISION_SHARE) -> None:
        self._share = share
        self._credits: dict[str, tuple[float, float]] = {}  # of a peer or an origin: seconds left, and when that was

    def spend(self, link: Link, spent_s: float, now_s: float) -> float:
        """Record the time of a decision; return for how many seconds the sender is not read."""
        if link.peer is not None and link.peer.role in _UNBOUNDED:
            return 0.0
        key = link.origin if link.peer is None else link.name
        left_s, then_s = self._credits.pop(key, (_SAVED_S, now_s))
        left_s = min(_SAVED_S, left_s + (now_s - then_s) * self._share) - spent_s
        if len(self._credits) >= PEERS:
            del self._credits[next(iter(self._credits))]  # the one that was silent for longest
        self._credits[key] = left_s, now_s
        return min(_WAIT_MAX_S, max(0.0, -left_s / self._share))


def _no_relay(link: Link) -> None:
    raise AssertionError("only a relay has uplinks")


class Exchange:
    """Perform the effects that the broker decides; shared by all fronts of a process."""

    def __init__(
        self,
        broker: Broker,
        note: Callable[[Note], None],  # logs; entries that unjoined connections can cause come once a second
        clock: Callable[[], float],  # monotonic seconds
        later: Callable[[float, Callable[[], None]], Any],  # calls a function after some seconds
    ) -> None:
        self.broker = broker
        self.clock = clock
        self.later = later
        self.budget = Budget()
        self.shares = Shares()
        self.dirty: list[Sink] = []
        self.climb: Callable[[Link], None] = _no_relay  # makes the sink of an uplink, for a link of a relay
        self.note = Tally(note, clock)

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform effects in order; a subsequent `flush` writes them."""
        for effect in effects:
            if type(effect) is Send:
                sink: Sink | None = effect.link.sink
                if sink is not None:
                    if not sink.out:
                        self.dirty.append(sink)
                    sink.send(effect.frames)
            elif type(effect) is Close:
                closed: Sink | None = effect.link.sink
                if closed is not None:
                    closed.flush()
                    closed.finish(effect.reason)
            elif type(effect) is Note:
                self.note(effect)
            elif type(effect) is Climb:
                self.climb(effect.link)

    def flush(self, sender: Sink | None = None) -> None:
        """Write to every sink with new messages; `sender` is the sink whose peer sent them."""
        dirty = self.dirty
        while dirty:  # a failed write disconnects a peer, which may produce messages to others
            sink = dirty.pop()
            if sink.flush() and sender is not None and sender is not sink:
                sink.hold(sender)

    def tick(self) -> None:
        """Let the broker and all connections check their time limits; call it about four times a second."""
        now_s = self.clock()
        self.budget.pressed = self.budget.tight  # the same value for all connections of this tick
        links = list(self.broker.links.values())
        self.perform(self.broker.tick(now_s))
        for link in links:
            if link.sink is not None:
                link.sink.look(now_s)
        self.note.tick(now_s)
        self.flush()
