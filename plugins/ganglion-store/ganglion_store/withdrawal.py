"""Withdrawal: what a run that was cut short takes back, so that it can go on as if it had not been."""

from __future__ import annotations

import sqlite3

from ganglion_store import statements as sql
from ganglion_store.books import Books
from ganglion_store.segment import CUT, is_cut

__all__ = ["withdraw"]

_PATTERNS = (*CUT, *(f"{word}: %" for word in CUT))


def withdraw(cursor: sqlite3.Cursor, books: Books, phase: int) -> int:
    """Take back what keeps a run from going on in a phase; return how many episodes that were.

    Of each chain go the last episodes if they were cut short; one that is followed by others stays.
    """
    run, episodes = books.run, 0
    found = cursor.execute(sql.SELECT_CUT, (run, phase, *_PATTERNS)).fetchall()
    for number, of, mode, worker, environment, reason, digest, predecessor in found:
        links = (of, mode, worker)
        if books.heads.get(links) == digest and is_cut(reason):  # LIKE knows no capitals
            cursor.execute(sql.DELETE_EPISODE, (number,))
            newest = cursor.execute(sql.SELECT_NEWEST, (run, *links, environment)).fetchone()[0]
            books.shorten(links, environment, predecessor, newest)
            episodes += 1
    cursor.execute(sql.DELETE_SIGNALS, (run, phase))
    cursor.execute(sql.DELETE_BRAINS, (run, phase))
    cursor.execute(sql.UPDATE_CUT_PHASES, ("running", None, run, phase, *CUT))
    cursor.execute(sql.UPDATE_RUN, ("running", None, None, run))
    return episodes
