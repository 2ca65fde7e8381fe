from __future__ import annotations

from typing import Any

import pytest

from ganglion.sdk.store import StoreError, UsageError
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlPointBook


def point(number: int, **more: Any) -> dict[str, Any]:
    """Return a point of a design with one factor."""
    plain = {"point": number, "row": number, "repetition": 0, "seed": str(10**25), "digest": f"d{number}"}
    return {**plain, "factors": {"rate": 0.1 * number, "name": "größe"}, **more}


def test_states_change_one_by_one(uri: str) -> None:
    """A change is there for another reader at once, and concerns its point alone."""
    with SqlPointBook(uri, "grid") as book, SqlPointBook(uri, "grid") as other:
        book.plan([point(0), point(1)])
        book.change(1, "running", "grid-1-1")
        assert [("planned", None), ("running", "grid-1-1")] == [(p["state"], p["run"]) for p in other.points()]
        book.change(1, "failed", "grid-1-1", "it broke")
        assert "it broke" == other.points()[1]["reason"]


def test_a_point_that_is_not_known_is_refused(uri: str) -> None:
    """A state without a point is an error: nobody would ever see it."""
    with SqlPointBook(uri, "grid") as book, pytest.raises(StoreError, match="point 7 of grid, found none"):
        book.change(7, "done", "x")


def test_readers_see_points(uri: str) -> None:
    """The table `points` shows them with or without a run; a run that is not there cannot be asked for."""
    with SqlPointBook(uri, "grid") as book:
        book.plan([point(0), point(1)])
        book.change(1, "running", "grid-1-1")
    with SqlReader(uri) as reader:
        rows = list(reader.rows("points", where="state = 'running'"))
        assert [("grid-1-1", {"rate": 0.1, "name": "größe"})] == [(r["run"], r["factors"]) for r in rows]
        assert [10**25] == [r["seed"] for r in rows]
        assert 2 == reader.count("points")
        with pytest.raises(UsageError, match="there is no run"):
            reader.count("points", ["grid-1-1"])
