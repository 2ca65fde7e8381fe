"""Host: what a participant serves, and what it does at the moments of its life."""

from __future__ import annotations

from typing import Any

from ganglion.peer.modelstore import LocalModelStore
from ganglion.peer.participant import Handler
from ganglion.wire.conversation import Notice
from ganglion.wire.messages import Lost


class Host:
    """Answer the `calls` of a `kind` with the methods of these names; do nothing at all other moments.

    Attributes:
        participant: The `Participant` that serves this host; set before anything is served.
        place: How models are reached.
        idle_s: Seconds after which `tick` is called although nothing has come.
        timed: Whether what `tick` does depends on the time.
    """

    kind = ""
    calls: tuple[str, ...] = ()
    participant: Any
    place = LocalModelStore()
    idle_s = 0.25
    timed = False

    def handlers(self) -> dict[str, Handler]:
        """Return what this host answers."""
        return {f"{self.kind}.{call}": getattr(self, call) for call in self.calls}

    def joined(self) -> None:
        """Begin: the participant has joined, and has served nothing yet."""

    def told(self, told: Notice) -> None:
        """Take what a peer tells."""

    def gone(self, gone: Lost) -> None:
        """Take that a peer is lost."""

    def reconnected(self) -> None:
        """Say again what a lost broker may have lost; see `Participant.on_return`."""

    def tick(self) -> None:
        """Act between two requests."""

    def close(self) -> None:
        """Release what is held, before the participant leaves."""
