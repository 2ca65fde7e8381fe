"""The SQL store: opens writers and readers by URI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import ClassVar

from ganglion.sdk.store import PointBook, Store, StoreError, StoreReader, StoreWriter


class SqlStore(Store):
    """Keep results in a SQL database; SQLite is built in.

    Writer and reader are imported when they are asked for, so that SQLAlchemy is imported in the process of the store
    and by commands that read results, and nowhere else.
    """

    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)

    @classmethod
    def writer(cls, uri: str, run: str, resume: bool = False) -> StoreWriter:
        """Open a store for the results of a run; see `Store.writer`."""
        from ganglion_store.writer import SqlWriter

        return SqlWriter(uri, run, resume)

    @classmethod
    def reader(cls, uri: str) -> StoreReader:
        """Open a store for reading; see `Store.reader`."""
        from ganglion_store.reader import SqlReader

        return SqlReader(uri)

    @classmethod
    def remove(cls, uri: str, runs: Iterable[str]) -> Mapping[str, int]:
        """Remove runs; see `Store.remove`."""
        from ganglion_store import statements as sql
        from ganglion_store.database import connect_writing, path_of, told

        if not path_of(uri).exists():
            raise StoreError(f"{path_of(uri)}: expected a result store, found nothing")
        path, connection = connect_writing(uri)
        removed: dict[str, int] = {}
        with told(path, "remove runs"), closing(connection), connection:
            connection.execute("BEGIN IMMEDIATE")
            for run in runs:
                found = connection.execute(sql.SELECT_RUN, (run,)).fetchone()
                if found is None:
                    raise StoreError(f"{path}: expected results of run {run}, found none")
                removed[run] = connection.execute(sql.COUNT_EPISODES, found).fetchone()[0]
                connection.execute(sql.DELETE_RUN, (run,))
        return removed

    @classmethod
    def migrate(cls, uri: str) -> tuple[int, int]:
        """Bring a store of an older revision to this one; see `Store.migrate`."""
        from ganglion_store.database import migrate

        return migrate(uri)

    @classmethod
    def point_book(cls, uri: str, experiment: str) -> PointBook:
        """Open a store for the points of an experiment; see `Store.point_book`."""
        from ganglion_store.writer import SqlPointBook

        return SqlPointBook(uri, experiment)
