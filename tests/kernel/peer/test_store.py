from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ganglion.errors import GanglionError, StoreError, StoreUnavailable
from ganglion.limits import BODY_BYTES
from ganglion.peer.store import AGAIN_S, COMMIT_S, StoreHost
from ganglion.wire.messages import RecordAck, RecordBatch, RunEvent
from ganglion.wire.parcel import detach

SPAN_S = 10.0
ONE, TWO = "r/controller/0", "r/controller/1"


class FakeWriter:
    """Keep what is applied and committed; fail when told to."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.fails: dict[str, GanglionError] = {}

    def apply(self, writer: str, records: list[Any]) -> None:
        """Take records."""
        if "apply" in self.fails:
            raise self.fails["apply"]
        self.log.append((writer, records))

    def commit(self) -> None:
        """Make them durable."""
        if "commit" in self.fails:
            raise self.fails["commit"]
        self.log.append("commit")

    def heads(self) -> dict[str, Any] | None:
        """Return what protects the rows."""
        return {"run": str(len(self.log))}

    def abandon(self, status: str, reason: str, ended: str) -> None:
        """Write the end."""
        if "abandon" in self.fails:
            raise self.fails["abandon"]
        self.log.append(("abandon", status, reason))

    def close(self) -> None:
        """Close."""
        self.log.append("close")


class Stage:
    """Stand a store's host on a fake link."""

    def __init__(self, hosted: Any) -> None:
        self.writer = FakeWriter()
        self.hosted = hosted(StoreHost(self.writer, SPAN_S))  # type: ignore[arg-type]
        self.link, self.clock, self.host = self.hosted.link, self.hosted.clock, self.hosted.host

    def batch(self, writer: str, number: int, records: list[Any] | None = None) -> None:
        self.link.tell(writer, "record.batch", RecordBatch(number, [["x"]] if records is None else records))
        self.hosted.participant.pump(0.01)

    def pass_time(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.host.tick()

    @property
    def acks(self) -> list[tuple[str, int, str | None]]:
        return [
            (peer, ack.number, None if ack.error is None else ack.error.message)
            for peer, ack in self.link.told("record.ack")
        ]


@pytest.fixture
def stage(hosted: Any) -> Stage:
    """Return a store's host."""
    return Stage(hosted)


def test_rows_are_applied_in_order_of_arrival(stage: Stage) -> None:
    """Each batch is given to the writer at once, with whose it is."""
    stage.batch(ONE, 1, [["a"]])
    stage.batch(TWO, 1, [["b"], ["c"]])

    assert [(ONE, [["a"]]), (TWO, [["b"], ["c"]])] == stage.writer.log


def test_a_batch_beside_its_message_is_applied(stage: Stage) -> None:
    """Rows that were too large for a body come as a blob, and are applied as if they stood in the message."""
    records = [["run", {"document": "x" * BODY_BYTES}]]
    batch, blobs = detach("record.batch", RecordBatch(1, records))
    stage.link.tell(ONE, "record.batch", batch, blobs=blobs)
    stage.hosted.participant.pump(0.01)

    assert 1 == len(blobs)
    assert [(ONE, records)] == stage.writer.log


def test_nothing_is_acknowledged_before_its_commit(stage: Stage) -> None:
    """A batch is acknowledged after fifty milliseconds, in one transaction with what came meanwhile."""
    stage.batch(ONE, 1)
    stage.pass_time(COMMIT_S * 0.5)
    stage.batch(TWO, 1)
    stage.batch(ONE, 2)
    before = (list(stage.acks), stage.writer.log.count("commit"))
    stage.pass_time(COMMIT_S)

    assert ([], 0) == before
    assert ([(ONE, 2, None), (TWO, 1, None)], "commit") == (stage.acks, stage.writer.log[-1])


def test_the_wait_begins_with_the_first_batch(stage: Stage) -> None:
    """After a commit the next batch waits its own fifty milliseconds."""
    stage.batch(ONE, 1)
    stage.pass_time(2 * COMMIT_S)
    stage.pass_time(10.0)
    stage.batch(ONE, 2)
    stage.pass_time(COMMIT_S * 0.9)
    before = list(stage.acks)
    stage.pass_time(COMMIT_S * 0.2)

    assert ([(ONE, 1, None)], [(ONE, 1, None), (ONE, 2, None)]) == (before, stage.acks)


@pytest.mark.parametrize(
    ("records", "commits"),
    [
        ([["steps", 0, "train", 0, "w", 0, [[1]] * 999]], 0),
        ([["steps", 0, "train", 0, "w", 0, [[1]] * 999], ["episode", 0]], 1),
        ([["actions", 0, "train", 0, "w", 0, [[1]] * 1000]], 1),
    ],
)
def test_a_thousand_rows_are_committed_at_once(stage: Stage, records: list[Any], commits: int) -> None:
    """Rows within a record count one by one."""
    stage.batch(ONE, 1, records)

    assert (commits, commits) == (stage.writer.log.count("commit"), len(stage.acks))


def test_nothing_waits_means_no_commit(stage: Stage) -> None:
    """An idle store commits nothing."""
    stage.pass_time(10.0)
    stage.host.commit()

    assert [] == stage.writer.log


@pytest.mark.parametrize("where", ["apply", "commit"])
def test_a_failure_is_told_to_every_writer(
    stage: Stage, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the database refuses is told instead of an acknowledgement, from then on and to all; it is shown once."""
    stage.writer.fails[where] = StoreError("disk full")
    stage.batch(ONE, 1)
    stage.batch(TWO, 1)
    stage.pass_time(2 * COMMIT_S)
    stage.writer.fails.clear()
    stage.batch(ONE, 2)
    stage.pass_time(2 * COMMIT_S)

    assert [(ONE, 1, "disk full"), (TWO, 1, "disk full"), (ONE, 2, "disk full")] == stage.acks
    assert ("commit" in stage.writer.log, 1) == (False, capsys.readouterr().err.count("disk full"))


def test_closing_commits_first(stage: Stage) -> None:
    """What has come is durable and acknowledged when the store is closed."""
    stage.batch(ONE, 1)
    stage.host.close()

    assert ([(ONE, [["x"]]), "commit", "close"], [(ONE, 1, None)]) == (stage.writer.log, stage.acks)


def test_other_tellings_are_not_records(stage: Stage) -> None:
    """What is no batch is passed over."""
    stage.link.tell(ONE, "record.ack", RecordAck(1))
    stage.hosted.participant.pump(0.01)

    assert ([], []) == (stage.writer.log, stage.acks)


def test_nothing_is_asked_of_a_store(stage: Stage) -> None:
    """It has no calls."""
    assert {} == stage.host.handlers()


def lost_governor(stage: Stage, before: Callable[[], Any] = lambda: None) -> list[Any]:
    """Let a store that has joined lose its governor; return what is written then."""
    stage.hosted.participant.join(stage.hosted.participant.hello("store", "r/store", "?"))
    stage.host.joined()
    before()
    count = len(stage.writer.log)
    stage.link.lose("r/governor", "killed by signal 9")
    stage.hosted.participant.pump(0.01)
    stage.hosted.participant._closed.set()
    return stage.writer.log[count:]


def test_a_lost_governor_ends_its_run(stage: Stage) -> None:
    """The store watches the governor; nobody else is left to write how the run ended."""
    written = lost_governor(stage, lambda: stage.batch("r/governor", 1, [["run", {}]]))

    assert [["r/governor"]] == [message.peers for _, message in stage.link.asked("kernel.watch")]
    assert (["end", "failed", "lost: governor: killed by signal 9"], "commit") == (
        written[0][1][0][:3],
        written[1],
    )


def test_a_run_that_never_began_is_not_ended(stage: Stage) -> None:
    """A governor that is lost before its first record leaves nothing that could be written to."""
    assert [] == lost_governor(stage)


def test_an_ended_run_stays_as_it_ended(stage: Stage) -> None:
    """A governor that leaves after the end changes nothing."""
    assert [] == lost_governor(
        stage, lambda: stage.batch("r/governor", 1, [["run", {}], ["end", "finished", "completed", "now"]])
    )


# -- when nothing can be written --------------------------------------------------------------------------------------
FULL = StoreUnavailable("disk full")


class Stuck:
    """Let a store of which the run has begun find its disk full; `free` gives it room."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.writer = stage, stage.writer
        stage.hosted.participant.join(stage.hosted.participant.hello("store", "r/store", "?"))
        self.writer.fails["commit"] = FULL
        stage.batch(ONE, 1, [["run"]])
        stage.pass_time(2 * COMMIT_S)

    def free(self) -> None:
        """Give it room."""
        self.writer.fails.clear()

    def waits(self) -> list[str]:
        """Return what was told to those who look on."""
        told = self.stage.link.told("event")
        return [event.fields["text"] for _, event in told if isinstance(event, RunEvent)]

    def close(self) -> None:
        """Stop the pulse."""
        self.stage.hosted.participant._closed.set()


@pytest.fixture
def stuck(stage: Stage) -> Iterator[Stuck]:
    """Return a store that cannot write."""
    stuck = Stuck(stage)
    yield stuck
    stuck.close()


def test_a_full_disk_is_told_at_once(stage: Stage, stuck: Stuck) -> None:
    """Nothing is acknowledged; writers hear that the store lives and tries, and those who look on hear why."""
    [(peer, ack)] = stage.link.told("record.ack")

    assert (ONE, 0, None, "the store cannot be written: disk full") == (
        peer,
        ack.number,
        ack.error,
        ack.waiting,
    )
    assert [
        "waiting 0.0 s for the store cannot be written: disk full; tries every second; gives up in 10 s"
    ] == (stuck.waits())


def test_the_store_tries_every_second(stage: Stage, stuck: Stuck) -> None:
    """Once there is room it goes on where it stood, and acknowledges what it has written."""
    stage.pass_time(AGAIN_S)
    stuck.free()
    stage.pass_time(AGAIN_S * 0.9)
    before = stage.writer.log.count("commit")
    stage.pass_time(AGAIN_S * 0.2)

    assert (0, 1, (ONE, 1, None)) == (before, stage.writer.log.count("commit"), stage.acks[-1])


def test_what_comes_meanwhile_is_held(stage: Stage, stuck: Stuck) -> None:
    """Batches of all writers are applied in their order after the store has gone on, and acknowledged later."""
    stage.batch(TWO, 1, [["b"]])
    stage.batch(ONE, 2, [["c"]])
    held = list(stage.writer.log)
    stuck.free()
    stage.pass_time(AGAIN_S)
    first = stage.acks[-1]
    stage.pass_time(2 * COMMIT_S)

    assert [(ONE, [["run"]])] == held
    assert [(ONE, [["run"]]), "commit", (TWO, [["b"]]), (ONE, [["c"]]), "commit"] == stage.writer.log
    assert ((ONE, 1, None), [(TWO, 1, None), (ONE, 2, None)]) == (first, stage.acks[-2:])


def test_a_store_that_stays_full_fails_by_name(
    stage: Stage, stuck: Stuck, capsys: pytest.CaptureFixture[str]
) -> None:
    """At its deadline it writes how the run ended and tells every writer, also those whose batches it held."""
    stage.batch(TWO, 1, [["b"]])
    for _ in range(int(SPAN_S) + 1):
        stage.pass_time(AGAIN_S)
    text = "store: it could not be written for 10 s (record): disk full"
    stage.batch(ONE, 2)
    stage.pass_time(2 * COMMIT_S)

    assert [(ONE, [["run"]]), ("abandon", "failed", f"failed: {text}")] == stage.writer.log
    assert [(ONE, 1, text), (TWO, 1, text), (ONE, 2, text)] == [ack for ack in stage.acks if ack[1]]
    assert 1 == capsys.readouterr().err.count(text)


def test_waits_are_told_ever_more_rarely(stage: Stage, stuck: Stuck) -> None:
    """After two seconds, then after twice as long each time; writers hear of every try."""
    for _ in range(9):
        stage.pass_time(AGAIN_S)

    assert ["0.0", "2.0", "4.0", "8.0"] == [text.split()[1] for text in stuck.waits()]
    assert 10 == len(stage.link.told("record.ack"))


def test_not_even_the_end_can_be_written(stage: Stage, stuck: Stuck) -> None:
    """Then the writers hear that too."""
    stage.writer.fails["abandon"] = StoreUnavailable("the file is gone")
    for _ in range(int(SPAN_S) + 1):
        stage.pass_time(AGAIN_S)

    assert "disk full; nor can that be written: the file is gone" in str(stage.acks[-1][2])


def test_a_run_that_is_ended_meanwhile_fails(stage: Stage, stuck: Stuck) -> None:
    """A store that is told to leave while it cannot write says how the run ended, and closes."""
    stage.host.close()

    [abandoned] = [entry for entry in stage.writer.log if entry[0] == "abandon"]
    assert "failed: store: the run was ended: disk full" == abandoned[2]
    assert "close" == stage.writer.log[-1]


def test_a_failure_for_good_ends_the_wait(stage: Stage, stuck: Stuck) -> None:
    """What trying again cannot help is told at once."""
    stage.writer.fails["commit"] = StoreError("malformed")
    stage.pass_time(AGAIN_S)

    assert (ONE, 1, "malformed") == stage.acks[-1]


def test_the_governor_may_be_lost_meanwhile(stage: Stage, stuck: Stuck) -> None:
    """The end of the run is written when there is room again."""
    stage.host.joined()
    stage.link.lose("r/governor", "killed by signal 9")
    stage.hosted.participant.pump(0.01)
    stuck.free()
    stage.pass_time(AGAIN_S)
    stage.pass_time(2 * COMMIT_S)

    assert ["end", "failed", "lost: governor: killed by signal 9"] == stage.writer.log[-2][1][0][:3]
    assert "commit" == stage.writer.log[-1]


def test_the_end_is_acknowledged_with_what_protects_it(stage: Stage) -> None:
    """Whoever writes the end of the run gets the heads of its chains."""
    stage.batch(ONE, 1)
    stage.pass_time(2 * COMMIT_S)
    stage.batch(ONE, 2, [["end", "finished", "completed", "now"]])
    stage.pass_time(2 * COMMIT_S)

    assert [None, {"run": "4"}] == [ack.heads for _, ack in stage.link.told("record.ack")]
