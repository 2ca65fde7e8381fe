from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgpack
import pytest

from ganglion.errors import DeadlineExceeded, StoreError
from ganglion.limits import BODY_BYTES, DEADLINES_S, STREAM_CREDIT_MESSAGES
from ganglion.peer.participant import Participant
from ganglion.peer.records import Records, declaration_rows, pack
from ganglion.sdk import Box, Discrete
from ganglion.wire.messages import Failure, MuscleReset, RecordAck, RecordBatch, Welcome
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


def test_records_leave_by_flush(stage: Stage) -> None:
    """What was added goes to the store in order, in numbered batches; nothing goes for nothing."""
    stage.records.add(["a"])
    stage.records.add(["b"])
    stage.records.flush()
    stage.records.flush()
    stage.records.add(["c"])
    stage.records.flush()

    assert [RecordBatch(1, [["a"], ["b"]]), RecordBatch(2, [["c"]])] == stage.batches


def test_many_rows_leave_by_themselves(stage: Stage) -> None:
    """At two hundred and fifty rows a batch leaves."""
    stage.records.add(["a"], rows=249)
    before = len(stage.batches)
    stage.records.add(["b"])

    assert (0, [["a"], ["b"]]) == (before, stage.batches[0].records)


def test_batches_fit_into_messages(stage: Stage) -> None:
    """A large record goes alone if what waits with it would make the batch too large."""
    stage.link.idle.append(stage.acknowledge(1))
    for _ in range(3):
        stage.records.add(["steps", bytes(400_000)], 1, 400_000)
    stage.records.flush()

    assert [1, 1, 1] == [len(batch.records) for batch in stage.batches]
    assert max(len(e.body) for e in stage.link.sent) < BODY_BYTES


def test_eight_batches_may_be_on_their_way(stage: Stage) -> None:
    """The ninth waits for an acknowledgement."""
    for number in range(STREAM_CREDIT_MESSAGES):
        stage.records.add([number])
        stage.records.flush()
    before_s = stage.clock.now_s
    stage.link.idle.append(stage.acknowledge(1))
    stage.records.add(["ninth"])
    stage.records.flush()

    assert (100.0, 9, 0) == (before_s, len(stage.batches), len(stage.link.idle))


def test_a_mebibyte_may_be_on_its_way(stage: Stage) -> None:
    """What would exceed the credit in bytes waits for an acknowledgement, however few batches there are."""
    for _ in range(2):
        stage.records.add(["steps", bytes(400_000)], 1, 400_000)
        stage.records.flush()
    stage.link.idle.append(stage.acknowledge(1))
    stage.records.add(["steps", bytes(400_000)], 1, 400_000)
    before = len(stage.batches)
    stage.records.flush()

    assert (2, 3, 0) == (before, len(stage.batches), len(stage.link.idle))


def test_draining_waits_for_the_last_acknowledgement(stage: Stage) -> None:
    """One acknowledgement stands for all batches before it."""
    for number in range(3):
        stage.records.add([number])
        stage.records.flush()
    stage.link.idle.extend([stage.acknowledge(1), stage.acknowledge(3)])
    stage.records.drain()

    assert 0 == len(stage.link.idle)


def test_draining_sends_what_is_open(stage: Stage) -> None:
    """Nothing is left behind."""
    stage.records.add(["a"])
    stage.link.idle.append(stage.acknowledge(1))
    stage.records.drain()

    assert [["a"]] == stage.batches[0].records


def test_a_request_that_waits_does_not_keep_acknowledgements_away(stage: Stage) -> None:
    """Who drains hears the store although somebody else asks for something meanwhile."""
    stage.records.add(["a"])
    stage.link.idle.extend(
        [lambda: stage.link.request("r/governor", "muscle.reset", MuscleReset(1), 5), stage.acknowledge(1)]
    )
    stage.records.drain()

    assert 0 == len(stage.link.idle)


def test_a_silent_store_is_given_up(stage: Stage) -> None:
    """A store that never acknowledges ends the wait with its name in words."""
    stage.records.add(["a"])
    with pytest.raises(DeadlineExceeded, match="the store did not acknowledge rows within"):
        stage.records.drain()

    assert 100.0 + (DEADLINES_S["record"] or 0.0) <= stage.clock.now_s


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


@pytest.mark.parametrize("acknowledged", [True, False])
def test_who_was_stopped_reads_first_what_has_come(stage: Stage, acknowledged: bool) -> None:
    """Whoever sleeps beyond the deadline blames nobody: he reads what lies there, and begins to wait anew."""
    span_s, begun_s = DEADLINES_S["record"] or 0.0, stage.clock.now_s

    def sleep() -> None:
        stage.clock.now_s += 2 * span_s
        for number in range(3):
            stage.link.request("r/governor", "muscle.reset", MuscleReset(number), 5 + number)
        if acknowledged:
            stage.link.tell(STORE, "record.ack", RecordAck(1))

    stage.link.idle.append(sleep)
    stage.records.add(["a"])
    if acknowledged:
        stage.records.drain()
    else:
        with pytest.raises(DeadlineExceeded, match="did not acknowledge"):
            stage.records.drain()

    took_s = stage.clock.now_s - begun_s
    assert took_s < 2.1 * span_s if acknowledged else 3 * span_s <= took_s < 3.1 * span_s


def test_what_protects_the_rows_is_kept(stage: Stage) -> None:
    """The heads that come with one acknowledgement stay when others come without."""
    for number, heads in ((1, None), (2, {"run": "00"}), (3, None)):
        stage.link.tell(STORE, "record.ack", RecordAck(number, None, None, heads))
        stage.participant.pump(0.01)

    assert ({"run": "00"}, None) == (stage.records.heads, stage.records.waiting)


def test_a_failure_of_the_store_is_raised(stage: Stage) -> None:
    """What the store says instead of an acknowledgement ends this and every later wait."""
    stage.records.add(["a"])
    stage.link.idle.append(stage.acknowledge(1, Failure("store", "disk full")))
    with pytest.raises(StoreError, match="disk full"):
        stage.records.drain()
    stage.records.add(["b"])
    with pytest.raises(StoreError, match="disk full"):
        stage.records.flush()

    assert 1 == len(stage.batches)


@pytest.mark.parametrize(("peer", "fails"), [(STORE, True), ("r/brain/a", False)])
def test_a_lost_store_is_raised(stage: Stage, peer: str, fails: bool) -> None:
    """Where the store is gone nothing can be written; others that are gone change nothing."""
    stage.records.lost(peer, "exit 1")
    stage.records.add(["a"])
    if fails:
        with pytest.raises(StoreError, match="the store is gone: exit 1"):
            stage.records.flush()
    else:
        stage.records.flush()

    assert fails == (not stage.batches)


def test_what_is_not_acknowledged_is_said_again(stage: Stage) -> None:
    """Under the same numbers and in the same order; what is acknowledged is forgotten."""
    for number in range(3):
        stage.records.add([number])
        stage.records.flush()
    stage.acknowledge(1)()
    stage.participant.pump(0.01)
    stage.records.again()

    assert [1, 2, 3, 2, 3] == [batch.number for batch in stage.batches]
    assert stage.batches[3:] == stage.batches[1:3]
    assert (1, False) == (stage.records.durable, stage.records.settled)


def test_a_silent_store_is_reminded_ever_more_rarely(stage: Stage) -> None:
    """Who waits says all again after a quarter of a second, then after twice as long each time, up to four seconds."""
    times_s: list[float] = []
    tell = stage.participant.tell

    def note(*arguments: Any, **options: Any) -> None:
        times_s.append(stage.clock.now_s - 100.0)
        tell(*arguments, **options)

    stage.participant.tell = note  # type: ignore[method-assign]
    stage.records.add(["a"])
    with pytest.raises(DeadlineExceeded):
        stage.records.drain()

    gaps_s = [later - earlier for earlier, later in pairwise(times_s)]
    assert pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 4.0]) == gaps_s[:6]


def test_who_does_not_wait_reminds_too(stage: Stage) -> None:
    """Each flush looks whether the store has been silent for too long."""
    stage.records.add(["a"])
    stage.records.flush()
    stage.records.flush()
    before = len(stage.batches)
    stage.clock.now_s += 0.3
    stage.records.flush()

    assert (1, [1, 1]) == (before, [batch.number for batch in stage.batches])


def test_a_wait_for_the_store_is_told(link: Any, clock: Any) -> None:
    """Those who look on hear for whom the writer waits, after 2, 4, 8 ... seconds, and until when."""
    stage = Stage(link, clock)
    stage.participant.join(stage.participant.hello("muscle", "r/muscle/a/0", "?"))
    stage.participant._closed.set()
    stage.records.span_s = 10.0
    stage.records.add(["a"])
    with pytest.raises(DeadlineExceeded, match=r"within 10.0 s \(record\)"):
        stage.records.drain()

    texts = [event.fields["text"] for _, event in link.told("event")]
    assert ["waiting 2.", "waiting 6."] == [text[:10] for text in texts]
    assert "s for the store to acknowledge rows; gives up in " in texts[0]


def test_a_new_life_begins_new_numbers(link: Any, clock: Any) -> None:
    """A third incarnation without a tape counts above all that the two before it have used."""
    stage = Stage(link, clock)
    stage.participant.welcome = Welcome(1, "r/controller/0", 3, 0.5, 1.5, {}, "r", 0)
    records = Records(stage.participant, STORE)
    records.add(["a"])
    records.flush()

    assert [(2 << 32) + 1] == [batch.number for batch in stage.batches]
    assert 7 == Records(stage.participant, STORE, 7).number


def test_without_a_store_all_is_dropped(link: Any, clock: Any) -> None:
    """Nobody asked for results: nothing is sent, nothing awaited."""
    stage = Stage(link, clock, None)
    stage.records.add(["a"], rows=10_000)
    stage.records.drain()

    assert ([], 100.0) == (link.sent, clock.now_s)


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


def test_values_are_packed_as_one_list() -> None:
    """Numbers, bytes and nothing travel as msgpack."""
    assert [1, 0.5, None, b"x"] == msgpack.unpackb(pack([1, 0.5, None, b"x"]))
