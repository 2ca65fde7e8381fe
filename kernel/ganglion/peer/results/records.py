"""Records: rows on their way to the store, in numbered batches under credit; checkpoints that wait for them."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from ganglion.errors import DeadlineExceeded, RunExists, StoreDamaged, StoreError
from ganglion.limits import DEADLINES_S, RETRY_S, STREAM_CREDIT_BYTES, STREAM_CREDIT_MESSAGES
from ganglion.peer.participant import Participant
from ganglion.peer.values import to_json
from ganglion.peer.wait import Reports
from ganglion.run.effect import FOLDER, checkpoint_text, phase_checkpoint_name
from ganglion.sdk.spaces import space_from_wire
from ganglion.synced import write_synced
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Notice
from ganglion.wire.messages import RecordAck, RecordBatch
from ganglion.wire.parcel import detach

LIFE_BITS = 32  # of a number, for the batches of one life of a writer; higher bits count its lives


class Place(Enum):
    """The place of a batch among those of its writer."""

    NEXT = "next"
    KNOWN = "known"  # received before
    AHEAD = "ahead"  # an earlier one is missing


class Numbering:
    """Keep the last number of each writer.

    A writer numbers its batches from one, without a gap. A writer that lost its state begins a new life, with numbers
    above all earlier ones.
    """

    def __init__(self, last: Mapping[str, int] | None = None) -> None:
        self.last = dict(last or {})

    def expected(self, writer: str, number: int) -> int:
        """Return the next number expected of a writer that sends `number`."""
        life, last = number >> LIFE_BITS, self.last.get(writer)
        if last is None or life > last >> LIFE_BITS:
            return (life << LIFE_BITS) + 1
        return last + 1

    def place(self, writer: str, number: int) -> Place:
        """Return the place of a batch; record the next one as received."""
        expected = self.expected(writer, number)
        if number == expected:
            self.last[writer] = number
            return Place.NEXT
        return Place.AHEAD if number > expected or writer not in self.last else Place.KNOWN


_ORDERS, _ORDERS_PER_LIFE = 1 << 30, 1 << 16  # numbers of 31 bits, which all databases have


class Ordinals:
    """Number the rows of signals; equal signals may be sent twice, and each is a row.

    Each worker and the signals for all have their own numbers: workers may come in another order when a phase begins
    again. Orders of operators have their own numbers: a phase that begins again has none. `life` is the incarnation
    that began to count orders; another one gives other numbers.
    """

    def __init__(self, workers: int, life: int) -> None:
        self._width, self._life = workers + 1, life
        self._counts: dict[int, int] = {}  # worker + 1, or 0 for all of them
        self.orders = 0  # of operators, so far

    def number(self, worker: int | None) -> int:
        """Return the next ordinal of a worker, or of all."""
        lane = 0 if worker is None else worker + 1
        count = self._counts[lane] = self._counts.get(lane, 0) + 1
        return count * self._width + lane

    def order(self) -> int:
        """Return the next ordinal of an operator's order."""
        self.orders += 1
        return _ORDERS + self._life * _ORDERS_PER_LIFE + self.orders

    def note(self) -> list[list[int]]:
        """Return the state for `restore`, without orders."""
        return [list(pair) for pair in self._counts.items()]

    def restore(self, note: Iterable[Sequence[Any]]) -> None:
        """Restore what `note` returned."""
        self._counts = {int(lane): int(count) for lane, count in note}


class Sealed:
    """Keep the progress of the records that a store has received.

    A run that continues from this state withdraws all later rows of the database.

    Attributes:
        episodes: (phase, mode, worker, environment or empty) -> number of the last that was sealed.
        evaluations: (phase, agent) -> number of the last.
        topics: (phase, mode, worker) -> number of the last row.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        known = state or {"episodes": [], "evaluations": []}
        self.episodes: dict[tuple[int, str, int, str], int] = {
            (phase, mode, worker, environment): number for phase, mode, worker, environment, number in known["episodes"]
        }
        self.evaluations: dict[tuple[int, str], int] = {
            (phase, agent): number for phase, agent, number in known["evaluations"]
        }
        self.topics: dict[tuple[int, str, int], int] = {
            (phase, mode, worker): number for phase, mode, worker, number in known.get("topics", ())
        }

    def hear(self, record: Sequence[Any]) -> None:
        """Record the progress of a record; the store refuses malformed ones."""
        kind = record[0] if record else None
        if kind == "episode" and len(record) > 5:
            _, phase, mode, worker, environment, number, *_ = record
            self.episodes[phase, mode, worker, environment or ""] = number
        elif kind == "evaluation" and len(record) > 3:
            _, phase, agent, number, *_ = record
            self.evaluations[phase, agent] = number
        elif kind == "topic" and len(record) > 9:
            self.topics[record[1], record[2], record[3]] = record[9]

    def state(self, phase: int) -> dict[str, Any]:
        """Return the state of the phases from this one on, as plain values."""
        return {
            "episodes": [[*key, number] for key, number in self.episodes.items() if key[0] >= phase],
            "evaluations": [[*key, number] for key, number in self.evaluations.items() if key[0] >= phase],
            "topics": [[*key, number] for key, number in self.topics.items() if key[0] >= phase],
        }


_KEPT = 2


class PhaseCheckpoints:
    """Write the checkpoints of a run at the begins of phases into its folder; keep the two newest.

    An existing checkpoint is not written again: the successor of a governor makes equal checkpoints.
    """

    def __init__(self, results: Path) -> None:
        self._folder = results / FOLDER
        self._due: deque[tuple[int, int, str]] = deque()  # number of a batch, phase, text

    def take(self, number: int, checkpoint: Mapping[str, Any]) -> None:
        """Take the checkpoint of a `phase`, which counts once the batch with this number is durable."""
        self._due.append((number, int(checkpoint["phase"]), checkpoint_text(checkpoint)))

    def settle(self, acknowledged: int) -> None:
        """Write the due checkpoints; StoreError: a write failed and is not retried."""
        while self._due and self._due[0][0] <= acknowledged:
            _, phase, text = self._due.popleft()
            path = self._folder / phase_checkpoint_name(phase)
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                if not _holds(path, text):
                    write_synced(path, text.encode())
                for old in sorted(self._folder.glob("phase-*.json"))[:-_KEPT]:
                    old.unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(f"checkpoint {path}: cannot be written: {error}") from error


def _holds(path: Path, text: str) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8") == text
    return False


_ROWS_PER_BATCH = 250
_BATCH_BYTES_MAX = 512 * 1024  # half of what a body may have
_LOOK_S = 1.0  # the longest time between two checks of a wait
_SLEPT_S = _LOOK_S + 0.5  # after a longer time this process was stopped or had no broker: not the store's fault

pack = msgpack.Packer(autoreset=True).pack
"""Encode one row of values for the store."""


def declaration_rows(declarations: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return declarations as the store keeps them: id, space, unit, dtype, shape.

    An environment's own properties have their text in place of the space.
    """
    rows: list[list[Any]] = []
    for row in declarations:
        if "model" in row:
            rows.append([row["id"], to_json(row["model"]), None, None, []])
            continue
        space = space_from_wire(row["space"])
        shape = [] if space.scalar else [space.size]
        rows.append(
            [row["id"], space.to_string(), row.get("unit"), space.dtype.str, list(getattr(space, "shape", shape))]
        )
    return rows


class _Sent(NamedTuple):
    """Hold the wire form of an unacknowledged batch."""

    number: int
    size_bytes: int
    batch: RecordBatch
    blobs: list[bytes]


class Records:
    """Send records to the store; wait while eight batches, or a mebibyte, are unacknowledged.

    Unacknowledged batches are kept, and sent again under the same numbers by `again` and when the store is silent. The
    store knows the numbers that it received, so that no batch is lost or doubled. A process without a predecessor's
    journal begins with numbers above all that processes of its name used.

    With `store` None (a run without a store) all records are dropped. `number` is the number of the last batch sent; a
    successor continues after it. `span_s` is the deadline `record`. `kept` is whether there is a store.
    """

    def __init__(self, participant: Participant, store: str | None, number: int = 0) -> None:
        self._participant = participant
        self._store = store
        self.kept = store is not None
        self._open: list[Any] = []
        self._weight = 0
        self._bytes = 0
        lives = 0 if participant.welcome is None else max(0, participant.welcome.incarnation - 1)
        self.number = number or lives << LIFE_BITS  # without a journal above all used numbers
        self.span_s = DEADLINES_S["record"]
        self._sent: deque[_Sent] = deque()  # unacknowledged batches
        self._failure: StoreError | None = None
        self._until_s = 0.0
        self._again_s, self._pause_s = (0.0, RETRY_S["records"])  # the next repeat of all, and the pause after it
        self._reports = Reports()
        self.waiting: str | None = None  # the store's reason why it cannot write now
        self.heads: dict[str, Any] | None = None  # protect the rows, once the run's end is durable

    @property
    def settled(self) -> bool:
        """Return whether all records are acknowledged."""
        return not self._open and not self._sent

    def add(self, record: list[Any], rows: int = 1, size_bytes: int = 64) -> None:
        """Add one record to the open batch."""
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
        """Send the open batch; StoreError or DeadlineExceeded: the store does not accept it."""
        if self._store is None:
            return
        self._remind()
        if not self._open:
            return
        self._wait(STREAM_CREDIT_MESSAGES - 1, STREAM_CREDIT_BYTES - min(self._bytes, STREAM_CREDIT_BYTES))
        self.number += 1
        batch, size_bytes = RecordBatch(self.number, self._open), self._bytes
        self._open, self._weight, self._bytes = [], 0, 0
        blobs: list[bytes] = []
        if size_bytes > _BATCH_BYTES_MAX:  # one record above the size of a body
            batch, blobs = detach("record.batch", batch)
        if not self._sent:
            self._heard_something()
        sent = _Sent(self.number, size_bytes, batch, blobs)
        self._sent.append(sent)
        self._send(sent)

    def again(self) -> None:
        """Send all unacknowledged batches again, in order, since they or their acknowledgements may be lost."""
        for sent in list(self._sent):
            self._send(sent)

    def state(self) -> list[Any]:
        """Return the state that a successor needs: the last number, and the unacknowledged batches."""
        codec = codec_of(RecordBatch)
        sent = [[one.number, one.size_bytes, codec.encode(one.batch), one.blobs] for one in self._sent]
        return [self.number, sent, [self._open, self._weight, self._bytes], self.waiting, self.heads]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore a predecessor's state; `again` sends the unacknowledged batches."""
        codec = codec_of(RecordBatch)
        self.number, sent, (self._open, self._weight, self._bytes), self.waiting, self.heads = state
        self._sent = deque(
            _Sent(number, size_bytes, codec.decode(batch), blobs) for number, size_bytes, batch, blobs in sent
        )
        self._heard_something()

    def _send(self, sent: _Sent) -> None:
        assert self._store is not None
        self._participant.tell(self._store, "record.batch", sent.batch, blobs=sent.blobs)

    def _heard_something(self) -> None:
        """Restart the wait for a message of the store."""
        self._pause_s = RETRY_S["records"]
        self._again_s = self._participant.clock() + RETRY_S["records"]

    def _remind(self) -> None:
        """Send all again if the store has been silent, after growing pauses, since the store may only be slow."""
        now_s = self._participant.clock()
        if self._sent and now_s >= self._again_s and self._failure is None:
            self._pause_s = min(2 * self._pause_s, RETRY_S["records_most"])
            self._again_s = now_s + self._pause_s
            self.again()

    def mark(self) -> int:
        """Send the open batch; return its number."""
        self.flush()
        return self.number

    @property
    def durable(self) -> int:
        """Return the number up to which all batches are acknowledged."""
        return self._sent[0].number - 1 if self._sent else self.number

    def drain(self) -> None:
        """Send the open batch; wait until all batches are acknowledged."""
        self.flush()
        self._wait(0, 0)

    def _wait(self, messages: int, size_bytes: int) -> None:
        """Wait until at most these batches and bytes are unacknowledged."""
        clock = self._participant.clock
        since_s = looked_s = clock()
        self._until_s = since_s + (self.span_s or 0.0)
        while self._beyond(messages, size_bytes) and self._failure is None:
            now_s = clock()
            if now_s - looked_s > _SLEPT_S:  # read the messages that have arrived first
                self._until_s = now_s + (self.span_s or 0.0)
            looked_s = now_s
            if self.span_s is not None and now_s >= self._until_s:
                raise DeadlineExceeded(f"the store did not acknowledge rows within {self.span_s} s (record)")
            self._tell_wait(since_s, now_s)
            left_s = RETRY_S["records_most"] if self.span_s is None else self._until_s - now_s
            self._participant.pump(max(0.0, min(_LOOK_S, left_s, self._again_s - now_s)))
            self._remind()
        if self._failure is not None:
            raise self._failure

    def _tell_wait(self, since_s: float, now_s: float) -> None:
        """Report the wait for the store, after growing pauses, unless the store reports a wait of its own."""
        if self.waiting is None and self._reports.due(since_s, now_s):
            left = "" if self.span_s is None else f"; gives up in {self._until_s - now_s:.1f} s"
            self._participant.tell_waiting(f"waiting {now_s - since_s:.1f} s for the store to acknowledge rows{left}")

    def _beyond(self, messages: int, size_bytes: int) -> bool:
        return len(self._sent) > messages or sum(sent.size_bytes for sent in self._sent) > size_bytes

    def heard(self, told: Notice) -> bool:
        """Take an acknowledgement; return whether the notice was one."""
        if told.head.call != "record.ack":
            return False
        ack = codec_of(RecordAck).decode(told.body)
        if ack.error is not None:
            known = {kind.kind: kind for kind in (StoreDamaged, RunExists)}
            self._failure = known.get(ack.error.kind, StoreError)(ack.error.message)
        self.waiting = ack.waiting
        if ack.waiting is not None:  # the store lives and retries, by its own deadline
            self._until_s = self._participant.clock() + (self.span_s or 0.0)
        self.heads = ack.heads or self.heads
        while self._sent and self._sent[0].number <= ack.number:
            self._sent.popleft()
        self._heard_something()
        if ack.waiting is not None:
            self._again_s += RETRY_S["records_most"]
        return True

    def lost(self, peer: str, reason: str) -> None:
        """Record that a peer is lost for good; after the loss of the store all writes fail."""
        if peer == self._store:
            self._failure = StoreError(f"the store is gone: {reason}")
