from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ganglion.sdk.store import StoreError
from ganglion_store import statements as sql
from ganglion_store.database import connect_reading
from ganglion_store.migration import migrate
from ganglion_store.models import revision_of
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter

NEW = ("stored_pieces", "stored_models", "stored_kept")  # since revision 1


def make_older(uri: str) -> Path:
    """Make a store of revision 1 of one of today."""
    path = Path(uri.removeprefix("sqlite:///"))
    connection = sqlite3.connect(path, isolation_level=None)
    for name in NEW:
        connection.execute(f"DROP TABLE {name}")
    connection.execute("UPDATE ganglion_store SET revision = 1")
    connection.close()
    return path


@pytest.fixture
def older(writer: SqlWriter, tell: Any, uri: str) -> Path:
    """Return the file of a store of revision 1 with a run that has ended."""
    writer.apply("c", [*tell.whole(0), ["end", "finished", "completed", "now"]])
    writer.close()
    return make_older(uri)


def test_an_older_store_is_read_and_verified_as_it_is(older: Path, uri: str) -> None:
    """Its rows are there, nothing is damaged, and it keeps no models; only writing asks for migration."""
    with SqlReader(uri) as reader:
        assert ["demo-1"] == [row["run"] for row in reader.rows("runs")]
        assert [] == list(reader.verify("demo-1"))
        assert reader.heads("demo-1") is not None
        assert reader.model("0" * 64) is None
    with pytest.raises(StoreError, match="found 1; run: ganglion store migrate"):
        SqlWriter(uri, "demo-2")


def test_a_store_is_migrated_after_a_copy(older: Path, uri: str, tell: Any) -> None:
    """It is as one that is made today, its run is whole, and it takes others; the copy is as it was."""
    before = older.read_bytes()

    assert (1, sql.REVISION) == migrate(uri)
    assert (sql.REVISION, sql.REVISION) == migrate(uri)
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify("demo-1"))
    with SqlWriter(uri, "demo-2") as writer:
        writer.apply("g", tell.begin())
    copy = older.with_name(f"{older.name}.revision-1")
    connection = connect_reading(copy)
    assert 1 == revision_of(connection)
    connection.close()
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
        connection = sqlite3.connect(older)
        with connection:
            connection.execute("UPDATE ganglion_store SET revision = ?", (revision,))
        connection.close()
        with pytest.raises(StoreError, match=text):
            migrate(uri)
    assert not copy.exists()


def test_a_store_that_somebody_has_changed_is_not_migrated(older: Path, uri: str) -> None:
    """A trigger would be set off by writers: the store stays of its revision, whole."""
    connection = sqlite3.connect(older)
    connection.execute("CREATE TRIGGER t AFTER INSERT ON stored_runs BEGIN SELECT 1; END")
    connection.close()
    with pytest.raises(StoreError, match="trigger"):
        migrate(uri)

    connection = connect_reading(older)
    assert 1 == revision_of(connection)
    connection.close()
