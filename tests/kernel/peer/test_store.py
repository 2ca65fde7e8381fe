from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.errors import GanglionError, StoreError
from ganglion.limits import BODY_BYTES
from ganglion.peer.store import COMMIT_S, StoreHost
from ganglion.wire.messages import RecordAck, RecordBatch
from ganglion.wire.parcel import detach

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

    def close(self) -> None:
        """Close."""
        self.log.append("close")


class Stage:
    """Stand a store's host on a fake link."""

    def __init__(self, hosted: Any) -> None:
        self.writer = FakeWriter()
        self.hosted = hosted(StoreHost(self.writer))  # type: ignore[arg-type]
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
