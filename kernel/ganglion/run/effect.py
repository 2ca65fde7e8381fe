"""Effects: what the governor decided; its host carries them out in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ganglion.run.plan import PhasePlan
from ganglion.wire.messages import Failure, FlowSignal

__all__ = [
    "Answer",
    "Ask",
    "Await",
    "Cut",
    "Declare",
    "Effect",
    "Event",
    "Finish",
    "Recall",
    "Record",
    "Steer",
]

Tag = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Call a peer; the answer comes back to `answered` or `failed` with the same tag."""

    tag: Tag
    peer: str
    call: str
    message: Any
    span_s: float | None


@dataclass(frozen=True, slots=True)
class Await:
    """Watch these peers; each is told by `joined`."""

    peers: Sequence[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a call that waits, by the token that came with it."""

    token: Any
    message: Any


@dataclass(frozen=True, slots=True)
class Steer:
    """Send a flow signal to a controller."""

    peer: str
    signal: FlowSignal


@dataclass(frozen=True, slots=True)
class Record:
    """Write one record to the store; `order` says that it tells of what an operator did, and when."""

    record: list[Any]
    order: bool = False


@dataclass(frozen=True, slots=True)
class Declare:
    """Write declarations to the store: they are rows of (kind, environment, agent, declarations)."""

    phase: int
    rows: list[tuple[str, str | None, str | None, list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Cut:
    """Keep what the run needs to begin again with a phase: models are rows of (phase, agent, folder)."""

    phase: int
    models: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Recall:
    """Fetch the recorded episodes that brains learn from in a phase; what follows is done if they are there."""

    phase: PhasePlan


@dataclass(frozen=True, slots=True)
class Event:
    """Tell those who look on."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run: drain the records, tell the supervisor."""

    status: str
    reason: str
    exit_status: int
    failure: Failure | None = None
    peer: str | None = None


Effect = Ask | Await | Answer | Steer | Record | Declare | Cut | Recall | Event | Finish
