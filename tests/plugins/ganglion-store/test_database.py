from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.sdk.store import StoreError, UsageError
from ganglion_store.database import connect_reading, connect_writing, path_of
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter


def test_locations() -> None:
    """Three slashes name a path from the working folder, four an absolute one."""
    assert Path.cwd() / "results/a.db" == path_of("sqlite:///results/a.db")
    assert Path("/tmp/100%/a b.db") == path_of("sqlite:////tmp/100%/a b.db")


@pytest.mark.parametrize("uri", ["", "a.db", "sqlite://", "sqlite:///", "sqlite://host/a.db", "oracle:///a.db"])
def test_what_is_no_location(uri: str) -> None:
    """A URI that names no file of SQLite is refused."""
    with pytest.raises(StoreError, match="expected"):
        path_of(uri)


def test_settings_of_a_writer(uri: str) -> None:
    """A writer's connection logs ahead, syncs each commit, and checks foreign keys."""
    path, connection = connect_writing(uri)
    pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    connection.close()

    assert ["wal", 2, 1, 30_000] == found
    assert path.is_file()


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    """A missing folder, a folder in place of the file, and foreign files are named with path and cause."""
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "text.db").write_text("no database at all" * 100)
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE t (a)")
    foreign.close()
    before = (tmp_path / "foreign.db").read_bytes()
    cases = {"none/a.db": "there is no folder", "folder.db": "it is a folder", "text.db": "not a database"}
    for name, cause in {**cases, "foreign.db": "a file of another program"}.items():
        with pytest.raises(StoreError, match=f"{name}.*{cause}"):
            connect_writing(f"sqlite:///{tmp_path}/{name}")

    assert before == (tmp_path / "foreign.db").read_bytes()


@pytest.mark.parametrize(("revision", "advice"), [(999, "newer ganglion-store"), (0, "ganglion store migrate")])
def test_other_revisions_are_refused(uri: str, revision: int, advice: str) -> None:
    """A writer takes its own revision only; a newer store is refused by name, an older one asks for migration."""
    path, connection = connect_writing(uri)
    connection.execute("UPDATE ganglion_store SET revision = ?", (revision,))
    connection.close()

    with pytest.raises(StoreError, match=f"found {revision}.*{advice}"):
        connect_writing(uri)
    if revision == 0:
        connect_reading(path).close()


def test_many_writers_make_one_store(uri: str) -> None:
    """Processes that open a store that is not there, at the same moment, all find it made."""
    script = (
        "import sys; from ganglion_store.database import connect_writing; sys.stdin.read(1);"
        "connect_writing(sys.argv[1])[1].execute('SELECT count(*) FROM steps').fetchone()"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script, uri], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        os.write(child.stdin.fileno(), b"x")
    errors = [child.communicate()[1] for child in children]

    assert [b""] * 4 == errors


# -- databases from elsewhere -----------------------------------------------------------------------------------------
def planted(uri: str, *statements: str) -> None:
    """Change a store's file as somebody does who has it in his hands."""
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def stored(writer: SqlWriter, tell: Any, uri: str) -> str:
    """Return the URI of a store with one run that has ended."""
    writer.apply("c", [*tell.whole(0), *tell.whole(1), ["end", "finished", "completed", "now"]])
    writer.close()
    return uri


REWRITE = (
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_master SET sql = replace(sql, 'stored_runs.uid AS uid', '''forged'' AS uid') WHERE name = 'runs'",
)


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP VIEW runs", "CREATE VIEW runs AS SELECT 'demo-1' AS run, 'forged' AS uid"),
        ("DROP VIEW runs", "CREATE TABLE runs (run, uid)"),
        REWRITE,
        ("ALTER TABLE stored_signals ADD COLUMN more",),
        ("DROP INDEX ix_stored_segments_episode",),
        ("ALTER TABLE stored_steps RENAME TO gone", "CREATE VIEW stored_steps AS SELECT * FROM gone"),
    ],
)
def test_what_is_ours_is_as_we_make_it(stored: str, statements: tuple[str, ...]) -> None:
    """A table or view of ours that is another one is refused by name, by readers and writers."""
    planted(stored, *statements)
    for opened in (lambda: SqlReader(stored), lambda: SqlWriter(stored, "other-1")):
        with pytest.raises(
            StoreError, match=r"expected (runs|stored_signals|ix_stored|stored_steps|.*malformed)|malformed"
        ):
            opened()


def test_what_is_not_ours_does_nothing(stored: str, tell: Any) -> None:
    """Tables and views of somebody else are never looked at, whatever they are called."""
    planted(stored, "CREATE TABLE extra (a)", "CREATE VIEW seen AS SELECT * FROM stored_runs")
    with SqlReader(stored) as reader:
        assert ([], ["demo-1"]) == (list(reader.verify("demo-1")), [row["run"] for row in reader.rows("runs")])
        assert "extra" not in reader.tables()
    with SqlWriter(stored, "other-1") as writer:
        writer.apply("g", tell.begin())


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON stored_{} BEGIN UPDATE stored_runs SET seed = 'forged'; END"


@pytest.mark.parametrize(
    "statement",
    [
        TRIGGER.format("episodes"),
        TRIGGER.format("runs"),
        "CREATE TRIGGER t INSTEAD OF INSERT ON runs BEGIN DELETE FROM stored_runs; END",
        "CREATE UNIQUE INDEX i ON stored_runs (uid)",
    ],
)
def test_a_planted_trigger_does_nothing(stored: str, statement: str) -> None:
    """Readers set off nothing; writers, whose statements would, refuse the file by the trigger's name."""
    planted(stored, statement)
    with SqlReader(stored) as reader:
        assert [] == list(reader.verify("demo-1"))
    with pytest.raises(StoreError, match=r"found the (trigger|index) '[ti]' on"):
        SqlWriter(stored, "other-1")


def test_a_trigger_planted_in_mid_run_does_nothing(writer: SqlWriter, tell: Any, uri: str) -> None:
    """What is planted beside a writer is found before its next transaction."""
    writer.apply("c", tell.whole(0))
    writer.commit()
    planted(uri, TRIGGER.format("episodes"))
    writer.apply("c", tell.whole(1))
    with pytest.raises(StoreError, match="found the trigger 't' on stored_episodes"):
        writer.commit()
    planted(uri, "DROP TRIGGER t")
    writer.commit()
    with SqlReader(uri) as reader:
        assert (2, "42") == (reader.count("episodes"), str(next(reader.rows("runs"))["seed"]))


MARKED = [
    {"py/object": "os.system", "py/reduce": [{"py/type": "os.system"}, {"py/tuple": ["touch /tmp/x"]}]},
    {"__reduce__": "x", "!!python/object/apply:os.system": ["id"]},
    "cos\nsystem\n(S'id'\ntR.",
]


def test_markers_of_object_serialisers_are_data(writer: SqlWriter, tell: Any, uri: str) -> None:
    """Whatever a row holds is a plain value to its reader."""
    row = [
        [n, n, n, None, msgpack.packb([1.0, 2.0]), msgpack.packb([1.0, 2.0]), msgpack.packb([0.5])] for n in (1, 2, 3)
    ]
    rows = [[*r, False, False, msgpack.packb(marked)] for r, marked in zip(row, MARKED, strict=True)]
    writer.apply("c", [["steps", 0, "train", 0, "grid", 0, rows], tell.seal(0, 3)])
    writer.apply("g", [["signal", 0, 0, 0, 1, "RESET", "operator", "", MARKED[0], 0, 0]])
    writer.commit()
    with SqlReader(uri) as reader:
        assert MARKED == [found["world_state"] for found in reader.rows("steps")]
        assert [MARKED[0]] == [found["data"] for found in reader.rows("signals")]


@pytest.mark.parametrize("code", [1, -1, 127])
def test_extension_types_are_refused(writer: SqlWriter, tell: Any, uri: str, code: int) -> None:
    """An extension type of msgpack stands for an object, and is none of ours."""
    packed = msgpack.packb({"a": [msgpack.ExtType(code, bytes(8)) if code > 0 else msgpack.Timestamp(1, 1)]})
    row = [
        1,
        1,
        1,
        None,
        msgpack.packb([1.0, 2.0]),
        msgpack.packb([1.0, 2.0]),
        msgpack.packb([0.5]),
        False,
        False,
        packed,
    ]
    writer.apply("c", [["steps", 0, "train", 0, "grid", 0, [row]], tell.seal(0, 1)])
    writer.commit()
    with SqlReader(uri) as reader, pytest.raises(StoreError, match="extension type"):
        list(reader.rows("steps"))


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE stored_runs SET seed = '{'", "runs"),
        (f"UPDATE stored_runs SET seed = '{'[' * 50_000}'", "runs"),
        ("UPDATE stored_declarations SET shape = 'x'", "steps"),
        ("UPDATE stored_declarations SET dtype = 'O', shape = '[1]'", "declarations"),
        ("UPDATE stored_steps SET sensors = x'c1'", "steps"),
        ("UPDATE stored_runs SET document = zeroblob(200000000)", "verify"),
    ],
)
def test_rows_that_make_no_sense_are_named(stored: str, statement: str, table: str) -> None:
    """Whatever somebody wrote into a column: reading it ends by name, and takes no more memory than it may."""
    planted(stored, statement)
    with SqlReader(stored) as reader:
        if table == "verify":
            assert ["store"] == [damage.kind for damage in reader.verify("demo-1")]
        elif table == "declarations":
            assert all(row["dtype"] == "O" for row in reader.rows("declarations"))
        else:
            with pytest.raises(StoreError, match=r"ganglion\.db"):
                list(reader.rows(table))


QUERIES = [
    "ATTACH DATABASE '{}' AS evil",
    "VACUUM INTO '{}'",
    "CREATE TEMP TABLE t AS SELECT 1",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA temp_store_directory = '/tmp'",
    "SELECT load_extension('{}')",
    "INSERT INTO stored_runs (run) VALUES ('x')",
    "UPDATE stored_runs SET seed = '1'",
    "DELETE FROM stored_runs",
    "DROP TABLE stored_runs",
    "REINDEX",
    "ANALYZE",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_only_reads(stored: str, tmp_path: Path, query: str) -> None:
    """A query changes nothing, makes no file, opens no other one, and loads nothing."""
    evil = tmp_path / "evil"
    before = Path(stored.removeprefix("sqlite:///")).read_bytes()
    with SqlReader(stored) as reader, pytest.raises(UsageError):
        list(reader.query(query.format(evil))[1])

    assert (False, before) == (evil.exists(), Path(stored.removeprefix("sqlite:///")).read_bytes())


@pytest.mark.parametrize(
    "where",
    [
        "1; DELETE FROM stored_runs",
        "run = 'a'' OR 1=1 --'",
        "run in (select run from stored_runs)",
        "load_extension('x')",
    ],
)
def test_a_condition_only_compares(stored: str, where: str) -> None:
    """A condition is no SQL: what is more than a comparison is refused, or compared as the text that it is."""
    with SqlReader(stored) as reader:
        try:
            found = list(reader.rows("runs", where=where))
        except UsageError:
            found = []
        assert ([], 1) == (found, reader.count("runs"))


def test_a_half_written_log_loses_whole_transactions(uri: str, tell: Any, tmp_path: Path) -> None:
    """Wherever the write-ahead log is cut off: what is left is whole episodes, and nothing is damaged."""
    connect_writing(uri)[1].close()  # the tables themselves are in the file
    writer = SqlWriter(uri, "demo-1")
    writer._connection.execute("PRAGMA wal_autocheckpoint = 0")
    writer.apply("g", tell.begin())
    writer.commit()
    for episode in range(4):
        writer.apply("c", tell.whole(episode))
        writer.commit()
    path = Path(uri.removeprefix("sqlite:///"))
    log = path.with_name(path.name + "-wal").read_bytes()
    seen = set()
    for size in range(len(log), len(log) // 3, -1777):
        copy = tmp_path / f"copy-{size}.db"
        shutil.copy(path, copy)
        copy.with_name(copy.name + "-wal").write_bytes(log[:size])
        with SqlReader(f"sqlite:///{copy}") as reader:
            if not list(reader.rows("runs")):
                continue
            assert [] == list(reader.verify("demo-1"))
            seen.add(reader.count("episodes"))
    writer.close()

    assert {1, 2, 3, 4} <= seen
