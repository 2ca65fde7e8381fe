"""Exchange: what both fronts share: routes, queues, room, turns, shares of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ganglion.broker.core import Broker
from ganglion.broker.link import Close, Effect, Link, Note, Route, Send
from ganglion.limits import DECISION_SHARE, HEAD_BYTES, PEERS, QUEUE_MARK_BYTES, UNFINISHED_BYTES
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

_SPAN_S = 1.0
_COUNTED = frozenset(
    {
        "connection.broken",
        "connection.failed",
        "listener.resting",
        "message.forbidden",
        "message.undeliverable",
        "peer.refused",
    }
)


@dataclass(slots=True)
class _Held:
    since_s: float
    count: int = 0
    last: Note | None = None


class Tally:
    """Hand notes on; of those that anybody can cause as often as he likes, one a second.

    The first of its kind passes at once, the others of the next second are counted: `tick` then says the last of them
    with the `count`. Of one kind are notes of one event, about one peer; all strangers together are one.
    """

    def __init__(self, note: Callable[[Note], None], clock: Callable[[], float]) -> None:
        self._note = note
        self._clock = clock
        self._held: dict[tuple[str, str, str], _Held] = {}

    def __call__(self, note: Note) -> None:
        """Hand a note on, or count it."""
        if note.event not in _COUNTED:
            self._note(note)
            return
        key = _kind(note)
        held = self._held.get(key)
        if held is None:
            self._held[key] = _Held(self._clock())
            self._note(note)
        else:
            held.count += 1
            held.last = note

    def tick(self, now_s: float) -> None:
        """Say what was counted for a second."""
        for key, held in list(self._held.items()):
            if now_s - held.since_s < _SPAN_S:
                continue
            if held.last is None:
                del self._held[key]
                continue
            said, count = held.last, held.count
            self._held[key] = _Held(now_s)
            self._note(Note(said.level, said.event, {**said.fields, "count": count}))


def _kind(note: Note) -> tuple[str, str, str]:
    name = str(note.fields.get("name", note.fields.get("source", "")))
    return note.event, str(note.fields.get("kind", "")), "" if name.startswith("stranger ") else name


CALL, TELL = int(Verb.CALL), int(Verb.TELL)  # as they stand in a head: an enum would cost a call each time
ANSWERS = (int(Verb.REPLY), int(Verb.ERROR))
LARGE_BYTES = 65_536  # pieces from here on are worth not being copied
_UNBOUNDED = frozenset({Role.SUPERVISOR, Role.GOVERNOR, Role.CONTROLLER, Role.STORE})
_SAVED_S = 0.1
_WAIT_MAX_S = 0.25  # much less than a peer may be silent
URGENT = frozenset({Verb.SIGNAL, Verb.BEAT, Verb.LOST, Verb.BYE})
"""What overtakes data where data wait."""
SERIAL_BYTES = bytes({0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}.get(first, first < 0x80) for first in range(256))
"""How long a serial is, by its first byte; 0 for what no serial begins with, and for detours."""


def passes(route: Route, head: bytes) -> bool:
    """Say whether a message with this head may take a known route without a decision, and count it.

    The broker decides about what may not; the native front's walk holds the same rules once more.
    """
    # Only an array of 1 to 5 elements has the verb in its second byte; the receiver reads what we have judged by.
    if not 2 <= len(head) <= HEAD_BYTES or not 0x90 < head[0] < 0x96:
        return False
    verb = head[1]
    if not route.allowed >> verb & 1:
        return False
    if verb == CALL:
        if len(route.open) >= route.limit or route.target.queued_bytes > QUEUE_MARK_BYTES:
            return False
        if called(head) not in route.calls:
            return False
        route.open.append(serial_of(head))
        return True
    if verb in ANSWERS:
        back, serial = route.back, serial_of(head)
        if back is None or serial not in back.open:
            return False
        back.open.remove(serial)
        return True
    return verb == TELL


def serial_of(head: bytes) -> bytes:
    """Return the serial of a head, as it stands there; empty if it stands in no usual way."""
    return head[2 : 2 + SERIAL_BYTES[head[2]]] if len(head) > 2 and head[0] > 0x91 else b""


def called(head: bytes) -> bytes:
    """Return the name of the call in a head, as it stands there; something else if it stands in no usual way."""
    if len(head) < 4 or head[0] < 0x93:  # of fewer than three elements none is a name
        return b""
    start = 2 + SERIAL_BYTES[head[2]]
    return head[start : start + 1 + (head[start] & 31)] if start < len(head) else b""


class Sink(Protocol):
    """Be what a front keeps for one connection: where messages to it go.

    `out` holds messages as they go on the wire (ZMTP frames), in any pieces. Whoever appends to an empty `out` puts
    the sink into `Exchange.dirty`; `Exchange.flush` then has it written. `large` says that a piece in `out` is worth
    not being copied.
    """

    out: list[bytes]
    large: bool

    def send(self, frames: Sequence[bytes]) -> None:
        """Take one message of the kernel's decision; like an append to `out`, it is written by `flush`."""

    def flush(self) -> bool:
        """Write what `out` holds; True if more than the mark was waiting before: slow down who sent it."""

    def hold(self, sender: Sink) -> None:
        """Stop reading from `sender` until half of what waits here is written."""

    def pause(self) -> None:
        """Stop reading, until `resume` was called as often."""

    def resume(self) -> None:
        """Go on reading."""

    def finish(self, reason: str) -> None:
        """Write what is waiting, for half a second at most, then close."""

    def look(self, now_s: float) -> None:
        """Look at the clock; called with each tick."""


class Waiting:
    """Keep the senders that wait until one destination has less to take; none is stopped twice."""

    __slots__ = ("_senders",)

    def __init__(self) -> None:
        self._senders: list[Sink] = []

    def stop(self, sender: Sink) -> None:
        """Stop reading from a sender, unless it waits already."""
        if sender not in self._senders:
            self._senders.append(sender)
            sender.pause()

    def release(self) -> None:
        """Let all go on."""
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.resume()


class Budget:
    """Bound the unfinished messages of all connections together: beyond it, who comes last waits.

    Who began first is never stopped, so that some message always gets finished: all that it has announced is set
    aside for it, of the others what has come.
    """

    def __init__(self, bytes_max: int = UNFINISHED_BYTES) -> None:
        self._bytes_max = bytes_max
        self._arrived: dict[Sink, int] = {}
        self._announced: dict[Sink, int] = {}
        self._stopped: list[Sink] = []
        self.pressed = False  # somebody waited for room when the clocks were last looked at

    @property
    def tight(self) -> bool:
        """Say whether somebody waits for room."""
        return bool(self._stopped)

    def account(self, sink: Sink, arrived: int, announced: int) -> None:
        """Note how many bytes a connection has sent, and announced, of a message that is not complete."""
        if announced < LARGE_BYTES:
            if sink in self._announced:
                self.forget(sink)
            return
        self._arrived[sink], self._announced[sink] = arrived, announced
        first = next(iter(self._announced))
        if first is sink or sink in self._stopped:
            return
        if sum(self._arrived.values()) - self._arrived[first] + self._announced[first] > self._bytes_max:
            self._stopped.append(sink)
            sink.pause()

    def forget(self, sink: Sink) -> None:
        """Let a finished or ended message make room; who waits may go on, and be stopped again."""
        if self._announced.pop(sink, None) is not None:
            del self._arrived[sink]
            stopped, self._stopped = self._stopped, []
            for other in stopped:
                other.resume()


class Shares:
    """Bound the time that the broker's decisions for one peer, or for the strangers of one origin, may take.

    Each may use `DECISION_SHARE` of the time, and save up a tenth of a second; then its connection is not read for a
    while. Those without whom a run does not go on have no bound.
    """

    def __init__(self) -> None:
        self._credits: dict[str, tuple[float, float]] = {}  # of a peer or an origin: seconds left, and when that was

    def spend(self, link: Link, spent_s: float, now_s: float) -> float:
        """Note the time that a decision took; return for how long nothing is to be read of its sender."""
        if link.peer is not None and link.peer.role in _UNBOUNDED:
            return 0.0
        key = link.origin if link.peer is None else link.name
        left_s, then_s = self._credits.pop(key, (_SAVED_S, now_s))
        left_s = min(_SAVED_S, left_s + (now_s - then_s) * DECISION_SHARE) - spent_s
        if len(self._credits) >= PEERS:
            del self._credits[next(iter(self._credits))]  # who has said nothing for longest
        self._credits[key] = left_s, now_s
        return min(_WAIT_MAX_S, max(0.0, -left_s / DECISION_SHARE))


class Exchange:
    """Carry out what the broker decides; shared by all fronts of a process.

    `note` gets what is to be logged, of what strangers can cause a line a second; `clock` gives monotonic seconds;
    `later` calls a function after some seconds.
    """

    def __init__(
        self,
        broker: Broker,
        note: Callable[[Note], None],
        clock: Callable[[], float],
        later: Callable[[float, Callable[[], None]], Any],
    ) -> None:
        self.broker = broker
        self.clock = clock
        self.later = later
        self.budget = Budget()
        self.shares = Shares()
        self.dirty: list[Sink] = []
        self.note = Tally(note, clock)

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry out effects in order; `flush` then writes."""
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

    def flush(self, sender: Sink | None = None) -> None:
        """Write to every sink that has got something; `sender` is whose messages these were."""
        dirty = self.dirty
        while dirty:  # a write that fails disconnects a peer, which may tell others
            sink = dirty.pop()
            if sink.flush() and sender is not None and sender is not sink:
                sink.hold(sender)

    def tick(self) -> None:
        """Let the broker and all connections look at the clock; call it about four times a second."""
        now_s = self.clock()
        self.budget.pressed = self.budget.tight  # the same for all, whoever is found guilty first
        links = list(self.broker.links.values())
        self.perform(self.broker.tick(now_s))
        for link in links:
            if link.sink is not None:
                link.sink.look(now_s)
        self.note.tick(now_s)
        self.flush()
