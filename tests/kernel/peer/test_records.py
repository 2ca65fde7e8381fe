from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.errors import DeadlineExceeded
from ganglion.limits import BODY_BYTES, DEADLINES_S
from ganglion.peer.participant import Participant
from ganglion.peer.results.records import Records, declaration_rows
from ganglion.sdk import Box, Discrete
from ganglion.wire.messages import Failure, RecordAck, RecordBatch
from ganglion.wire.parcel import attach

STORE = "r/store"


class Stage:
    """Stand records on a participant; the store acknowledges when a test says so."""

    def __init__(self, link: Any, clock: Any, store: str | None = STORE) -> None:
        self.link, self.clock = link, clock
        self.participant = Participant(lambda: link, {}, told=self.hear, clock=clock)
        self.records = Records(self.participant, store)

    def hear(self, told: Any) -> None:
        self.records.heard(told)

    @property
    def batches(self) -> list[RecordBatch]:
        return [batch for _, batch in self.link.told("record.batch")]

    def acknowledge(self, number: int, error: Failure | None = None) -> Callable[[], None]:
        return lambda: self.link.tell(STORE, "record.ack", RecordAck(number, error))


@pytest.fixture
def stage(link: Any, clock: Any) -> Stage:
    """Return records whose store is silent."""
    return Stage(link, clock)


def test_a_long_document_travels_beside_the_message(stage: Stage) -> None:
    """The record of a run with a document that no body holds is a batch of its own, whose rows are a blob."""
    record = ["run", {"uid": "u", "document": "x" * BODY_BYTES}]
    stage.records.add(record)
    stage.records.flush()

    sent = [e for e in stage.link.sent if e.head.call == "record.batch"]
    whole = [attach("record.batch", batch, e.blobs) for batch, e in zip(stage.batches, sent, strict=True)]
    assert [[record]] == [batch.records for batch in whole]
    assert [1] == [len(e.blobs) for e in sent]


def test_batches_fit_into_messages(stage: Stage) -> None:
    """A large record goes alone if what waits with it would make the batch too large."""
    stage.link.idle.append(stage.acknowledge(1))
    for _ in range(3):
        stage.records.add(["steps", bytes(400_000)], 1, 400_000)
    stage.records.flush()

    assert [1, 1, 1] == [len(batch.records) for batch in stage.batches]
    assert max(len(e.body) for e in stage.link.sent) < BODY_BYTES


def test_a_store_that_waits_itself_has_time(stage: Stage) -> None:
    """While the store says that it tries, the deadline is its own; who has ended silent is given up."""
    span_s = DEADLINES_S["record"]
    assert span_s is not None
    begun_s = stage.clock.now_s

    def wait() -> None:
        stage.clock.now_s += 1.0

    def say() -> None:
        stage.link.tell(STORE, "record.ack", RecordAck(0, None, "disk full"))

    stage.link.idle.extend([*[wait] * int(0.9 * span_s), say] * 3)
    stage.records.add(["a"])
    with pytest.raises(DeadlineExceeded, match="did not acknowledge"):
        stage.records.drain()

    assert ("disk full", True) == (stage.records.waiting, stage.clock.now_s - begun_s >= 3.6 * span_s)


def test_declarations_are_kept_in_words() -> None:
    """Each is id, space in text, unit, dtype and shape; what an environment tells of itself is JSON."""
    rows = [
        {"id": "w.a", "space": Discrete(3).to_wire(), "unit": "kW"},
        {"id": "w.b", "space": Box(0.0, 1.0, (2, 3)).to_wire()},
        {"id": "static_world_model", "model": {"width": 3}},
    ]

    assert [
        ["w.a", Discrete(3).to_string(), "kW", Discrete(3).dtype.str, []],
        ["w.b", Box(0.0, 1.0, (2, 3)).to_string(), None, "<f8", [2, 3]],
        ["static_world_model", '{"width": 3}', None, None, []],
    ] == declaration_rows(rows)
