"""Making of an SQLite file: complete or not at all, whoever is killed meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
from pathlib import Path

from ganglion_store import statements as sql

_BESIDE = ("", "-journal", "-wal", "-shm")
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def make(path: Path) -> None:
    """Make an empty store unless there is a file; who is faster wins, and nobody sees a part of one.

    It is written beside its place, synced, then linked there: a process that is killed leaves nothing at `path`, and
    its successor begins anew. Where files cannot be linked nothing is made.

    Raises:
        OSError, sqlite3.Error: It cannot be written; nothing is there then.
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
        connection.execute("BEGIN IMMEDIATE")
        for statement in sql.CREATE:
            connection.execute(statement)
        connection.execute(sql.INSERT_STORE, (sql.REVISION,))
        connection.execute("COMMIT")
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
    with contextlib.suppress(OSError):  # what is in the way of a store is found by who makes it
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
        pass  # somebody else's
    return True
