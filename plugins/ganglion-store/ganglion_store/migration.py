"""Migration: brings a store of an older revision to that of this software, in one transaction, after a copy."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from ganglion.sdk.store import StoreError
from ganglion_store import statements as sql
from ganglion_store.database import check_schema, connect_older, path_of, told

__all__ = ["migrate"]

_STEPS: Mapping[int, Sequence[str]] = {2: ("stored_models", "stored_pieces", "stored_kept")}
"""Revision -> tables that it has beyond the one before."""


def migrate(uri: str) -> tuple[int, int]:
    """Bring a store to the newest revision; return the one that it had, and that one. See `Store.migrate`."""
    path = path_of(uri)
    if not path.exists():
        raise StoreError(f"{path}: expected a result store, found nothing")
    with told(path, "be migrated"), contextlib.closing(connect_older(path)) as connection:
        found = _revision(path, connection)
        if found < sql.REVISION:
            _copy(connection, path.with_name(f"{path.name}.revision-{found}"))
            _raise(path, connection, found)
        return found, sql.REVISION


def _revision(path: Path, connection: sqlite3.Connection) -> int:
    found: int = connection.execute(sql.SELECT_REVISION).fetchone()[0]
    known = range(min(_STEPS) - 1, sql.REVISION + 1)
    if found not in known:
        raise StoreError(f"{path}: expected a store of a revision from {known[0]} on, found {found}")
    return found


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
        if _revision(path, connection) == found:  # else somebody else has done it meanwhile
            for revision in range(found + 1, sql.REVISION + 1):
                for statement in sql.CREATE:
                    if statement.startswith(tuple(f"CREATE TABLE {name} (" for name in _STEPS[revision])):
                        connection.execute(statement)
            connection.execute(sql.UPDATE_REVISION, (sql.REVISION,))
        check_schema(path, connection, writing=True)
