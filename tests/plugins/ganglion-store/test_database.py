from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.sdk.store import StoreError, UsageError
from ganglion_store.database import connect_writing, path_of
from ganglion_store.reader import SqlReader
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


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON stored_{} BEGIN UPDATE stored_runs SET seed = 'forged'; END"


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
