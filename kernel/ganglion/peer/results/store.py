"""Host of the store: takes the records of all writers, commits and then acknowledges them."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ganglion.errors import GanglionError, StoreDamaged, StoreError, StoreUnavailable
from ganglion.limits import DEADLINES_S, RETRY_S, STORE_JOURNAL_BYTES, STREAM_CREDIT_BYTES, WAIT_REPORT_S
from ganglion.peer.author import failure_of, show_failure
from ganglion.peer.host import Host
from ganglion.peer.participant import Participant
from ganglion.peer.results.records import Numbering, Place, Sealed
from ganglion.peer.wait import Reports
from ganglion.sdk.store import StoreWriter
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Notice
from ganglion.wire.messages import Lost, RecordAck, RecordBatch, Watch
from ganglion.wire.name import Role, peer_name
from ganglion.wire.parcel import attach, detach

_COMMIT_ROWS = 1000
_COMMIT_BYTES = STREAM_CREDIT_BYTES // 2  # else a writer of large rows would wait for the clock with its credit spent
_REPLAY_ROWS = 100_000  # a replay commits only to bound its memory
_GAP_S = 10.0  # a writer that notices the loss of a batch repeats it much sooner
_TOLD_OF_PHASES = (
    "phase",
    "signal",
    "brain",
    "opponents",
    "ratings",
)  # records of the newest phases, which a resumed run withdraws
COMMIT_S = 0.05
"""The longest wait of rows for others to share their transaction."""
_REPORT_MAX_S = 60.0  # a wait is reported at once, then after 2, 4, 8, 16, 32, 60, 120 s


@dataclass(slots=True)
class _Trouble:
    """The state while the database cannot be written: begin, error, and times of the next attempt and report."""

    since_s: float
    error: StoreUnavailable
    again_s: float
    told_s: float


class StoreHost(Host):
    """Write batches; commit at a thousand rows or after fifty milliseconds, then acknowledge.

    While the database cannot be written no batch is acknowledged, so that every writer stops when its credit is spent;
    batches that arrive meanwhile are held, bounded by the credit. The commit is retried every second until the deadline
    `record`; then the run fails by name, with whole episodes.

    A repeated batch is only acknowledged. With a journal a successor replays the batches of its predecessor and writes
    all of them; rows that the database has are compared. The journal is compacted to the records that a successor still
    needs: rows of open episodes, and records of the newest phases, which a resumed run withdraws.

    Args:
        writer: Of the run.
        span_s: The deadline of the retries, in seconds; None is no deadline.
        behind: The phase from which on rows are withdrawn that the journal of a predecessor does not hold.
    """

    participant: Participant
    idle_s = COMMIT_S

    def __init__(
        self, writer: StoreWriter, span_s: float | None = DEADLINES_S["record"], behind: int | None = None
    ) -> None:
        self._writer = writer
        writer.working = self._works
        self._behind = behind
        self._sealed = Sealed()
        self._span_s = span_s
        self._unacknowledged: dict[str, int] = {}
        self._heard = Numbering()
        self._missed_s: dict[str, float] = {}  # begin of a gap, by writer
        self._base: dict[str, int] = {}  # last numbers at the begin of the journal
        self._shorten_at_bytes = STORE_JOURNAL_BYTES
        self._phase = 0  # the newest one in a record
        self._rows = self._bytes = 0  # since the last commit
        self._since_s = 0.0
        self._works_s = self._alive_s = 0.0  # begin of reading rows back, and time of the last report
        self._reports = Reports()
        self._trouble: _Trouble | None = None
        self._held: deque[tuple[str, RecordBatch]] = deque()
        self._failed: GanglionError | None = None
        self._governor = ""
        self._marked = False
        self._begun = self._ended = False  # whether the records of the run's begin and end were received

    def told(self, told: Notice) -> None:
        """Take one batch; hold the batch while the database cannot be written."""
        if told.head.call != "record.batch":
            return
        batch = attach(told.head.call, codec_of(RecordBatch).decode(told.body), told.blobs)
        self._bytes += len(told.body) + sum(map(len, told.blobs))
        if batch.number == 0 and self.participant.playing:  # of an earlier journal
            self._guard(lambda: self._writer.apply(told.peer, batch.records))
        elif not self._is_early(told.peer, batch) and self._comes_next(told.peer, batch.number):
            self._begun |= _has(batch, "run")
            for record in batch.records:
                self._sealed.hear(record)
                if record[:1] == ["phase"] and len(record) > 1 and type(record[1]) is int:
                    self._phase = max(self._phase, record[1])
            self._held.append((told.peer, batch))
            self._take_held()

    def _is_early(self, peer: str, batch: RecordBatch) -> bool:
        """Return whether a batch arrives before the lost begin of its run; writers send both again."""
        return not self._begun and not _has(batch, "run") and not self._gapes(peer)

    def _gapes(self, peer: str) -> bool:
        """Return whether a writer's batch has been missing for too long; record the begin of a new gap."""
        now_s = self.participant.clock()
        return now_s - self._missed_s.setdefault(peer, now_s) > _GAP_S

    def _comes_next(self, peer: str, number: int) -> bool:
        """Return whether a batch is the writer's next; acknowledge an earlier one again, record a gap."""
        expected, place = self._heard.expected(peer, number), self._heard.place(peer, number)
        if place is Place.NEXT:
            self._missed_s.pop(peer, None)
        elif place is Place.KNOWN:
            self._owe(peer)
        elif self._gapes(peer):
            self._fail(StoreError(f"records of {peer}: expected batch {expected}, found {number}"))
            self._owe(peer)
        return place is Place.NEXT

    def _owe(self, peer: str) -> None:
        """Acknowledge with the next commit all batches of a writer, except held ones."""
        if self._trouble is None:
            self._note(peer, self._heard.last.get(peer, 0))

    def _note(self, peer: str, number: int) -> None:
        if not self._unacknowledged:
            self._since_s = self.participant.clock()
        self._unacknowledged[peer] = number

    def _take(self, peer: str, batch: RecordBatch) -> None:
        self._note(peer, batch.number)
        self._guard(lambda: self._writer.apply(peer, batch.records))
        self._ended |= _has(batch, "end")
        self._rows += sum(_weight(record) for record in batch.records)
        due = not self.participant.playing and (self._bytes >= _COMMIT_BYTES or self._ended)  # the end is awaited
        if due or self._rows >= (_REPLAY_ROWS if self.participant.playing else _COMMIT_ROWS):
            self.commit()

    def joined(self) -> None:
        """Watch the governor: after its loss no other process writes the end of the run."""
        welcome, base = self.participant.welcome, self.participant.take_base()
        assert welcome is not None
        if base is not None:
            self._heard, self._base = Numbering(base["numbers"]), dict(base["numbers"])
            self._begun, self._ended, self._phase = base["begun"], base["ended"], base["phase"]
            self._sealed = Sealed(base["sealed"])
        self._governor = peer_name(welcome.run, Role.GOVERNOR)
        self._take_back()
        self.participant.ask_aside("", "kernel.watch", Watch([self._governor]))

    def reconnected(self) -> None:
        """Commit and acknowledge again the batches of a predecessor; writers repeat lost ones."""
        self.participant.ask_aside("", "kernel.watch", Watch([self._governor]))
        for peer in self._heard.last:
            self._owe(peer)
        self.commit()

    def gone(self, gone: Lost) -> None:
        """End the run of a governor that is lost for good; unsealed rows stay invisible."""
        if gone.peer == self._governor and not gone.returns and self._begun and not self._ended:
            self._ended = True
            end = ["end", "failed", f"lost: governor: {gone.reason}", _now()]
            self._held.append((self.participant.name, RecordBatch(0, [end])))
            self._take_held()
            self.commit()

    def tick(self) -> None:
        """Commit rows that have waited long enough, or retry; call this at least every `COMMIT_S`."""
        now_s = self.participant.clock()
        if self.participant.playing:
            self._take_back()
            return
        if self._trouble is not None:
            if now_s >= self._trouble.again_s:
                self._try_again(self._trouble, now_s)
        elif self._unacknowledged and now_s - self._since_s >= COMMIT_S:
            self.commit()

    def _take_back(self) -> None:
        """Withdraw rows beyond the end of the replayed journal, before this process joins the bus."""
        if self._behind is not None and self.participant.played:
            behind, self._behind = self._behind, None
            known = self._sealed
            self._guard(lambda: self._writer.withdraw_behind(behind, known.episodes, known.evaluations, known.topics))

    def commit(self) -> None:
        """Commit and acknowledge all rows; rows that cannot be written are not acknowledged."""
        if not self._unacknowledged or self._trouble is not None:
            return
        self._guard(self._writer.commit)
        if self._trouble is None:
            self._acknowledge()
            self._compact()

    def _acknowledge(self) -> None:
        heads: Mapping[str, Any] | None = None
        if self._ended:
            self._works_s = self._alive_s = self.participant.clock()
            heads = self._guard(self._writer.heads)
            if isinstance(self._failed, StoreDamaged) and not self._marked:  # rows that cannot be read back
                self._marked = True
                with suppress(StoreError):
                    self._writer.abandon("failed", f"failed: {self._failed}", _now())
        error = None if self._failed is None else failure_of(self._failed)
        found = None if heads is None else dict(heads)
        due, self._unacknowledged = self._unacknowledged, {}
        self._rows = self._bytes = 0
        for writer, number in due.items():  # a broker replaced meanwhile owes more
            if writer != self.participant.name:  # no peer awaits the host's own records
                self.participant.tell(writer, "record.ack", RecordAck(number, error, None, found))

    def close(self) -> None:
        """Commit and close; a reported failure is not raised again."""
        self.commit()
        if self._trouble is not None:
            self._give_up(self._trouble, "the run was ended")
        try:
            self._writer.close()
        except StoreError:
            if self._failed is None:
                raise

    def _guard(self, act: Callable[[], Any]) -> Any:
        """Call a function of the database; a permanent failure is reported to every writer from then on."""
        if self._failed is not None:
            return None
        try:
            return act()
        except StoreUnavailable as error:
            if self.participant.playing:
                raise  # a replay does not retry: the next successor does
            now_s = self.participant.clock()
            self._suffer(_Trouble(now_s, error, now_s, now_s), now_s)
        except GanglionError as error:
            self._fail(error)
        return None

    def _fail(self, error: GanglionError) -> None:
        if self._failed is None:
            show_failure(error)
            self._failed = error

    # -- the journal -------------------------------------------------------------------------------------------------
    def _compact(self) -> None:
        """Compact a long journal, once all rows are durable, to the records that a successor needs."""
        size_bytes = self.participant.journal_bytes
        if size_bytes < self._shorten_at_bytes or self._failed or self._held or not self.participant.idle:
            return
        kept = self._needed(size_bytes // 2)
        state = {
            "numbers": self._heard.last,
            "begun": self._begun,
            "ended": self._ended,
            "phase": self._phase,
            "sealed": self._sealed.state(self._phase - 1),
        }
        if kept is not None and self.participant.begin_journal([(told, None) for told in kept], state):
            self._base = dict(self._heard.last)
            size_bytes = self.participant.journal_bytes
        self._shorten_at_bytes = max(STORE_JOURNAL_BYTES, 2 * size_bytes)

    def _needed(self, bytes_max: int) -> list[Notice] | None:
        """Return the journal's batches without needless records; None if hardly any can be dropped."""
        numbering, kept, size_bytes = Numbering(self._base), list[Notice](), 0
        codec = codec_of(RecordBatch)
        for told in self.participant.told_in_journal():
            if told.head.call != "record.batch":
                continue
            batch = attach(told.head.call, codec.decode(told.body), told.blobs)
            if batch.number and numbering.place(told.peer, batch.number) is not Place.NEXT:
                continue
            records = [record for record in batch.records if self._needs(record)]
            if records:
                rest, blobs = detach(told.head.call, RecordBatch(0, records))
                kept.append(Notice(told.peer, told.head, codec.encode(rest), tuple(blobs)))
                size_bytes += len(kept[-1].body) + sum(map(len, blobs))
                if size_bytes > bytes_max:
                    return None
        return kept

    def _needs(self, record: Sequence[Any]) -> bool:
        """Return whether a successor needs a record although it is durable."""
        if record[0] in ("steps", "actions", "body_steps", "body_actions", "resets"):
            return self._writer.is_open(record)
        return record[0] in _TOLD_OF_PHASES and type(record[1]) is int and record[1] >= self._phase - 1

    # -- failures ----------------------------------------------------------------------------------------------------
    def _try_again(self, trouble: _Trouble, now_s: float) -> None:
        """Retry the commit; fail by name at the deadline."""
        self._trouble = None
        try:
            self._writer.commit()
        except StoreUnavailable as error:
            trouble.error = error
            if self._span_s is not None and now_s - trouble.since_s >= self._span_s:
                self._give_up(trouble, f"it could not be written for {self._span_s:g} s (record)")
            else:
                self._suffer(trouble, now_s)
            return
        except GanglionError as error:
            self._fail(error)
        self._acknowledge()
        self._take_held()

    def _works(self) -> None:
        """Report that the store is alive while it reads many rows back, which may take minutes."""
        now_s = self.participant.clock()
        if self.participant.playing or now_s - self._alive_s < RETRY_S["store"]:
            return
        self._alive_s, text = now_s, "the store reads back what it has written"
        self._say_alive(text)
        if self._reports.due(self._works_s, now_s):
            self.participant.tell_waiting(f"{text}, for {now_s - self._works_s:.1f} s")

    def _say_alive(self, text: str) -> None:
        for writer in {*self._unacknowledged, *(peer for peer, _ in self._held)} - {self.participant.name}:
            self.participant.tell(writer, "record.ack", RecordAck(0, None, text))

    def _take_held(self) -> None:
        while self._held and self._trouble is None:
            self._take(*self._held.popleft())

    def _give_up(self, trouble: _Trouble, why: str) -> None:
        """Write the end of the run into the reserved space, if possible; report to every writer."""
        self._trouble, self._ended = None, True
        failure = StoreError(f"store: {why}: {trouble.error}")
        try:
            self._writer.abandon("failed", f"failed: {failure}", _now())
        except StoreError as error:
            failure = StoreError(f"{failure}; nor can that be written: {error}")
        self._fail(failure)
        self._acknowledge()
        self._take_held()
        self._acknowledge()

    def _suffer(self, trouble: _Trouble, now_s: float) -> None:
        """Schedule a retry; tell writers that the store is alive, and observers the reason of the wait."""
        self._trouble = trouble
        trouble.again_s = now_s + RETRY_S["store"]
        text = f"the store cannot be written: {trouble.error}"
        self._say_alive(text)
        if now_s < trouble.told_s:
            return
        waited_s = now_s - trouble.since_s
        trouble.told_s = now_s + min(max(waited_s, WAIT_REPORT_S), _REPORT_MAX_S)
        rest = "" if self._span_s is None else f"; gives up in {self._span_s - waited_s:.0f} s"
        self.participant.tell_waiting(f"waiting {waited_s:.1f} s for {text}; tries every second{rest}")


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def _has(batch: RecordBatch, kind: str) -> bool:
    return any(record[:1] == [kind] for record in batch.records)


def _weight(record: Sequence[Any]) -> int:
    return len(record[6]) if len(record) > 6 and record[0] in ("steps", "actions") else 1
