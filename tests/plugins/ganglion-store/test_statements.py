from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ganglion_store import statements, texts

INSERTS = sorted(name for name in vars(statements) if name.startswith("INSERT_"))


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """Give an empty database with all tables and views."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements.CREATE:
            connection.execute(statement)
        yield connection


@pytest.mark.parametrize("name", INSERTS)
def test_sqlite_understands_each_statement(database: sqlite3.Connection, name: str) -> None:
    """What the writer executes fits the tables that it makes; it is compiled, not carried out."""
    text = getattr(statements, name)
    places = text.count("?")

    database.execute(f"EXPLAIN {text}", (None,) * places)


def test_what_runs_are_told_is_what_sqlalchemy_writes() -> None:
    """The printed statements are those of the schema: `scripts/fix` renews them."""
    assert Path(texts.__file__).with_name("texts.json").read_text() == statements.printed()


def test_a_run_imports_no_sqlalchemy() -> None:
    """The writer of a store in SQLite is told printed statements."""
    script = "import sys, ganglion_store.writer, ganglion_store.database; sys.exit('sqlalchemy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
