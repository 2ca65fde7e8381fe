from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fakepeer import MemoryJournalFile

from ganglion.errors import GanglionError, StoreDamaged, StoreError, StoreUnavailable
from ganglion.limits import RETRY_S, STREAM_CREDIT_BYTES
from ganglion.peer.journal.write import Journal
from ganglion.peer.participant import Participant
from ganglion.peer.results import store as module
from ganglion.peer.results.store import COMMIT_S, StoreHost
from ganglion.wire.messages import RecordBatch, RunEvent

SPAN_S = 10.0
ONE, TWO = "r/controller/0", "r/controller/1"


class FakeWriter:
    """Keep what is applied and committed; fail when told to."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.fails: dict[str, GanglionError] = {}
        self.open_episodes: set[int] = set()

    def _do(self, name: str, entry: Any) -> None:
        if name in self.fails:
            raise self.fails[name]
        self.log.append(entry)

    def apply(self, writer: str, records: list[Any]) -> None:
        """Take records."""
        self._do("apply", (writer, records))

    def commit(self) -> None:
        """Make them durable."""
        self._do("commit", "commit")

    def is_open(self, record: list[Any]) -> bool:
        """Say whether rows are still needed."""
        episode = record[5] if type(record[5]) is int else record[5][0][0]
        return episode in self.open_episodes

    def withdraw_behind(self, phase: int, episodes: Any, evaluations: Any, topics: Any) -> int:
        """Take back what comes behind."""
        self.log.append(("behind", phase, dict(episodes), dict(evaluations), dict(topics)))
        return 0

    def heads(self) -> dict[str, Any] | None:
        """Return what protects the rows."""
        if "heads" in self.fails:
            raise self.fails["heads"]
        return {"run": str(len(self.log))}

    def abandon(self, status: str, reason: str, ended: str) -> None:
        """Write the end."""
        self._do("abandon", ("abandon", status, reason))

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


@pytest.mark.parametrize("second", ["steps", "end"])
def test_large_rows_and_the_end_do_not_wait_for_the_clock(stage: Stage, second: str) -> None:
    """Rows are durable and acknowledged before the credit of their writer is used up, and at the end of a run."""
    stage.batch(ONE, 1, [steps(0, STREAM_CREDIT_BYTES // 4)])
    waits = list(stage.acks)
    end = ["end", "finished", "completed", ""]
    stage.batch(ONE, 2, [end if second == "end" else steps(0, STREAM_CREDIT_BYTES // 4)])

    assert ([], [(ONE, 2, None)]) == (waits, stage.acks)


def test_a_lost_governor_ends_its_run(stage: Stage) -> None:
    """The store watches the governor; nobody else is left to write how the run ended."""
    participant = stage.hosted.participant
    participant.join(participant.hello("store", "r/store", "?"))
    stage.host.joined()
    stage.batch("r/governor", 1, [["run", {}]])
    count = len(stage.writer.log)
    stage.link.lose("r/governor", "killed by signal 9")
    participant.pump(0.01)
    participant._closed.set()
    written, commit = stage.writer.log[count:]

    assert [["r/governor"]] == [message.peers for _, message in stage.link.asked("kernel.watch")]
    assert (["end", "failed", "lost: governor: killed by signal 9"], "commit") == (written[1][0][:3], commit)


# -- when nothing can be written --------------------------------------------------------------------------------------
FULL = StoreUnavailable("disk full")


class Stuck:
    """Let a store of which the run has begun find its disk full."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.writer = stage, stage.writer
        stage.hosted.participant.join(stage.hosted.participant.hello("store", "r/store", "?"))
        self.writer.fails["commit"] = FULL
        stage.batch(ONE, 1, [["run"]])
        stage.pass_time(2 * COMMIT_S)

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
    stage.writer.fails.clear()
    stage.pass_time(RETRY_S["store"])
    stage.pass_time(2 * COMMIT_S)

    assert ["end", "failed", "lost: governor: killed by signal 9"] == stage.writer.log[-2][1][0][:3]
    assert "commit" == stage.writer.log[-1]


def test_a_store_that_reads_back_for_long_says_that_it_lives(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers hear it every second, which begins their deadline anew; who looks on hears it ever more rarely."""

    def heads() -> dict[str, Any]:
        for _ in range(10):
            stage.clock.now_s += 1.0
            stage.writer.working()  # type: ignore[attr-defined]
        return {}

    monkeypatch.setattr(stage.writer, "heads", heads)
    stuck = Stuck(stage)
    stage.writer.fails.clear()
    stage.pass_time(RETRY_S["store"])
    before, waits = len(stage.acks), stuck.waits()
    stage.batch(ONE, 2, [["end", "finished", "completed", "now"]])
    acks = [(ack.number, ack.waiting) for _, ack in stage.link.told("record.ack")[before:]]
    said = "the store reads back what it has written"
    found = stuck.waits()[len(waits) :]
    stuck.close()

    assert [(0, said)] * 10 + [(2, None)] == acks
    assert [f"{said}, for 2.0 s", f"{said}, for 6.0 s"] == found


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


def test_a_batch_that_comes_again_is_acknowledged_again(stage: Stage) -> None:
    """Its acknowledgement may be lost: the writer hears it once more, and the rows are written once."""
    for _ in range(2):
        stage.batch(ONE, 1)
        stage.pass_time(2 * COMMIT_S)

    assert [(ONE, 1, None)] * 2 == stage.acks
    assert [(ONE, [["x"]])] == [entry for entry in stage.writer.log if entry[0] == ONE]


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


# -- the journal -------------------------------------------------------------------------------------------------------
def steps(episode: int, size: int = 10) -> list[Any]:
    """Return rows of an episode."""
    return ["steps", 0, "train", 0, "w", episode, [[1, bytes(size)]]]


class JournaledStore:
    """Let a store with a journal hear batches, die at any place, and come again on the same journal."""

    def __init__(self, link: Any, clock: Any) -> None:
        self.link, self.clock, self.storage = link, clock, MemoryJournalFile()
        self.open_episodes: set[int] = set()
        self.behind: int | None = None
        self.begin()

    def begin(self, **fails: GanglionError) -> None:
        """Begin a process; it hears its predecessor's journal, and comes back."""
        self.writer = FakeWriter()
        self.writer.fails |= fails
        self.writer.open_episodes = self.open_episodes
        self.host = StoreHost(self.writer, SPAN_S, self.behind)  # type: ignore[arg-type]
        self.host._begun = True
        participant = Participant(
            lambda: self.link, {}, self.host.told, self.host.gone, self.clock, False, Journal(self.storage)
        )
        self.host.participant, participant.on_return = participant, self.host.reconnected
        participant.join(participant.hello("store", "r/store", "?"))
        self.host.joined()
        while participant.playing:
            participant.pump(0.01)
            self.host.tick()
        participant.pump(0.01)

    def batch(self, writer: str, number: int, records: list[Any]) -> None:
        """Let it hear a batch, and make it durable."""
        self.link.tell(writer, "record.batch", RecordBatch(number, records))
        self.host.participant.pump(0.01)
        self.clock.now_s += 2 * COMMIT_S
        self.host.tick()

    @property
    def rows(self) -> list[Any]:
        """Return what the writer was given by whom, one by one."""
        return [(peer, record) for peer, records in map(_pair, self.writer.log) for record in records]


def _pair(entry: Any) -> tuple[str, list[Any]]:
    return entry if type(entry) is tuple else ("", [])


@pytest.fixture
def journaled(link: Any, clock: Any) -> JournaledStore:
    """Return a store with a journal."""
    return JournaledStore(link, clock)


def test_what_its_journal_does_not_tell_of_is_withdrawn(journaled: JournaledStore) -> None:
    """At the end of the journal, once, and before the bus is joined: all that was sealed behind it."""
    sealed = [["episode", 0, "train", 0, None, n, 1, True, False, "environment", 1] for n in range(3)]
    evaluation = ["evaluation", 0, "ada", 1, 3, {}, None, "now"]
    topics = [["topic", 0, "train", 1, tick, "lake", "log", "", "said", tick] for tick in (1, 2)]
    journaled.batch(ONE, 1, [["phase", 0, "p", "train", "running", None], *sealed[:2], evaluation, *topics])
    journaled.host._shorten_at_bytes = 1
    journaled.batch(ONE, 2, [["phase", 1, "q", "train", "running", None]])
    journaled.batch(TWO, 1, [["episode", 1, "train", 1, "grid", 4, 1, True, False, "environment", 1]])
    journaled.behind = 0
    journaled.begin()
    [at] = [n for n, entry in enumerate(journaled.writer.log) if entry[0] == "behind"]

    kept = {(0, "train", 0, ""): 1, (1, "train", 1, "grid"): 4}
    assert ("behind", 0, kept, {(0, "ada"): 1}, {(0, "train", 1): 2}) == journaled.writer.log[at]
    assert "commit" not in journaled.writer.log[:at]
    assert journaled.writer.log.count("commit") == 1


def test_a_long_journal_is_begun_anew(journaled: JournaledStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is rows of open episodes, and what is told of the newest phases; all else is known as heard."""
    monkeypatch.setattr(module, "STORE_JOURNAL_BYTES", 50_000)
    journaled.host._shorten_at_bytes = 50_000
    phases = [["phase", n, "p", "train", "running", None] for n in range(3)]
    signals = [["signal", n, None, None, None, "RESET", "c", "", None, 0, 0, n + 1] for n in range(3)]
    journaled.batch("r/governor", 1, [["run", {}], *phases, *signals])
    journaled.open_episodes |= {0, 1}
    journaled.batch(ONE, 1, [steps(0), steps(1), steps(2)])
    journaled.batch(ONE, 1, [steps(0), steps(1), steps(2)])  # once more: it counts once
    for number in range(2, 50):
        journaled.batch(ONE, number, [steps(2, 1000)])
    journaled.open_episodes -= {1}
    for number in range(50, 110):
        journaled.batch(ONE, number, [steps(3, 1000)])
    size_bytes = len(journaled.storage.data)
    sent = len(journaled.link.told("record.ack"))
    journaled.begin()
    kept = journaled.rows[:6]
    journaled.batch(ONE, 109, [["again"]])
    journaled.batch(ONE, 110, [steps(4)])

    assert size_bytes < 60_000
    expected = [*phases[1:], *signals[1:]]
    assert [*(("r/governor", row) for row in expected), (ONE, steps(0))] == kept[:5]
    assert (ONE, 109) in [(peer, ack.number) for peer, ack in journaled.link.told("record.ack")[sent:]]
    assert (ONE, steps(4)) == journaled.rows[-1]
    assert (ONE, ["again"]) not in journaled.rows


@pytest.mark.parametrize("kind", ["body_steps", "body_actions"])
def test_columns_of_bodies_are_kept_while_they_are_open(journaled: JournaledStore, kind: str) -> None:
    """A journal that is begun anew has those of open episodes alone."""
    record = [kind, 0, "train", 0, "w", [[0, bytes(1000)]]]
    over = [kind, 0, "train", 0, "w", [[1, bytes(1000)]]]
    journaled.open_episodes |= {0, 1}
    journaled.batch(ONE, 1, [record, over])
    journaled.open_episodes -= {1}
    journaled.host._shorten_at_bytes = 1
    journaled.batch(ONE, 2, [["phase", 0, "p", "train", "running", None]])
    journaled.begin()

    assert (ONE, record) in journaled.rows
    assert (ONE, over) not in journaled.rows


def test_a_journal_that_is_needed_is_kept(journaled: JournaledStore) -> None:
    """Where hardly anything can go the journal may grow to twice its length before it is looked at again."""
    journaled.host._shorten_at_bytes = 20_000
    journaled.open_episodes |= {0}
    for number in range(1, 40):
        journaled.batch(ONE, number, [steps(0, 1000)])
    journaled.begin()

    assert [(ONE, steps(0, 1000))] * 39 == journaled.rows


def test_a_store_that_cannot_write_what_it_heard_ends(
    journaled: JournaledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a journal is none to wait for a disk: the process ends, and its successor hears all once more."""
    monkeypatch.setattr(module, "_REPLAY_ROWS", 1)
    journaled.batch(ONE, 1, [steps(0)])
    with pytest.raises(StoreUnavailable, match="disk full"):
        journaled.begin(commit=FULL)
    journaled.begin()

    assert [(ONE, steps(0))] == journaled.rows
