"""Seals: digests of what belongs to no episode, of the chains of a phase, and of a whole run."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgpack

from ganglion_store import statements as sql

DIGEST_BYTES = 16  # of a row: enough against accidents, and the head of the run is whole
ROWS_PER_SEAL = 256  # 4 KiB in one row: a page of the database

SEALED: Mapping[str, str] = sql.SELECT_ALL
"""Query for the rows of a run in each sealed table, in the order in which the run's head covers them."""

FORMER = "kept"
"""What stores of revision 2 sealed beyond these: the models of a run. The head of a run without any is as if there had
been no such table."""


def row_digest(row: Sequence[Any]) -> bytes:
    """Return the digest of one row as it rests; another type of a value is another digest."""
    return hashlib.sha256(msgpack.packb(list(row))).digest()[:DIGEST_BYTES]


def phase_head(chains: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the digest of the episodes of a phase and mode: (worker, number of episodes, newest digest) of each."""
    packed = sorted(msgpack.packb(list(chain)) for chain in chains)  # a damaged number may be text
    return hashlib.sha256(b"".join(packed)).digest()


def run_head(tables: Iterable[tuple[str, Iterable[bytes]]]) -> bytes:
    """Return the digest of a run from the digests of its rows: table by table, pieces in their order."""
    digest = hashlib.sha256()
    for name, pieces in tables:
        named = name != FORMER
        if named:
            digest.update(msgpack.packb(name))
        for piece in pieces:
            if not named:
                digest.update(msgpack.packb(name))
                named = True
            digest.update(piece)
    return digest.digest()


def seal_run(cursor: sqlite3.Cursor, run: int) -> bytes:
    """Seal all rows of a run that belong to no episode, in place of earlier seals; return the run's head."""
    cursor.execute(sql.DELETE_SEALS, (run,))
    head = run_head((name, _sealing(cursor, run, name, query)) for name, query in SEALED.items())
    cursor.execute(sql.UPDATE_RUN_HEAD, (head, run))
    return head


def _sealing(cursor: sqlite3.Cursor, run: int, name: str, query: str) -> Iterator[bytes]:
    rows = cursor.connection.execute(query, (run,))
    position = 0
    while found := rows.fetchmany(ROWS_PER_SEAL):
        piece = b"".join(map(row_digest, found))
        cursor.execute(sql.INSERT_SEAL, (run, name, position, piece))
        position += 1
        yield piece
