"""SQLite files: where they are, whose they are, how they are made, opened and migrated, and what went wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sqlite3
import tempfile
import time
import urllib.parse
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.sdk.store import DiskError, StoreAbsent, StoreDamaged, StoreError, StoreUnavailable, UsageError
from ganglion_store import plain
from ganglion_store import texts as sql
from ganglion_store.engine import Connection, Cursor, Engine, Room, check_revision

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

_AGAIN_S = 0.01  # between two tries to set the journal mode
BUSY_S = 30.0  # a checkpoint or the commit of another run holds the lock for milliseconds; a slow disk for seconds


def _codes(names: str) -> frozenset[int]:
    return frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in names.split())


# What may pass by itself: the disk is full, read-only, out of reach, or locked by another process.
_PASSING = _codes("BUSY CANTOPEN FULL IOERR LOCKED PROTOCOL READONLY")
_DAMAGED = _codes("CORRUPT NOTADB")
_VALUE_BYTES = 64 * 1024 * 1024  # in one row that is read: sixteen times the longest document
_CREATED = re.compile(r"CREATE (TABLE|VIEW|INDEX) (\w+)")
# What a query may do. A connection that cannot write can still make files (ATTACH, VACUUM INTO), or lift its own bar.
_READING = _codes("SELECT READ FUNCTION RECURSIVE TRANSACTION")
_SHAPES = frozenset({"index_info", "index_list", "table_info", "table_list", "table_xinfo"})
_HARMLESS = _SHAPES | {"integrity_check", "read_uncommitted", "schema_version"}


def path_of(uri: str) -> Path:
    """Return the file that a URI names: `sqlite:///relative`, `sqlite:////absolute`."""
    scheme, colon, rest = uri.partition("://")
    if not colon or scheme != "sqlite":
        raise StoreError(f"expected a store URI such as sqlite:///results/ganglion.db, found {uri!r}")
    if not rest.startswith("/") or rest == "/":
        raise StoreError(f"expected sqlite:///FILE (three slashes, four for an absolute path), found {uri!r}")
    return Path(rest[1:]).absolute()


@contextmanager
def told(path: Path, what: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into a StoreError that names the file and the cause.

    It is StoreUnavailable where the same may succeed later, StoreDamaged where the file is no whole database.
    """
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
        code = getattr(error, "sqlite_errorcode", None)
        unreadable = isinstance(error, UnicodeDecodeError)  # texts of ours are UTF-8
        if unreadable or (code is not None and code & 0xFF in _DAMAGED):
            raise damaged(path, f"cannot {what}: {error}") from error
        passing = isinstance(error, OSError) or (code is not None and code & 0xFF in _PASSING)
        kind = StoreUnavailable if passing else StoreError
        raise kind(f"{path}: cannot {what}: {_cause(path, error)}") from error


def damaged(path: Path, what: str) -> StoreDamaged:
    """Return the error of a file that is damaged, with what to do."""
    return StoreDamaged(
        f"{path}: {what}; the database is damaged: move {path.name}, {path.name}-wal and {path.name}-shm away, then "
        f"`ganglion resume` writes the run into a new one"
    )


def _cause(path: Path, error: Exception) -> str:
    """Return what is behind an error; SQLite says `unable to open database file` to nearly everything."""
    full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    if full or getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT):
        return f"{error} ({DiskError.free(path.parent)})"
    if "unable to open" not in str(error):
        return str(error)
    return _obstacle(path) or str(error)


def _obstacle(path: Path) -> str:
    """Return what keeps a file from being written, empty if nothing does as far as can be seen."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return "no permission for the file"
    return "" if os.access(path.parent, os.W_OK) else f"no permission to write into {path.parent}"


def check_file(uri: str) -> None:
    """Raise StoreError if the file that a URI names cannot be written, or made; neither opens nor makes it."""
    path = path_of(uri)
    if why := _obstacle(path):
        raise StoreError(f"{path}: cannot be opened for writing: {why}")


def connect_writing(
    uri: str, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> tuple[Path, sqlite3.Connection]:
    """Open a store for writing, make it if there is none; refuse what is not ours."""
    path = path_of(uri)
    with told(path, "be opened for writing"):
        make(path)
        return path, _connect(path, "", _prepare, factory)


def connect_again(path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Open a store for writing that was open before; a file that is gone is not made anew."""
    with told(path, "be opened again"):
        return _connect(path, "?mode=rw", partial(_prepare_there, writing=True), factory)


def connect_older(path: Path) -> sqlite3.Connection:
    """Open a store that is there for a change of its schema; its revision may be an older one."""
    with told(path, "be opened for writing"):
        return _connect(path, "?mode=rw", partial(_prepare_there, writing=False))


def connect_reading(path: Path) -> sqlite3.Connection:
    """Open a store on a connection that can write nothing."""
    if not path.exists():
        raise StoreAbsent(f"{path}: expected a result store, found nothing")
    with told(path, "be opened for reading"):
        # WAL needs a file beside; where nobody can write, nobody does.
        fixed = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
        return _connect(path, "?mode=ro&immutable=1" if fixed else "?mode=ro", _prepare_reading)


def _connect(
    path: Path,
    options: str,
    prepare: Callable[[Path, sqlite3.Connection], None],
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{urllib.parse.quote(str(path))}{options}",
        timeout=BUSY_S,
        isolation_level=None,
        uri=True,
        check_same_thread=False,
        factory=factory,
    )
    try:
        prepare(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare_there(path: Path, connection: sqlite3.Connection, writing: bool) -> None:
    _check_revision(path, connection, writing)
    _harden(connection)


def _prepare_reading(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
    if _check_revision(path, connection, writing=False) < sql.REVISION:
        _pretend(connection)
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(_authorize)


_WIDER = {"stored_steps": ("bodies",), "stored_actions": ("policy", "policy_version", "late_reward")}
"""Tables that had fewer columns in earlier revisions."""
_LATER = ("stored_bodies", "stored_resets", "stored_opponents", "stored_ratings")
"""Tables that earlier revisions did not have."""


def _made(name: str) -> str:
    """Return the statement that makes a table."""
    return str(next(text for text in sql.CREATE if text.startswith(f"CREATE TABLE {name} ")))


def _lacking(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the columns that a table of an older store lacks."""
    there = {row[1] for row in connection.execute(f"PRAGMA main.table_info({name})")}
    return [column for column in _WIDER[name] if there and column not in there]


def _pretend(connection: sqlite3.Connection) -> None:
    """Let queries of today find in an older store what it lacks; the file stays."""
    for name in _WIDER:
        added = "".join(f", NULL AS {column}" for column in _lacking(connection, name))
        if added:
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT *{added} FROM main.{name}")  # noqa: S608 - ours
    for name in _LATER:
        if not connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (name,)).fetchone():
            connection.execute(_made(name).replace("CREATE TABLE", "CREATE TEMP TABLE", 1))


def _harden(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    # What is not ours is found before anything is changed: `journal_mode` is written into the file.
    if not _is_empty(connection):
        _check_revision(path, connection, writing=True)
    _switch_to_wal(connection)
    _harden(connection)
    if _is_empty(connection):
        _create(connection)
        _check_revision(path, connection, writing=True)


def _create(connection: sqlite3.Connection) -> None:
    """Make the tables, unless another writer was faster."""
    connection.execute("BEGIN IMMEDIATE")
    if _is_empty(connection):
        for statement in (*sql.CREATE, *plain.CREATE):
            connection.execute(statement)
        connection.execute(sql.INSERT_STORE, (sql.REVISION,))
    connection.execute("COMMIT")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Set the journal mode; SQLite's own patience does not cover this when two writers make a store together."""
    until_s = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until_s:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Let a reader read, and nothing else."""
    harmless = action == sqlite3.SQLITE_PRAGMA and first in _HARMLESS
    loads = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    return sqlite3.SQLITE_OK if (action in _READING and not loads) or harmless else sqlite3.SQLITE_DENY


def _is_empty(connection: sqlite3.Connection) -> bool:
    found: tuple[int] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return found[0] == 0


def _check_revision(path: Path, connection: sqlite3.Connection, writing: bool) -> int:
    """Return the revision of a store; StoreError if it is none of ours, or too old to be written."""
    try:
        row = connection.execute(sql.SELECT_REVISION).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        what = "an empty database" if _is_empty(connection) else "a file of another program"
        raise StoreError(f"{path}: expected a result store of Ganglion, found {what}") from error
    found = check_revision(str(path), row[0] if row else None, sql.REVISION, writing)
    if found == sql.REVISION:
        check_schema(path, connection, writing)
    return found


def check_schema(path: Path, connection: sqlite3.Connection, writing: bool) -> None:
    """Raise StoreError unless all that is ours is as we make it.

    Whatever else lies in the file (tables, views) is never looked at. Triggers and foreign indexes of our tables do
    nothing to a reader; a writer, whose statements would set them off, refuses them.
    """
    ours = {match[2]: statement for statement in sql.CREATE if (match := _CREATED.match(statement))}
    found: dict[str, str] = {}
    for kind, name, table, text in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        if name in ours and kind != "trigger":
            found[name] = text
        elif writing and text is not None and (kind == "trigger" or (kind == "index" and table in ours)):
            raise StoreError(
                f"{path}: expected the tables of a result store alone, found the {kind} {name!r:.60} on {table}; "
                f"nothing is written as long as it is there"
            )
    for name, text in ours.items():
        if found.get(name) != text:
            what = "it is changed" if name in found else "found none"
            raise StoreError(f"{path}: expected {name} as revision {sql.REVISION} has it, {what}")


_BESIDE = ("", "-journal", "-wal", "-shm")
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def make(path: Path) -> None:
    """Make an empty store unless there is a file; the faster process wins, and none sees a part of one.

    It is written beside its place, synced, then linked there: a process that is killed leaves nothing at `path`, and
    its successor begins anew. Where files cannot be linked nothing is made.
    """
    if path.is_symlink() or path.exists():
        return
    _clear_away(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
    try:
        _write(fresh)
        _sync(fresh)
        os.link(fresh, path)
        _sync(path.parent)
    except FileExistsError:
        pass  # another writer was faster
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    finally:
        for end in _BESIDE:
            fresh.with_name(fresh.name + end).unlink(missing_ok=True)


def _write(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        _create(connection)
        connection.execute("PRAGMA journal_mode = WAL")  # written into the file; the one beside goes with the close
    finally:
        connection.close()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _clear_away(path: Path) -> None:
    """Remove what processes have left that were killed while they made this store."""
    first = f".{path.name}."
    with contextlib.suppress(OSError):  # what is in the way of a store is found when it is made
        for left in path.parent.iterdir():
            maker = left.name.removeprefix(first).partition("-")[0]
            ours = left.name.startswith(first) and ".new" in left.name and maker.isdigit()
            if ours and not _lives(int(maker)):
                left.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # it belongs to another user
    return True


_DROPPED = ("stored_kept", "stored_pieces", "stored_models")  # revision 2 had these: bytes of models


def migrate(uri: str) -> tuple[int, int]:
    """Bring a store to the newest revision; return the one that it had, and that one. See `Store.migrate`."""
    path = path_of(uri)
    if not path.exists():
        raise StoreError(f"{path}: expected a result store, found nothing")
    with told(path, "be migrated"), contextlib.closing(connect_older(path)) as connection:
        found = _check_revision(path, connection, writing=False)
        if found < sql.REVISION:
            if found == 2 and connection.execute("SELECT count(*) FROM stored_models").fetchone()[0]:
                raise StoreError(
                    f"{path}: expected a store without models, found some of revision 2, which are not kept"
                )
            _copy(connection, path.with_name(f"{path.name}.revision-{found}"))
            _raise(path, connection, found)
        for statement in plain.CREATE:  # no revision has them: they are made where they are not
            connection.execute(statement)
        return found, sql.REVISION


def _copy(connection: sqlite3.Connection, copy: Path) -> None:
    """Copy the store beside itself; one that is there already stays, and nothing is done."""
    if copy.exists() or copy.is_symlink():
        raise StoreError(f"{copy}: expected no copy of an earlier migration; it would be overwritten")
    part = copy.with_name(f".{copy.name}.{os.getpid()}.part")
    try:
        with contextlib.closing(sqlite3.connect(part)) as target:
            connection.backup(target)
        part.rename(copy)
    finally:
        part.unlink(missing_ok=True)


def _raise(path: Path, connection: sqlite3.Connection, found: int) -> None:
    with connection:  # one that fails leaves the store as it was
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute(sql.SELECT_REVISION).fetchone() == (found,):  # else another process has done it meanwhile
            for name in _DROPPED if found == 2 else ():
                connection.execute(f"DROP TABLE {name}")
            _widen(connection)
            connection.execute(sql.UPDATE_REVISION, (sql.REVISION,))
        check_schema(path, connection, writing=True)


def _widen(connection: sqlite3.Connection) -> None:
    """Make the tables and views as they are today: with all columns, and with all tables."""
    ours = {match[2]: (match[1], text) for text in sql.CREATE if (match := _CREATED.match(text))}
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    for name, (kind, _) in ours.items():
        if kind == "VIEW" and name in there:
            connection.execute(f"DROP VIEW {name}")
    connection.execute("PRAGMA legacy_alter_table = ON")  # views of others that read the table go on doing so
    for name in _WIDER:
        added = ", NULL" * len(_lacking(connection, name))
        if added:
            connection.execute(f"ALTER TABLE {name} RENAME TO {name}_before")
            connection.execute(ours[name][1])
            connection.execute(f"INSERT INTO {name} SELECT *{added} FROM {name}_before")  # noqa: S608 - ours
            connection.execute(f"DROP TABLE {name}_before")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for name, (kind, text) in ours.items():
        if kind == "VIEW" or (name in _LATER and name not in tables):
            connection.execute(text)


_PATIENCE_MS = 1000  # for the lock of another run; after that the store says that it waits
_FINDINGS = 20  # of SQLite's own check of the file
_PIECE_BYTES = 1024 * 1024


class Reserve:
    """Hold bytes on the disk of a folder in a file without a name: it vanishes with the process, however that ends.

    OSError if there is no room for it.
    """

    def __init__(self, folder: Path, size_bytes: int) -> None:
        descriptor, name = tempfile.mkstemp(prefix=".ganglion-", suffix=".reserve", dir=folder)
        self._close = weakref.finalize(self, os.close, descriptor)
        Path(name).unlink()
        try:
            _fill(descriptor, size_bytes)
        except BaseException:
            self._close()
            raise

    def release(self) -> None:
        """Give the space back; a second call does nothing."""
        self._close()


def _fill(descriptor: int, size_bytes: int) -> None:
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        for _ in range(0, size_bytes, _PIECE_BYTES):  # a file system that cannot promise space: take it
            os.write(descriptor, bytes(_PIECE_BYTES))


class Sqlite(Engine):
    """Keep a store in a file of SQLite; see `Engine`.

    `factory` makes the connections that write.
    """

    errors = (sqlite3.Error,)

    def __init__(self, uri: str, factory: type[sqlite3.Connection] = sqlite3.Connection) -> None:
        self.path = path_of(uri)
        self.place = str(self.path)
        self._factory = factory
        self._schema: Any = None
        self._file: tuple[int, int] | None = None

    @property
    def dialect(self) -> Dialect:
        """Return how SQLAlchemy writes statements for SQLite."""
        from ganglion_store.statements import DIALECT  # late: a run does without

        return DIALECT

    def connect(self) -> Connection:
        """Open the file for writing, make it if there is none; refuse what is not ours."""
        made = self._patient(connect_writing(f"sqlite:///{self.path}", self._factory)[1])
        self._file = _file(self.path)
        return made

    def connect_again(self) -> Connection:
        """Open the file for writing that was open before; one that is gone is not made anew."""
        connection = connect_again(self.path, self._factory)
        self.check(connection)
        return self._patient(connection)

    def _patient(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        with self.told("be opened for writing"):
            connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
            self._schema = connection.execute("PRAGMA schema_version").fetchone()
        return connection

    def connect_reading(self) -> Connection:
        """Open the file on a connection that can write nothing."""
        return connect_reading(self.path)

    def told(self, what: str) -> AbstractContextManager[None]:
        """Turn errors of SQLite and of the file system into errors that name the file."""
        return told(self.path, what)

    def damaged(self, what: str) -> StoreDamaged:
        """Return the error of a file that is damaged, with what to do."""
        return damaged(self.path, what)

    def check(self, connection: Connection) -> None:
        """Raise if the file is no longer where it was: what is written into it would be lost."""
        try:
            found = _file(self.path)
        except OSError as error:
            raise StoreUnavailable(f"{self.path}: expected the result store, it is gone: {error}") from error
        if found != self._file:
            raise StoreUnavailable(f"{self.path}: expected the result store, found another file in its place")

    def check_schema(self, connection: Any) -> None:
        """Look at the schema again if it was changed since it was checked."""
        found = connection.execute("PRAGMA schema_version").fetchone()
        if found != self._schema:
            check_schema(self.path, connection, writing=True)
            self._schema = found

    def reserve(self, connection: Connection, size_bytes: int) -> Room:
        """Return space of the disk on which the file is."""
        return Reserve(self.path.parent, size_bytes)

    def begin(self, cursor: Cursor, key: str) -> None:
        """Begin a transaction; there is one at a time."""
        cursor.execute("BEGIN IMMEDIATE")

    def stream(self, connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> Cursor:
        """Carry out a query; SQLite makes its rows as they are asked for."""
        found: Cursor = connection.execute(statement, parameters)
        return found

    def query(self, connection: Connection, text: str) -> Cursor:
        """Carry out a query of a user."""
        try:
            found: Cursor = connection.execute(text)
        except (sqlite3.Error, sqlite3.Warning) as error:
            if "not authorized" in str(error) or "prohibited" in str(error):
                raise UsageError(f"{self.path}: the query cannot be carried out: it may only read") from error
            raise UsageError(f"{self.path}: the query cannot be carried out: {error}") from error
        return found

    @contextmanager
    def snapshot(self, connection: Connection) -> Iterator[None]:
        """Read of one state of the file."""
        connection.execute("BEGIN")
        try:
            yield
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def flaws(self, connection: Connection) -> Iterator[str]:
        """Yield what SQLite finds damaged in the file."""
        for (text,) in connection.execute(f"PRAGMA integrity_check({_FINDINGS})"):
            if text != "ok":
                yield str(text)

    def tidy(self, connection: Connection) -> None:
        """Bring all into the file itself.

        SQLite does this unless a reader is open; then the file alone would not be the whole store. Where it cannot be
        done nothing is lost: the next process that opens the store does it.
        """
        with contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def migrate(self) -> tuple[int, int]:
        """Bring the file to the newest revision, after a copy."""
        return migrate(f"sqlite:///{self.path}")


def _file(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
