"""Host of the store: takes records of all writers, makes them durable, acknowledges after the commit."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ganglion.errors import GanglionError
from ganglion.limits import DEADLINE_OTHER_S
from ganglion.peer.conversation import Gone, Told
from ganglion.peer.failure import failure_of
from ganglion.peer.participant import Handler, Participant, show_failure
from ganglion.sdk.store import StoreWriter
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import RecordAck, RecordBatch, Watch
from ganglion.wire.name import Role, peer_name
from ganglion.wire.parcel import attach

__all__ = ["StoreHost"]

_COMMIT_ROWS = 1000
COMMIT_S = 0.05
"""Rows wait at most so long for others to share their transaction."""


class StoreHost:
    """Write what arrives; commit at a thousand rows or after fifty milliseconds, then acknowledge."""

    idle_s = COMMIT_S

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._unacknowledged: dict[str, int] = {}
        self._rows = 0
        self._since_s = 0.0
        self._failed: GanglionError | None = None
        self._governor = ""
        self._begun = self._ended = False  # whether the records of the run's begin and end have come
        self.participant: Participant  # set before anything is served

    def handlers(self) -> dict[str, Handler]:
        """Return what this host answers: nothing is asked of it."""
        return {}

    def told(self, told: Told) -> None:
        """Take one batch."""
        if told.head.call != "record.batch":
            return
        batch = attach(told.head.call, codec_of(RecordBatch).decode(told.body), told.blobs)
        if not self._unacknowledged:
            self._since_s = self.participant.clock()
        self._unacknowledged[told.peer] = batch.number
        self._guard(lambda: self._writer.apply(told.peer, batch.records))
        self._begun |= any(record[:1] == ["run"] for record in batch.records)
        self._ended |= any(record[:1] == ["end"] for record in batch.records)
        self._rows += sum(_weight(record) for record in batch.records)
        if self._rows >= _COMMIT_ROWS:
            self.commit()

    def joined(self) -> None:
        """Ask to be told when the governor is lost: then nobody else is left to write how the run ended."""
        welcome = self.participant.welcome
        assert welcome is not None
        self._governor = peer_name(welcome.run, Role.GOVERNOR)
        self.participant.ask("", "kernel.watch", Watch([self._governor]), DEADLINE_OTHER_S)

    def gone(self, gone: Gone) -> None:
        """Hear that the governor is lost; what nobody sealed stays invisible, and the run does not stay `running`."""
        if gone.peer == self._governor and self._begun and not self._ended:
            end = [
                "end",
                "failed",
                f"lost: governor: {gone.reason}",
                dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            ]
            self._guard(lambda: self._writer.apply(self.participant.name, [end]))
            self._guard(self._writer.commit)

    def tick(self) -> None:
        """Commit what has waited long enough; called at least every `COMMIT_S`."""
        if self._unacknowledged and self.participant.clock() - self._since_s >= COMMIT_S:
            self.commit()

    def commit(self) -> None:
        """Make everything durable and acknowledge it."""
        if not self._unacknowledged:
            return
        self._guard(self._writer.commit)
        error = None if self._failed is None else failure_of(self._failed)
        for writer, number in self._unacknowledged.items():
            self.participant.tell(writer, "record.ack", RecordAck(number, error))
        self._unacknowledged.clear()
        self._rows = 0

    def close(self) -> None:
        """Commit and close."""
        self.commit()
        self._writer.close()

    def _guard(self, act: Any) -> None:
        """Do something with the database; what fails is told to every writer from then on."""
        if self._failed is not None:
            return
        try:
            act()
        except GanglionError as error:
            show_failure(error, failure_of(error))
            self._failed = error


def _weight(record: list[Any]) -> int:
    return len(record[-1]) if record and record[0] in ("steps", "actions") else 1
