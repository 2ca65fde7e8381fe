"""Writers: what is told is there once, in order, whatever is lost in between."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from databases import change, mounted

from ganglion.sdk.store import Nondeterministic, RunExists, StoreDamaged, StoreError, StoreUnavailable, UsageError
from ganglion_store.reader import SqlReader
from ganglion_store.schema import metadata
from ganglion_store.store import SqlStore
from ganglion_store.writer import SqlPointBook, SqlWriter


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


def test_a_run_is_never_overwritten(uri: str, tell: Any, read: Any) -> None:
    """The id of a run that is there is refused; who goes on with a run that had written nothing begins it."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", tell.begin())

    with pytest.raises(RunExists, match="found results of run demo-1"):
        SqlWriter(uri, "demo-1")
    with pytest.raises(RunExists, match="found results of run demo-1"):
        SqlWriter(uri, "demo-1", resume=True, started="2030-01-02T00:00:00.000+00:00")
    with SqlWriter(uri, "demo-2", resume=True) as writer:
        with pytest.raises(StoreError, match="expected the record `run` before any other"):
            writer.apply("c", tell.whole(0))
        assert 0 == writer.withdraw()
        writer.apply("governor", tell.begin())
    assert ["demo-1", "demo-2"] == [row["run"] for row in read("runs")]


def test_of_two_that_begin_a_run_at_once_one_has_it(uri: str, tell: Any, read: Any) -> None:
    """Who begins a run that another one has begun meanwhile is refused, then and whenever it goes on with it."""
    ours, theirs = tell.begin()[0][1]["started"], "2030-01-02T00:00:00Z"
    second = SqlWriter(uri, "demo-1", started=theirs)
    with SqlWriter(uri, "demo-1", started=ours) as first:
        first.apply("governor", tell.begin())
    second.apply("governor", tell.begin())
    with pytest.raises(RunExists, match="another one has begun it"):
        second.close()
    with pytest.raises(RunExists):
        SqlWriter(uri, "demo-1", resume=True, started=theirs)
    with SqlWriter(uri, "demo-1", resume=True, started=ours) as again:
        again.apply("c", tell.whole(0))

    assert 1 == len(read("episodes"))


def test_rows_come_in_order(writer: SqlWriter, tell: Any) -> None:
    """A row that does not come after the one before it is refused with its place."""
    writer.apply("c", [tell.steps(0, 1, 3)])

    with pytest.raises(StoreError, match=r"steps of environment grid, phase 0, train, worker 0, episode 0.*step 3"):
        writer.apply("c", [tell.steps(0, 3, 1)])


def test_an_earlier_episode_is_too_late(writer: SqlWriter, tell: Any) -> None:
    """An episode that was left out cannot be sealed after a later one of the same worker."""
    writer.apply("c", tell.whole(5))
    writer.commit()
    writer.apply("c", tell.whole(4))

    with pytest.raises(StoreError, match="episode 4: expected episodes of a worker in their order"):
        writer.commit()
    writer._pending.clear()


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


# -- when nothing can be written --------------------------------------------------------------------------------------
def path_of(uri: str) -> Path:
    """Return the file of a store."""
    return Path(uri.removeprefix("sqlite:///"))


@pytest.mark.parametrize("uri", ["sqlite"], indirect=True)
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


@pytest.mark.parametrize("uri", ["sqlite"], indirect=True)
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
    assert [(1,)] == change(uri, "SELECT count(*) FROM episodes")


class Breaking(sqlite3.Connection):
    """Break the connection at the next COMMIT: before it is carried out, after it, or `within` it."""

    breaks = ""

    def cursor(self, factory: Any = None) -> Any:
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
@pytest.mark.parametrize("uri", ["sqlite"], indirect=True)
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


def test_two_writers_of_one_run_are_found(writer: SqlWriter, tell: Any, uri: str) -> None:
    """A second writer of the same run makes the first one stop by name: nobody writes in between."""
    with SqlWriter(uri, "demo-1", resume=True) as second:
        second.apply("c", tell.whole(0))
        second.commit()
        writer.apply("c", tell.whole(0, worker=1))
        with pytest.raises(StoreError, match="expected one writer, found that another one has written"):
            writer.commit()
        writer._pending.clear()


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
    change(uri, what)
    writer.apply("governor", [["end", "finished", "completed", "now"]])
    writer.commit()

    with pytest.raises(StoreDamaged, match=r"the database is damaged: .*, then `ganglion resume`"):
        writer.heads()


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


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a small file system of its own."""
    with mounted(tmp_path / "small", "13m") as folder:
        yield folder


def test_a_disk_that_is_really_full_takes_status_and_reason(small: Path, tell: Any) -> None:
    """What was sealed is whole, nothing is half there, and how the run ended is written into the reserve."""
    from ganglion_store.reader import SqlReader

    uri = f"sqlite:///{small}/ganglion.db"
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.commit()
        episode = tell.fill(writer)
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
    change(uri, "UPDATE stored_incidents SET detail = NULL")
    with SqlReader(uri) as reader:
        assert ["incidents, row 0"] == [damage.where.partition(" (")[0] for damage in reader.verify("demo-1")]


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


def changed(tell: Any, table: str, row: int, column: int, value: Any) -> list[Any]:
    """Return the records of an episode of which one value is another."""
    records = tell.whole(0)
    rows = next(record for record in records if record[0] == table)[-1]
    rows[row][column] = value
    return records


CASES = [
    (lambda tell: changed(tell, "steps", 1, 4, msgpack.packb([9.0, 9])), "steps of environment grid, step 2: sensors"),
    (lambda tell: changed(tell, "steps", 2, 7, True), "steps of environment grid, step 3: terminated"),
    (lambda tell: changed(tell, "actions", 0, 4, b"\x90"), "actions of agent ada, step 0, body 0: setpoints"),
    (lambda tell: tell.whole(0, 2), "steps of environment grid, step 3: a row before, now none"),
    (lambda tell: tell.whole(0, 4), "steps of environment grid, step 4: no row before, now one"),
    (lambda tell: tell.whole(0)[::2], "actions of agent ada: some before, now none"),
    (lambda tell: [*tell.whole(0, agent="bea")], "actions of agent bea: none before, now some"),
    (lambda tell: tell.whole(0, reason="condition"), "reason: 'environment' before, now 'condition'"),
    (lambda tell: tell.whole(0, round=7), "round: 0 before, now 7"),
]


@pytest.mark.parametrize("limit", [0, 1 << 20])
@pytest.mark.parametrize(("other", "where"), CASES)
def test_the_first_difference_is_named(uri: str, tell: Any, limit: int, other: Any, where: str) -> None:
    """An episode that comes out otherwise is told with table, step and column, also if its rows rest on disk."""
    with SqlWriter(uri, "demo-1", open_rows_bytes=limit) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", tell.whole(0))
        writer.commit()
        *rows, seal = other(tell)
        writer.apply("c", rows)
        writer.commit()
        writer.apply("c", [seal])
        with pytest.raises(Nondeterministic) as found:
            writer.commit()

    assert f"phase 0, train, worker 0, episode 0: it was sealed before with other rows: {where}" in str(found.value)


RUN = "demo-1"


def topic(number: int, value: Any, worker: int = 0, phase: int = 0) -> list[Any]:
    """Return a row of a worker."""
    return ["topic", phase, "train", worker, 3 * number, "lake", "parameters", "gravity", value, number]


def write(uri: str, tell: Any, *batches: list[Any]) -> None:
    """Write these records, each list as a batch."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", tell.begin())
        for batch in batches:
            writer.apply("c", batch)


def values(read: Callable[..., list[dict[str, Any]]]) -> list[tuple[int, int, Any]]:
    """Return worker, tick and value of all rows, as they are shown."""
    return [(row["worker"], row["tick"], row["value"]) for row in read("topics")]


def test_rows_are_shown_by_worker(uri: str, tell: Any, read: Callable[..., list[dict[str, Any]]]) -> None:
    """Values are plain; a row that comes again is the same row."""
    batch = [topic(1, 9.5, worker=1), topic(1, {"a": [1, None]}), topic(2, "moon")]
    write(uri, tell, batch, batch)

    assert [(0, 3, {"a": [1, None]}), (0, 6, "moon"), (1, 3, 9.5)] == values(read)
    assert {"run", "phase", "mode", "worker", "tick", "peer", "topic", "key", "value"} == set(read("topics")[0])


def test_another_row_takes_the_place_of_all_behind(
    uri: str, tell: Any, read: Callable[..., list[dict[str, Any]]]
) -> None:
    """A run that went back, and to which something else happens, leaves nothing of what was."""
    write(uri, tell, [topic(n, n) for n in (1, 2, 3)], [topic(1, 1, worker=1)], [topic(1, 1), topic(2, 5)])

    assert [(0, 3, 1), (0, 6, 5), (1, 3, 1)] == values(read)


def test_rows_behind_a_place_go(uri: str, tell: Any, read: Callable[..., list[dict[str, Any]]]) -> None:
    """Of each worker stay those up to the number that is named; of earlier phases all."""
    write(uri, tell, [topic(n, n, worker, phase) for phase in (0, 1) for worker in (0, 1) for n in (1, 2, 3)])
    with SqlWriter(uri, RUN, resume=True) as writer:
        writer.withdraw_behind(1, {}, {}, {(1, "train", 0): 2})

    assert [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 1, 1), (0, 1, 2), (0, 1, 3), (1, 0, 1), (1, 0, 2)] == [
        (row["phase"], row["worker"], row["value"]) for row in read("topics")
    ]


def point(number: int, **more: Any) -> dict[str, Any]:
    """Return a point of a design with one factor."""
    plain = {"point": number, "row": number, "repetition": 0, "seed": str(10**25), "digest": f"d{number}"}
    return {**plain, "factors": {"rate": 0.1 * number, "name": "größe"}, **more}


def test_states_change_one_by_one(uri: str) -> None:
    """A change is there for another reader at once, and concerns its point alone."""
    with SqlPointBook(uri, "grid") as book, SqlPointBook(uri, "grid") as other:
        book.plan([point(0), point(1)])
        book.change(1, "running", "grid-1-1")
        assert [("planned", None), ("running", "grid-1-1")] == [(p["state"], p["run"]) for p in other.points()]
        book.change(1, "failed", "grid-1-1", "it broke")
        assert "it broke" == other.points()[1]["reason"]


def test_a_point_that_is_not_known_is_refused(uri: str) -> None:
    """A state without a point is an error: nobody would ever see it."""
    with SqlPointBook(uri, "grid") as book, pytest.raises(StoreError, match="point 7 of grid, found none"):
        book.change(7, "done", "x")


def test_readers_see_points(uri: str) -> None:
    """The table `points` shows them with or without a run; a run that is not there cannot be asked for."""
    with SqlPointBook(uri, "grid") as book:
        book.plan([point(0), point(1)])
        book.change(1, "running", "grid-1-1")
    with SqlReader(uri) as reader:
        rows = list(reader.rows("points", where="state = 'running'"))
        assert [("grid-1-1", {"rate": 0.1, "name": "größe"})] == [(r["run"], r["factors"]) for r in rows]
        assert [10**25] == [r["seed"] for r in rows]
        assert 2 == reader.count("points")
        with pytest.raises(UsageError, match="there is no run"):
            reader.count("points", ["grid-1-1"])


def test_a_writer_is_light(uri: str) -> None:
    """A process that only writes imports no numpy; one that only names the store, or writes SQLite, no SQLAlchemy."""
    script = (
        "import sys; from ganglion_store.store import SqlStore; print('sqlalchemy' in sys.modules);"
        "SqlStore.writer(sys.argv[1], 'r').close();"
        "print('numpy' in sys.modules, sys.argv[1][:6] == 'sqlite' and 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, uri], capture_output=True, text=True, check=True)

    assert "False\nFalse False\n" == done.stdout


def test_removed_runs_leave_nothing(uri: str, tell: Any) -> None:
    """A removed run takes all its rows along, and the others keep theirs; an unknown one removes none."""
    for run in ("demo-1", "demo-2"):
        with SqlWriter(uri, run, open_rows_bytes=1) as writer:
            writer.apply("g", tell.begin())
            writer.apply(
                "c", [*tell.whole(0), *tell.whole(1), ["signal", 0, None, None, None, "RESET", "i", "", None, 0]]
            )
    with pytest.raises(StoreError, match="run demo-9, found none"):
        SqlStore.remove(uri, ["demo-1", "demo-9"])
    before = _sizes(uri)

    assert {"demo-1": 2} == SqlStore.remove(uri, ["demo-1"])
    after = _sizes(uri)
    assert {table: size // 2 for table, size in before.items()} == after
    assert after["stored_steps"] == 6

    SqlStore.remove(uri, ["demo-2"])
    assert {0} == set(_sizes(uri).values())


def _sizes(uri: str) -> dict[str, int]:
    ours = (name for name in metadata.tables if name != "ganglion_store")
    return {name: change(uri, f"SELECT count(*) FROM {name}")[0][0] for name in ours}
