from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.sdk.store import StoreError
from ganglion_store import statements as sql
from ganglion_store.database import connect_reading, migrate
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return the URI of a file that is not there yet: what is told here is of SQLite alone."""
    return f"sqlite:///{tmp_path}/ganglion.db"


def change(path: Path, *statements: str) -> None:
    """Change a store by hand."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


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
    change(older, "CREATE VIEW mine AS SELECT step FROM stored_steps")
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


def test_a_store_of_the_revision_before_is_migrated(uri: str, writer: SqlWriter, tell: Any, age: Any) -> None:
    """One that has bodies, but no first readings and no policies, keeps its rows; then first readings are taken."""
    writer.apply("c", [*tell.whole(0), ["bodies", 0, [["ada", "grid", 0, None, None, None, True, False]]]])
    writer.close()
    age(Path(uri.removeprefix("sqlite:///")), 4)
    with SqlReader(uri) as reader:
        assert ([], 3, 1) == tuple(f(reader.rows(n)) for f, n in zip((list, _count, _count), TABLES, strict=True))
    assert (4, sql.REVISION) == migrate(uri)
    with SqlWriter(uri, "demo-1", resume=True) as again:
        entry = [1, 0, 3, 0, None, None, bytes(16)]
        again.apply("c", [["resets", 0, "train", 0, "grid", [entry]], *tell.whole(1)])
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify("demo-1"))
        assert (1, 6, 1) == tuple(_count(reader.rows(name)) for name in TABLES)


TABLES = ("resets", "actions", "bodies")


def _count(rows: Any) -> int:
    return len(list(rows))


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
        change(older, f"UPDATE ganglion_store SET revision = {revision}")
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
    change(older, *statements)
    before = revision_of(older)
    with pytest.raises(StoreError, match=text):
        migrate(uri)

    assert before == revision_of(older)
