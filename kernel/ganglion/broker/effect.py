"""Effects: what the broker decided; a front carries them out in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ganglion.broker.link import Link

__all__ = ["Close", "Effect", "Note", "Send"]


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


Effect = Send | Close | Note
