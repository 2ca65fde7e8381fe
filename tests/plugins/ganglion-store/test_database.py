from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ganglion.sdk.store import StoreError
from ganglion_store.database import connect_reading, connect_writing, path_of


def test_locations() -> None:
    """Three slashes name a path from the working folder, four an absolute one."""
    assert Path.cwd() / "results/a.db" == path_of("sqlite:///results/a.db")
    assert Path("/tmp/100%/a b.db") == path_of("sqlite:////tmp/100%/a b.db")


@pytest.mark.parametrize(
    "uri", ["", "a.db", "sqlite://", "sqlite:///", "sqlite://host/a.db", "oracle:///a.db"]
)
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


@pytest.mark.parametrize(
    ("revision", "advice"), [(999, "newer ganglion-store"), (0, "ganglion store migrate")]
)
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
