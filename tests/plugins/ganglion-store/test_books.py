from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from ganglion.sdk.store import StoreError
from ganglion_store import statements as sql
from ganglion_store.books import Books
from ganglion_store.records import STEPS
from ganglion_store.segment import Episode, Seal, Segment
from ganglion_store.values import Declarations


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


def test_an_earlier_episode_is_too_late(cursor: Any, tell: Any) -> None:
    """An episode that was left out cannot be sealed after a later one of the same worker."""
    books = Books(1)
    books.seal(cursor, _seal(tell, 5))

    with pytest.raises(StoreError, match="episode 4: expected episodes of a worker in their order"):
        books.seal(cursor, _seal(tell, 4))
