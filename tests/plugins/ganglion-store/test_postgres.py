from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from databases import PASSWORD, Server, change, fresh, mounted, served

from ganglion.sdk.store import StoreError, StoreUnavailable, UsageError
from ganglion_store import statements as sql
from ganglion_store.command import results_digest
from ganglion_store.reader import SqlReader
from ganglion_store.schema import SHOWN
from ganglion_store.store import SqlStore
from ganglion_store.writer import SqlWriter

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'ganglion-store[postgres]'")


@pytest.fixture
def uri(server: Server) -> str:
    """Return an empty schema of a database: what is told here is of PostgreSQL alone."""
    return fresh(server)


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("postgresql://ada:swordfish@127.0.0.1:1/test", "is the server running"),
        ("postgresql:///test?host=/nowhere&password=swordfish", "is the server running"),
        ("postgresql://ada:swordfish%zz@host/test", "expected a store URI such as postgresql://USER@HOST"),
    ],
)
def test_a_server_that_is_not_there_is_named_without_the_password(uri: str, text: str) -> None:
    """One sentence has the place, the cause and the cure."""
    with pytest.raises(StoreError, match=text) as found:
        SqlStore.reader(uri)

    assert PASSWORD not in str(found.value)


@pytest.mark.long
def test_what_cannot_be_opened_says_why(server: Server, uri: str) -> None:
    """A wrong password, a missing database and one in another encoding are named with their cure."""
    server.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'", "postgres")
    cases = {
        uri.replace(f":{PASSWORD}@", ":wrong@"): "password authentication failed.*; is the password right",
        uri.replace("/test?", "/none?"): 'database "none" does not exist; make it',
        uri.replace("/test?", "/latin?"): "expected a database in UTF-8, found LATIN1",
    }
    for place, text in cases.items():
        with pytest.raises(StoreError, match=text) as found:
            SqlWriter(place, "demo-1")
        assert not any(word in str(found.value) for word in (PASSWORD, "wrong"))
    with pytest.raises(StoreError, match="expected a result store of Ganglion, found no table"):
        SqlReader(uri)


@pytest.mark.long
def test_tables_of_others_stay(uri: str) -> None:
    """A database with a table of our names is refused, and a trigger on ours by writers; nothing is changed."""
    change(uri, "CREATE TABLE runs (mine int)", "INSERT INTO runs VALUES (7)")
    with pytest.raises(StoreError, match='relation "runs" already exists; name an empty database'):
        SqlWriter(uri, "demo-1")
    assert [(7,)] == change(uri, "SELECT mine FROM runs")
    change(uri, "DROP TABLE runs")
    SqlWriter(uri, "demo-1").close()
    function = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    change(uri, function, "CREATE TRIGGER t AFTER INSERT ON stored_runs EXECUTE FUNCTION f()")
    with pytest.raises(StoreError, match="found the trigger 't' on stored_runs"):
        SqlWriter(uri, "demo-1")
    change(uri, "DROP TRIGGER t ON stored_runs", "ALTER TABLE stored_runs DROP COLUMN document CASCADE")
    with pytest.raises(StoreError, match="expected stored_runs as revision"):
        SqlReader(uri)


@pytest.mark.long
def test_many_writers_make_one_store(uri: str, tell: Any) -> None:
    """Processes that find no store, at the same moment, all write their runs into one."""
    script = (
        "import msgpack, sys; from ganglion_store.writer import SqlWriter; sys.stdin.read(1)\n"
        "with SqlWriter(sys.argv[1], sys.argv[2]) as writer:\n"
        "    for records in msgpack.unpackb(bytes.fromhex(sys.argv[3])):\n"
        "        writer.apply('c', records); writer.commit()"
    )
    told = [tell.begin(), *(tell.whole(n) for n in range(5)), [["end", "finished", "completed", "now"]]]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, uri, f"demo-{n}", msgpack.packb(told).hex()], stdin=subprocess.PIPE
        )
        for n in range(4)
    ]
    for child in children:
        child.communicate(b"x")
    with SqlReader(uri) as reader:
        runs = [row["run"] for row in reader.rows("runs", order=["run"])]
        digests = {results_digest(reader, run) for run in runs}
        assert [] == list(itertools.chain.from_iterable(map(reader.verify, runs)))

    assert (4, 1) == (len(runs), len(digests))


@pytest.mark.long
def test_both_engines_have_the_same_rows_seals_and_digests(uri: str, tmp_path: Path, tell: Any) -> None:
    """What is told to one and to the other protects and shows the same; floats and flags rest alike."""
    values = [msgpack.packb([None] * count) for count in (2, 2, 1)]
    odd = [["steps", 0, "train", 0, "grid", 9, [[1, 2**40, None, "ü", *values, True, False]]]]
    signals = [["signal", 0, 0, None, None, "PAUSE", "o", "%s ☃ \\", {"a": [1, None]}, 1, 0, 3]]
    found = []
    for place in (uri, f"sqlite:///{tmp_path}/other.db"):
        with SqlWriter(place, "demo-1") as writer:
            writer.apply("g", [*tell.begin(), ["bodies", 0, [["ada", "grid", 0, None, None, None, True, False]]]])
            for n in range(9):
                writer.apply("c", tell.whole(n))
            writer.apply("c", [*odd, tell.seal(9, 1), *signals])
            writer.apply("c", [["opponents", 0, 0, [[3, 0, 8]]], ["ratings", 0, 0, [[3, 0, -0.0]]]])
            writer.apply("g", [["end", "finished", "completed", "now"]])
            writer.commit()
            heads = writer.heads()
        with SqlReader(place) as reader:
            queries = ["phase = 0 and episode in (1, 2)", r"mode like 'TR\_in' or mode like 'TR%'"]
            rows = [list(reader.rows("episodes", where=where, order=["-environment", "steps"])) for where in queries]
            tables = {name: list(reader.rows(name)) for name in SHOWN}
            found.append((heads, results_digest(reader, "demo-1"), rows, tables))

    assert found[0] == found[1]


# -- what goes wrong --------------------------------------------------------------------------------------------------
@pytest.fixture
def own() -> Iterator[Server]:
    """Give a server that a test may end."""
    with served() as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGKILL, signal.SIGINT])
def test_a_server_that_dies_and_comes_back_costs_nothing(own: Server, tell: Any, number: int) -> None:
    """While it is away the writer says so by name; behind its return all is written, exactly once."""
    with SqlWriter(own.uri, "demo-1", open_rows_bytes=0) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", [*tell.whole(0), tell.steps(1, 1, 2)])
        writer.commit()
        own.kill(number)
        writer.apply("c", [tell.steps(1, 3, 1), tell.seal(1, 3)])
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot"):
                writer.commit()
        own.start()
        writer.commit()
        writer.apply("c", tell.whole(2))
        writer.apply("g", [["end", "finished", "completed", "now"]])
        writer.commit()
        assert writer.heads()
    with SqlReader(own.uri) as reader:
        assert [(0, 3), (1, 3), (2, 3)] == [(row["episode"], row["steps"]) for row in reader.rows("episodes")]
        assert [] == list(reader.verify("demo-1"))


@pytest.mark.long
def test_a_server_that_stands_still_is_waited_for_by_name(own: Server, tell: Any) -> None:
    """Nobody hangs with it: the writer says within a bound that there is no answer, and goes on later."""
    with SqlWriter(own.uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.commit()
        pids = [int(pid) for pid in own.sql("SELECT pid FROM pg_stat_activity WHERE datname = 'test'").split()]
        assert own.process is not None
        there = [pid for pid in (own.process.pid, *pids) if Path(f"/proc/{pid}").exists()]
        for pid in there:
            os.kill(pid, signal.SIGSTOP)
        writer.apply("c", tell.whole(0))
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot"):
                writer.commit()
        for pid in there:
            os.kill(pid, signal.SIGCONT)
        writer.commit()
    with SqlReader(own.uri) as reader:
        assert 1 == reader.count("episodes")


@pytest.mark.long
@pytest.mark.parametrize("breaks", ["before", "after"])
def test_a_broken_commit_is_read_back(uri: str, tell: Any, breaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was carried out is looked up: nothing is lost, nothing comes twice."""
    from ganglion_store import postgres

    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.commit()
        carry_out = postgres._Cursor.execute

        def broken(cursor: Any, statement: str, parameters: Any = None) -> Any:
            if statement != "COMMIT":
                return carry_out(cursor, statement, parameters)
            monkeypatch.undo()
            if breaks == "after":
                carry_out(cursor, statement)
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(postgres._Cursor, "execute", broken)
        writer.apply("c", tell.whole(0))
        with pytest.raises(StoreUnavailable, match="closed the connection"):
            writer.commit()
        writer.commit()
        writer.apply("c", tell.whole(1))
    with SqlReader(uri) as reader:
        assert [0, 1] == [row["episode"] for row in reader.rows("episodes")]


@pytest.mark.long
def test_two_writers_of_one_run_are_found(uri: str, tell: Any) -> None:
    """A second writer makes the first one stop by name, also where that one has a transaction open."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.commit()
        held = writer._connection.cursor()
        writer._engine.begin(held, "demo-1")
        with SqlWriter(uri, "demo-1", resume=True) as second:
            second.apply("c", tell.whole(0))
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                second.commit()
            held.execute("ROLLBACK")
            second.commit()
            writer.apply("c", tell.whole(0, worker=1))
            with pytest.raises(StoreError, match="expected one writer, found that another one has written"):
                writer.commit()
            writer._pending.clear()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Server]:
    """Give a server on a small file system of its own."""
    with mounted(tmp_path / "small", "150m") as folder:
        for above in (tmp_path, *tmp_path.parents[:3]):
            above.chmod(above.stat().st_mode | 0o755)
        with served(folder=folder, max_wal_size="32MB", wal_recycle="off") as running:
            yield running


@pytest.mark.long
def test_a_full_disk_is_named_at_once_and_passes(small: Server, tell: Any) -> None:
    """Before a run, there is no room for the reserve; in mid-run it waits until there is room again."""
    with SqlWriter(small.uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.commit()
        filler = small.folder / "large"
        with filler.open("wb") as file:
            while shutil.disk_usage(small.folder).free > 1 << 20:
                file.write(bytes(1 << 19))
                file.flush()
        with pytest.raises(StoreError, match=r"bytes in reserve: .*No space left.*; free space on the server's disk"):
            SqlWriter(small.uri, "demo-2")
        done = tell.fill(writer)
        filler.unlink()
        if small.process is not None and small.process.poll() is not None:
            small.start()  # a server without room for its log gives up
        writer.commit()
    with SqlReader(small.uri) as reader:
        assert list(range(done + 1)) == [row["episode"] for row in reader.rows("episodes")]
        assert [] == [damage for damage in reader.verify("demo-1") if "nothing seals it" not in damage.text]


# -- revisions, queries, other engines' pieces -------------------------------------------------------------------------
@pytest.mark.long
def test_an_older_store_is_read_as_it_is_and_migrated_after_a_copy(uri: str, tell: Any) -> None:
    """What it lacks is added, its rows stay, and a copy is there; a newer one is refused."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", [*tell.whole(0), ["end", "finished", "completed", "now"]])
    with SqlReader(uri) as reader:
        heads = reader.heads("demo-1")
    change(uri, *(f"DROP VIEW {name}" for name in SHOWN))
    change(uri, "DROP TABLE stored_ratings", "DROP TABLE stored_resets", "ALTER TABLE stored_steps DROP COLUMN bodies")
    change(uri, f"UPDATE ganglion_store SET revision = {sql.REVISION - 1}")
    with SqlReader(uri) as reader:
        assert ([], 3, []) == (
            list(reader.rows("ratings")),
            len(list(reader.rows("steps"))),
            [*reader.verify("demo-1")],
        )
    with pytest.raises(StoreError, match="run: ganglion store migrate"):
        SqlWriter(uri, "demo-2")

    assert (sql.REVISION - 1, sql.REVISION) == SqlStore.migrate(uri)
    assert (sql.REVISION, sql.REVISION) == SqlStore.migrate(uri)
    with SqlReader(uri) as reader:
        assert (heads, []) == (reader.heads("demo-1"), list(reader.verify("demo-1")))
    schema = change(uri, "SELECT current_schema()")[0][0]
    assert [(3,)] == change(uri, f"SELECT count(*) FROM {schema}_revision_{sql.REVISION - 1}.stored_steps")
    with SqlWriter(uri, "demo-2") as writer:
        writer.apply("g", tell.begin())
    change(uri, "UPDATE ganglion_store SET revision = 99")
    with pytest.raises(StoreError, match="made by a newer ganglion-store"):
        SqlReader(uri)


@pytest.mark.long
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM stored_runs",
        "SELECT 1; DELETE FROM stored_runs",
        "COMMIT",
        "CREATE TEMP TABLE t AS SELECT 1",
        "WITH gone AS (DELETE FROM stored_runs RETURNING 1) SELECT * FROM gone",
        "SELECT nextval('stored_runs_number_seq')",
        "COPY stored_runs TO PROGRAM 'cat'",
    ],
)
def test_a_query_only_reads(uri: str, tell: Any, query: str) -> None:
    """A query changes nothing, also behind one that tries to lift the bar; one that reads has plain numbers."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", tell.whole(0))
    with SqlReader(uri) as reader:
        list(reader.query("SELECT set_config('default_transaction_read_only', 'off', false)")[1])
        with pytest.raises(UsageError, match="the query cannot be carried out"):
            list(reader.query(query)[1])
        columns, rows = reader.query("SELECT sum(steps) AS s, avg(steps) AS a, now() - now() AS t FROM episodes")
        assert (["s", "a", "t"], [(3, 3.0, "00:00:00")]) == (columns, list(rows))
        assert 1 == reader.count("runs")


@pytest.mark.long
def test_hypertables_are_made_where_the_extension_is(uri: str, tell: Any) -> None:
    """Told to a stand-in for TimescaleDB's function, which is not here: rows of steps and actions, by segment."""
    change(
        uri,
        "CREATE TABLE asked (t text, c text, i bigint)",
        "CREATE FUNCTION create_hypertable(r regclass, c text, chunk_time_interval bigint, migrate_data boolean) "
        "RETURNS void LANGUAGE sql AS 'INSERT INTO asked VALUES (r::text, c, chunk_time_interval)'",
    )
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("g", tell.begin())

    assert [("stored_steps", "segment", 100_000), ("stored_actions", "segment", 100_000)] == change(
        uri, "SELECT * FROM asked"
    )
