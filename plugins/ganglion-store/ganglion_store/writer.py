"""The writer: records in, whole episodes on disk, each in the transaction that seals it; points of experiments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from ganglion.sdk.store import (
    OPEN_ROWS_BYTES,
    STORE_RESERVE_BYTES,
    Nondeterministic,
    PointBook,
    RunExists,
    StoreError,
    StoreUnavailable,
    StoreWriter,
)
from ganglion_store import texts as sql
from ganglion_store.bodies import (
    PAIR_BITS,
    BodyTable,
    Row,
    action_rows,
    reset_rows,
    spawned_of,
    step_rows,
    table_of,
    timelines_of,
)
from ganglion_store.books import Books, withdraw, withdraw_behind
from ganglion_store.engine import Cursor, engine_of
from ganglion_store.records import ACTIONS, BODY_ACTIONS, BODY_STEPS, RESETS, STEPS, RowKind, fields_of, to_json
from ganglion_store.segment import Episode, Seal, Segment
from ganglion_store.values import Declarations, Declared, checked, declared_lists, ragged_of
from ganglion_store.verify import Verification

Write = Callable[[Cursor, Books], None]


_ELSEWHERE = "; a kernel with another results folder has it in this store: choose another id (--name)"


class _Doubt(NamedTuple):
    """Hold a transaction of which is not known whether it was carried out."""

    books: Books
    writes: int
    faults: Sequence[StoreError | Nondeterministic]


class SqlWriter(StoreWriter):
    """Write the results of one run into a database.

    Rows of open episodes are held in memory; a commit that finds more than `open_rows_bytes` of them writes them to
    disk, where no view shows them.
    What `apply` takes waits as a list of writes; `commit` performs them in one transaction. Whatever a transaction
    needs to know or changes of the database's state stands in `Books`, of which a failed transaction leaves no trace.
    A transaction whose COMMIT broke is in doubt until its number could be read back.
    """

    def __init__(
        self,
        uri: str,
        run: str,
        resume: bool = False,
        started: str = "",
        open_rows_bytes: int = OPEN_ROWS_BYTES,
        **options: Any,
    ) -> None:
        self._run, self._started = run, started
        self._limit_bytes = open_rows_bytes
        self._open: dict[Episode, dict[tuple[str, str, int | None], Segment]] = {}
        self._bodies: dict[int, BodyTable] = {}
        self._touched: dict[int, Segment] = {}  # by identity: those with rows that are not absorbed
        self._open_bytes = 0
        self._declarations = Declarations()
        self._pending: list[Write] = []
        self._books = Books()
        self._begun = resume
        self._begin: Write | None = None
        self._doubt: _Doubt | None = None
        self._broken = False
        self._engine = engine_of(uri, **options)
        self._path = self._engine.place
        self._connection = self._engine.connect()
        try:
            with self._engine.told(f"open run {run}"):
                self._enter(resume)
            with self._engine.told(f"keep {STORE_RESERVE_BYTES} bytes in reserve"):
                self._reserve = self._engine.reserve(self._connection, STORE_RESERVE_BYTES)
        except BaseException:
            self._connection.close()
            raise
        self._closed = self._verified = False

    def _enter(self, resume: bool) -> None:
        found = self._connection.execute(sql.SELECT_RUN, (self._run,)).fetchone()
        if found and not (resume and self._is_ours(found)):
            raise RunExists(f"{self._path}: expected a new run, found results of run {self._run}{_ELSEWHERE}")
        if not resume:
            return
        self._begun = bool(found)
        if not found:
            return  # it was lost before it had written anything
        self._books = Books.read(self._connection, found[0])
        self._books.fence(self._connection.cursor(), self._run)
        rows = self._connection.execute(sql.SELECT_DECLARATIONS, found)
        for key, declared in declared_lists(rows).items():
            self._declarations.add(key, declared)
        for phase, *row, each, position, dynamic in self._connection.execute(sql.SELECT_BODIES, found):
            table = self._bodies.setdefault(phase, BodyTable())
            if dynamic:
                table.pairs[position >> PAIR_BITS] = (row[0], row[1])
            else:
                table.rows.append((row[0], row[1], row[2]))
            table.each |= {row[1]} if each else set()
        self._connection.execute(sql.DELETE_OPEN, found)

    def _is_ours(self, run: Sequence[Any]) -> bool:
        """Say whether a run began when ours did: one of another results folder may have been first."""
        return not self._started or self._connection.execute(sql.SELECT_STARTED, run).fetchone() == (self._started,)

    # -- taking -------------------------------------------------------------------------------------------------------

    def apply(self, writer: str, records: Sequence[Sequence[Any]]) -> None:
        """Take the records of one batch; see `StoreWriter.apply`."""
        if self._doubt is not None:
            raise StoreUnavailable(f"{self._path}: expected a commit first: the outcome of the last is not known")
        try:
            for record in records:
                fields = fields_of(record)
                self._begun = self._begun or record[0] == "run"
                if not self._begun:
                    raise StoreError(f"expected the record `run` before any other, found {record[0]} of {writer}")
                if record[0] == "steps":
                    self._take(writer, STEPS, fields)
                elif record[0] == "actions":
                    self._take(writer, ACTIONS, fields)
                elif record[0] in ("body_steps", "body_actions"):
                    self._take_bodies(writer, record[0], fields)
                elif record[0] == "resets":
                    self._take_resets(writer, fields)
                else:
                    getattr(self, f"_on_{record[0]}")(fields)
        finally:
            self._absorb()

    def _take(self, writer: str, kind: RowKind, fields: Sequence[Any]) -> None:
        phase, mode, worker, name, number, rows, blocks = fields
        if rows:
            self._segment(writer, kind, name, Episode(phase, mode, worker, number)).take(rows, blocks)

    def _segment(self, writer: str, kind: RowKind, name: str, episode: Episode, body: int | None = None) -> Segment:
        """Return the open segment to which rows are to be added."""
        segments = self._open.setdefault(episode, {})
        key = (kind.table, name, body)
        segment = segments.get(key)
        if segment is None:
            segment = segments[key] = Segment(kind, name, episode, writer, body)
        self._touched[id(segment)] = segment
        return segment

    def _take_bodies(self, writer: str, kind: str, fields: Sequence[Any]) -> None:
        """Take the columns of many bodies as rows of their episodes."""
        phase, mode, worker, name, entries = fields
        table = self._bodies.get(phase)
        if table is None:
            raise StoreError(f"record {kind}: expected a record `bodies` of phase {phase} before")
        member = "environment" if kind == "body_steps" else "agent"

        def declared(within: str = "") -> dict[str, Sequence[Declared]]:
            kinds = ("sensor", "actuator", "reward")
            return {kind: self._declarations.of(phase, member, name, kind, within) for kind in kinds}

        found: dict[tuple[Episode, int | None], list[Row]] = {}
        if kind == "body_steps":
            for number, timeline, row in step_rows(entries, table, name, declared()):
                found.setdefault((Episode(phase, mode, worker, number, timeline), None), []).append(row)
        else:
            for number, timeline, body, row in action_rows(entries, table, name, declared):
                found.setdefault((Episode(phase, mode, worker, number, timeline), body), []).append(row)
        for (episode, whose), rows in found.items():
            known = rows[0][-3] is not None
            rows_of = BODY_STEPS if kind == "body_steps" else BODY_ACTIONS if known else ACTIONS
            self._segment(writer, rows_of, name, episode, whose).take(rows)

    def _take_resets(self, writer: str, fields: Sequence[Any]) -> None:
        """Take first readings."""
        phase, mode, worker, name, entries = fields
        declared = self._declarations.of(phase, "environment", name, "sensor")
        for number, timeline, row in reset_rows(entries, self._bodies.get(phase), name, declared):
            self._segment(writer, RESETS, name, Episode(phase, mode, worker, number, timeline)).take([row])

    def _on_bodies(self, fields: Sequence[Any]) -> None:
        phase, given = fields
        table, rows = table_of(given)
        known = self._bodies.setdefault(phase, table)
        if known.rows != table.rows or known.each != table.each:
            raise Nondeterministic(f"nondeterministic: phase {phase} had other bodies before")

        def write(cursor: Cursor, books: Books) -> None:
            there = {row[0] for row in cursor.execute(sql.SELECT_BODIES, (books.run,)).fetchall()}
            if phase not in there:
                made = ((books.run, phase, i, *row[:7], row[8], False, row[7]) for i, row in enumerate(rows))
                cursor.executemany(sql.INSERT_BODY, made)

        self._pending.append(write)

    def _on_spawned(self, fields: Sequence[Any]) -> None:
        phase, given = fields
        table = self._bodies.get(phase)
        if table is None:
            raise StoreError(f"record spawned: expected a record `bodies` of phase {phase} before")
        rows = spawned_of(given)
        table.pairs |= {row[0] >> PAIR_BITS: (row[1], row[2]) for row in rows}

        def write(cursor: Cursor, books: Books) -> None:  # another worker may have spawned its like
            made = ((books.run, phase, *row[:8], row[9], True, row[8]) for row in rows)
            cursor.executemany(sql.INSERT_SPAWNED, made)

        self._pending.append(write)

    def _on_opponents(self, fields: Sequence[Any]) -> None:
        self._take_play("opponents", fields, int)

    def _on_ratings(self, fields: Sequence[Any]) -> None:
        self._take_play("ratings", fields, float)

    def _take_play(self, table: str, fields: Sequence[Any], kind: type) -> None:
        """Take what bodies played by, or how good their sides are: rows of tick, number of the body, value."""
        phase, worker, rows = fields
        count = len(self._bodies.get(phase, BodyTable()).rows)
        for row in rows:
            whole = type(row) in (list, tuple) and [*map(type, row)] == [int, int, kind]
            if not whole or not (row[0] >= 0 and 0 <= row[1] < count):
                text = f"expected [tick, number of one of {count} bodies, {kind.__name__}]"
                raise StoreError(f"record {table}: {text}, found {row!r:.100}")

        def write(cursor: Cursor, books: Books) -> None:
            for tick, position, value in rows:
                key = (books.run, phase, worker, tick, position)
                found = cursor.execute(sql.SELECT_PLAY[table], key).fetchone()
                if found is not None and not books.keeps(phase):
                    _compare(f"{table} of body {position} at tick {tick} of worker {worker}", found, (value,))
                cursor.execute(sql.UPSERT_PLAY[table], (*key, value))

        self._pending.append(write)

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

        def write(cursor: Cursor, books: Books) -> None:
            if books.run is not None:
                return  # the run is there: a store that was started again is told again
            books.run = cursor.execute(sql.INSERT_RUN, row).lastrowid

        self._begin = write
        self._pending.append(write)

    def _on_declare(self, fields: Sequence[Any]) -> None:
        key, rows = checked(fields)
        declared = [Declared(name, dtype, shape, ragged_of(space)) for name, space, _, dtype, shape in rows]
        if not self._declarations.add(key, declared):
            return

        def write(cursor: Cursor, books: Books) -> None:
            values = (
                (books.run, *key, position, name, space, unit, dtype, json.dumps(list(shape)))
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

        def write(cursor: Cursor, books: Books) -> None:
            cursor.execute(sql.UPSERT_PHASE, (books.run, phase, mode, name, status, reason))
            books.stale.add((phase, mode))

        self._pending.append(write)

    def _on_signal(self, fields: Sequence[Any]) -> None:
        *values, data, number, inner, ordinal = fields
        row = (*values, None if data is None else to_json(data), number, inner)

        def write(cursor: Cursor, books: Books) -> None:
            if ordinal is not None and ordinal < 0:  # counted within an episode, whose rows come again when lost
                phase, worker, episode, *_ = row
                key = (books.run, ordinal, phase, worker, episode, row[7])
                if cursor.execute(sql.SELECT_TOLERATED, key).fetchone() is not None:
                    return
            elif ordinal is not None:
                found = cursor.execute(sql.SELECT_SIGNAL, (books.run, ordinal)).fetchone()
                if found is not None:
                    _compare(f"signal {ordinal}", found, row)
                    return
            cursor.execute(sql.INSERT_SIGNAL, (books.run, *row, ordinal))

        self._pending.append(write)

    def _on_topic(self, fields: Sequence[Any]) -> None:
        phase, mode, worker, *row, value, number = fields

        def write(cursor: Cursor, books: Books) -> None:
            key = (books.run, phase, mode, worker)
            found = cursor.execute(sql.SELECT_TOPIC, (*key, number)).fetchone()
            told = (*row, to_json(value))
            if found is not None and tuple(found) != told:  # the run went back, and says something else from here on
                cursor.execute(sql.DELETE_TOPICS, (*key, number - 1))
            if found is None or tuple(found) != told:
                cursor.execute(sql.INSERT_TOPIC, (*key, number, *told))

        self._pending.append(write)

    def _on_evaluation(self, fields: Sequence[Any]) -> None:
        phase, agent, number, episode, metrics, brain, completed = fields
        row = (episode, to_json(metrics), brain)

        def write(cursor: Cursor, books: Books) -> None:
            key = (books.run, phase, agent, number)
            found = cursor.execute(sql.SELECT_EVALUATION, key).fetchone()
            if found is None:
                cursor.execute(sql.INSERT_EVALUATION, (*key, *row, completed))
            elif not books.keeps(phase):
                _compare(f"evaluation {number} of agent {agent}, phase {phase}", found[:2], row[:2])

        self._pending.append(write)

    def _on_brain(self, fields: Sequence[Any]) -> None:
        phase, agent, tag, episode, updates, _, _, sha256, path = fields
        key = (phase, agent, tag, episode, updates, sha256, path)
        self._pending.append(partial(_insert_once, sql.SELECT_BRAIN, key, sql.INSERT_BRAIN, fields))

    def _on_incident(self, fields: Sequence[Any]) -> None:
        self._pending.append(partial(_insert_once, sql.SELECT_INCIDENT, fields[:4], sql.INSERT_INCIDENT, fields))

    def _on_end(self, fields: Sequence[Any]) -> None:
        def write(cursor: Cursor, books: Books) -> None:
            found = cursor.execute(sql.SELECT_ALL["runs"], (books.run,)).fetchone()
            if found is None or list(found[4:6]) != list(fields[:2]):  # else the first time stays
                cursor.execute(sql.UPDATE_RUN, (*fields, books.run))
            books.ended = True

        self._pending.append(write)

    def _on_episode(self, fields: Sequence[Any]) -> None:
        phase, mode, worker, environment, number, *outcome = fields
        self._absorb()
        seal = Seal(Episode(phase, mode, worker, number), environment or "", *outcome)
        timeline = seal.episode._replace(timeline=seal.environment)
        if phase in self._bodies and seal.environment:
            seal.segments = list(self._open.pop(timeline, {}).values())
        else:
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
        if segment.kind.member == "environment":
            return segment.name
        return self._declarations.environment_of(segment.episode.phase, segment.name)

    # -- writing ------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Make everything durable that was applied, in one transaction; see `StoreWriter.commit`."""
        with self._engine.told(f"write results of run {self._run}"):
            if not self._broken:
                self._engine.check(self._connection)
            if self._broken or self._doubt is not None:
                self._reconnect()
                self._read_back()
            spilled = list(self._open_segments()) if self._open_bytes > self._limit_bytes else []
            if not self._pending and not spilled:
                return
            try:
                self._transact(spilled)
            except self._engine.errors:
                self._broken = True
                self._let_go()
                raise
            self._engine.check(self._connection)  # what was written into a file that is gone is not there

    def _transact(self, spilled: Sequence[Segment]) -> None:
        """Perform the writes that wait in one transaction; raise the first of those that were refused, at its end."""
        pending, books = self._pending, self._books.copy()
        faults: list[StoreError | Nondeterministic] = []
        cursor = self._connection.cursor()
        self._engine.begin(cursor, self._run)
        try:
            self._engine.check_schema(self._connection)
            if books.run is None and cursor.execute(sql.SELECT_RUN, (self._run,)).fetchone():
                raise RunExists(
                    f"run {self._run}: expected one writer, found that another one has begun it{_ELSEWHERE}"
                )
            for write in pending:
                try:
                    write(cursor, books)
                except (StoreError, Nondeterministic) as error:
                    faults.append(error)
            for segment in spilled:
                books.open(cursor, segment)
            books.insert_rows(cursor)
            books.conclude(cursor, self._run)
        except BaseException:
            with suppress(*self._engine.errors):  # the first error is the cause
                if self._connection.in_transaction:
                    cursor.execute("ROLLBACK")
            raise
        self._doubt = _Doubt(books, len(pending), faults)
        cursor.execute("COMMIT")
        self._settle(self._doubt)

    def _settle(self, done: _Doubt) -> None:
        """Note that a transaction was carried out; raise the first of its faults."""
        self._doubt = None
        done.books.settle()
        self._books = done.books
        self._pending = self._pending[done.writes :]
        self._open_bytes = sum(segment.size_bytes for segment in self._open_segments())
        if done.faults:
            raise done.faults[0]

    def _reconnect(self) -> None:
        """Open the file again after an error: what the old connection still holds is not to be trusted."""
        with suppress(*self._engine.errors):
            self._connection.close()
        self._connection = self._engine.connect_again()
        self._broken = False

    def _let_go(self) -> None:
        """Leave a transaction whose COMMIT broke: until we write again others would wait for our lock in vain."""
        with suppress(*self._engine.errors):
            if self._connection.in_transaction:
                self._connection.close()

    def _read_back(self) -> None:
        """Find out whether a transaction was carried out whose COMMIT broke."""
        doubt = self._doubt
        if doubt is None:
            return
        self._engine.settle(self._connection, self._run)
        run = self._connection.execute(sql.SELECT_RUN, (self._run,)).fetchone()
        found = None if run is None else self._connection.execute(sql.SELECT_LEDGER, run).fetchone()
        if found is not None and found[0] == doubt.books.commits:
            self._settle(doubt)
        self._doubt = None

    def is_open(self, record: Sequence[Any]) -> bool:
        """Say whether rows belong to an episode that is not sealed; see `StoreWriter.is_open`."""
        phase, mode, worker, name, number = fields = fields_of(record)[:5]
        if record[0] in ("body_steps", "body_actions", "resets"):
            table = self._bodies.get(phase)
            newest = self._books.newest
            return any(
                Episode(phase, mode, worker, episode, timeline) in self._open
                and episode > newest.get(((phase, mode, worker), timeline), -1)  # else heard again, in parts
                for timeline, episode in timelines_of(record[0], fields[-1], table, name)
            )
        return (record[0], name, None) in self._open.get(Episode(phase, mode, worker, number), ())

    def withdraw(self, phase: int = 0) -> int:
        """Withdraw what keeps a run that was cut short from going on; see `StoreWriter.withdraw`."""
        return self._take_back(lambda cursor, books: withdraw(cursor, books, phase))

    def withdraw_behind(
        self,
        phase: int,
        episodes: Mapping[tuple[int, str, int, str], int],
        evaluations: Mapping[tuple[int, str], int],
        topics: Mapping[tuple[int, str, int], int] = MappingProxyType({}),
    ) -> int:
        """Withdraw, from a phase on, what comes behind those named; see `StoreWriter.withdraw_behind`."""
        return self._take_back(partial(withdraw_behind, phase=phase, stays=(episodes, evaluations, topics)))

    def _take_back(self, work: Callable[[Cursor, Books], int]) -> int:
        if self._books.run is None:
            return 0
        taken: list[int] = []
        self._pending.append(lambda cursor, books: taken.append(work(cursor, books)))
        self.commit()
        return taken[-1]

    def keep(self, phase: int) -> None:
        """Compare nothing from a phase on with what was sealed before; see `StoreWriter.keep`."""
        self._books.kept_from = phase

    def heads(self) -> Mapping[str, Any] | None:
        """Return the digests that protect the run, None until its end is durable; see `StoreWriter.heads`."""
        heads = self._books.digests()
        if heads is not None and not self._verified:
            self._verify()
            self._verified = True
        return heads

    def _verify(self) -> None:
        """Read the run back over another connection, as readers do; StoreDamaged if it is not what was written."""
        with closing(self._engine.connect_reading()) as connection, self._engine.told("be read"):
            found = connection.execute(sql.SELECT_RUN, (self._run,)).fetchone()
            if found is None:
                raise self._engine.damaged(f"the rows of run {self._run} are not there")
            verification = Verification(self._engine, connection, found[0], self._run, False, self.working)
            for damage in verification.damages():
                raise self._engine.damaged(f"{damage.kind} {damage.where}: {damage.text}")

    def abandon(self, status: str, reason: str, ended: str) -> None:
        """Give up what is not durable, and write how the run ended; see `StoreWriter.abandon`."""
        self._reserve.release()
        if self._doubt is not None:
            with self._engine.told(f"write the end of run {self._run}"), suppress(Nondeterministic):
                self._reconnect()
                self._read_back()
        begin = [] if self._begin is None else [self._begin]
        drops = list(map(_dropping, self._open_segments()))
        self._open, self._open_bytes = {}, 0
        self._pending = [*begin, *drops]
        self._on_end((status, reason, ended))
        self.commit()

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
                self._pending.append(_dropping(segment))

    def close(self) -> None:
        """Commit, forget the rows of open episodes, and let go of the store."""
        if self._closed:
            return
        self._closed = True
        try:
            for writer in {segment.writer for segment in self._open_segments()}:
                self.discard(writer)
            self.commit()
            self._engine.tidy(self._connection)
        finally:
            self._reserve.release()
            self._connection.close()


def _insert_once(
    query: str, key: Sequence[Any], statement: str, row: Sequence[Any], cursor: Cursor, books: Books
) -> None:
    if cursor.execute(query, (books.run, *key)).fetchone() is None:
        cursor.execute(statement, (books.run, *row))


def _dropping(segment: Segment) -> Write:
    return lambda cursor, books: books.drop(cursor, segment)


def _compare(what: str, found: Sequence[Any], row: Sequence[Any]) -> None:
    if tuple(found) != tuple(row):
        raise Nondeterministic(f"nondeterministic: {what}: {found!r:.200} before, now {row!r:.200}")


_NAMES = ("point", "row", "repetition", "seed", "factors", "digest", "state", "run", "reason")


class SqlPointBook(PointBook):
    """Keep the points of one experiment in a database; see `PointBook`."""

    def __init__(self, uri: str, experiment: str) -> None:
        self._experiment = experiment
        self._engine = engine_of(uri)
        self._connection = self._engine.connect()

    def points(self) -> list[dict[str, Any]]:
        """Return the points that are known, by number."""
        with self._engine.told("read points"):
            rows = self._connection.execute(sql.SELECT_POINTS, (self._experiment,)).fetchall()
        points = [dict(zip(_NAMES, row, strict=True)) for row in rows]
        return [{**point, "factors": json.loads(point["factors"])} for point in points]

    def plan(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Take points as planned; those that are done stay as they are."""
        names = ("point", "row", "repetition", "seed")
        rows = [
            (
                self._experiment,
                *(point[name] for name in names),
                json.dumps(point["factors"], ensure_ascii=False),
                point["digest"],
                "planned",
                None,
                None,
            )
            for point in points
        ]
        with self._engine.told("write points"), self._engine.transaction(self._connection, self._experiment) as cursor:
            cursor.executemany(sql.UPSERT_POINT, rows)

    def change(self, point: int, state: str, run: str | None, reason: str | None = None) -> None:
        """Note the state of a point, in a transaction of its own."""
        row = (state, run, reason, self._experiment, point)
        with self._engine.told("write a point"):
            changed = self._connection.execute(sql.UPDATE_POINT, row).rowcount
        if changed != 1:
            raise StoreError(f"{self._engine.place}: expected point {point} of {self._experiment}, found none")

    def close(self) -> None:
        """Let go of the store."""
        self._connection.close()
