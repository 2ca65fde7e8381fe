from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ganglion.sdk.store import StoreError
from ganglion_store import statements as sql
from ganglion_store.database import connect_reading, migrate
from ganglion_store.reader import SqlReader
from ganglion_store.segment import FORMER, SEALED, row_digest, run_head
from ganglion_store.writer import SqlWriter

MODELS = """
CREATE TABLE stored_models (number INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, bytes BIGINT NOT NULL);
CREATE TABLE stored_pieces (
    number INTEGER PRIMARY KEY, model INTEGER NOT NULL, position INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE stored_kept (run INTEGER, sha256 TEXT, PRIMARY KEY (run, sha256)) WITHOUT ROWID;
"""
DATA = b"a model" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


def make_older(uri: str, revision: int = 1) -> Path:
    """Make a store of an older revision of one of today."""
    path = Path(uri.removeprefix("sqlite:///"))
    connection = sqlite3.connect(path, isolation_level=None)
    if revision == 2:
        connection.executescript(MODELS)
    connection.execute("UPDATE ganglion_store SET revision = ?", (revision,))
    connection.close()
    return path


def keep_a_model(path: Path) -> None:
    """Let the run of a store of revision 2 keep a model, sealed as that revision did."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO stored_models VALUES (1, ?, ?)", (DIGEST, len(DATA)))
    for position, data in enumerate((DATA[:5000], DATA[5000:])):
        connection.execute("INSERT INTO stored_pieces VALUES (NULL, 1, ?, ?)", (position, data))
    connection.execute("INSERT INTO stored_kept VALUES (1, ?)", (DIGEST,))
    connection.execute(sql.INSERT_SEAL, (1, FORMER, 0, row_digest([DIGEST])))
    tables = [(name, [row[1] for row in connection.execute(sql.SELECT_SEALS, (1, name))]) for name in SEALED]
    head = run_head([*tables, (FORMER, [row_digest([DIGEST])])])
    connection.execute(sql.UPDATE_RUN_HEAD, (head, 1))
    connection.close()


def revision_of(connection: sqlite3.Connection) -> int:
    """Return the revision of a store."""
    found: int = connection.execute(sql.SELECT_REVISION).fetchone()[0]
    return found


@pytest.fixture
def older(writer: SqlWriter, tell: Any, uri: str) -> Path:
    """Return the file of a store of revision 1 with a run that has ended."""
    writer.apply("c", [*tell.whole(0), ["end", "finished", "completed", "now"]])
    writer.close()
    return make_older(uri)


def test_an_older_store_is_read_and_verified_as_it_is(older: Path, uri: str) -> None:
    """Its rows are there, nothing is damaged; only writing asks for migration."""
    with SqlReader(uri) as reader:
        assert ["demo-1"] == [row["run"] for row in reader.rows("runs")]
        assert [] == list(reader.verify("demo-1"))
        assert reader.heads("demo-1") is not None
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


def test_models_of_a_database_become_files(writer: SqlWriter, tell: Any, uri: str) -> None:
    """Migration writes them beside the store under their digests; the run that kept them stays whole."""
    writer.apply("c", [*tell.whole(0), ["end", "finished", "completed", "now"]])
    writer.close()
    older = make_older(uri, 2)
    keep_a_model(older)
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify("demo-1"))

    assert (2, sql.REVISION) == migrate(uri)
    assert DATA == (older.parent / "models" / f"{DIGEST}.npz").read_bytes()
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify("demo-1"))


def test_a_damaged_model_leaves_the_store_as_it_was(writer: SqlWriter, tell: Any, uri: str) -> None:
    """Bytes that are not those of their digest end the migration by name; nothing is dropped."""
    writer.apply("c", [*tell.whole(0), ["end", "finished", "completed", "now"]])
    writer.close()
    older = make_older(uri, 2)
    keep_a_model(older)
    connection = sqlite3.connect(older, isolation_level=None)
    connection.execute("UPDATE stored_pieces SET data = x'00' WHERE position = 1")
    connection.close()
    with pytest.raises(StoreError, match="it is damaged"):
        migrate(uri)

    connection = connect_reading(older)
    assert 2 == revision_of(connection)
    connection.close()
    assert [] == list((older.parent / "models").iterdir())
