"""What goes one way: signals of flow, rows for the store and their acknowledgement, events for who looks on."""

from typing import Any

from ganglion.wire.messages.declaration import message
from ganglion.wire.messages.joining import Failure

__all__ = ["FlowSignal", "RecordAck", "RecordBatch", "RunEvent"]


@message
class FlowSignal:
    """Carry flow control."""

    signal: str
    issuer: str
    reason: str = ""
    phase: int | None = None
    worker: int | None = None
    episode: int | None = None
    steps: int | None = None  # CONTINUE for so many boundaries, then PAUSE
    data: dict[str, Any] | None = None
    number: int = (
        0  # counts the governor's signals to one controller from 1: one that comes again is not heard twice
    )


@message
class RecordBatch:
    """Carry rows for the store, in order; `number` counts the batches of one writer from 1.

    `records` are lists [kind, field, ...]; the kinds and their fields are in `kernel/PROTOCOL.md`.
    """

    number: int
    records: list[Any]
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it


@message
class RecordAck:
    """Acknowledge a writer's batches up to `number`: they are durable, or part of an open episode."""

    number: int
    error: Failure | None = None
    waiting: str | None = (
        None  # why nothing can be written at the moment; the store tries again and says when it stops
    )
    heads: dict[str, Any] | None = None  # what protects the rows of a run, once its end is durable


@message
class RunEvent:
    """Carry an event of a run for those who look on: its name, time and fields."""

    event: str
    fields: dict[str, Any]
    time_s: float = 0.0
    topic: str = ""  # the end of the topic's name; empty is `events`
