"""Records: rows on their way to the store, in batches, under credit."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from ganglion.errors import DeadlineExceeded, StoreError
from ganglion.limits import DEADLINES_S, STREAM_CREDIT_BYTES, STREAM_CREDIT_MESSAGES
from ganglion.peer.conversation import Told
from ganglion.peer.participant import Participant
from ganglion.sdk.spaces import space_from_wire
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import RecordAck, RecordBatch
from ganglion.wire.parcel import detach

__all__ = ["Records", "declaration_rows", "pack"]

_ROWS_PER_BATCH = 250
_BATCH_BYTES_MAX = 512 * 1024  # half of what a body may have

pack = msgpack.Packer(autoreset=True).pack
"""Encode one row of values for the store."""


def declaration_rows(declarations: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return declarations as the store keeps them: id, space, unit, dtype, shape."""
    rows = []
    for row in declarations:
        space = space_from_wire(row["space"])
        shape = [] if space.scalar else [space.size]
        rows.append(
            [
                row["id"],
                space.to_string(),
                row.get("unit"),
                space.dtype.str,
                list(getattr(space, "shape", shape)),
            ]
        )
    return rows


class Records:
    """Send records to the store; wait only when eight batches, or a mebibyte, are unacknowledged.

    With `store` None everything is dropped: the run is not stored, as its user asked. `number` is that of the last
    batch that was sent; who has a predecessor goes on behind it.
    """

    def __init__(self, participant: Participant, store: str | None, number: int = 0) -> None:
        self._participant = participant
        self._store = store
        self._open: list[Any] = []
        self._weight = 0
        self._bytes = 0
        self.number = number
        self._unacknowledged: deque[tuple[int, int]] = deque()  # number and bytes of each batch
        self._failure: str | None = None
        self._until_s = 0.0
        self.waiting: str | None = None  # why the store cannot write at the moment, as it says
        self.heads: dict[str, Any] | None = None  # what protects the rows, once the run's end is durable

    @property
    def settled(self) -> bool:
        """Say whether everything that was taken is acknowledged."""
        return not self._open and not self._unacknowledged

    def add(self, record: list[Any], rows: int = 1, size_bytes: int = 64) -> None:
        """Take one record; it leaves with the batch."""
        if self._store is None:
            return
        if record[0] == "run":  # with the document
            size_bytes = len(pack(record))
        if self._open and self._bytes + size_bytes > _BATCH_BYTES_MAX:
            self.flush()
        self._open.append(record)
        self._weight += rows
        self._bytes += size_bytes
        if self._weight >= _ROWS_PER_BATCH or self._bytes >= _BATCH_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what was taken; StoreError or DeadlineExceeded if the store does not take it."""
        if self._store is None or not self._open:
            return
        self._wait(STREAM_CREDIT_MESSAGES - 1, STREAM_CREDIT_BYTES - min(self._bytes, STREAM_CREDIT_BYTES))
        self.number += 1
        self._unacknowledged.append((self.number, self._bytes))
        batch, size_bytes = RecordBatch(self.number, self._open), self._bytes
        self._open, self._weight, self._bytes = [], 0, 0
        blobs: list[bytes] = []
        if size_bytes > _BATCH_BYTES_MAX:  # one record that is larger than a body should be
            batch, blobs = detach("record.batch", batch)
        self._participant.tell(self._store, "record.batch", batch, blobs=blobs)

    def mark(self) -> int:
        """Send what was taken; return the number up to which all is sent."""
        self.flush()
        return self.number

    @property
    def durable(self) -> int:
        """Return the number up to which all is acknowledged."""
        return self._unacknowledged[0][0] - 1 if self._unacknowledged else self.number

    def drain(self) -> None:
        """Send everything and wait until the store has acknowledged it."""
        self.flush()
        self._wait(0, 0)

    def _wait(self, messages: int, size_bytes: int) -> None:
        """Wait until no more than these batches and bytes are unacknowledged."""
        clock = self._participant.clock
        span_s = DEADLINES_S["record"]
        self._until_s = clock() + (span_s or 0.0)
        while self._beyond(messages, size_bytes) and self._failure is None:
            if span_s is not None and clock() >= self._until_s:
                raise DeadlineExceeded(f"the store did not acknowledge rows within {span_s} s (record)")
            self._participant.pump(min(1.0, max(0.0, self._until_s - clock())))
        if self._failure is not None:
            raise StoreError(self._failure)

    def _beyond(self, messages: int, size_bytes: int) -> bool:
        sent = self._unacknowledged
        return len(sent) > messages or sum(size for _, size in sent) > size_bytes

    def heard(self, told: Told) -> bool:
        """Take an acknowledgement; says whether it was one."""
        if told.head.call != "record.ack":
            return False
        ack = codec_of(RecordAck).decode(told.body)
        if ack.error is not None:
            self._failure = ack.error.message
        self.waiting = ack.waiting
        if ack.waiting is not None:  # it lives and tries: the deadline of its tries is its own
            self._until_s = self._participant.clock() + (DEADLINES_S["record"] or 0.0)
        self.heads = ack.heads or self.heads
        while self._unacknowledged and self._unacknowledged[0][0] <= ack.number:
            self._unacknowledged.popleft()
        return True

    def lost(self, peer: str, reason: str) -> None:
        """Note that a peer is gone; if it was the store, nothing can be written any more."""
        if peer == self._store:
            self._failure = f"the store is gone: {reason}"
