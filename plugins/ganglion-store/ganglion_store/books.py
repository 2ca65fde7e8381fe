"""The books of a writer: what it knows of the rows that are in the database already."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from itertools import chain

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store import statements as sql
from ganglion_store.records import STEPS
from ganglion_store.segment import Seal, Segment

__all__ = ["Books"]

_UNDECLARED = 2**31 - 1  # position of a member that has rows, but has declared nothing yet: behind all others
Chain = tuple[int, str, int]  # phase, mode, worker


@dataclass(slots=True)
class Books:
    """Know the numbers that rows have, and where each worker's chain of episodes ends.

    A transaction works on a copy, which takes the place of the original after the commit: a transaction that failed
    leaves no trace, and can be tried again.
    """

    run: int | None = None
    members: dict[tuple[int, str, str], int] = field(default_factory=dict)  # phase, kind, name
    places: dict[int, tuple[str | None, int]] = field(
        default_factory=dict
    )  # environment, position; by member
    heads: dict[Chain, bytes] = field(default_factory=dict)
    newest: dict[tuple[Chain, str], int] = field(default_factory=dict)  # number of the newest episode
    numbered: dict[Segment, int] = field(default_factory=dict)  # in this transaction
    _rows: dict[str, list[tuple[int, Segment]]] = field(default_factory=dict)  # to be inserted at its end

    @classmethod
    def read(cls, connection: sqlite3.Connection, run: int) -> Books:
        """Return the books of a run that is in the database."""
        books = cls(run)
        for number, phase, kind, name, *place in connection.execute(sql.SELECT_MEMBERS, (run,)):
            books.members[phase, kind, name] = number
            books.places[number] = (place[0], place[1])
        for phase, mode, worker, environment, episode, digest in connection.execute(
            sql.SELECT_CHAINS, (run,)
        ):
            books.heads[phase, mode, worker] = digest
            books.newest[(phase, mode, worker), environment] = episode
        return books

    def copy(self) -> Books:
        """Return the books for a transaction."""
        return Books(self.run, dict(self.members), dict(self.places), dict(self.heads), dict(self.newest))

    def settle(self) -> None:
        """Note what the transaction has done; to be called after its commit."""
        for segment, number in self.numbered.items():
            segment.number = number
        for _, segment in chain.from_iterable(self._rows.values()):
            segment.release()
        self.numbered, self._rows = {}, {}

    def member(self, cursor: sqlite3.Cursor, phase: int, kind: str, name: str) -> int:
        """Return the number of an environment or agent in a phase; give it one if it has none."""
        key = (phase, kind, name)
        number = self.members.get(key)
        if number is None:
            number = _number(cursor.execute(sql.INSERT_MEMBER, (self.run, *key, None, _UNDECLARED)))
            self.members[key] = number
        return number

    def place(
        self, cursor: sqlite3.Cursor, key: tuple[int, str, str], environment: str | None, position: int
    ) -> None:
        """Note where a member stands in the document's order, and in which environment an agent is."""
        number = self.member(cursor, *key)
        if self.places.get(number) != (environment, position):
            cursor.execute(sql.UPDATE_MEMBER, (environment, position, number))
            self.places[number] = (environment, position)

    def open(self, cursor: sqlite3.Cursor, segment: Segment) -> None:
        """Write the rows of an open episode where no reader sees them."""
        if segment.number is None:
            self._insert(cursor, segment, None)
        self._queue(segment.number or self.numbered[segment], segment)

    def drop(self, cursor: sqlite3.Cursor, segment: Segment) -> None:
        """Remove what was written of an open episode that does not count."""
        if segment.number is not None:
            cursor.execute(sql.DELETE_SEGMENT, (segment.number,))

    def seal(self, cursor: sqlite3.Cursor, seal: Seal) -> None:
        """Make an episode count; one that counts already is only compared.

        Raises:
            Nondeterministic: It counts already, with other rows.
            StoreError: It does not count, but a later one of the same worker does.
        """
        links: Chain = seal.episode[:3]
        newest = self.newest.get((links, seal.environment), -1)
        if seal.episode.episode <= newest:
            self._compare(cursor, seal)
            for segment in seal.segments:
                self.drop(cursor, segment)
            return
        predecessor = self.heads.get(links, b"")
        digest = seal.digest(predecessor)
        outcome = (seal.steps, seal.terminated, seal.truncated, seal.reason, seal.round, seal.inner)
        phase, mode, worker, episode = seal.episode
        row = (self.run, phase, mode, worker, seal.environment, episode, *outcome, digest, predecessor)
        number = _number(cursor.execute(sql.INSERT_EPISODE, row))
        for segment in seal.segments:
            if segment.number is None:
                self._insert(cursor, segment, number)
            else:
                cursor.execute(sql.UPDATE_SEGMENT, (number, segment.number))
            of = segment.number or self.numbered[segment]
            self._queue(of, segment)
            returns = ((of, body, it.steps, it.reward, it.objective) for body, it in segment.returns.items())
            cursor.executemany(sql.INSERT_RETURN, returns)
        self.heads[links] = digest
        self.newest[links, seal.environment] = episode

    def insert_rows(self, cursor: sqlite3.Cursor) -> None:
        """Insert the rows of all segments of this transaction: one call per table, however short the episodes are."""
        for table, statement in ((STEPS.table, sql.INSERT_STEP), ("actions", sql.INSERT_ACTION)):
            parts = self._rows.get(table)
            if parts:
                cursor.executemany(
                    statement, ((number, *row) for number, segment in parts for row in segment.rows)
                )

    def _insert(self, cursor: sqlite3.Cursor, segment: Segment, episode: int | None) -> None:
        member = self.member(cursor, segment.episode.phase, segment.kind.member, segment.name)
        self.numbered[segment] = _number(cursor.execute(sql.INSERT_SEGMENT, (member, episode)))

    def _queue(self, number: int, segment: Segment) -> None:
        if segment.rows:
            self._rows.setdefault(segment.kind.table, []).append((number, segment))

    def _compare(self, cursor: sqlite3.Cursor, seal: Seal) -> None:
        phase, mode, worker, episode = seal.episode
        key = (self.run, phase, mode, worker, seal.environment, episode)
        found = cursor.execute(sql.SELECT_EPISODE, key).fetchone()
        if found is None:
            raise StoreError(
                f"{seal}: expected episodes of a worker in their order, found a later one sealed before"
            )
        if seal.digest(found[1]) != found[0]:
            raise Nondeterministic(f"nondeterministic: {seal}: sealed before with other rows")


def _number(cursor: sqlite3.Cursor) -> int:
    number = cursor.lastrowid
    assert number is not None, "an INSERT into a table with numbers has one"
    return number
