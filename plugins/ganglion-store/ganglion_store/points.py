"""The points of an experiment: what was planned, and how far each has come."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.sdk.store import PointBook, StoreError
from ganglion_store import statements as sql
from ganglion_store.database import connect_writing, told

_NAMES = ("point", "row", "repetition", "seed", "factors", "digest", "state", "run", "reason")


class SqlPointBook(PointBook):
    """Keep the points of one experiment in SQLite; see `PointBook`."""

    def __init__(self, uri: str, experiment: str) -> None:
        self._experiment = experiment
        self._path, self._connection = connect_writing(uri)
        self._closed = False

    def points(self) -> list[dict[str, Any]]:
        """Return the points that are known, by number."""
        with told(self._path, "read points"):
            rows = self._connection.execute(sql.SELECT_POINTS, (self._experiment,)).fetchall()
        points = [dict(zip(_NAMES, row, strict=True)) for row in rows]
        return [{**point, "factors": json.loads(point["factors"])} for point in points]

    def plan(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Take points as planned; those that are done stay as they are."""
        rows = [
            (
                self._experiment,
                p["point"],
                p["row"],
                p["repetition"],
                p["seed"],
                json.dumps(p["factors"], ensure_ascii=False),
                p["digest"],
                "planned",
                None,
                None,
            )
            for p in points
        ]
        with told(self._path, "write points"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(sql.UPSERT_POINT, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def change(self, point: int, state: str, run: str | None, reason: str | None = None) -> None:
        """Note the state of a point, in a transaction of its own."""
        row = (state, run, reason, self._experiment, point)
        with told(self._path, "write a point"):
            changed = self._connection.execute(sql.UPDATE_POINT, row).rowcount
        if changed != 1:
            raise StoreError(f"{self._path}: expected point {point} of {self._experiment}, found none")

    def close(self) -> None:
        """Let go of the store."""
        if not self._closed:
            self._closed = True
            self._connection.close()
