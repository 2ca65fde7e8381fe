"""Difference: the first place where an episode that is sealed again is not the one that was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

from ganglion_store import statements as sql
from ganglion_store.records import STEPS
from ganglion_store.segment import Seal, Segment

OUTCOME = ("steps", "terminated", "truncated", "reason", "round", "inner")
"""What a seal says of its episode, in the order of its columns."""


def first_difference(connection: sqlite3.Connection, number: int, outcome: Sequence[Any], seal: Seal) -> str:
    """Return in words where a seal differs from the episode with this number and outcome; nothing is held of it."""
    query = {segment: name for segment, *name in connection.execute(sql.SELECT_SEGMENTS, (number,)).fetchall()}
    before = {(kind, name): segment for segment, (kind, name) in query.items()}
    for segment in sorted(seal.segments, key=lambda s: (s.kind is not STEPS, s.name)):
        stored = before.pop((segment.kind.member, segment.name), None)
        if stored is None:
            return f"{segment.kind.table} of {segment.kind.member} {segment.name}: none before, now some"
        found = _rows_differ(connection, stored, segment)
        if found:
            return found
    for kind, name in before:
        return f"rows of {kind} {name}: some before, now none"
    for what, old, new in zip(OUTCOME, outcome, _outcome(seal), strict=True):
        if old != new:
            return f"{what}: {old!r:.100} before, now {new!r:.100}"
    return "its rows are of other types"


def _outcome(seal: Seal) -> Iterator[Any]:
    return (getattr(seal, name) for name in OUTCOME)


def _rows_differ(connection: sqlite3.Connection, stored: int, segment: Segment) -> str:
    """Return where the rows of a segment differ from those that are stored; empty if they do not."""
    query = sql.SELECT_STEPS if segment.kind is STEPS else sql.SELECT_ACTIONS
    old_rows = connection.execute(query, (stored,))
    written = [] if segment.number is None else connection.execute(query, (segment.number,))
    where = f"{segment.kind.table} of {segment.kind.member} {segment.name}"
    for old, new in zip_longest(old_rows, chain(written, map(tuple, segment.rows))):
        if old == new:
            continue
        at = dict(zip(segment.kind.columns, old or new, strict=True))
        place = f"{where}, step {at['step']}" + (f", body {at['body']}" if "body" in at else "")
        if old is None or new is None:
            return f"{place}: {'no row before, now one' if old is None else 'a row before, now none'}"
        rows = zip(segment.kind.columns, old, new, strict=True)
        return f"{place}: {next(name for name, a, b in rows if a != b)}"
    return ""
