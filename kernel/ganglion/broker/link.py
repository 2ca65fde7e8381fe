"""Connections, the peers behind them, the routes between them, and the effects that a front carries out."""

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
    """Say how far a connection has come."""

    CONNECTED = "connected"
    JOINED = "joined"
    GONE = "gone"


TRANSITIONS: dict[State, dict[Verb, State]] = {
    State.CONNECTED: {
        Verb.HELLO: State.JOINED,  # or GONE, with an ERROR that says why
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
"""What is no cell is refused with an ERROR and ends the connection. WELCOME and LOST are said by the kernel alone."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Hold what the supervisor announced: which peer may join under a name, and what it is.

    A `name` that ends in `*` admits any number of peers, which get a number in its place. `attach` is the name by
    which a program that is started from outside asks for this place. `curve_key` is the public key that a connection
    from another machine must have; without one the name is for this machine alone. `returns` says that the bearer of
    the name will come again if it is lost: until then it is absent, not gone.
    """

    name: str
    role: Role
    run: str
    token_sha256: bytes
    incarnation: int = 1
    uid: str | None = None
    worker: int | None = None
    attach: str | None = None
    evaluation: bool = False  # of a worker that evaluates: its numbers begin at 0 again
    curve_key: str | None = None
    returns: bool = False

    @property
    def numbered(self) -> bool:
        """Say whether the name stands for many."""
        return self.name.endswith("*")


@dataclass(slots=True)
class Peer:
    """Hold what is known of a peer that has joined."""

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
    """Lead from one peer to another: the entry that a front's fast path looks up per message.

    `allowed` has bit `1 << verb` for each verb that may pass, `calls` the names of the calls that may be asked, as
    they stand in a head. `source` is the sender's name as the receiver sees it.
    `open` has the serials of the CALLs that went this way and are not answered, as they stand in a head; `limit` bounds
    their number. `back` is the route in the other direction: an answer passes only if its serial is in that one's
    `open`. `count` is how many messages have passed.
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
    """One connection, as broker and front see it.

    `routes` maps the name of a destination to its route; only routes that are open now are in it. `heard_s` and
    `queued_bytes` are kept by the front. `sink` belongs to the front alone. `origin` is the process or address behind
    it, as the system tells; empty if it does not.
    """

    def __init__(self, key: int, now_s: float, origin: str = "") -> None:
        self.key = key
        self.origin = origin
        self.state = State.CONNECTED
        self.peer: Peer | None = None
        self.routes: dict[bytes, Route] = {}
        self.born_s = now_s
        self.joined_s = now_s  # when it has joined, once it has
        self.heard_s = now_s
        self.asked_s: float | None = None  # a BEAT is unanswered since
        self.queued_bytes = 0
        self.refusals_s: list[float] = []  # when it last said what it may not
        self.gaps: dict[bytes, int] = {}
        self.watches: set[str] = set()
        self.topics: set[bytes] = set()
        self.sink: Any = None
        self.curve_key: str | None = None  # of an encrypted connection, set by its front; None on this machine
        self.near: Near | None = None  # what its relay has told last

    @property
    def name(self) -> str:
        """Return the name of the peer, or a word for a connection that has not joined."""
        return self.peer.name if self.peer is not None else f"stranger {self.key}"


@dataclass(frozen=True, slots=True)
class Send:
    """Write one message `[from][head][body][blob ...]` to a connection."""

    link: Link
    frames: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection after what is queued for it was written, within half a second.

    The broker has forgotten the link already: `disconnect` need not be called, and does nothing if it is.
    """

    link: Link
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Say something to the log: `level` is debug, info or warning."""

    level: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Climb:
    """Connect to the kernel's broker for a peer of a relay; `link` is the new connection's, and has no sink yet."""

    link: Link


Effect = Send | Close | Note | Climb
