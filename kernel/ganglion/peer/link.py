"""What a participant needs of a link, and the one that it has before it has joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class LinkLike(Protocol):
    """What a participant needs of a link."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after `timeout_s`; raise PeerLost when the other side is gone."""

    def close(self) -> None:
        """Close the link."""


Connect = Callable[[], LinkLike]
"""Connect to the broker; raise PeerLost or DeadlineExceeded if it cannot be reached."""


class Unjoined:
    """Be the link of who has not joined: made when it is used."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._made: LinkLike | None = None

    @property
    def made(self) -> LinkLike:
        """Return the link itself."""
        if self._made is None:
            self._made = self._connect()
        return self._made

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        self.made.send(frames)

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message."""
        return self.made.receive(timeout_s)

    def close(self) -> None:
        """Close what was made."""
        if self._made is not None:
            self._made.close()
