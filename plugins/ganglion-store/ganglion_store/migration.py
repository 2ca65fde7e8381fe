"""Migration: brings a store of an older revision to that of this software, in one transaction, after a copy."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
from pathlib import Path

from ganglion.sdk.store import StoreError
from ganglion_store import statements as sql
from ganglion_store.database import check_schema, connect_older, path_of, told

_FIRST = 1
_KEPT = "SELECT number, sha256 FROM stored_models ORDER BY number"
_PIECES = "SELECT data FROM stored_pieces WHERE model = ? ORDER BY position"
_DROPPED = ("stored_kept", "stored_pieces", "stored_models")  # revision 2 had these: bytes of models


def migrate(uri: str) -> tuple[int, int]:
    """Bring a store to the newest revision; return the one that it had, and that one. See `Store.migrate`."""
    path = path_of(uri)
    if not path.exists():
        raise StoreError(f"{path}: expected a result store, found nothing")
    with told(path, "be migrated"), contextlib.closing(connect_older(path)) as connection:
        found = _revision(path, connection)
        if found < sql.REVISION:
            _copy(connection, path.with_name(f"{path.name}.revision-{found}"))
            if found == 2:
                _write_models(connection, path.with_name("models"))
            _raise(path, connection, found)
        return found, sql.REVISION


def _revision(path: Path, connection: sqlite3.Connection) -> int:
    found: int = connection.execute(sql.SELECT_REVISION).fetchone()[0]
    if not _FIRST <= found <= sql.REVISION:
        raise StoreError(f"{path}: expected a store of a revision from {_FIRST} on, found {found}")
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


def _write_models(connection: sqlite3.Connection, folder: Path) -> None:
    """Write the models that the database keeps as files named by their SHA-256; files that are there stay."""
    for number, sha256 in connection.execute(_KEPT).fetchall():
        if not re.fullmatch(r"[0-9a-f]{64}", str(sha256)):
            raise StoreError(f"model {str(sha256)!r:.80}: expected a SHA-256: the store is damaged")
        folder.mkdir(exist_ok=True)
        file = folder / f"{sha256}.npz"
        part = folder / f".{sha256}.{os.getpid()}.part"
        digest = hashlib.sha256()
        try:
            with part.open("xb") as stream:
                for (piece,) in connection.execute(_PIECES, (number,)):
                    digest.update(piece)
                    stream.write(piece)
            if digest.hexdigest() != sha256:
                raise StoreError(f"model {sha256}: found bytes with SHA-256 {digest.hexdigest()}: it is damaged")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


def _raise(path: Path, connection: sqlite3.Connection, found: int) -> None:
    with connection:  # one that fails leaves the store as it was
        connection.execute("BEGIN IMMEDIATE")
        if _revision(path, connection) == found:  # else somebody else has done it meanwhile
            for name in _DROPPED if found == 2 else ():
                connection.execute(f"DROP TABLE {name}")
            connection.execute(sql.UPDATE_REVISION, (sql.REVISION,))
        check_schema(path, connection, writing=True)
