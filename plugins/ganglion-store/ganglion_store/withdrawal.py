"""Withdrawal: what a run that was cut short takes back, so that it can go on as if it had not been."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from ganglion_store import statements as sql
from ganglion_store.books import Books
from ganglion_store.segment import CUT, is_cut

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
            _take_back(cursor, books, number, (*links, environment), predecessor)
            episodes += 1
    cursor.execute(sql.DELETE_SIGNALS, (run, phase))
    cursor.execute(sql.DELETE_BRAINS, (run, phase))
    cursor.execute(sql.UPDATE_CUT_PHASES, ("running", None, run, phase, *CUT))
    cursor.execute(sql.UPDATE_RUN, ("running", None, None, run))
    return episodes


def withdraw_behind(
    cursor: sqlite3.Cursor,
    books: Books,
    phase: int,
    episodes: Mapping[tuple[int, str, int, str], int],
    evaluations: Mapping[tuple[int, str], int],
) -> int:
    """Take back, from a phase on, what comes behind those named last; return how many episodes that were.

    Of each chain go the last episodes, up to the first that stays.
    """
    taken, whole = 0, set[tuple[Any, ...]]()
    for row in cursor.execute(sql.SELECT_LATER, (books.run, phase)).fetchall():
        number, of, mode, worker, environment, episode, digest, predecessor = row
        links = (of, mode, worker)
        stays = episode <= episodes.get((*links, environment), -1)
        if stays or links in whole or books.heads.get(links) != digest:
            whole.add(links)
            continue
        _take_back(cursor, books, number, (*links, environment), predecessor)
        taken += 1
    for of, agent, number in cursor.execute(sql.SELECT_EVALUATIONS, (books.run, phase)).fetchall():
        if number > evaluations.get((of, agent), -1):
            cursor.execute(sql.DELETE_EVALUATION, (books.run, of, agent, number))
    return taken


def _take_back(
    cursor: sqlite3.Cursor, books: Books, number: int, place: tuple[int, str, int, str], predecessor: bytes
) -> None:
    """Remove the last episode of a chain with all its rows."""
    *_, environment = place
    cursor.execute(sql.DELETE_EPISODE, (number,))
    newest = cursor.execute(sql.SELECT_NEWEST, (books.run, *place)).fetchone()[0]
    books.shorten(place[:3], environment, predecessor, newest)
