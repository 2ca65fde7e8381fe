from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ganglion.errors import GanglionError, StoreDamaged, StoreError, StoreUnavailable
from ganglion.limits import RETRY_S
from ganglion.peer.store import COMMIT_S, StoreHost
from ganglion.wire.messages import RecordBatch, RunEvent

SPAN_S = 10.0
ONE, TWO = "r/controller/0", "r/controller/1"


class FakeWriter:
    """Keep what is applied and committed; fail when told to."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.fails: dict[str, GanglionError] = {}
        self.open_episodes: set[int] = set()

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

    def is_open(self, record: list[Any]) -> bool:
        """Say whether rows are still needed."""
        return record[5] in self.open_episodes

    def withdraw_behind(self, phase: int, episodes: Any, evaluations: Any) -> int:
        """Take back what comes behind."""
        self.log.append(("behind", phase, dict(episodes), dict(evaluations)))
        return 0

    def heads(self) -> dict[str, Any] | None:
        """Return what protects the rows."""
        if "heads" in self.fails:
            raise self.fails["heads"]
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
        self.host._begun = True

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


def test_a_run_that_is_ended_meanwhile_fails(stage: Stage, stuck: Stuck) -> None:
    """A store that is told to leave while it cannot write says how the run ended, and closes."""
    stage.host.close()

    [abandoned] = [entry for entry in stage.writer.log if entry[0] == "abandon"]
    assert "failed: store: the run was ended: disk full" == abandoned[2]
    assert "close" == stage.writer.log[-1]


def test_a_failure_for_good_ends_the_wait(stage: Stage, stuck: Stuck) -> None:
    """What trying again cannot help is told at once."""
    stage.writer.fails["commit"] = StoreError("malformed")
    stage.pass_time(RETRY_S["store"])

    assert (ONE, 1, "malformed") == stage.acks[-1]


def test_the_governor_may_be_lost_meanwhile(stage: Stage, stuck: Stuck) -> None:
    """The end of the run is written when there is room again."""
    stage.host.joined()
    stage.link.lose("r/governor", "killed by signal 9")
    stage.hosted.participant.pump(0.01)
    stuck.free()
    stage.pass_time(RETRY_S["store"])
    stage.pass_time(2 * COMMIT_S)

    assert ["end", "failed", "lost: governor: killed by signal 9"] == stage.writer.log[-2][1][0][:3]
    assert "commit" == stage.writer.log[-1]


def test_an_end_that_cannot_be_read_back_fails_by_name(stage: Stage) -> None:
    """The run is written down as failed, once, and its writers hear of the damage in place of the heads."""
    stage.writer.fails["heads"] = StoreDamaged("row 7: it is not what was sealed")
    stage.batch(ONE, 1, [["end", "finished", "completed", "now"]])
    stage.pass_time(2 * COMMIT_S)
    stage.batch(ONE, 2)
    stage.pass_time(2 * COMMIT_S)
    acks = [ack for _, ack in stage.link.told("record.ack")]

    assert [("store_damaged", None)] * 2 == [(ack.error.kind, ack.heads) for ack in acks]
    abandoned = ("abandon", "failed", "failed: row 7: it is not what was sealed")
    assert [abandoned] == [entry for entry in stage.writer.log if entry[0] == "abandon"]


# -- batches that come again ------------------------------------------------------------------------------------------


def test_what_is_held_is_not_acknowledged_by_its_repeat(stage: Stage, stuck: Stuck) -> None:
    """While nothing can be written a repeat changes nothing."""
    stage.batch(ONE, 2, [["b"]])
    stage.batch(ONE, 2, [["b"]])
    stage.writer.fails["apply"] = FULL
    del stage.writer.fails["commit"]
    stage.pass_time(RETRY_S["store"])

    assert [1] == [number for _, number, _ in stage.acks if number]


def test_a_batch_that_stays_missing_is_told(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A writer that goes on without it is told what is missing, and nothing more is acknowledged."""
    stage.batch(ONE, 1)
    stage.pass_time(2 * COMMIT_S)
    for _ in range(2):
        stage.batch(ONE, 3)
        stage.clock.now_s += 11.0
    stage.batch(ONE, 3)
    stage.pass_time(2 * COMMIT_S)

    assert (ONE, 1, f"records of {ONE}: expected batch 2, found 3") == stage.acks[-1]
    assert 1 == capsys.readouterr().err.count("expected batch 2")


# -- the tape ---------------------------------------------------------------------------------------------------------
