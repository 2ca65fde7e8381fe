"""Models: bytes of files by their content, in pieces; no run has two of one, and none that it does not tell of."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ganglion.sdk.store import MODEL_PIECE_BYTES, Damage, StoreError, model_file_bytes
from ganglion_store import statements as sql
from ganglion_store.books import Books

__all__ = ["FIRST_REVISION", "damages", "forget_unkept", "pieces_of", "put", "revision_of"]

FIRST_REVISION = 2  # of a store that has tables for models
_SAVEPOINT = "model"


# -- writing ----------------------------------------------------------------------------------------------------------


def put(
    cursor: sqlite3.Cursor, books: Books, sha256: str, size_bytes: int, opened: Callable[[], Iterable[bytes]]
) -> None:
    """Write a model in the transaction that is open, unless it is there already, and note that the run keeps it.

    Raises:
        StoreError: The bytes are not those that were announced; nothing was written, and the books say so.
    """
    found = cursor.execute(sql.SELECT_MODEL, (sha256,)).fetchone()
    if found is None:
        cursor.execute(f"SAVEPOINT {_SAVEPOINT}")
        try:
            _insert(cursor, sha256, size_bytes, opened())
        except BaseException as error:
            with suppress(sqlite3.Error):  # where the whole transaction has gone, so has its savepoint
                cursor.execute(f"ROLLBACK TO {_SAVEPOINT}")
                cursor.execute(f"RELEASE {_SAVEPOINT}")
            if isinstance(error, StoreError):
                books.refused.add(sha256)
            raise
        cursor.execute(f"RELEASE {_SAVEPOINT}")
    elif found[1] != size_bytes:
        books.refused.add(sha256)
        raise StoreError(f"model {sha256}: expected {size_bytes} bytes, the store has {found[1]!r:.40}")
    cursor.execute(sql.INSERT_KEPT, (books.run, sha256))


def _insert(cursor: sqlite3.Cursor, sha256: str, size_bytes: int, pieces: Iterable[bytes]) -> None:
    number = cursor.execute(sql.INSERT_MODEL, (sha256, size_bytes)).lastrowid
    digest, size = hashlib.sha256(), 0
    for position, piece in enumerate(pieces):
        size += len(piece)
        if len(piece) > MODEL_PIECE_BYTES or size > size_bytes:
            raise StoreError(f"model {sha256}: expected {size_bytes} bytes, found more")
        digest.update(piece)
        cursor.execute(sql.INSERT_PIECE, (number, position, piece))
    if size != size_bytes or digest.hexdigest() != sha256:
        found = f"{size} bytes with SHA-256 {digest.hexdigest()}"
        raise StoreError(f"model {sha256}: expected {size_bytes} bytes of that digest, found {found}")


def forget_unkept(cursor: sqlite3.Cursor, run: int | None = None) -> None:
    """Remove the models that no run keeps; of `run`, those first that its table of models does not name."""
    if run is not None:
        cursor.execute(sql.DELETE_UNTOLD, (run, run))
    cursor.execute(sql.DELETE_UNKEPT)


# -- reading ----------------------------------------------------------------------------------------------------------


def revision_of(connection: sqlite3.Connection) -> int:
    """Return the revision of a store that was opened, and so has one."""
    return int(connection.execute(sql.SELECT_REVISION).fetchone()[0])


def pieces_of(connection: sqlite3.Connection, path: Path, sha256: str) -> Iterator[bytes] | None:
    """Return the pieces of a model, None if it is not there; its digest is checked when all have been read."""
    if revision_of(connection) < FIRST_REVISION:
        return None
    found = connection.execute(sql.SELECT_MODEL, (sha256,)).fetchone()
    if found is None:
        return None
    number, size_bytes = found
    most = model_file_bytes()
    if type(size_bytes) is not int or not 0 <= size_bytes <= most:
        raise StoreError(
            f"{path}: model {sha256}: expected at most {most} bytes (model_bytes), found {size_bytes!r:.40}"
        )
    return _checked(connection, path, sha256, number, size_bytes)


def _checked(
    connection: sqlite3.Connection, path: Path, sha256: str, number: int, size_bytes: int
) -> Iterator[bytes]:
    digest, size = hashlib.sha256(), 0
    rows = connection.execute(sql.SELECT_PIECES, (number,))
    try:
        for expected, (position, piece) in enumerate(rows):
            if position != expected:
                raise StoreError(f"{path}: model {sha256}: piece {expected} is missing: it is damaged")
            if type(piece) is not bytes or len(piece) > MODEL_PIECE_BYTES:
                raise StoreError(f"{path}: model {sha256}: piece {position} is none: it is damaged")
            size += len(piece)
            if size > size_bytes:
                break
            digest.update(piece)
            yield piece
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise StoreError(f"{path}: model {sha256}: cannot be read: {error}") from error
    finally:
        rows.close()
    if size != size_bytes:
        found = "more" if size > size_bytes else f"{size}"
        raise StoreError(f"{path}: model {sha256}: expected {size_bytes} bytes, found {found}: it is damaged")
    if digest.hexdigest() != sha256:
        raise StoreError(f"{path}: model {sha256}: found the digest {digest.hexdigest()}: it is damaged")


def damages(connection: sqlite3.Connection, path: Path, run: int) -> Iterator[Damage]:
    """Read all models that a run keeps; yield those that are missing or are not what was written."""
    for (sha256,) in connection.execute(sql.SELECT_ALL_KEPT, (run,)).fetchall():
        where = f"{sha256!s:.64}"
        try:
            pieces = pieces_of(connection, path, sha256)
            if pieces is None:
                yield Damage("model", where, "the run keeps it, and it is not there")
            else:
                for _ in pieces:
                    pass
        except (StoreError, sqlite3.Error, UnicodeError, OverflowError) as error:
            yield Damage("model", where, str(error))
