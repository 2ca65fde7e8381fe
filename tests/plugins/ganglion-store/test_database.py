"""The file of a store and its statements: what is no store, what is planted in one, and older ones."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack
import pytest
from databases import change
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from ganglion.sdk.store import StoreError, UsageError
from ganglion_store import database, statements, texts
from ganglion_store import statements as sql
from ganglion_store.database import Reserve, connect_reading, connect_writing, make, migrate, path_of
from ganglion_store.reader import SqlReader
from ganglion_store.schema import SHOWN, metadata
from ganglion_store.segment import SEALED
from ganglion_store.store import SqlStore
from ganglion_store.writer import SqlWriter


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return the URI of a file that is not there yet: what is told here is of SQLite alone."""
    return f"sqlite:///{tmp_path}/ganglion.db"


@pytest.mark.parametrize("text", ["", "a.db", "sqlite://", "sqlite:///", "sqlite://host/a.db", "oracle:///a.db"])
def test_what_is_no_location(text: str) -> None:
    """A URI that names no file of SQLite is refused."""
    with pytest.raises(StoreError, match="expected"):
        path_of(text)


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
    for name in ("none/a.db", "folder.db"):  # before a run begins, without a look into the file
        with pytest.raises(StoreError, match=f"{name}.*{cases[name]}"):
            SqlStore.check(f"sqlite:///{tmp_path}/{name}")
    SqlStore.check(f"sqlite:///{tmp_path}/new.db")

    assert not (tmp_path / "new.db").exists()
    assert before == (tmp_path / "foreign.db").read_bytes()


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
@pytest.fixture
def stored(writer: SqlWriter, tell: Any, uri: str) -> str:
    """Return the URI of a store with one run that has ended."""
    writer.apply("c", [*tell.whole(0), *tell.whole(1), ["end", "finished", "completed", "now"]])
    writer.close()
    return uri


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON stored_{} BEGIN UPDATE stored_runs SET seed = 'forged'; END"


def test_a_trigger_planted_in_mid_run_does_nothing(writer: SqlWriter, tell: Any, uri: str) -> None:
    """What is planted beside a writer is found before its next transaction."""
    writer.apply("c", tell.whole(0))
    writer.commit()
    change(uri, TRIGGER.format("episodes"))
    writer.apply("c", tell.whole(1))
    with pytest.raises(StoreError, match="found the trigger 't' on stored_episodes"):
        writer.commit()
    change(uri, "DROP TRIGGER t")
    writer.commit()
    with SqlReader(uri) as reader:
        assert (2, "42") == (reader.count("episodes"), str(next(reader.rows("runs"))["seed"]))


@pytest.mark.parametrize("code", [1, -1, 127])
def test_extension_types_are_refused(writer: SqlWriter, tell: Any, uri: str, code: int) -> None:
    """An extension type of msgpack stands for an object, and is none of ours."""
    packed = msgpack.packb({"a": [msgpack.ExtType(code, bytes(8)) if code > 0 else msgpack.Timestamp(1, 1)]})
    values = [msgpack.packb(row) for row in ([1.0, 2.0], [1.0, 2.0], [0.5])]
    row = [1, 1, 1, None, *values, False, False, packed]
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
        pytest.param("UPDATE stored_runs SET document = zeroblob(200000000)", "verify", marks=pytest.mark.long),
    ],
)
def test_rows_that_make_no_sense_are_named(stored: str, statement: str, table: str) -> None:
    """Whatever somebody wrote into a column: reading it ends by name, and takes no more memory than it may."""
    change(stored, statement)
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


def revision_of(path: Path) -> int:
    """Return the revision of a store."""
    connection = connect_reading(path)
    found: int = connection.execute(sql.SELECT_REVISION).fetchone()[0]
    connection.close()
    return found


@pytest.fixture
def older(writer: SqlWriter, tell: Any, uri: str, age: Callable[[Path, int], None]) -> Path:
    """Return the file of a store of revision 1 with a run that has ended."""
    writer.apply("c", [*tell.whole(0), ["end", "finished", "completed", "now"]])
    writer.close()
    path = Path(uri.removeprefix("sqlite:///"))
    age(path, 1)
    return path


def test_an_older_store_is_read_and_verified_as_it_is(older: Path, uri: str) -> None:
    """Its rows are there, nothing is damaged; only writing asks for migration."""
    with SqlReader(uri) as reader:
        assert ["demo-1"] == [row["run"] for row in reader.rows("runs")]
        assert [0.0, 1.0, 2.0] == [row["sensors"]["grid.a"] - 1 for row in reader.rows("steps")]
        assert [] == list(reader.rows("bodies"))
        assert [] == list(reader.verify("demo-1"))
        assert reader.heads("demo-1") is not None
    with pytest.raises(StoreError, match="found 1; run: ganglion store migrate"):
        SqlWriter(uri, "demo-2")


def test_a_store_is_migrated_after_a_copy(older: Path, uri: str, tell: Any) -> None:
    """It is as one that is made today, its run is whole, and it takes others; the copy is as it was."""
    change(uri, "CREATE VIEW mine AS SELECT step FROM stored_steps")
    before = older.read_bytes()
    with SqlReader(uri) as reader:
        rows, heads = list(reader.rows("steps")), reader.heads("demo-1")

    assert (1, sql.REVISION) == migrate(uri)
    assert (sql.REVISION, sql.REVISION) == migrate(uri)
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify("demo-1"))
        assert rows == list(reader.rows("steps"))
        assert heads == reader.heads("demo-1")
        assert [(1,), (2,), (3,)] == list(reader.query("SELECT step FROM mine")[1])
    with SqlWriter(uri, "demo-2") as writer:
        writer.apply("g", tell.begin())
    copy = older.with_name(f"{older.name}.revision-1")
    assert 1 == revision_of(copy)
    assert len(before) == copy.stat().st_size


def test_what_is_no_older_store_stays(older: Path, uri: str, tmp_path: Path) -> None:
    """Nothing, a newer one, one of no revision of ours, and one whose copy is there already are refused by name."""
    with pytest.raises(StoreError, match="found nothing"):
        migrate(f"sqlite:///{tmp_path}/none.db")
    copy = older.with_name(f"{older.name}.revision-1")
    copy.write_text("mine")
    with pytest.raises(StoreError, match="would be overwritten"):
        migrate(uri)
    assert "mine" == copy.read_text()
    copy.unlink()
    for revision, text in ((0, "from 1 on, found 0"), (99, "made by a newer")):
        change(uri, f"UPDATE ganglion_store SET revision = {revision}")
        with pytest.raises(StoreError, match=text):
            migrate(uri)
    assert not copy.exists()


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (["CREATE TRIGGER t AFTER INSERT ON stored_runs BEGIN SELECT 1; END"], "trigger"),
        (
            [
                "UPDATE ganglion_store SET revision = 2",
                "CREATE TABLE stored_models (number INTEGER)",
                "INSERT INTO stored_models VALUES (1)",
            ],
            "models",
        ),
    ],
)
def test_a_store_that_cannot_be_migrated_stays(older: Path, uri: str, statements: list[str], text: str) -> None:
    """A trigger would be set off by writers, and models have no place: the store stays of its revision, whole."""
    change(uri, *statements)
    before = revision_of(older)
    with pytest.raises(StoreError, match=text):
        migrate(uri)

    assert before == revision_of(older)


def test_what_the_killed_have_left_goes_when_a_store_is_made(tmp_path: Path) -> None:
    """Files of makers that live, and of other stores, stay."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f".a.db.{ended.pid}-00.new", f".a.db.{ended.pid}-00.new-journal"]
    others = [f".a.db.{os.getppid()}-00.new", f".b.db.{ended.pid}-00.new", "a.db.x"]
    for name in [*names, *others]:
        (tmp_path / name).touch()
    make(tmp_path / "a.db")

    assert sorted([*others, "a.db"]) == sorted(path.name for path in tmp_path.iterdir())


MIB = 1024 * 1024


@pytest.mark.parametrize("promises", [True, False])
def test_the_space_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, promises: bool) -> None:
    """The file has its whole size on the disk, also on a file system that cannot promise space."""
    sizes: list[int] = []
    if not promises:

        def refuse(*_: int) -> None:
            raise OSError(errno.EOPNOTSUPP, "not supported")

        monkeypatch.setattr(os, "posix_fallocate", refuse)
    fill = database._fill

    def measured(descriptor: int, size_bytes: int) -> None:
        fill(descriptor, size_bytes)
        sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(database, "_fill", measured)
    Reserve(tmp_path, 2 * MIB).release()

    assert [2 * MIB] == sizes


DOCUMENTED = {
    "runs": "run uid experiment seed status reason started ended",
    "phases": "run phase name mode status reason",
    "episodes": "run phase mode worker environment episode steps terminated truncated reason",
    "steps": "run phase mode worker environment episode step tick simtime_ticks simtime_timestamp sensors setpoints "
    "rewards terminated truncated world_state",
    "resets": "run phase mode worker environment episode step tick simtime_ticks simtime_timestamp sensors",
    "actions": "run phase mode worker agent environment body episode step tick sensors setpoints proposed rewards "
    "objective terminated truncated statistics policy policy_version late_reward",
    "signals": "run phase worker episode step signal issuer reason data",
    "brains": "run phase agent tag episode updates created bytes sha256 path",
    "evaluations": "run phase agent number episode metrics brain completed",
    "declarations": "run phase environment agent kind position id space unit dtype shape",
    "incidents": "run time name incarnation kind position detail",
    "bodies": "run phase agent environment body role team group learn policy dynamic",
    "opponents": "run phase worker tick agent environment body version",
    "ratings": "run phase worker tick agent environment body rating",
    "topics": "run phase mode worker tick peer topic key value",
    "returns": "run phase mode worker agent environment body episode steps return objective",
    "points": "run experiment point row repetition seed state reason factors digest",
}


def test_tables_show_what_is_documented() -> None:
    """Users see these tables and columns, in this order."""
    assert DOCUMENTED == {name: " ".join(shown.columns) for name, shown in SHOWN.items()}


def test_no_key_holds_null() -> None:
    """No column of a unique key may be NULL: databases take two of them for different."""
    columns = [
        column
        for table in metadata.sorted_tables
        for constraint in table.constraints
        if constraint.__class__.__name__ in ("UniqueConstraint", "PrimaryKeyConstraint")
        for column in constraint.columns
    ]

    assert len(columns) > 30
    assert [] == [str(column) for column in columns if column.nullable]


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=str)
def test_the_schema_is_portable(table: Any) -> None:
    """Each table can be made by PostgreSQL too."""
    assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=postgresql.dialect()))


INSERTS = sorted(name for name in vars(statements) if name.startswith("INSERT_"))


@pytest.fixture
def made() -> Iterator[sqlite3.Connection]:
    """Give an empty database with all tables and views."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements.CREATE:
            connection.execute(statement)
        yield connection


@pytest.mark.parametrize("name", INSERTS)
def test_sqlite_understands_each_statement(made: sqlite3.Connection, name: str) -> None:
    """What the writer executes fits the tables that it makes; it is compiled, not carried out."""
    text = getattr(statements, name)
    places = text.count("?")

    made.execute(f"EXPLAIN {text}", (None,) * places)


def test_what_runs_are_told_is_what_sqlalchemy_writes() -> None:
    """The printed statements are those of the schema: `scripts/fix` renews them."""
    assert Path(texts.__file__).with_name("texts.json").read_text() == statements.printed()


def test_all_tables_of_a_run_are_sealed_or_belong_to_episodes() -> None:
    """A new table is either sealed at the end, or part of an episode, or known to be of no run's results."""
    tables = {word.removeprefix("CREATE TABLE stored_").split()[0] for word in sql.CREATE if "TABLE s" in word}
    of_episodes = {"episodes", "segments", "steps", "resets", "actions", "returns"}

    assert tables == set(SEALED) | {"bodies", "opponents", "ratings", "topics"} | of_episodes | {
        "ledger",
        "seals",
        "points",
    }
