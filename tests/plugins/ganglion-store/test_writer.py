from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ganglion.sdk.store import Nondeterministic, StoreDamaged, StoreError, StoreUnavailable
from ganglion_store.writer import SqlWriter


def test_rows_show_with_the_seal(writer: SqlWriter, tell: Any, read: Any) -> None:
    """Rows of an open episode are shown to nobody; those of a sealed one are all there."""
    writer.apply("controller", [tell.steps(0, 1, 3), tell.actions(0, 0, 3)])
    writer.commit()
    before = [read(table) for table in ("steps", "actions", "episodes", "returns")]

    writer.apply("controller", [tell.seal(0, 3)])
    writer.commit()

    assert [[], [], [], []] == before
    assert [1, 2, 3] == [row["step"] for row in read("steps")]
    assert [0, 1, 2] == [row["step"] for row in read("actions")]
    assert [("environment", 3)] == [(row["reason"], row["steps"]) for row in read("episodes")]


def test_a_seal_is_nothing_before_its_commit(writer: SqlWriter, tell: Any, read: Any) -> None:
    """What is applied and not committed is not there."""
    writer.apply("controller", tell.whole(0))

    assert [] == read("episodes")


def test_open_rows_beyond_the_limit_rest_on_disk_unseen(uri: str, tell: Any, read: Any) -> None:
    """More open rows than the limit go to disk, stay invisible, and belong to the episode once it is sealed."""
    with SqlWriter(uri, "demo-1", open_rows_bytes=5_000) as writer:
        writer.apply("governor", tell.begin())
        for first in range(1, 101, 10):
            writer.apply("controller", [tell.steps(0, first, 10), tell.actions(0, first - 1, 10)])
            writer.commit()
        path = uri.removeprefix("sqlite:///")
        with sqlite3.connect(path) as connection:
            (on_disk,) = connection.execute("SELECT count(*) FROM stored_steps").fetchone()
        connection.close()
        unseen = read("steps")
        assert writer._open_bytes <= 5_000
        writer.apply("controller", [tell.seal(0, 100)])
        writer.commit()

    assert on_disk >= 80
    assert [] == unseen
    assert list(range(1, 101)) == [row["step"] for row in read("steps")]
    assert [(100, 200.0)] == [(row["steps"], row["return"]) for row in read("returns")]


def test_spilled_and_unspilled_episodes_have_one_digest(tmp_path: Path, tell: Any) -> None:
    """The digest of an episode depends neither on its batches nor on where its rows rested while it was open."""
    digests = set()
    for name, limit, size in (("a", 1, 1), ("b", 1_000_000, 3), ("c", 4_000, 20)):
        path = tmp_path / f"{name}.db"
        with SqlWriter(f"sqlite:///{path}", "demo-1", open_rows_bytes=limit) as writer:
            writer.apply("governor", tell.begin())
            for first in range(0, 60, size):
                writer.apply("c", [tell.steps(0, first + 1, size), tell.actions(0, first, size)])
                writer.commit()
            writer.apply("c", [tell.seal(0, 60)])
        connection = sqlite3.connect(path)
        digests.add(connection.execute("SELECT digest FROM stored_episodes").fetchone())
        connection.close()

    assert 1 == len(digests)


def test_an_equal_seal_is_acknowledged_again(writer: SqlWriter, tell: Any, read: Any) -> None:
    """An episode that is sealed again with the same rows is there once."""
    for _ in range(2):
        writer.apply("controller", tell.whole(0))
        writer.apply("controller", tell.whole(1))
        writer.commit()
    writer.apply("controller", tell.whole(0))
    writer.commit()

    assert [0, 1] == [row["episode"] for row in read("episodes")]
    assert 6 == len(read("steps"))


def test_another_seal_is_refused_by_name(writer: SqlWriter, tell: Any, read: Any) -> None:
    """An episode that is sealed again with other rows is an error, and what came beside it is kept."""
    writer.apply("controller", tell.whole(0, steps=3))
    writer.commit()
    writer.apply("controller", [*tell.whole(0, steps=2), *tell.whole(1)])

    with pytest.raises(Nondeterministic, match="phase 0, train, worker 0, episode 0"):
        writer.commit()
    writer.commit()

    assert [3, 3] == [row["steps"] for row in read("episodes")]


def test_a_store_started_again_absorbs_repeats(uri: str, tell: Any, read: Any) -> None:
    """A writer that goes on with a run compares repeated episodes and drops the rows of those left open."""
    with SqlWriter(uri, "demo-1", open_rows_bytes=1) as first:
        first.apply("governor", tell.begin())
        first.apply("c", [*tell.whole(0), tell.steps(1, 1, 5)])
        first.commit()
        first._connection.close()  # as a process that is gone: nothing is tidied up
        first._closed = True
    with SqlWriter(uri, "demo-1", resume=True) as second:
        second.apply("governor", tell.begin())
        second.apply("c", [*tell.whole(0), *tell.whole(1, steps=2)])
        second.commit()
        with pytest.raises(Nondeterministic):
            second.apply("c", [["declare", 0, "grid", None, "reward", [["grid.other", "Box", None, "<f8", []]]]])

    assert [(0, 3), (1, 2)] == [(row["episode"], row["steps"]) for row in read("episodes")]
    assert 5 == len(read("steps"))


def test_episodes_of_a_worker_are_chained(writer: SqlWriter, tell: Any, uri: str) -> None:
    """Each episode holds the digest of the one before it of the same worker and mode."""
    for episode in range(3):
        writer.apply("c", [*tell.whole(episode), *tell.whole(episode, worker=1), *tell.whole(episode, mode="test")])
    writer.commit()
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"))
    query = "SELECT digest, predecessor FROM stored_episodes WHERE worker = ? AND mode = ? ORDER BY episode"
    chains = [connection.execute(query, key).fetchall() for key in ((0, "train"), (1, "train"), (0, "test"))]
    connection.close()

    for chain in chains:
        assert [b"", *(digest for digest, _ in chain[:-1])] == [predecessor for _, predecessor in chain]
    assert 9 == len({digest for chain in chains for digest, _ in chain})


def test_a_sealed_episode_may_be_cut_short(writer: SqlWriter, tell: Any, read: Any) -> None:
    """An interrupted episode is sealed with its complete rows and its reason."""
    writer.apply("c", [tell.steps(0, 1, 2), tell.seal(0, 2, reason="interrupted: operator, disk is full")])
    writer.commit()

    assert [("interrupted: operator, disk is full", 2)] == [(r["reason"], r["steps"]) for r in read("episodes")]
    assert 2 == len(read("steps"))


def test_a_run_is_never_overwritten(uri: str, tell: Any, read: Any) -> None:
    """The id of a run that is there is refused; who goes on with a run that had written nothing begins it."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", tell.begin())

    with pytest.raises(StoreError, match="found results of run demo-1"):
        SqlWriter(uri, "demo-1")
    with SqlWriter(uri, "demo-2", resume=True) as writer:
        with pytest.raises(StoreError, match="expected the record `run` before any other"):
            writer.apply("c", tell.whole(0))
        assert 0 == writer.withdraw()
        writer.apply("governor", tell.begin())
    assert ["demo-1", "demo-2"] == [row["run"] for row in read("runs")]


def test_the_run_comes_first(uri: str, tell: Any) -> None:
    """Rows of a run that was not announced are refused."""
    with SqlWriter(uri, "demo-1") as writer, pytest.raises(StoreError, match="the record `run` before any other"):
        writer.apply("c", tell.whole(0))


def test_rows_come_in_order(writer: SqlWriter, tell: Any) -> None:
    """A row that does not come after the one before it is refused with its place."""
    writer.apply("c", [tell.steps(0, 1, 3)])

    with pytest.raises(StoreError, match=r"steps of environment grid, phase 0, train, worker 0, episode 0.*step 3"):
        writer.apply("c", [tell.steps(0, 3, 1)])


def test_a_gone_writers_rows_are_discarded(uri: str, tell: Any, read: Any) -> None:
    """After a discard the successor sends the open episode again; also what rested on disk does not count."""
    with SqlWriter(uri, "demo-1", open_rows_bytes=1) as writer:
        writer.apply("governor", tell.begin())
        writer.apply("c", [tell.steps(0, 1, 5), tell.actions(0, 0, 5)])
        writer.apply("other", [tell.steps(0, 1, 2, worker=1)])
        writer.commit()
        writer.discard("c")
        writer.apply("c", tell.whole(0, steps=2))
        writer.apply("other", [tell.seal(0, 2, worker=1)])
        writer.commit()

    assert [(0, 1), (0, 2), (1, 1), (1, 2)] == [(row["worker"], row["step"]) for row in read("steps")]


def test_a_failed_commit_is_tried_again(uri: str, tell: Any, read: Any) -> None:
    """A transaction that fails leaves no trace, keeps everything, and the next commit writes it once."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", tell.begin())
        writer.commit()
        writer.apply("c", [*tell.whole(0, steps=300), ["signal", 0, None, None, None, "RESET", "c", "why", None, 0]])
        writer._connection.execute("PRAGMA max_page_count = 1")  # a full disk, as SQLite sees it
        with pytest.raises(StoreError, match=r"ganglion\.db: cannot write results of run demo-1: .* is full"):
            writer.commit()
        nothing = read("episodes") + read("signals")
        writer._connection.execute("PRAGMA max_page_count = 1000000")
        writer.commit()

    assert [] == nothing
    assert (1, 300, 1) == (len(read("episodes")), len(read("steps")), len(read("signals")))


def test_an_own_timeline_is_sealed_alone(writer: SqlWriter, tell: Any, read: Any) -> None:
    """A seal that names an environment takes its rows and those of the agents in it, and leaves the others open."""
    writer.apply("c", [["declare", 0, "lake", None, "sensor", [["lake.s", "Box", None, "<f8", []]]]])
    writer.apply("c", [["declare", 0, None, "bea", "sensor", [["lake.s", "Box", None, "<f8", []]]]])
    writer.apply("c", [tell.steps(0, 1, 2), tell.actions(0, 0, 2)])
    writer.apply("c", [tell.steps(0, 1, 4, environment="lake"), tell.actions(0, 0, 4, agent="bea")])
    writer.apply("c", [tell.seal(0, 2, environment="grid")])
    writer.commit()

    assert ["grid"] == [row["environment"] for row in read("episodes")]
    assert {"grid"} == {row["environment"] for row in read("steps", columns=["environment"])}
    assert {("ada", "grid")} == {
        (r["agent"], r["environment"]) for r in read("actions", columns=["agent", "environment"])
    }

    writer.apply("c", [tell.seal(0, 4, environment="lake")])
    writer.commit()
    assert 6 == len(read("actions", columns=["step"]))


KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from conftest import Teller
from ganglion_store.writer import SqlWriter
tell = Teller()
writer = SqlWriter(sys.argv[1], "demo-1", open_rows_bytes=20_000)
writer.apply("governor", tell.begin())
writer.commit()
for episode in range(1_000_000):
    for first in range(0, 200, 20):
        writer.apply("c", [tell.steps(episode, first + 1, 20), tell.actions(episode, first, 20)])
        writer.commit()
    writer.apply("c", [tell.seal(episode, 200)])
    writer.commit()
    print(episode, flush=True)
"""


def test_a_killed_writer_leaves_whole_episodes(uri: str, read: Any) -> None:
    """A reader beside a writer, and after its SIGKILL, sees whole episodes only, all that were acknowledged."""
    command = [sys.executable, "-c", KILLED, uri, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = -1
        for line in child.stdout:
            acknowledged = int(line)
            counts = {(r["episode"], r["steps"]) for r in read("returns")}
            assert {200} <= {steps for _, steps in counts} <= {200}
            if acknowledged >= 8:
                break
        os.kill(child.pid, signal.SIGKILL)

    episodes = [row["episode"] for row in read("episodes")]
    assert list(range(len(episodes))) == episodes
    assert len(episodes) > acknowledged
    for table, first in (("steps", 1), ("actions", 0)):
        found = [(row["episode"], row["step"]) for row in read(table, columns=["episode", "step"])]
        assert [(e, s) for e in episodes for s in range(first, first + 200)] == found


# -- when nothing can be written --------------------------------------------------------------------------------------
def path_of(uri: str) -> Path:
    """Return the file of a store."""
    return Path(uri.removeprefix("sqlite:///"))


def test_a_full_disk_passes(writer: SqlWriter, tell: Any, read: Any) -> None:
    """While the database cannot grow nothing is written; once it can, everything is, exactly once."""
    pages = writer._connection.execute("PRAGMA page_count").fetchone()[0]
    writer._connection.execute(f"PRAGMA max_page_count = {pages}")
    writer.apply("c", [record for n in range(40) for record in tell.whole(n, 20)])
    with pytest.raises(StoreUnavailable, match="full"):
        writer.commit()
    before = read("episodes")
    writer.commit()  # on a connection of its own, which knows no such limit

    assert ([], list(range(40))) == (before, [row["episode"] for row in read("episodes")])


def test_a_read_only_database_passes(writer: SqlWriter, tell: Any, read: Any) -> None:
    """The same where writing is not allowed."""
    writer._connection.execute("PRAGMA query_only = ON")
    writer.apply("c", tell.whole(0))
    with pytest.raises(StoreUnavailable, match="readonly"):
        writer.commit()
    writer.commit()

    assert 1 == len(read("episodes"))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_gone_takes_nothing(
    writer: SqlWriter, tell: Any, uri: str, tmp_path: Path, replaced: bool
) -> None:
    """A file without its name would be written in vain: the writer waits for it, and makes no other."""
    path = path_of(uri)
    path.rename(tmp_path / "away")
    if replaced:
        path.write_bytes(b"")
    writer.apply("c", tell.whole(0))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="another file in its place" if replaced else "it is gone"):
            writer.commit()
    assert replaced == path.exists()
    (tmp_path / "away").rename(path)
    writer.commit()
    connection = sqlite3.connect(path)
    assert (1,) == connection.execute("SELECT count(*) FROM episodes").fetchone()
    connection.close()


class Breaking(sqlite3.Connection):
    """Break the connection at the next COMMIT: before it is carried out, after it, or `within` it."""

    breaks = ""

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor that knows its connection."""
        return super().cursor(factory or _BreakingCursor)


class _BreakingCursor(sqlite3.Cursor):
    def execute(self, statement: str, *arguments: Any) -> Any:
        breaks = Breaking.breaks
        if statement != "COMMIT" or not breaks:
            return super().execute(statement, *arguments)
        Breaking.breaks = ""
        if breaks != "within":
            super().execute("COMMIT" if breaks == "after" else "ROLLBACK")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error


@pytest.mark.parametrize("breaks", ["before", "after", "within"])
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_broken_commit_is_read_back(uri: str, tell: Any, read: Any, breaks: str, limit: int) -> None:
    """Whether it was carried out is looked up: nothing is lost, nothing comes twice, open rows neither."""
    with SqlWriter(uri, "demo-1", open_rows_bytes=limit, factory=Breaking) as writer:
        writer.apply("g", tell.begin())
        writer.commit()
        signal_ = ["signal", 0, 0, 0, 1, "PAUSE", "operator", "", None, 0, 0]
        writer.apply("c", [*tell.whole(0), signal_, tell.steps(1, 1, 2)])
        Breaking.breaks = breaks
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            writer.commit()
        with pytest.raises(StoreUnavailable, match="the outcome of the last is not known"):
            writer.apply("c", [signal_])
        writer.commit()
        writer.apply("c", [tell.steps(1, 3, 1), tell.seal(1, 3)])
        writer.commit()

    assert [(0, 3), (1, 3)] == [(row["episode"], row["steps"]) for row in read("episodes")]
    assert ([1, 2, 3] * 2, 1) == ([row["step"] for row in read("steps")], len(read("signals")))


def test_a_broken_commit_keeps_nobody_waiting(uri: str, tell: Any) -> None:
    """However long a writer takes to try again, others may write meanwhile: its transaction holds no lock."""
    with SqlWriter(uri, "demo-1", factory=Breaking) as writer:
        writer.apply("g", tell.begin())
        Breaking.breaks = "within"
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            writer.commit()
        with sqlite3.connect(uri.removeprefix("sqlite:///"), timeout=0.0) as other:
            other.execute("BEGIN IMMEDIATE")
        other.close()
        writer.commit()


def test_two_writers_of_one_run_are_found(writer: SqlWriter, tell: Any, uri: str) -> None:
    """A second writer of the same run makes the first one stop by name: nobody writes in between."""
    with SqlWriter(uri, "demo-1", resume=True) as second:
        second.apply("c", tell.whole(0))
        second.commit()
        writer.apply("c", tell.whole(0, worker=1))
        with pytest.raises(StoreError, match="expected one writer, found that another one has written"):
            writer.commit()
        writer._pending.clear()


def test_who_was_succeeded_writes_no_more(writer: SqlWriter, tell: Any, uri: str) -> None:
    """A writer that could not be ended, and wakes up beside its successor, changes nothing: the newest counts."""
    writer.apply("c", tell.whole(0))
    writer.commit()
    writer.apply("c", tell.whole(1))
    with SqlWriter(uri, "demo-1", resume=True) as second:
        with pytest.raises(StoreError, match="expected one writer, found that another one has written"):
            writer.commit()
        writer._pending.clear()
        second.apply("c", tell.whole(1))
        second.commit()


def test_the_end_can_be_written_with_the_reserve(writer: SqlWriter, tell: Any, read: Any) -> None:
    """A run that is given up has whole episodes, its status and reason, and is sealed."""
    writer.apply("c", tell.whole(0))
    writer.commit()
    writer.apply("c", [*tell.whole(1), tell.steps(2, 1, 1)])
    writer.abandon("failed", "failed: store: disk full", "now")

    assert [("failed", "failed: store: disk full")] == [(r["status"], r["reason"]) for r in read("runs")]
    assert ([0], 3) == ([row["episode"] for row in read("episodes")], len(read("steps")))
    assert writer.heads() is not None


@pytest.mark.parametrize("what", ["UPDATE stored_steps SET step = step + 99", "DELETE FROM stored_episodes"])
def test_rows_that_are_not_what_was_written_are_found_at_the_end(
    writer: SqlWriter, uri: str, tell: Any, what: str
) -> None:
    """A run is read back before its heads are given: damage is told with the file and what to do."""
    writer.apply("c", tell.whole(0))
    writer.commit()
    with sqlite3.connect(path_of(uri)) as connection:
        connection.execute(what)
    connection.close()
    writer.apply("governor", [["end", "finished", "completed", "now"]])
    writer.commit()

    with pytest.raises(StoreDamaged, match=r"the database is damaged: move \S+, .* away, then `ganglion resume`"):
        writer.heads()


def test_a_run_that_was_never_written_can_be_given_up(uri: str, tell: Any, read: Any) -> None:
    """What is written then is the run itself and how it ended."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.abandon("failed", "failed: store: disk full", "now")

    assert [("demo-1", "failed")] == [(row["run"], row["status"]) for row in read("runs")]


def test_repeats_are_absorbed(writer: SqlWriter, tell: Any, read: Any) -> None:
    """Signals that are numbered, evaluations and models that come again are there once; others by that name not."""
    signal_ = ["signal", 0, 0, 0, 1, "PAUSE", "operator", "", None, 0, 0]
    evaluation = ["evaluation", 0, "ada", 1, 3, {"return": 1.0}, None, "now"]
    brain = ["brain", 0, "ada", "", 3, 6, "now", 10, "00", "brains/0/ada/model.npz"]
    for now in ("now", "later"):
        writer.apply("g", [[*signal_, 1], [*signal_, 2], [*evaluation[:-1], now], [*brain[:6], now, *brain[7:]]])
        writer.commit()
    assert (2, 1, 1) == tuple(len(read(table)) for table in ("signals", "evaluations", "brains"))
    for other in ([*signal_[:6], "muscle", *signal_[7:], 2], [*evaluation[:5], {"return": 2.0}, None, "now"]):
        writer.apply("g", [other])
        with pytest.raises(Nondeterministic, match=r"nondeterministic: (signal 2|evaluation 1 of agent ada)"):
            writer.commit()


def test_a_small_file_size_is_named(uri: str) -> None:
    """A real process whose files may not grow says so, and what it has sealed is whole."""
    program = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from conftest import Teller
from ganglion.sdk.store import StoreUnavailable
from ganglion_store.writer import SqlWriter
tell, writer = Teller(), SqlWriter(sys.argv[1], "demo-1")
writer.apply("g", tell.begin())
writer.commit()
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
for episode in range(1000):
    writer.apply("c", tell.whole(episode, 50))
    try:
        writer.commit()
    except StoreUnavailable as error:
        print(episode, error)
        break
"""
    argv = [sys.executable, "-c", program, uri, str(Path(__file__).parent)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    from ganglion_store.reader import SqlReader

    episode, _, message = done.stdout.partition(" ")
    with SqlReader(uri) as reader:
        damages, count = list(reader.verify("demo-1")), reader.count("episodes")

    assert ([], int(episode)) == (damages, count), done.stderr
    assert "cannot write results of run demo-1" in message


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a small file system of its own; skip where none can be made."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=13m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def until_full(writer: SqlWriter, tell: Any) -> int:
    """Write episodes until that fails; return how many were written."""
    for episode in range(10_000):
        writer.apply("c", tell.whole(episode, 200))
        try:
            writer.commit()
        except StoreUnavailable:
            return episode
    raise AssertionError("the disk is never full")


def test_a_disk_that_is_really_full_takes_status_and_reason(small: Path, tell: Any) -> None:
    """What was sealed is whole, nothing is half there, and how the run ended is written into the reserve."""
    from ganglion_store.reader import SqlReader

    uri = f"sqlite:///{small}/ganglion.db"
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.commit()
        episode = until_full(writer, tell)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            writer.commit()
        writer.abandon("failed", "failed: store: disk is full", "now")
    with SqlReader(uri) as reader:
        damages, count = list(reader.verify("demo-1")), reader.count("episodes")
        [run] = reader.rows("runs")

    assert ([], episode) == (damages, count)
    assert ("failed", "failed: store: disk is full") == (run["status"], run["reason"])


def test_a_disk_without_room_for_the_reserve_is_named_at_once(small: Path) -> None:
    """Nothing is begun that could not say how it ended."""
    (small / "large").write_bytes(bytes(7 << 20))
    with pytest.raises(StoreError, match=r"cannot keep 8388608 bytes in reserve: .*No space left"):
        SqlWriter(f"sqlite:///{small}/ganglion.db", "demo-1")


def test_incidents_are_rows_and_sealed(uri: str, tell: Any, read: Any) -> None:
    """What became of processes is told once, shown as a table, and protected like the others."""
    from ganglion_store.reader import SqlReader

    row = ["2030-01-01T00:00:00Z", "muscle/ada/0", 1, "lost", "muscle.act", "was killed by SIGKILL"]
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", [*tell.begin(), ["incident", *row], ["incident", *row]])
        writer.apply("governor", [["incident", row[0], "brain/ada", 1, "lost", None, None]])
        writer.apply("governor", [["end", "finished", "completed", "now"]])

    names = ["time", "name", "incarnation", "kind", "position", "detail"]
    assert [row, [row[0], "brain/ada", 1, "lost", None, None]] == [
        [found[name] for name in names] for found in read("incidents")
    ]
    with sqlite3.connect(path_of(uri)) as connection:
        connection.execute("UPDATE stored_incidents SET detail = NULL")
    connection.close()
    with SqlReader(uri) as reader:
        assert ["incidents, row 0"] == [damage.where.partition(" (")[0] for damage in reader.verify("demo-1")]


def test_the_end_that_comes_again_keeps_its_time(writer: SqlWriter, read: Any) -> None:
    """A store that was started again is told again; how a run ended stays, another end replaces it."""
    ends = [("failed", "why", "now"), ("failed", "why", "later"), ("finished", "completed", "later")]
    found = []
    for end in ends:
        writer.apply("governor", [["end", *end]])
        writer.commit()
        found.append(tuple(read("runs")[0][name] for name in ("status", "reason", "ended")))

    assert [ends[0], ends[0], ends[2]] == found


def test_rows_of_open_episodes_are_known(writer: SqlWriter, tell: Any) -> None:
    """Rows that were applied are needed until their episode is sealed."""
    rows = [tell.steps(0, 1, 3), tell.actions(0, 0, 3), tell.steps(1, 1, 1)]
    writer.apply("c", rows[:2])
    before = [writer.is_open(record) for record in rows]
    writer.apply("c", [tell.seal(0, 3), rows[2]])

    assert ([True, True, False], [False, False, True]) == (before, [writer.is_open(record) for record in rows])


def test_a_tolerated_error_that_comes_again_is_one_row(writer: SqlWriter, read: Any) -> None:
    """Its number counts within an episode of a worker, in training or evaluation: a repeat is the same row."""

    def record(number: int, worker: int = 0, episode: int = 0, **data: str) -> list[Any]:
        place = [0, worker, episode, 1, "CONTINUE", "muscle:ada", "ValueError: no"]
        return ["signal", *place, {"hook": "update", **data}, 1, 0, -number]

    rows = [record(1), record(2), record(1, worker=1), record(1, episode=1), record(1, mode="evaluate")]
    for _ in range(2):  # the open episodes of a lost store or controller are sent again
        writer.apply("c", rows)
        writer.commit()

    assert len(rows) == len(read("signals"))
