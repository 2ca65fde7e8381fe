from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from ganglion.sdk.store import StoreError
from ganglion_store import statements as sql
from ganglion_store.books import Books
from ganglion_store.declarations import Declarations
from ganglion_store.records import STEPS
from ganglion_store.segment import Episode, Seal, Segment


@pytest.fixture
def cursor() -> Any:
    """Return a cursor on an empty store in memory with one run, number 1."""
    connection = sqlite3.connect(":memory:")
    for statement in sql.CREATE:
        connection.execute(statement)
    connection.execute(sql.INSERT_RUN, ("r-1", "r", "r", "1", "running", None, "now", None, None))
    yield connection.cursor()
    connection.close()


def _seal(tell: Any, episode: int, steps: int = 2) -> Seal:
    segment = Segment(STEPS, "grid", Episode(0, "train", 0, episode), "c")
    segment.take(tell.steps(episode, 1, steps)[-1])
    segment.absorb(Declarations())
    return Seal(segment.episode, "", steps, True, False, "environment", episode, 0, [segment])


def test_a_transaction_changes_only_its_copy(cursor: Any, tell: Any) -> None:
    """Books of which a copy was used know nothing of it, and segments get their number when it is settled."""
    books, seal = Books(1), _seal(tell, 0)
    copy = books.copy()
    copy.seal(cursor, seal)
    copy.insert_rows(cursor)

    assert ({}, {}, {}, None) == (books.members, books.heads, books.newest, seal.segments[0].number)
    copy.settle()
    assert 1 == seal.segments[0].number
    assert [] == seal.segments[0].rows


def test_books_can_be_read_back(cursor: Any, tell: Any) -> None:
    """What the database says of a run equals what was noted while it was written."""
    books = Books(1)
    books.place(cursor, (0, "agent", "ada"), "grid", 1)
    for episode in range(3):
        books.seal(cursor, _seal(tell, episode))
    read = Books.read(cursor.connection, 1)

    assert (books.members, books.heads, books.newest) == (read.members, read.heads, read.newest)
    assert ("grid", 1) == read.places[books.members[0, "agent", "ada"]]


def test_an_earlier_episode_is_too_late(cursor: Any, tell: Any) -> None:
    """An episode that was left out cannot be sealed after a later one of the same worker."""
    books = Books(1)
    books.seal(cursor, _seal(tell, 5))

    with pytest.raises(StoreError, match="episode 4: expected episodes of a worker in their order"):
        books.seal(cursor, _seal(tell, 4))
