"""PostgreSQL: how a store there is opened, made, checked and migrated, how it takes rows, and what went wrong."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import conninfo
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import FloatDumper
from psycopg.types.string import StrBinaryDumper, StrDumper, TextLoader
from sqlalchemy.dialects.postgresql import psycopg as dialects

from ganglion.sdk.store import StoreAbsent, StoreDamaged, StoreError, StoreUnavailable, UsageError
from ganglion_store import plain, schema
from ganglion_store import statements as sql
from ganglion_store.engine import Connection, Cursor, Engine, Room, check_revision

_ANSWER_S = 1.2  # who waits longer for a server cannot say meanwhile that it lives
_PATIENCE_MS = 1000  # for the lock of another; after that the store says that it waits
_IDLE_MS = 60_000  # of an open transaction whose writer has vanished with its machine
_KEY = 0x67616E67  # of our locks among those of others
_MAKING = "\0"  # the key of who makes or changes a store
DIALECT: Any = dialects.dialect(paramstyle="format")  # type: ignore[no-untyped-call]

# What may pass by itself: the connection is gone, the server starts or ends, is full, or somebody holds a lock.
_PASSING = ("08", "53", "57", "58", "25006", "25P03", "40001", "40P01", "55P03")
_DAMAGED = ("XX001", "XX002")
_CURES = (  # parts of what a server says before it knows who asks; then there is no code
    ("password authentication failed", "is the password right? It is taken from the URI, PGPASSWORD or ~/.pgpass"),
    ("no password supplied", "give one in the URI, in PGPASSWORD or in ~/.pgpass"),
    ("no pg_hba.conf entry", "let the server's pg_hba.conf admit this user from here"),
    ("does not exist", "make it: CREATE ROLE, or createdb"),
    ("refused", "is the server running, and does it listen there?"),
    ("No such file", "is the server running, and does it listen there?"),
    ("translate host name", "is the name of the host right?"),
    ("resolve host", "is the name of the host right?"),
)
_BY_CODE = {
    "53100": "free space on the server's disk",
    "53300": "raise the server's max_connections, or end other clients",
    "42P07": "name an empty database, or a schema of its own (?options=-csearch_path%3DNAME)",
    "3F000": "make the schema: CREATE SCHEMA",
    "42501": "GRANT the user what it lacks",
    "25006": "name the server that takes writes; this one is a standby, or default_transaction_read_only is on",
}


class _Text(StrDumper):  # type: ignore[misc]
    """Write text; what PostgreSQL cannot hold, a NUL, becomes its picture."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\u2400"))


class _BinaryText(StrBinaryDumper):  # type: ignore[misc]
    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\u2400"))


class _Float(FloatDumper):  # type: ignore[misc]
    """Write numbers as SQLite keeps them: not a number is unknown, and zero has no sign."""

    def dump(self, obj: float) -> Any:
        return None if obj != obj else super().dump(obj + 0.0)


class _Flag(Loader):  # type: ignore[misc]
    """Read booleans as SQLite does, by whose numbers seals are made."""

    def load(self, data: Any) -> int:
        return int(bytes(data) in (b"t", b"\x01"))


class _BinaryFlag(_Flag):
    format = psycopg.pq.Format.BINARY


class _Number(Loader):  # type: ignore[misc]
    """Read what sums of integers are as the numbers that they are."""

    def load(self, data: Any) -> float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class _Watch:
    """End a connection whose server has not answered for too long: nobody else waits longer for its process."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._until_s: float | None = None
        self.ended, self.late = threading.Event(), False
        threading.Thread(target=self._look, daemon=True).start()

    def __enter__(self) -> None:
        self._until_s = time.monotonic() + _ANSWER_S

    def __exit__(self, *_: object) -> None:
        self._until_s = None

    def _look(self) -> None:
        while not self.ended.wait(_ANSWER_S / 4):
            until_s = self._until_s
            if until_s is not None and time.monotonic() >= until_s:
                self.late = True
                break
        with suppress(OSError):
            if self.late:
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()


_Parameters = Sequence[Any] | None


class _Cursor:
    """Carry out statements as a cursor of `sqlite3` does; see `engine.Cursor`."""

    def __init__(self, connection: Session, raw: Any) -> None:
        self.connection, self._raw = connection, raw
        self.fetchone, self.fetchmany, self.fetchall = raw.fetchone, raw.fetchmany, raw.fetchall

    @property
    def lastrowid(self) -> int | None:
        """Return the number that the last insertion returned."""
        number: int = self._raw.fetchone()[0]
        return number

    @property
    def rowcount(self) -> int:
        """Return how many rows the last statement changed."""
        return int(self._raw.rowcount)

    @property
    def description(self) -> Any:
        """Return the columns of the rows."""
        return self._raw.description

    def execute(self, statement: str, parameters: _Parameters = None) -> _Cursor:
        """Carry out one statement."""
        with self.connection.watch:
            told = parameters is not None  # without them several statements may stand in one text
            self._raw.execute(_text(statement), parameters, prepare=told, binary=told)
        return self

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Carry out a statement for each of some rows; rows of episodes are copied."""
        table = _COPIED.get(statement)
        if table is None:
            with self.connection.watch:
                self._raw.executemany(_text(statement), rows)
            return
        with self._raw.copy(
            f"COPY {table.name} ({', '.join(map(_quoted, table.columns.keys()))}) FROM STDIN BINARY"
        ) as copy:
            copy.set_types([_udt(column) for column in table.columns])
            for number, row in enumerate(rows):
                if number % _COPY_ROWS == 0:
                    self.connection.watch.__enter__()
                copy.write_row(row)
            self.connection.watch.__enter__()
        self.connection.watch.__exit__()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._raw)

    def close(self) -> None:
        """Let go of the rows that are left."""
        self._raw.close()


class _Stream(_Cursor):
    """Read rows as the server hands them out, within a transaction that ends with the last stream."""

    def close(self) -> None:
        """End it."""
        with suppress(psycopg.Error):
            super().close()
        self.connection.released(self)


class Session:
    """Hold a connection; see `engine.Connection`."""

    def __init__(self, raw: psycopg.Connection[Any], watched: bool) -> None:
        self.raw = raw
        self._watch = _Watch(raw.fileno()) if watched else None
        self.watch: Any = self._watch or nullcontext()
        self._streams: set[int] = set()
        self._count = 0
        self.held = False  # whether the transaction is in use, and goes on without streams

    @property
    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        return self.raw.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def cursor(self) -> _Cursor:
        """Return a cursor whose rows come into memory."""
        return _Cursor(self, self.raw.cursor())

    def execute(self, statement: str, parameters: _Parameters = None) -> _Cursor:
        """Carry out one statement."""
        return self.cursor().execute(statement, parameters)

    def stream(self, statement: str, parameters: _Parameters, binary: bool) -> _Cursor:
        """Return a cursor whose rows stay with the server until they are asked for."""
        if not self.in_transaction:
            self._streams.clear()
            self.execute("BEGIN READ ONLY")
        self._count += 1
        raw: Any = self.raw.cursor(f"ganglion_{self._count}")
        if not binary:
            for name in _SHOWN_AS_TEXT:
                raw.adapters.register_loader(name, TextLoader)
        found = _Stream(self, raw)
        self._streams.add(id(found))
        try:
            raw.execute(_text(statement), parameters, binary=binary)
        except BaseException:
            found.close()
            raise
        return found

    def released(self, stream: _Stream) -> None:
        """End the transaction of streams behind the last one."""
        self._streams.discard(id(stream))
        if not self._streams and not self.held and self.in_transaction:
            with suppress(psycopg.Error):
                self.execute("ROLLBACK")

    def close(self) -> None:
        """Close it; what was not committed is undone."""
        if self._watch is not None:
            self._watch.ended.set()
        self.raw.close()


_SHOWN_AS_TEXT = ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid")
_COPY_ROWS = 500  # between two looks at the time
_COPIED: dict[str, sa.Table] = {
    sql.INSERT_STEP: schema.steps,
    sql.INSERT_ACTION: schema.actions,
    sql.INSERT_RESET: schema.resets,
}


@functools.cache
def _text(statement: str) -> str:
    core = sql.CORES.get(statement)
    return statement if core is None else sql.compiled(core, DIALECT)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _udt(column: sa.Column[Any]) -> str:
    """Return the type of a column as PostgreSQL calls it."""
    kinds = (
        (sa.LargeBinary, "bytea"),
        (sa.Boolean, "bool"),
        (sa.Text, "text"),
        (sa.Integer, "int8"),
        (sa.Float, "float8"),
    )
    return next(name for kind, name in kinds if isinstance(column.type, kind))


class _Reserve:
    """Hold space of the server's disk in a table of this session alone: it vanishes with it."""

    def __init__(self, connection: Session, size_bytes: int) -> None:
        self._connection = connection
        piece = 1 << 20
        connection.execute(
            "BEGIN; CREATE TEMP TABLE ganglion_reserve (held text); ALTER TABLE ganglion_reserve "  # noqa: S608 - numbers
            "ALTER held SET STORAGE EXTERNAL; INSERT INTO ganglion_reserve "
            f"SELECT repeat('x', {piece}) FROM generate_series(1, {-(-size_bytes // piece)}); COMMIT"
        )

    def release(self) -> None:
        """Give the space back; a second call does nothing."""
        with suppress(psycopg.Error):
            self._connection.execute("DROP TABLE IF EXISTS pg_temp.ganglion_reserve")


class Postgres(Engine):
    """Keep a store in a database of PostgreSQL; see `Engine`.

    The tables lie where the `search_path` of the connection begins. Passwords are taken from the URI or by libpq's own
    ways, and are part of no message.
    """

    errors = (psycopg.Error,)
    dialect = DIALECT

    def __init__(self, uri: str) -> None:
        self.place = re.sub(r"([?&])\w*pass\w*=[^&]*&?", r"\1", re.sub(r"(://[^:/@]*):[^/]*@", r"\1@", uri)).rstrip(
            "?&"
        )
        try:
            self._given = conninfo.conninfo_to_dict(uri)
        except psycopg.Error:
            text = "postgresql://USER@HOST/DATABASE, with special characters of a password as %XX"
            raise StoreError(f"expected a store URI such as {text}, found {self.place}") from None

    # -- connections --------------------------------------------------------------------------------------------------
    def connect(self) -> Connection:
        """Open the database for writing, make the tables if there are none; refuse what is not ours."""
        connection = self._opened("be opened for writing", _WRITING)
        with self._closing_unless(connection), self.told("be opened for writing"):
            if not self._there(connection):
                with self.transaction(connection, _MAKING) as cursor:
                    if not self._there(connection):  # else another one was faster
                        self._make(cursor)
            self._check_revision(connection, writing=True)
        return connection

    def connect_again(self) -> Connection:
        """Open the database that was open before."""
        connection = self._opened("be opened again", _WRITING)
        with self._closing_unless(connection), self.told("be opened again"):
            self._check_revision(connection, writing=True)
        return connection

    def connect_reading(self) -> Connection:
        """Open the database on a connection that can write nothing."""
        connection = self._opened("be opened for reading", None)
        with self._closing_unless(connection), self.told("be opened for reading"):
            if self._check_revision(connection, writing=False) < sql.REVISION:
                self._pretend(connection)
            connection.execute("SET default_transaction_read_only = on")
        return connection

    def _opened(self, what: str, settings: str | None) -> Session:
        """Connect, in a thread of its own: a server that stands still would keep us from saying that we live."""
        found: list[Any] = []
        late = threading.Event()

        def connect() -> None:
            try:
                found.append(psycopg.connect(conninfo.make_conninfo(**{**_DEFAULTS, **self._given}), autocommit=True))
            except psycopg.Error as error:
                found.append(error)
            if late.is_set() and isinstance(found[0], psycopg.Connection):
                found[0].close()

        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        thread.join(_ANSWER_S if settings else None)
        with self.told(what):
            if thread.is_alive():
                late.set()
                raise psycopg.OperationalError(f"no answer within {_ANSWER_S} s")
            if isinstance(found[0], Exception):
                raise found[0]
            raw = found[0]
            for name, loader in (("bool", _Flag), ("bool", _BinaryFlag), ("numeric", _Number)):
                raw.adapters.register_loader(name, loader)
            for kind, dumper in ((str, _Text), (str, _BinaryText), (float, _Float)):
                raw.adapters.register_dumper(kind, dumper)
            connection = Session(raw, settings is not None)
            with self._closing_unless(connection):
                encoding = raw.info.parameter_status("server_encoding")
                if encoding != "UTF8":
                    raise StoreError(
                        f"{self.place}: expected a database in UTF-8, found {encoding}: make one by "
                        "createdb --template template0 --encoding UTF8"
                    )
                if settings:
                    connection.execute(settings)
        return connection

    @contextmanager
    def _closing_unless(self, connection: Session) -> Iterator[None]:
        try:
            yield
        except BaseException:
            connection.close()
            raise

    # -- the schema ---------------------------------------------------------------------------------------------------
    def _there(self, connection: Session) -> bool:
        return connection.execute("SELECT to_regclass('ganglion_store')").fetchone()[0] is not None

    def _make(self, cursor: Cursor) -> None:
        for statement in (*sql.create(DIALECT), *plain.POSTGRES):
            cursor.execute(statement)
        cursor.execute(sql.INSERT_STORE, (sql.REVISION,))
        self._spread(cursor)

    def _spread(self, cursor: Cursor) -> None:
        """Let TimescaleDB, where the database has it, keep rows in pieces by their segments."""
        if cursor.execute(
            "SELECT count(*) FROM pg_proc WHERE proname = 'create_hypertable' AND pg_function_is_visible(oid)"
        ).fetchone()[0]:
            for name in ("stored_steps", "stored_actions"):
                cursor.execute(
                    f"SELECT create_hypertable('{name}', 'segment', chunk_time_interval => {_SEGMENTS}, "
                    "migrate_data => true)"
                )

    def _check_revision(self, connection: Session, writing: bool) -> int:
        """Return the revision of a store; StoreError if it is none of ours, or too old to be written."""
        if not self._there(connection):
            raise StoreAbsent(f"{self.place}: expected a result store of Ganglion, found no table `ganglion_store`")
        row = connection.execute(sql.SELECT_REVISION).fetchone()
        found = check_revision(self.place, row[0] if row else None, sql.REVISION, writing)
        if found == sql.REVISION:
            self._check_tables(connection, writing)
        return found

    def _columns(self, connection: Session) -> dict[str, dict[str, str]]:
        """Return the tables and views in the schema of the store, with their columns and the types of these."""
        found: dict[str, dict[str, str]] = {}
        for table, column, kind in connection.execute(_COLUMNS):
            found.setdefault(table, {})[column] = kind
        return found

    def _check_tables(self, connection: Session, writing: bool) -> None:
        """Raise StoreError unless all that is ours is as we make it; what else lies there is not looked at."""
        there = self._columns(connection)
        for table in schema.metadata.sorted_tables:
            found = there.get(table.name)
            if found != {column.name: _udt(column) for column in table.columns}:
                what = "found none" if found is None else "it is changed"
                raise StoreError(f"{self.place}: expected {table.name} as revision {sql.REVISION} has it, {what}")
        for name in schema.SHOWN:
            if name not in there:
                raise StoreError(f"{self.place}: expected {name} as revision {sql.REVISION} has it, found none")
        for trigger, table in connection.execute(_TRIGGERS) if writing else ():
            if table in schema.metadata.tables:
                raise StoreError(
                    f"{self.place}: expected the tables of a result store alone, found the trigger {trigger!r:.60} on "
                    f"{table}; nothing is written as long as it is there"
                )

    def _lacking(self, connection: Session) -> Iterator[tuple[sa.Table, list[sa.Column[Any]] | None]]:
        """Yield the tables that an older store lacks (None), and those that lack columns."""
        there = self._columns(connection)
        for table in schema.metadata.sorted_tables:
            if table.name not in there:
                yield table, None
            elif columns := [column for column in table.columns if column.name not in there[table.name]]:
                yield table, columns

    def _pretend(self, connection: Session) -> None:
        """Let queries of today find in an older store what it lacks; the database stays."""
        for table, columns in list(self._lacking(connection)):
            nulls = ", ".join(f"NULL::{_udt(c)} AS {_quoted(c.name)}" for c in columns or table.columns)
            rows = (
                f"{nulls} WHERE false"
                if columns is None
                else f"*, {nulls} FROM {self._schema(connection)}.{table.name}"
            )
            connection.execute(f"CREATE TEMP VIEW {table.name} AS SELECT {rows}")

    def _schema(self, connection: Session) -> str:
        return _quoted(connection.execute(_SCHEMA).fetchone()[0])

    def migrate(self) -> tuple[int, int]:
        """Bring the tables to the newest revision, after a copy into a schema beside them; see `Store.migrate`."""
        connection = self._opened("be migrated", _WRITING)
        connection.watch = nullcontext()  # a copy takes as long as it takes
        with self.told("be migrated"), closing(connection):
            before = self._check_revision(connection, writing=False)
            if before < sql.REVISION:
                with self.transaction(connection, _MAKING) as cursor:
                    if self._check_revision(connection, writing=False) == before:  # else another one has done it
                        self._raise(connection, cursor, before)
            with self.transaction(
                connection, _MAKING
            ) as cursor:  # no revision has them: they are made where they are not
                for statement in plain.POSTGRES:
                    cursor.execute(statement)
            return before, sql.REVISION

    def _raise(self, connection: Session, cursor: Cursor, before: int) -> None:
        of = self._schema(connection)
        copy = _quoted(f"{of.strip(chr(34))}_revision_{before}")
        if cursor.execute(f"SELECT to_regnamespace('{copy}')").fetchone()[0] is not None:
            raise StoreError(f"{self.place}: expected no copy of an earlier migration, found the schema {copy}")
        there = self._columns(connection)
        cursor.execute(f"CREATE SCHEMA {copy}")
        for name in (name for name in schema.metadata.tables if name in there):
            cursor.execute(f"CREATE TABLE {copy}.{name} AS TABLE {of}.{name}")
        for name in (name for name in schema.SHOWN if name in there):
            cursor.execute(f"DROP VIEW {of}.{name}")
        made = sql.create(DIALECT)
        for table, columns in list(self._lacking(connection)):
            for column in columns or ():
                cursor.execute(f"ALTER TABLE {of}.{table.name} ADD COLUMN {_quoted(column.name)} {_udt(column)}")
            if columns is None:
                marks = (f"CREATE TABLE {table.name} ", f" ON {table.name} ")
                for text in (
                    text for text in made if text.startswith(marks[0]) or (marks[1] in text and "INDEX" in text)
                ):
                    cursor.execute(text)
        for text in made:
            if text.startswith("CREATE VIEW"):
                cursor.execute(text)
        cursor.execute(sql.UPDATE_REVISION, (sql.REVISION,))
        self._check_tables(connection, writing=True)

    # -- what goes wrong ----------------------------------------------------------------------------------------------
    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Turn errors of PostgreSQL into errors that name the database, the cause, and the cure where there is one."""
        try:
            yield
        except (psycopg.Error, OSError, OverflowError, UnicodeError) as error:
            code = getattr(error, "sqlstate", None)
            text = " ".join(str(error).split())[:_SAID]
            if code in _DAMAGED:
                raise self.damaged(f"cannot {what}: {text}") from error
            lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and code is None
            passing = lost or isinstance(error, OSError) or (code is not None and code.startswith(_PASSING))
            cure = _BY_CODE.get(code or "") or next((cure for part, cure in _CURES if part in text), None)
            kind = StoreUnavailable if passing else StoreError
            raise kind(f"{self.place}: cannot {what}: {text}" + (f"; {cure}" if cure else "")) from error

    def damaged(self, what: str) -> StoreDamaged:
        """Return the error of a database that is damaged, with what to do."""
        return StoreDamaged(
            f"{self.place}: {what}; the database is damaged: restore it, or let an empty one take its name, then "
            "`ganglion resume` writes the run into it"
        )

    def check(self, connection: Connection) -> None:
        """Raise nothing: a connection writes into one database, or breaks."""

    # -- transactions and queries -------------------------------------------------------------------------------------
    def reserve(self, connection: Any, size_bytes: int) -> Room:
        """Return space of the server's disk."""
        return _Reserve(connection, size_bytes)

    def begin(self, cursor: Cursor, key: str) -> None:
        """Begin a transaction, behind that of a writer of the same run that may still be at work on the server."""
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big", signed=True)
        try:
            cursor.execute(f"BEGIN; SELECT pg_advisory_xact_lock({_KEY}, {number})")
        except psycopg.Error:
            if cursor.connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise

    def settle(self, connection: Connection, key: str) -> None:
        """Wait until a transaction has ended that broke in its COMMIT: the server may still be at it."""
        with self.transaction(connection, key):
            pass

    def stream(self, connection: Any, statement: str, parameters: Sequence[Any] = ()) -> Cursor:
        """Carry out a query whose rows stay with the server until they are read."""
        found: Cursor = connection.stream(statement, parameters, binary=True)
        return found

    def query(self, connection: Any, text: str) -> Cursor:
        """Carry out a query of a user, in a transaction that only reads."""
        word = text.split(maxsplit=1)[0].lower().lstrip("(") if text.split() else ""
        if word not in ("select", "with", "values", "table"):
            raise UsageError(
                f"{self.place}: the query cannot be carried out: it may only read (SELECT), found {word!r:.20}"
            )
        with self.asked():
            found: Cursor = connection.stream(text, None, binary=False)
        return found

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Turn errors in a query of a user, or in its rows, into errors of ours."""
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate is None or (error.sqlstate.startswith(_PASSING) and error.sqlstate != "25006"):
                with self.told("be read"):
                    raise
            why = "it may only read: " if error.sqlstate == "25006" else ""
            text = error.diag.message_primary or str(error)
            raise UsageError(f"{self.place}: the query cannot be carried out: {why}{text}") from error

    @contextmanager
    def snapshot(self, connection: Any) -> Iterator[None]:
        """Read of one state of the database."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.held = True
        try:
            yield
        finally:
            connection.held = False
            if connection.in_transaction:
                connection.execute("ROLLBACK")


_SAID = 400  # characters of what a driver says
_SEGMENTS = 100_000  # in one piece of a hypertable: some gigabytes of rows
_DEFAULTS = {
    "connect_timeout": 5,
    "application_name": "ganglion",
    "client_encoding": "utf8",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_WRITING = (
    f"SET lock_timeout = {_PATIENCE_MS}; SET idle_in_transaction_session_timeout = {_IDLE_MS}; "
    "SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'"
)
_SCHEMA = (
    "SELECT nspname::text FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid "
    "WHERE c.oid = to_regclass('ganglion_store')"
)
_COLUMNS = (
    "SELECT c.relname::text, a.attname::text, t.typname::text "  # noqa: S608 - ours
    "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
    f"JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ({_SCHEMA}) "
    "AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped"
)
_TRIGGERS = (  # TimescaleDB has some of its own
    "SELECT g.tgname::text, c.relname::text "  # noqa: S608 - ours
    "FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid "
    f"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ({_SCHEMA}) AND NOT g.tgisinternal "
    "AND g.tgname NOT LIKE 'ts\\_%'"
)
