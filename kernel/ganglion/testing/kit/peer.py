"""What the kit needs of a peer: a connection, its end, and a way to start it; see `process.py` and `memory.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Driver", "End", "Peer", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Say where a peer is to take its place, as the variables of its environment do.

    `curve` is empty for a bus without CURVE; `right` lets it in, with `wrong` the peer gets another server's key.
    `silence_ms` is after what silence of the bus it should give up.
    """

    role: str
    name: str
    token: str
    curve: str = ""
    silence_ms: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Say how a peer ended: its exit status (negative: the signal) and what it wrote to its standard error."""

    status: int
    words: str = ""


class Peer(Protocol):
    """One life of a peer, and its connection to the kit."""

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return its next message; None if nothing comes within `span_s`; PeerLost when its connection has ended."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send it one message; PeerLost when its connection has ended."""

    def cut(self) -> None:
        """Be gone, as a kernel that was killed: no word, no connection, nobody who listens."""

    def terminate(self) -> None:
        """Ask the system to end it, by SIGTERM."""

    def ended(self, span_s: float) -> End | None:
        """Return how it ended, None if it has not within `span_s`."""

    def stop(self) -> None:
        """Leave nothing of it behind."""


class Driver(Protocol):
    """Start a peer, as often as the kit asks."""

    @property
    def what(self) -> str:
        """Return the peer in a few words, for the report."""

    @property
    def program(self) -> bool:
        """Say whether it is a process that the kit starts: it can be asked how it ends, and to speak CURVE."""

    @property
    def again(self) -> bool:
        """Say whether it can be started more than once."""

    def start(self, place: Place) -> Peer:
        """Start it; LaunchError if it cannot be."""
