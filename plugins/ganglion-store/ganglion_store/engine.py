"""Engines: what a writer and a reader ask of a database beside its statements; which one a URI names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

from ganglion.sdk.store import StoreDamaged, StoreError

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect


class Cursor(Protocol):
    """Carry out statements, as a cursor of `sqlite3` does."""

    @property
    def lastrowid(self) -> int | None:
        """Return the number of the row that was inserted last, of a table with numbers."""

    @property
    def rowcount(self) -> int:
        """Return how many rows the last statement changed."""

    @property
    def connection(self) -> Any:
        """Return the connection that this is a cursor of."""

    @property
    def description(self) -> Any:
        """Return a sequence for each column of the rows, the first of which is its name."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Self:
        """Carry out one statement."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Carry out a statement once for each row of parameters."""

    def fetchone(self) -> Any:
        """Return the next row, None behind the last."""

    def fetchmany(self, size: int | None = ..., /) -> list[Any]:
        """Return the next rows, none behind the last."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None:
        """Let go of the rows that are left."""


class Connection(Protocol):
    """Hold a connection to a database, without a transaction until one is begun."""

    @property
    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""

    def cursor(self) -> Any:
        """Return a cursor."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any:
        """Carry out one statement; return its cursor."""

    def close(self) -> None:
        """Close it; what was not committed is undone."""


class Room(Protocol):
    """Hold space for what has to be written when there is no other."""

    def release(self) -> None:
        """Give the space back; a second call does nothing."""


class Engine(ABC):
    """Open the connections of one store, and say of its database what statements cannot.

    `place` is what messages call the store, `errors` are what its driver raises; `told` makes them errors of ours.
    """

    place: str
    errors: tuple[type[Exception], ...]

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """Return how SQLAlchemy writes statements for the database."""

    @abstractmethod
    def connect(self) -> Connection:
        """Return a connection that writes; the store is made if there is none. StoreError: it is none of ours."""

    @abstractmethod
    def connect_again(self) -> Connection:
        """Return one after the last has broken; a store that is gone is not made anew."""

    @abstractmethod
    def connect_reading(self) -> Connection:
        """Return a connection that can write nothing; StoreError: there is no store."""

    @abstractmethod
    def told(self, what: str) -> AbstractContextManager[None]:
        """Turn errors of the database into a StoreError that names the store, what cannot be done, and the cause.

        It is StoreUnavailable where the same may succeed later, StoreDamaged where the store is no whole one.
        """

    @abstractmethod
    def damaged(self, what: str) -> StoreDamaged:
        """Return the error of a store that is damaged, with what to do."""

    @abstractmethod
    def check(self, connection: Connection) -> None:
        """Raise unless a connection still writes into the store that it was opened for."""

    def check_schema(self, connection: Connection) -> None:  # noqa: B027 - not every database can be asked at no cost
        """Raise if the schema was changed since the store was opened; called in each transaction."""

    @abstractmethod
    def reserve(self, connection: Connection, size_bytes: int) -> Room:
        """Return so much space of the store's disk; raises what `told` knows if there is not as much."""

    @abstractmethod
    def begin(self, cursor: Cursor, key: str) -> None:
        """Begin a transaction that writes; no other with this key is open then, not even one whose writer is gone."""

    def settle(self, connection: Connection, key: str) -> None:  # noqa: B027 - SQLite's transactions end with their process
        """Wait until a transaction has ended that broke in its COMMIT."""

    @abstractmethod
    def stream(self, connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> Cursor:
        """Carry out a query whose rows do not all come into memory; it is closed when they are read."""

    @abstractmethod
    def query(self, connection: Connection, text: str) -> Cursor:
        """Carry out a query of a user, which can change nothing; UsageError says why it cannot be."""

    def asked(self) -> AbstractContextManager[None]:
        """Turn errors in the rows of a query of a user into errors of ours; as `told`, or UsageError."""
        return self.told("be read")

    @abstractmethod
    def snapshot(self, connection: Connection) -> AbstractContextManager[object]:
        """Let all that is read meanwhile be of one state of the store."""

    def flaws(self, connection: Connection) -> Iterator[str]:
        """Yield what the database itself finds damaged."""
        return iter(())

    def tidy(self, connection: Connection) -> None:  # noqa: B027 - others have nothing to do
        """Leave a store in order whose last writer closes it."""

    @abstractmethod
    def migrate(self) -> tuple[int, int]:
        """Bring the store to the newest revision; see `Store.migrate`."""

    @contextmanager
    def transaction(self, connection: Connection, key: str) -> Iterator[Cursor]:
        """Do all of the block or, if it raises, nothing."""
        cursor = connection.cursor()
        self.begin(cursor, key)
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise


def check_revision(place: str, found: object, newest: int, writing: bool) -> int:
    """Return the revision that was found in a store; StoreError if it is no earlier one, or too old to be written."""
    if not isinstance(found, int) or found > newest:
        raise StoreError(
            f"{place}: expected a store of revision {newest} or older, found {found}; "
            "it was made by a newer ganglion-store: pip install --upgrade ganglion-store"
        )
    if found < 1:
        raise StoreError(f"{place}: expected a store of a revision from 1 on, found {found}")
    if writing and found < newest:
        raise StoreError(f"{place}: expected a store of revision {newest}, found {found}; run: ganglion store migrate")
    return found


def engine_of(uri: str, **options: Any) -> Engine:
    """Return the engine that a URI names by its scheme; StoreError: there is none, or it names no store."""
    if uri.partition("://")[0] != "postgresql":
        from ganglion_store.database import Sqlite

        return Sqlite(uri, **options)
    try:
        from ganglion_store.postgres import Postgres
    except ImportError as error:
        raise StoreError(
            f"a store in PostgreSQL needs psycopg, which cannot be imported ({error}): "
            "pip install 'ganglion-store[postgres]'"
        ) from error
    return Postgres(uri)
