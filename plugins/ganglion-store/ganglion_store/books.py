"""The books of a writer: what it knows of the rows that are there, compares with them, and takes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store import texts as sql
from ganglion_store.engine import Connection, Cursor
from ganglion_store.records import WIDTHS
from ganglion_store.segment import CUT, OUTCOME, Seal, Segment, is_cut, phase_head, seal_run

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
    places: dict[int, tuple[str | None, int]] = field(default_factory=dict)  # environment, position; by member
    heads: dict[Chain, bytes] = field(default_factory=dict)
    newest: dict[tuple[Chain, str], int] = field(default_factory=dict)  # number of the newest episode
    counts: dict[Chain, int] = field(default_factory=dict)  # of episodes
    commits: int = 0  # transactions of this run that were carried out
    head: bytes | None = None  # of the run, once it has ended
    ended: bool = False
    kept_from: int | None = None  # the phase from which on what counts already is compared with nothing
    stale: set[tuple[int, str]] = field(default_factory=set)  # phase, mode: whose head this transaction changes
    numbered: dict[Segment, int] = field(default_factory=dict)  # in this transaction
    _rows: dict[str, list[tuple[int, Segment]]] = field(default_factory=dict)  # to be inserted at its end

    @classmethod
    def read(cls, connection: Connection, run: int) -> Books:
        """Return the books of a run that is in the database."""
        books = cls(run)
        for number, phase, kind, name, *place in connection.execute(sql.SELECT_MEMBERS, (run,)):
            books.members[phase, kind, name] = number
            books.places[number] = (place[0], place[1])
        for phase, mode, worker, environment, episode, digest in connection.execute(sql.SELECT_CHAINS, (run,)):
            books.heads[phase, mode, worker] = digest
            books.counts[phase, mode, worker] = books.counts.get((phase, mode, worker), 0) + 1
            books.newest[(phase, mode, worker), environment] = episode
        books.commits = (connection.execute(sql.SELECT_LEDGER, (run,)).fetchone() or (0,))[0]
        books.head = (connection.execute(sql.SELECT_HEAD, (run,)).fetchone() or (None,))[0]
        return books

    def copy(self) -> Books:
        """Return the books for a transaction."""
        return replace(
            self,
            members=dict(self.members),
            places=dict(self.places),
            heads=dict(self.heads),
            newest=dict(self.newest),
            counts=dict(self.counts),
            stale=set(),
            numbered={},
            _rows={},
        )

    def settle(self) -> None:
        """Note what the transaction has done; to be called after its commit."""
        for segment, number in self.numbered.items():
            segment.number = number
        for _, segment in chain.from_iterable(self._rows.values()):
            segment.release()
        self.numbered, self._rows, self.stale = {}, {}, set()

    def member(self, cursor: Cursor, phase: int, kind: str, name: str) -> int:
        """Return the number of an environment or agent in a phase; give it one if it has none."""
        key = (phase, kind, name)
        number = self.members.get(key)
        if number is None:
            number = _number(cursor.execute(sql.INSERT_MEMBER, (self.run, *key, None, _UNDECLARED)))
            self.members[key] = number
        return number

    def place(self, cursor: Cursor, key: tuple[int, str, str], environment: str | None, position: int) -> None:
        """Note where a member stands in the document's order, and in which environment an agent is."""
        number = self.member(cursor, *key)
        if self.places.get(number) != (environment, position):
            cursor.execute(sql.UPDATE_MEMBER, (environment, position, number))
            self.places[number] = (environment, position)

    def open(self, cursor: Cursor, segment: Segment) -> None:
        """Write the rows of an open episode where no reader sees them."""
        if segment.number is None:
            self._insert(cursor, segment, None)
        self._queue(segment.number or self.numbered[segment], segment)

    def drop(self, cursor: Cursor, segment: Segment) -> None:
        """Remove what was written of an open episode that does not count."""
        if segment.number is not None:
            cursor.execute(sql.DELETE_SEGMENT, (segment.number,))

    def keeps(self, phase: int) -> bool:
        """Say whether what counts in a phase stays as it is, whatever comes out again."""
        return self.kept_from is not None and phase >= self.kept_from

    def seal(self, cursor: Cursor, seal: Seal) -> None:
        """Make an episode count; one that counts already is only compared.

        Where a run that goes on is cut short before it is where it was, the whole episode that counts stays. What is
        not repeatable is not compared. Nondeterministic if it counts already with other rows, StoreError if it does not
        but a later one of the same worker does.
        """
        links: Chain = seal.episode[:3]
        newest = self.newest.get((links, seal.environment), -1)
        if seal.episode.episode <= newest:
            if not is_cut(seal.reason) and not self.keeps(seal.episode.phase):
                self._compare(cursor, seal)
            for segment in seal.segments:
                self.drop(cursor, segment)
            return
        predecessor = self.heads.get(links, b"")
        digest = seal.digest(predecessor)
        phase, mode, worker, episode, _ = seal.episode
        row = (self.run, phase, mode, worker, seal.environment, episode, *seal.outcome, digest, predecessor)
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
        self.counts[links] = self.counts.get(links, 0) + 1
        self.stale.add((phase, mode))
        self.newest[links, seal.environment] = episode

    def shorten(self, links: Chain, environment: str, head: bytes, newest: int | None) -> None:
        """Note that the last episode of a chain is gone: what its head is now, and the newest in the environment."""
        self.stale.add(links[:2])
        self.counts[links] -= 1
        self.heads[links] = head
        if not head:
            del self.heads[links], self.counts[links]
        self.newest[links, environment] = -1 if newest is None else newest

    def insert_rows(self, cursor: Cursor) -> None:
        """Insert the rows of all segments of this transaction: one call per table, however short the episodes are."""
        for table, statement in _INSERTED.items():
            parts = self._rows.get(table)
            if parts:
                made = ((number, *row, *_lacking(segment)) for number, segment in parts for row in segment.rows)
                cursor.executemany(statement, made)

    def conclude(self, cursor: Cursor, run: str) -> None:
        """Write what protects the rows of this transaction, at its end; StoreError if another writer writes the run."""
        for phase, mode in sorted(self.stale):
            cursor.execute(sql.UPDATE_PHASE_HEAD, (self.phase_head(phase, mode), self.run, phase, mode))
        if self.ended:
            assert self.run is not None, "a run that ends was begun"
            self.head = seal_run(cursor, self.run)
        elif self.head is not None:  # it goes on: what was sealed at its end no longer is the end
            cursor.execute(sql.DELETE_SEALS, (self.run,))
            cursor.execute(sql.UPDATE_RUN_HEAD, (None, self.run))
            self.head = None
        self._count(cursor, run)

    def fence(self, cursor: Cursor, run: str) -> None:
        """Let no writer of this run that came before write any more: one that could not be ended may wake up."""
        if self.commits:
            self._count(cursor, run)

    def _count(self, cursor: Cursor, run: str) -> None:
        self.commits += 1
        if self.commits == 1:
            cursor.execute(sql.INSERT_LEDGER, (self.run, self.commits))
        elif cursor.execute(sql.UPDATE_LEDGER, (self.commits, self.run, self.commits - 1)).rowcount != 1:
            raise StoreError(f"run {run}: expected one writer, found that another one has written meanwhile")

    def digests(self) -> dict[str, Any] | None:
        """Return the heads of the run and of its phases as hexadecimal digits, None while it has not ended."""
        if self.head is None:
            return None
        phases = sorted({chain[:2] for chain in self.heads})
        rows = [{"phase": p, "mode": m, "head": self.phase_head(p, m).hex()} for p, m in phases]
        return {"run": self.head.hex(), "phases": rows}

    def phase_head(self, phase: int, mode: str) -> bytes:
        """Return the digest of all episodes of a phase and mode."""
        chains = ((c, head) for c, head in self.heads.items() if c[:2] == (phase, mode))
        return phase_head((c[2], self.counts[c], head) for c, head in chains)

    def _insert(self, cursor: Cursor, segment: Segment, episode: int | None) -> None:
        member = self.member(cursor, segment.episode.phase, segment.kind.member, segment.name)
        self.numbered[segment] = _number(cursor.execute(sql.INSERT_SEGMENT, (member, episode)))

    def _queue(self, number: int, segment: Segment) -> None:
        if segment.rows:
            self._rows.setdefault(segment.kind.table, []).append((number, segment))

    def _compare(self, cursor: Cursor, seal: Seal) -> None:
        phase, mode, worker, episode, _ = seal.episode
        key = (self.run, phase, mode, worker, seal.environment, episode)
        found = cursor.execute(sql.SELECT_EPISODE, key).fetchone()
        if found is None:
            raise StoreError(f"{seal}: expected episodes of a worker in their order, found a later one sealed before")
        digest, predecessor, number, *outcome = found
        if seal.digest(predecessor) != digest:
            where = first_difference(cursor.connection, number, outcome, seal)
            raise Nondeterministic(f"nondeterministic: {seal}: it was sealed before with other rows: {where}")


_INSERTED = {"resets": sql.INSERT_RESET, "steps": sql.INSERT_STEP, "actions": sql.INSERT_ACTION}
_TABLES = list(_INSERTED)
_QUERIES = {"steps": sql.SELECT_STEPS, "actions": sql.SELECT_ACTIONS, "resets": sql.SELECT_RESETS}


def _lacking(segment: Segment) -> tuple[None, ...]:
    """Return what stands in place of columns that rows without bodies do not have."""
    return (None,) * (WIDTHS[segment.kind.table] - len(segment.kind.columns))


def _number(cursor: Cursor) -> int:
    number = cursor.lastrowid
    assert number is not None, "an INSERT into a table with numbers has one"
    return number


def first_difference(connection: Connection, number: int, outcome: Sequence[Any], seal: Seal) -> str:
    """Return in words where a seal differs from the episode with this number and outcome; nothing is held of it."""
    query = {segment: name for segment, *name in connection.execute(sql.SELECT_SEGMENTS, (number,)).fetchall()}
    bodies = any(segment.body is not None for segment in seal.segments)
    before = {(table, name, body if bodies else None): segment for segment, (table, name, body) in query.items()}
    for segment in sorted(seal.segments, key=lambda s: (_TABLES.index(s.kind.table), s.name, s.body or 0)):
        stored = before.pop((segment.kind.table, segment.name, segment.body), None)
        if stored is None:
            return f"{segment.kind.table} of {segment.kind.member} {segment.name}: none before, now some"
        found = _rows_differ(connection, stored, segment)
        if found:
            return found
    for table, name, _ in before:
        return f"{table} of {'agent' if table == 'actions' else 'environment'} {name}: some before, now none"
    for what, old, new in zip(OUTCOME, outcome, seal.outcome, strict=True):
        if old != new:
            return f"{what}: {old!r:.100} before, now {new!r:.100}"
    return "its rows are of other types"


def _rows_differ(connection: Connection, stored: int, segment: Segment) -> str:
    """Return where the rows of a segment differ from those that are stored; empty if they do not."""
    query = _QUERIES[segment.kind.table]
    width = len(segment.kind.columns)
    old_rows = connection.execute(query, (stored,))
    written = [] if segment.number is None else connection.execute(query, (segment.number,))
    where = f"{segment.kind.table} of {segment.kind.member} {segment.name}"
    for old, new in zip_longest(old_rows, chain(written, map(tuple, segment.rows))):
        old, new = old and old[:width], new and tuple(new[:width])
        if old == new:
            continue
        at = dict(zip(segment.kind.columns, old or new, strict=True))
        place = f"{where}, step {at['step']}" + (f", body {at['body']}" if "body" in at else "")
        if old is None or new is None:
            return f"{place}: {'no row before, now one' if old is None else 'a row before, now none'}"
        rows = zip(segment.kind.columns, old, new, strict=True)
        return f"{place}: {next(name for name, a, b in rows if a != b)}"
    return ""


_PATTERNS = (*CUT, *(f"{word}: %" for word in CUT))


def withdraw(cursor: Cursor, books: Books, phase: int) -> int:
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
    for statement in sql.DELETE_PLAY:
        cursor.execute(statement, (run, phase))
    cursor.execute(sql.UPDATE_CUT_PHASES, ("running", None, run, phase, *CUT))
    cursor.execute(sql.UPDATE_RUN, ("running", None, None, run))
    return episodes


def withdraw_behind(
    cursor: Cursor,
    books: Books,
    phase: int,
    stays: tuple[Mapping[tuple[int, str, int, str], int], Mapping[tuple[int, str], int], Mapping[Chain, int]],
) -> int:
    """Take back, from a phase on, what comes behind the episodes, evaluations and topics that stay.

    Of each chain go the last episodes, up to the first that stays. Return how many episodes that were.
    """
    episodes, evaluations, topics = stays
    taken, whole = 0, set[tuple[Any, ...]]()
    for row in cursor.execute(sql.SELECT_LATER, (books.run, phase)).fetchall():
        number, of, mode, worker, environment, episode, digest, predecessor = row
        links = (of, mode, worker)
        kept = episode <= episodes.get((*links, environment), -1)
        if kept or links in whole or books.heads.get(links) != digest:
            whole.add(links)
            continue
        _take_back(cursor, books, number, (*links, environment), predecessor)
        taken += 1
    for of, agent, number in cursor.execute(sql.SELECT_EVALUATIONS, (books.run, phase)).fetchall():
        if number > evaluations.get((of, agent), -1):
            cursor.execute(sql.DELETE_EVALUATION, (books.run, of, agent, number))
    for of, mode, worker, last in cursor.execute(sql.SELECT_LAST_TOPICS, (books.run, phase)).fetchall():
        if last > topics.get((of, mode, worker), 0):
            cursor.execute(sql.DELETE_TOPICS, (books.run, of, mode, worker, topics.get((of, mode, worker), 0)))
    return taken


def _take_back(cursor: Cursor, books: Books, number: int, place: tuple[int, str, int, str], predecessor: bytes) -> None:
    """Remove the last episode of a chain with all its rows."""
    *_, environment = place
    cursor.execute(sql.DELETE_EPISODE, (number,))
    newest = cursor.execute(sql.SELECT_NEWEST, (books.run, *place)).fetchone()[0]
    books.shorten(place[:3], environment, predecessor, newest)
