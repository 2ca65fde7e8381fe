"""Verify: recomputes from the rows of a run what protects them, and names what is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from itertools import chain, zip_longest
from typing import Any

from ganglion.sdk.store import Damage, StoreError
from ganglion_store import texts as sql
from ganglion_store.engine import Connection, Cursor, Engine
from ganglion_store.records import ACTIONS, BODY_ACTIONS, BODY_STEPS, RESETS, STEPS
from ganglion_store.segment import (
    DIGEST_BYTES,
    SEALED,
    Episode,
    Return,
    Seal,
    Segment,
    phase_head,
    row_digest,
    run_head,
    sealed_of,
)
from ganglion_store.values import Declarations, declared_lists, ragged_of, shape_of

_FETCH = 500  # rows that are held at a time
_ENDED = frozenset({"finished", "failed", "interrupted"})
# Of each table: the rows without bodies, those with some, the query, and the column that only the latter have.
_KINDS = {
    "steps": (STEPS, BODY_STEPS, sql.SELECT_STEPS, 10),
    "actions": (ACTIONS, BODY_ACTIONS, sql.SELECT_ACTIONS, 11),
    "resets": (RESETS, RESETS, sql.SELECT_RESETS, 5),
}
# What names a row in a message, if it has it.
_KEYS = ("phase", "mode", "worker", "environment", "agent", "kind", "tag", "name", "number", "episode", "step", "id")
Chain = tuple[Any, Any, Any]  # phase, mode, worker


class Verification:
    """Verify the run with a number on a connection that reads, and the whole file too if that is asked.

    Nothing of the run is held but a few rows and the heads of its chains. `working` is called with every few rows.
    """

    def __init__(
        self,
        engine: Engine,
        connection: Connection,
        run: int,
        name: str,
        whole_file: bool = True,
        working: Callable[[], None] = lambda: None,
    ) -> None:
        self._working = working
        self._engine = engine
        self._unread: tuple[type[Exception], ...] = (*engine.errors, UnicodeError)
        self._connection = connection
        self._run = run
        self._name = name
        self._whole_file = whole_file
        self._declarations = Declarations()
        self._heads: dict[Chain, bytes] = {}
        self._counts: dict[Chain, int] = {}

    def damages(self) -> Iterator[Damage]:
        """Yield what is damaged: the file as SQLite sees it, episodes, heads of phases, sealed rows, the run's head.

        All is read from one state of the database, also beside a writer.
        """
        parts = (self._file, self._declared, self._episodes, self._phases, self._seals)
        try:
            with self._engine.snapshot(self._connection):
                for part in parts:
                    yield from part()
        except self._unread as error:
            yield Damage("store", self._engine.place, f"cannot be read: {error}")

    def _file(self) -> Iterator[Damage]:
        for text in self._engine.flaws(self._connection) if self._whole_file else ():
            yield Damage("store", self._engine.place, text)

    def _rows(self, query: str, *parameters: Any) -> AbstractContextManager[Cursor]:
        return closing(self._engine.stream(self._connection, query, parameters))

    def _declared(self) -> Iterator[Damage]:
        """Read the declarations, by which rewards are summed; whether they are what was sealed is seen later."""
        whole = []
        for row in self._connection.execute(sql.SELECT_DECLARATIONS, (self._run,)):
            try:
                shape_of(row[-2]), ragged_of(row[-1])
                whole.append(row)
            except (TypeError, ValueError, RecursionError):
                *_, kind, name, _, shape, _ = row
                yield Damage("row", f"declarations, {kind} {name!r:.60}", f"its shape is {shape!r:.40}")
        for owner, found in declared_lists(whole).items():
            self._declarations.add(owner, found)

    # -- episodes -----------------------------------------------------------------------------------------------------
    def _episodes(self) -> Iterator[Damage]:
        with self._rows(sql.SELECT_ALL_EPISODES, self._run) as rows:
            for number, phase, mode, worker, environment, episode, *outcome, digest, predecessor in rows:
                outcome[1:3] = map(_flag, outcome[1:3])
                seal = Seal(Episode(phase, mode, worker, episode), environment, *outcome)
                links = (phase, mode, worker)
                if predecessor != self._heads.get(links, b""):
                    yield Damage("episode", str(seal), "the episode before it is missing, changed, or not that one")
                yield from self._episode(number, seal, digest, predecessor)
                self._heads[links] = digest
                self._counts[links] = self._counts.get(links, 0) + 1

    def _episode(self, number: int, seal: Seal, digest: Any, predecessor: Any) -> Iterator[Damage]:
        """Compare an episode with its digest, and its returns with its rows."""
        try:
            for segment, table, name, _ in self._connection.execute(sql.SELECT_SEGMENTS, (number,)).fetchall():
                found = self._segment(segment, table, name, seal.episode._replace(timeline=seal.environment))
                seal.segments.append(found)
                yield from self._returns(segment, found)
            if not isinstance(predecessor, bytes) or seal.digest(predecessor) != digest:
                yield Damage("episode", str(seal), "it is not what was sealed")
        except (StoreError, OverflowError, TypeError, KeyError) as error:
            yield Damage("episode", str(seal), f"it cannot be read: {error}")
        except self._unread as error:
            yield Damage("episode", str(seal), f"it cannot be read: {error}")

    def _segment(self, number: int, table: str, name: str, episode: Episode) -> Segment:
        """Read the rows of a segment as they were taken; none of them is kept."""
        rows_of, with_bodies, query, own = _KINDS[table]
        with self._rows(query, number) as rows:
            found = rows.fetchmany(_FETCH)
            if found and found[0][own] is not None:
                rows_of = with_bodies
            segment = Segment(rows_of, name, episode, "")
            width = len(rows_of.columns)
            flags = {place for place, column in enumerate(rows_of.columns) if column in ("terminated", "truncated")}
            while found:
                self._working()
                segment.take([[_flag(v) if at in flags else v for at, v in enumerate(row[:width])] for row in found])
                segment.absorb(self._declarations)
                segment.release()
                found = rows.fetchmany(_FETCH)
        return segment

    def _returns(self, number: int, segment: Segment) -> Iterator[Damage]:
        rows = self._connection.execute(sql.SELECT_RETURNS, (number,)).fetchall()
        stored = {body: (steps, reward, objective) for body, steps, reward, objective in rows}
        for body in sorted({*stored, *segment.returns}):
            summed = segment.returns.get(body)
            if summed is None or stored.get(body) != _resting(summed):
                where = f"returns of agent {segment.name}, body {body}, {segment.episode}"
                yield Damage("row", where, "it is not the sum of the rows")

    # -- heads and seals ----------------------------------------------------------------------------------------------
    def _phases(self) -> Iterator[Damage]:
        for phase, mode, *_, head in self._connection.execute(sql.SELECT_ALL["phases"], (self._run,)):
            found = ((c, d) for c, d in self._heads.items() if c[:2] == (phase, mode))
            chains = [(c[2], self._counts[c], digest) for c, digest in found]
            if head != phase_head(chains):
                text = "its newest episodes are not those that it was left with"
                yield Damage("phase", f"{phase}, {mode}", text)

    def _seals(self) -> Iterator[Damage]:
        """Compare the rows that belong to no episode with the seals that were made at the end."""
        head = self._connection.execute(sql.SELECT_HEAD, (self._run,)).fetchone()[0]
        if head is None:
            status = self._connection.execute(SEALED["runs"], (self._run,)).fetchone()[4]
            if status in _ENDED:
                yield Damage("row", f"runs, {self._name}", f"the run is {status}, but nothing seals it")
            return
        sealed = sealed_of(self._connection, self._run)
        for name, query in sealed.items():
            yield from self._sealed(name, query)
        if run_head((name, self._pieces(name)) for name in sealed) != head:
            yield Damage("row", f"runs, {self._name}", "the seals are not those of this run")

    def _pieces(self, name: str) -> Iterator[bytes]:
        with self._rows(sql.SELECT_SEALS, self._run, name) as pieces:
            for expected, (position, piece) in enumerate(pieces):
                yield piece if position == expected and isinstance(piece, bytes) else b"?"

    def _sealed(self, name: str, query: str) -> Iterator[Damage]:
        with self._rows(query, self._run) as rows:
            keys = [column[0] for column in rows.description]
            digests = chain.from_iterable(map(_cut, self._pieces(name)))
            for number, (row, digest) in enumerate(zip_longest(rows, digests)):
                if number % _FETCH == 0:
                    self._working()
                if row is None:
                    yield Damage("row", f"{name}, row {number}", "it was sealed and is missing")
                elif digest is None:
                    yield Damage("row", f"{name}, row {number}{_named(keys, row)}", "it was added after the end")
                elif row_digest(row) != digest:
                    yield Damage("row", f"{name}, row {number}{_named(keys, row)}", "it is not what was sealed")


def heads_of(connection: Connection, run: int) -> dict[str, Any] | None:
    """Return what the writer gave as heads at the end of a run, None if it has not ended."""
    found = connection.execute(sql.SELECT_HEAD, (run,)).fetchone()
    if found is None or not isinstance(found[0], bytes):
        return None
    rows = connection.execute(sql.SELECT_ALL["phases"], (run,))
    phases = [
        {"phase": phase, "mode": mode, "head": head.hex() if isinstance(head, bytes) else None}
        for phase, mode, *_, head in rows
    ]
    return {"run": found[0].hex(), "phases": phases}


def _flag(value: Any) -> Any:
    """Return what rests as 0 or 1 as a boolean; anything else stays, and is no boolean."""
    return bool(value) if type(value) is int and value in (0, 1) else value


def _resting(summed: Return) -> tuple[int, float | None, float | None]:
    """Return a sum as a database gives it back, to which what is not a number is unknown."""
    reward, objective = (None if v is None or v != v else v for v in (summed.reward, summed.objective))
    return summed.steps, reward, objective


def _cut(piece: bytes) -> Iterator[bytes]:
    return (piece[at : at + DIGEST_BYTES] for at in range(0, len(piece), DIGEST_BYTES))


def _named(keys: Sequence[str], row: Sequence[Any]) -> str:
    named = [f"{key} {value!r:.60}" for key, value in zip(keys, row, strict=True) if key in _KEYS and value is not None]
    return f" ({', '.join(named)})" if named else ""
