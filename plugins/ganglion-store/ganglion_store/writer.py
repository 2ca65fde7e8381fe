"""The writer: records in, whole episodes on disk, each in the transaction that seals it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ganglion.sdk.store import OPEN_ROWS_BYTES, Nondeterministic, StoreError, StoreWriter
from ganglion_store import statements as sql
from ganglion_store.books import Books
from ganglion_store.database import connect_writing, told
from ganglion_store.declarations import Declarations, checked, shape_of, shape_text
from ganglion_store.records import ACTIONS, STEPS, RowKind, fields_of, to_json
from ganglion_store.segment import Episode, Seal, Segment
from ganglion_store.values import Declared

__all__ = ["SqlWriter"]

Write = Callable[[sqlite3.Cursor, Books], None]


class SqlWriter(StoreWriter):
    """Write the results of one run into SQLite.

    Rows of open episodes are held in memory; a commit that finds more than `open_rows_bytes` of them writes them to
    disk, where no view shows them.
    What `apply` takes waits as a list of writes; `commit` performs them in one transaction. Whatever a transaction
    needs to know or changes of the database's state stands in `Books`, of which a failed transaction leaves no trace.
    """

    def __init__(
        self, uri: str, run: str, resume: bool = False, open_rows_bytes: int = OPEN_ROWS_BYTES
    ) -> None:
        self._run = run
        self._limit_bytes = open_rows_bytes
        self._open: dict[Episode, dict[tuple[str, str], Segment]] = {}
        self._touched: dict[int, Segment] = {}  # by identity: those with rows that are not absorbed
        self._open_bytes = 0
        self._declarations = Declarations()
        self._pending: list[Write] = []
        self._books = Books()
        self._begun = resume
        self._path, self._connection = connect_writing(uri)
        try:
            with told(self._path, f"open run {run}"):
                self._enter(resume)
        except BaseException:
            self._connection.close()
            raise
        self._closed = False

    def _enter(self, resume: bool) -> None:
        found = self._connection.execute(sql.SELECT_RUN, (self._run,)).fetchone()
        if not resume:
            if found:
                raise StoreError(f"{self._path}: expected a new run, found results of run {self._run}")
            return
        if not found:
            raise StoreError(f"{self._path}: expected results of run {self._run} to go on with, found none")
        self._books = Books.read(self._connection, found[0])
        for phase, environment, agent, kind, declared in _stored_declarations(self._connection, found[0]):
            self._declarations.add((phase, environment, agent, kind), declared)
        self._connection.execute(sql.DELETE_OPEN, found)

    # -- taking -------------------------------------------------------------------------------------------------------

    def apply(self, writer: str, records: Sequence[Sequence[Any]]) -> None:
        """Take the records of one batch; see `StoreWriter.apply`."""
        try:
            for record in records:
                fields = fields_of(record)
                self._begun = self._begun or record[0] == "run"
                if not self._begun:
                    raise StoreError(
                        f"expected the record `run` before any other, found {record[0]} of {writer}"
                    )
                if record[0] == "steps":
                    self._take(writer, STEPS, fields)
                elif record[0] == "actions":
                    self._take(writer, ACTIONS, fields)
                else:
                    getattr(self, f"_on_{record[0]}")(fields)
        finally:
            self._absorb()

    def _take(self, writer: str, kind: RowKind, fields: Sequence[Any]) -> None:
        phase, mode, worker, name, number, rows = fields
        if not rows:
            return
        episode = Episode(phase, mode, worker, number)
        segments = self._open.setdefault(episode, {})
        segment = segments.get((kind.table, name))
        if segment is None:
            segment = segments[kind.table, name] = Segment(kind, name, episode, writer)
        segment.take(rows)
        self._touched[id(segment)] = segment

    def _absorb(self) -> None:
        touched, self._touched = self._touched, {}
        for segment in touched.values():
            before = segment.size_bytes
            segment.absorb(self._declarations)
            self._open_bytes += segment.size_bytes - before

    def _on_run(self, fields: Sequence[Any]) -> None:
        run = fields[0]
        names = ("uid", "experiment", "seed", "started")
        wrong = [name for name in names if type(run.get(name)) is not str]
        if wrong:
            raise StoreError(f"record run: expected text as `{wrong[0]}`, found {run.get(wrong[0])!r:.100}")
        values = [run[name] for name in names[:3]] + ["running", None, run["started"]]
        row = (self._run, *values, run.get("document"), run.get("plan_digest"))

        def write(cursor: sqlite3.Cursor, books: Books) -> None:
            if books.run is not None:
                return  # the run is there: a store that was started again is told again
            books.run = cursor.execute(sql.INSERT_RUN, row).lastrowid

        self._pending.append(write)

    def _on_declare(self, fields: Sequence[Any]) -> None:
        key, rows = checked(fields)
        if not self._declarations.add(
            key, [Declared(name, dtype, shape) for name, _, _, dtype, shape in rows]
        ):
            return

        def write(cursor: sqlite3.Cursor, books: Books) -> None:
            values = (
                (books.run, *key, position, name, space, unit, dtype, shape_text(shape))
                for position, (name, space, unit, dtype, shape) in enumerate(rows)
            )
            cursor.executemany(sql.INSERT_DECLARATION, values)
            phase = key[0]
            for position, (kind, name) in enumerate(self._declarations.members(phase)):
                environment = self._declarations.environment_of(phase, name) if kind == "agent" else None
                books.place(cursor, (phase, kind, name), environment, position)

        self._pending.append(write)

    def _on_phase(self, fields: Sequence[Any]) -> None:
        phase, name, mode, status, reason = fields
        self._pending.append(
            lambda cursor, books: _execute(
                cursor, sql.UPSERT_PHASE, books.run, phase, mode, name, status, reason
            )
        )

    def _on_signal(self, fields: Sequence[Any]) -> None:
        *values, data, number, inner = fields
        row = (*values, None if data is None else to_json(data), number, inner)
        self._pending.append(lambda cursor, books: _execute(cursor, sql.INSERT_SIGNAL, books.run, *row))

    def _on_evaluation(self, fields: Sequence[Any]) -> None:
        *key, metrics, brain, completed = fields
        row = (*key, to_json(metrics), brain, completed)
        self._pending.append(lambda cursor, books: _execute(cursor, sql.INSERT_EVALUATION, books.run, *row))

    def _on_brain(self, fields: Sequence[Any]) -> None:
        self._pending.append(lambda cursor, books: _execute(cursor, sql.INSERT_BRAIN, books.run, *fields))

    def _on_end(self, fields: Sequence[Any]) -> None:
        self._pending.append(lambda cursor, books: _execute(cursor, sql.UPDATE_RUN, *fields, books.run))

    def _on_episode(self, fields: Sequence[Any]) -> None:
        phase, mode, worker, environment, number, *outcome = fields
        self._absorb()
        seal = Seal(Episode(phase, mode, worker, number), environment or "", *outcome)
        seal.segments = self._segments_of(seal)
        self._open_bytes -= sum(segment.size_bytes for segment in seal.segments)
        self._pending.append(lambda cursor, books: books.seal(cursor, seal))

    def _segments_of(self, seal: Seal) -> list[Segment]:
        """Take the open segments that an episode seals: all of the worker's, or those of one environment."""
        segments = self._open.pop(seal.episode, {})
        if not seal.environment:
            return list(segments.values())
        mine = [s for s in segments.values() if self._environment_of(s) in (seal.environment, None)]
        rest = {key: s for key, s in segments.items() if s not in mine}
        if rest:
            self._open[seal.episode] = rest
        return mine

    def _environment_of(self, segment: Segment) -> str | None:
        if segment.kind is STEPS:
            return segment.name
        return self._declarations.environment_of(segment.episode.phase, segment.name)

    # -- writing ------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Make everything durable that was applied, in one transaction; see `StoreWriter.commit`."""
        spilled = list(self._open_segments()) if self._open_bytes > self._limit_bytes else []
        if not self._pending and not spilled:
            return
        pending, books = self._pending, self._books.copy()
        with told(self._path, f"write results of run {self._run}"):
            faults = self._transact(pending, spilled, books)
        books.settle()
        self._books = books
        self._pending = []
        self._open_bytes = sum(segment.size_bytes for segment in self._open_segments())
        if faults:
            raise faults[0]

    def _transact(
        self, pending: Sequence[Write], spilled: Sequence[Segment], books: Books
    ) -> list[StoreError | Nondeterministic]:
        """Perform the writes in one transaction; return the faults of those that were refused before they began."""
        faults: list[StoreError | Nondeterministic] = []
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            for write in pending:
                try:
                    write(cursor, books)
                except (StoreError, Nondeterministic) as error:
                    faults.append(error)
            for segment in spilled:
                books.open(cursor, segment)
            books.insert_rows(cursor)
            cursor.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        return faults

    def _open_segments(self) -> Iterator[Segment]:
        return chain.from_iterable(segments.values() for segments in self._open.values())

    def discard(self, writer: str) -> None:
        """Forget the rows of the open episodes of a peer that is gone; see `StoreWriter.discard`."""
        for episode, segments in list(self._open.items()):
            gone = {key: segment for key, segment in segments.items() if segment.writer == writer}
            kept = {key: segment for key, segment in segments.items() if key not in gone}
            self._open[episode] = kept
            if not kept:
                del self._open[episode]
            for segment in gone.values():
                self._open_bytes -= segment.size_bytes
                self._pending.append(partial(_drop, segment))

    def close(self) -> None:
        """Commit, forget the rows of open episodes, and let go of the store."""
        if self._closed:
            return
        self._closed = True
        try:
            for writer in {segment.writer for segment in self._open_segments()}:
                self.discard(writer)
            self.commit()
            # SQLite does this itself unless a reader is open; then the file alone would not be the whole store.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            self._connection.close()


def _drop(segment: Segment, cursor: sqlite3.Cursor, books: Books) -> None:
    books.drop(cursor, segment)


def _execute(cursor: sqlite3.Cursor, statement: str, *values: Any) -> None:
    cursor.execute(statement, values)


def _stored_declarations(
    connection: sqlite3.Connection, run: int
) -> Iterator[tuple[int, str, str, str, list[Declared]]]:
    """Yield the lists that a run has declared."""
    lists: dict[tuple[int, str, str, str], list[Declared]] = {}
    for *key, name, dtype, shape in connection.execute(sql.SELECT_DECLARATIONS, (run,)):
        phase, environment, agent, kind = key
        lists.setdefault((phase, environment, agent, kind), []).append(Declared(name, dtype, shape_of(shape)))
    for (phase, environment, agent, kind), declared in lists.items():
        yield phase, environment, agent, kind, declared
