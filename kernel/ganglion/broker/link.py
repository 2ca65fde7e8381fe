"""Connections, the peers behind them, the routes between them, and the effects that a front performs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ganglion.wire.codec import Content
from ganglion.wire.messages import Near
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


class State(Enum):
    """State of a connection."""

    CONNECTED = "connected"
    JOINED = "joined"
    GONE = "gone"


TRANSITIONS: dict[State, dict[Verb, State]] = {
    State.CONNECTED: {
        Verb.HELLO: State.JOINED,  # or GONE, with an ERROR that gives the reason
        Verb.BYE: State.GONE,
    },
    State.JOINED: {
        Verb.CALL: State.JOINED,
        Verb.REPLY: State.JOINED,
        Verb.ERROR: State.JOINED,
        Verb.TELL: State.JOINED,
        Verb.SIGNAL: State.JOINED,
        Verb.BEAT: State.JOINED,
        Verb.BYE: State.GONE,
    },
    State.GONE: {},
}
"""A verb without an entry is refused with an ERROR and ends the connection. Only the kernel sends WELCOME and LOST."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Hold the supervisor's announcement of a name: which peer may join under it, and the peer's properties.

    A `name` that ends in `*` admits any number of peers; a number replaces the `*`. `attach` is the name by which a
    program started from outside requests this place. `curve_key` is the public key required of a connection from
    another machine; None admits connections of this machine only. If `returns` is True, a lost peer of this name will
    return; until then it is absent, not gone.
    """

    name: str
    role: Role
    run: str
    token_sha256: bytes
    incarnation: int = 1
    uid: str | None = None
    worker: int | None = None
    attach: str | None = None
    evaluation: bool = False  # of a worker that evaluates; these workers are numbered from 0 as well
    curve_key: str | None = None
    returns: bool = False

    @property
    def numbered(self) -> bool:
        """Return True if the name admits several peers."""
        return self.name.endswith("*")


@dataclass(slots=True)
class Peer:
    """Hold the properties of a joined peer."""

    name: str
    role: Role
    run: str
    incarnation: int
    uid: str | None
    worker: int | None
    content: Content = Content.MSGPACK
    language: str = ""
    beats_in_call: bool = False
    evaluation: bool = False

    @classmethod
    def of(cls, place: Admission) -> Peer:
        """Return the peer that takes an admitted place."""
        known = (place.name, place.role, place.run, place.incarnation, place.uid, place.worker)
        return cls(*known, evaluation=place.evaluation)


class Route:
    """Connect one peer to another: the entry that a front's fast path looks up per message.

    `allowed` has bit `1 << verb` for each permitted verb. `calls` are the names of the permitted calls, encoded as in a
    head. `source` is the sender's name as the receiver sees it. `open` holds the serials of the unanswered CALLs of
    this direction, encoded as in a head; `limit` bounds their number. `back` is the route in the other direction: an
    answer passes only if its serial is in `back.open`. `count` is the number of forwarded messages.
    """

    __slots__ = ("allowed", "back", "calls", "count", "limit", "open", "source", "target")

    def __init__(
        self, allowed: int, source: bytes, target: Link, limit: int, calls: frozenset[bytes] = frozenset()
    ) -> None:
        self.allowed = allowed
        self.calls = calls
        self.source = source
        self.target = target
        self.limit = limit
        self.open: list[bytes] = []
        self.back: Route | None = None
        self.count = 0


class Link:
    """Hold one connection, as broker and front see it.

    `routes` maps the name of a destination to its route, for open routes only. The front maintains `heard_s` and
    `queued_bytes`. `sink` belongs to the front alone. `origin` is the process or address behind the connection, as the
    system reports it; empty if unknown.
    """

    def __init__(self, key: int, now_s: float, origin: str = "") -> None:
        self.key = key
        self.origin = origin
        self.state = State.CONNECTED
        self.peer: Peer | None = None
        self.routes: dict[bytes, Route] = {}
        self.born_s = now_s
        self.joined_s = now_s  # when it joined; before that when it was made
        self.heard_s = now_s
        self.asked_s: float | None = None  # when the unanswered BEAT was sent
        self.claimed = False  # whether its peer has tried to join by another connection since it was heard by this one
        self.queued_bytes = 0
        self.refusals_s: list[float] = []  # times of its last forbidden messages
        self.gaps: dict[bytes, int] = {}
        self.watches: set[str] = set()
        self.topics: set[bytes] = set()
        self.sink: Any = None
        self.curve_key: str | None = None  # of an encrypted connection, set by its front; None on this machine
        self.near: Near | None = None  # the last report of its relay

    @property
    def name(self) -> str:
        """Return the name of the peer, or a placeholder for an unjoined connection."""
        return self.peer.name if self.peer is not None else f"stranger {self.key}"


@dataclass(frozen=True, slots=True)
class Send:
    """Write one message `[from][head][body][blob ...]` to a connection."""

    link: Link
    frames: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection after its queue was written, within half a second.

    The broker has removed the link already: `disconnect` is not needed, and does nothing.
    """

    link: Link
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Write an event to the log; `level` is debug, info or warning."""

    level: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Climb:
    """Connect a relay's peer to the kernel's broker; `link` belongs to the new connection, its sink is not set yet."""

    link: Link


Effect = Send | Close | Note | Climb
