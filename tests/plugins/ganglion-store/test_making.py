from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ganglion.sdk.store import StoreError
from ganglion_store.database import connect_reading, connect_writing
from ganglion_store.making import make

DYING = """
import os, signal, sys
from pathlib import Path
from ganglion_store.making import make
left = int(sys.argv[2])
def look(event, arguments):
    global left
    if event in ("sqlite3.connect", "sqlite3.connect/handle", "open", "os.link", "os.remove"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(look)
make(Path(sys.argv[1]))
"""


def test_a_store_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """Its maker is killed before each thing that it does: a successor makes it, and what was left goes."""
    codes, seen = [], set()
    for moment in range(1, 30):
        path = tmp_path / f"{moment}" / "ganglion.db"
        path.parent.mkdir()
        words = [sys.executable, "-c", DYING, str(path), str(moment)]
        codes.append(subprocess.run(words, check=False, timeout=60).returncode)
        seen.add(path.exists())
        left = {found.name for found in path.parent.iterdir()} - {path.name}
        assert all(name.startswith(".ganglion.db.") for name in left)
        if path.exists():
            connect_reading(path).close()
        connect_writing(f"sqlite:///{path}")[1].close()
        connect_reading(path).close()
        if codes[-1] == 0:
            break

    assert codes[-1] == 0
    assert len(codes) > 5
    assert {-9} == set(codes[:-1])
    assert {True, False} == seen


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


def test_what_is_there_stays(tmp_path: Path) -> None:
    """Whatever it is: whoever opens it says what is wrong with it."""
    (tmp_path / "file").write_text("no store")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name in ("file", "link"):
        make(tmp_path / name)

    assert "no store" == (tmp_path / "file").read_text()
    assert ["file", "link"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_store_is_made_in_one_piece(tmp_path: Path) -> None:
    """It logs ahead, holds no file beside it, and cannot be told from one that was made in its place."""
    make(tmp_path / "a.db")
    assert ["a.db"] == [path.name for path in tmp_path.iterdir()]
    connection = sqlite3.connect(tmp_path / "a.db")
    assert ("wal",) == connection.execute("PRAGMA journal_mode").fetchone()
    connection.close()


def test_an_empty_database_is_called_so(tmp_path: Path) -> None:
    """Who reads where somebody has only begun is told that there is nothing yet."""
    (tmp_path / "a.db").touch()
    with pytest.raises(StoreError, match="found an empty database"):
        connect_reading(tmp_path / "a.db")
