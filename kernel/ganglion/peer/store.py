"""Host of the store: takes records of all writers, makes them durable, acknowledges after the commit."""

from __future__ import annotations

import datetime as dt
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.errors import GanglionError, StoreError, StoreUnavailable
from ganglion.limits import DEADLINE_OTHER_S, DEADLINES_S, WAIT_REPORT_S
from ganglion.peer.conversation import Gone, Told
from ganglion.peer.failure import failure_of
from ganglion.peer.participant import Handler, Participant, show_failure
from ganglion.sdk.store import StoreWriter
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import RecordAck, RecordBatch, RunEvent, Watch
from ganglion.wire.name import Role, peer_name, topic
from ganglion.wire.parcel import attach

__all__ = ["StoreHost"]

_COMMIT_ROWS = 1000
COMMIT_S = 0.05
"""Rows wait at most so long for others to share their transaction."""
AGAIN_S = 1.0
"""What could not be written is tried again so often."""
_REPORT_MAX_S = 60.0  # a wait is told at once, then after 2, 4, 8, 16, 32, 60, 120 s


@dataclass(slots=True)
class _Trouble:
    """Hold that nothing can be written at the moment: since when, why, and when what is due."""

    since_s: float
    error: StoreUnavailable
    again_s: float
    told_s: float


class StoreHost:
    """Write what arrives; commit at a thousand rows or after fifty milliseconds, then acknowledge.

    While the store cannot be written nothing is acknowledged, so that every writer stands when its credit is used up;
    batches that come meanwhile are held, which credit bounds. It is tried again every second until the deadline
    `record`; then the run fails by name, with whole episodes.

    Args:
        writer: Of the run.
        span_s: The deadline of its tries, in seconds; None is none.
    """

    idle_s = COMMIT_S

    def __init__(self, writer: StoreWriter, span_s: float | None = DEADLINES_S["record"]) -> None:
        self._writer = writer
        self._span_s = span_s
        self._unacknowledged: dict[str, int] = {}
        self._rows = 0
        self._since_s = 0.0
        self._trouble: _Trouble | None = None
        self._held: deque[tuple[str, RecordBatch]] = deque()
        self._failed: GanglionError | None = None
        self._governor = ""
        self._begun = self._ended = False  # whether the records of the run's begin and end have come
        self.participant: Participant  # set before anything is served

    def handlers(self) -> dict[str, Handler]:
        """Return what this host answers: nothing is asked of it."""
        return {}

    def told(self, told: Told) -> None:
        """Take one batch; hold it while nothing can be written."""
        if told.head.call != "record.batch":
            return
        batch = attach(told.head.call, codec_of(RecordBatch).decode(told.body), told.blobs)
        self._begun |= any(record[:1] == ["run"] for record in batch.records)
        if self._trouble is not None:
            self._held.append((told.peer, batch))
        else:
            self._take(told.peer, batch)

    def _take(self, peer: str, batch: RecordBatch) -> None:
        if not self._unacknowledged:
            self._since_s = self.participant.clock()
        self._unacknowledged[peer] = batch.number
        self._guard(lambda: self._writer.apply(peer, batch.records))
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
            self._ended = True
            end = ["end", "failed", f"lost: governor: {gone.reason}", _now()]
            if self._trouble is not None:
                self._held.append((self.participant.name, RecordBatch(0, [end])))
                return
            self._guard(lambda: self._writer.apply(self.participant.name, [end]))
            self._guard(self._writer.commit)

    def tick(self) -> None:
        """Commit what has waited long enough, or try again; called at least every `COMMIT_S`."""
        now_s = self.participant.clock()
        if self._trouble is not None:
            self._wait(self._trouble, now_s)
        elif self._unacknowledged and now_s - self._since_s >= COMMIT_S:
            self.commit()

    def commit(self) -> None:
        """Make everything durable and acknowledge it; what cannot be written now is not acknowledged."""
        if not self._unacknowledged or self._trouble is not None:
            return
        self._guard(self._writer.commit)
        if self._trouble is None:
            self._acknowledge()

    def _acknowledge(self) -> None:
        error = None if self._failed is None else failure_of(self._failed)
        heads = self._writer.heads() if self._ended and error is None else None
        heads = None if heads is None else dict(heads)
        for writer, number in self._unacknowledged.items():
            if number:  # 0: our own words, which nobody waits for
                self.participant.tell(writer, "record.ack", RecordAck(number, error, None, heads))
        self._unacknowledged.clear()
        self._rows = 0

    def close(self) -> None:
        """Commit and close; what has failed by name before does not fail again."""
        self.commit()
        if self._trouble is not None:
            self._give_up(self._trouble, "the run was ended")
        try:
            self._writer.close()
        except StoreError:
            if self._failed is None:
                raise

    def _guard(self, act: Any) -> None:
        """Do something with the database; what fails for good is told to every writer from then on."""
        if self._failed is not None:
            return
        try:
            act()
        except StoreUnavailable as error:
            now_s = self.participant.clock()
            self._trouble = _Trouble(now_s, error, now_s + AGAIN_S, now_s)
            self._tell_trouble(self._trouble, now_s)
        except GanglionError as error:
            self._fail(error)

    def _fail(self, error: GanglionError) -> None:
        show_failure(error, failure_of(error))
        self._failed = error

    # -- when nothing can be written ----------------------------------------------------------------------------------
    def _wait(self, trouble: _Trouble, now_s: float) -> None:
        """Try again when it is time; go on where it succeeds, fail by name at the deadline."""
        if now_s < trouble.again_s:
            return
        self._trouble = None
        try:
            self._writer.commit()
        except StoreUnavailable as error:
            trouble.error = error
            if self._span_s is not None and now_s - trouble.since_s >= self._span_s:
                self._give_up(trouble, f"it could not be written for {self._span_s:g} s (record)")
                return
            trouble.again_s = now_s + AGAIN_S
            self._trouble = trouble
            self._tell_trouble(trouble, now_s)
            return
        except GanglionError as error:
            self._fail(error)
        self._acknowledge()
        self._take_held()

    def _take_held(self) -> None:
        while self._held and self._trouble is None:
            self._take(*self._held.popleft())

    def _give_up(self, trouble: _Trouble, why: str) -> None:
        """Write how the run ended with what is kept back for that, if even that is possible; tell every writer."""
        self._trouble = None
        failure = StoreError(f"store: {why}: {trouble.error}")
        self._ended = True
        try:
            self._writer.abandon("failed", f"failed: {failure}", _now())
        except StoreError as error:
            failure = StoreError(f"{failure}; nor can that be written: {error}")
        self._fail(failure)
        self._acknowledge()
        self._take_held()
        self._acknowledge()

    def _tell_trouble(self, trouble: _Trouble, now_s: float) -> None:
        """Say to the writers that the store lives and tries, and to those who look on why nothing moves."""
        text = f"the store cannot be written: {trouble.error}"
        for writer in {*self._unacknowledged, *(peer for peer, _ in self._held)} - {self.participant.name}:
            self.participant.tell(writer, "record.ack", RecordAck(0, None, text))
        welcome = self.participant.welcome
        if now_s < trouble.told_s or welcome is None:
            return
        waited_s = now_s - trouble.since_s
        trouble.told_s = now_s + min(max(waited_s, WAIT_REPORT_S), _REPORT_MAX_S)
        rest = "" if self._span_s is None else f"; gives up in {self._span_s - waited_s:.0f} s"
        fields = {
            "text": f"waiting {waited_s:.1f} s for {text}; tries every second{rest}",
            "name": self.participant.name,
        }
        self.participant.tell(
            topic(welcome.run, "waits"), "event", RunEvent("waiting", fields, time.time(), "waits")
        )


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def _weight(record: Sequence[Any]) -> int:
    return len(record[-1]) if record and record[0] in ("steps", "actions") else 1
