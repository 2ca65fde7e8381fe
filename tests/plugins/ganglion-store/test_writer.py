from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ganglion.sdk.store import Nondeterministic, StoreError
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
            second.apply(
                "c", [["declare", 0, "grid", None, "reward", [["grid.other", "Box", None, "<f8", []]]]]
            )

    assert [(0, 3), (1, 2)] == [(row["episode"], row["steps"]) for row in read("episodes")]
    assert 5 == len(read("steps"))


def test_episodes_of_a_worker_are_chained(writer: SqlWriter, tell: Any, uri: str) -> None:
    """Each episode holds the digest of the one before it of the same worker and mode."""
    for episode in range(3):
        writer.apply(
            "c", [*tell.whole(episode), *tell.whole(episode, worker=1), *tell.whole(episode, mode="test")]
        )
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

    assert [("interrupted: operator, disk is full", 2)] == [
        (r["reason"], r["steps"]) for r in read("episodes")
    ]
    assert 2 == len(read("steps"))


def test_a_run_is_never_overwritten(uri: str, tell: Any) -> None:
    """The id of a run that is there is refused, and only such a run can be gone on with."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", tell.begin())

    with pytest.raises(StoreError, match="found results of run demo-1"):
        SqlWriter(uri, "demo-1")
    with pytest.raises(StoreError, match="run demo-2 to go on with, found none"):
        SqlWriter(uri, "demo-2", resume=True)


def test_the_run_comes_first(uri: str, tell: Any) -> None:
    """Rows of a run that was not announced are refused."""
    with (
        SqlWriter(uri, "demo-1") as writer,
        pytest.raises(StoreError, match="the record `run` before any other"),
    ):
        writer.apply("c", tell.whole(0))


def test_rows_come_in_order(writer: SqlWriter, tell: Any) -> None:
    """A row that does not come after the one before it is refused with its place."""
    writer.apply("c", [tell.steps(0, 1, 3)])

    with pytest.raises(
        StoreError, match=r"steps of environment grid, phase 0, train, worker 0, episode 0.*step 3"
    ):
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
        writer.apply(
            "c", [*tell.whole(0, steps=300), ["signal", 0, None, None, None, "RESET", "c", "why", None, 0]]
        )
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
