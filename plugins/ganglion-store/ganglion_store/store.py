"""The SQL store: opens writers and readers by URI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import ClassVar

from ganglion.sdk.store import PointBook, Store, StoreError, StoreReader, StoreWriter


class SqlStore(Store):
    """Keep results in a SQL database: SQLite, or PostgreSQL with psycopg beside.

    Writer and reader are imported when they are asked for, so that SQLAlchemy is imported by commands that read results
    and for PostgreSQL alone: a run that writes into SQLite does without.
    """

    schemes: ClassVar[tuple[str, ...]] = ("sqlite", "postgresql")

    @classmethod
    def check(cls, uri: str) -> None:
        """Look for a server, its database, and room for a run; of a file, whether it may be written where it is."""
        if uri.startswith("sqlite:"):
            from ganglion_store.database import check_file

            check_file(uri)
            return
        from ganglion.sdk.store import STORE_RESERVE_BYTES
        from ganglion_store.engine import engine_of

        engine = engine_of(uri)
        with closing(engine.connect()) as connection, engine.told(f"keep {STORE_RESERVE_BYTES} bytes in reserve"):
            engine.reserve(connection, STORE_RESERVE_BYTES).release()

    @classmethod
    def writer(cls, uri: str, run: str, resume: bool = False, started: str = "") -> StoreWriter:
        """Open a store for the results of a run; see `Store.writer`."""
        from ganglion_store.writer import SqlWriter

        return SqlWriter(uri, run, resume, started)

    @classmethod
    def reader(cls, uri: str) -> StoreReader:
        """Open a store for reading; see `Store.reader`."""
        from ganglion_store.reader import SqlReader

        return SqlReader(uri)

    @classmethod
    def remove(cls, uri: str, runs: Iterable[str]) -> Mapping[str, int]:
        """Remove runs; see `Store.remove`."""
        from ganglion_store import texts as sql
        from ganglion_store.engine import engine_of

        engine = engine_of(uri)
        with closing(engine.connect_reading()):
            pass  # one that is not there is not made
        removed: dict[str, int] = {}
        connection = engine.connect()
        with engine.told("remove runs"), closing(connection), engine.transaction(connection, "") as cursor:
            for run in runs:
                found = cursor.execute(sql.SELECT_RUN, (run,)).fetchone()
                if found is None:
                    raise StoreError(f"{engine.place}: expected results of run {run}, found none")
                removed[run] = cursor.execute(sql.COUNT_EPISODES, found).fetchone()[0]
                cursor.execute(sql.DELETE_RUN, (run,))
        return removed

    @classmethod
    def migrate(cls, uri: str) -> tuple[int, int]:
        """Bring a store of an older revision to this one; see `Store.migrate`."""
        from ganglion_store.engine import engine_of

        return engine_of(uri).migrate()

    @classmethod
    def point_book(cls, uri: str, experiment: str) -> PointBook:
        """Open a store for the points of an experiment; see `Store.point_book`."""
        from ganglion_store.writer import SqlPointBook

        return SqlPointBook(uri, experiment)
