"""Segments: the rows of one environment or agent in one open episode; seals: digests of what is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import lt
from typing import Any, NamedTuple

import msgpack

from ganglion.sdk.store import StoreError
from ganglion_store import texts as sql
from ganglion_store.engine import Connection, Cursor
from ganglion_store.records import VALUES, RowKind, Rows
from ganglion_store.values import Declarations, sums, value_lists

ROW_OVERHEAD_BYTES = 400  # measured: what Python needs for a row of small values beside their bytes
CUT = ("interrupted", "failed")
"""Reasons of episodes that were cut short, or how these begin; what an author says never begins like that."""


def is_cut(reason: str) -> bool:
    """Say whether an episode was cut short because its run ended."""
    return reason in CUT or reason.startswith(tuple(f"{word}: " for word in CUT))


class Episode(NamedTuple):
    """Name an episode of one worker; `timeline` is empty where it spans all environments."""

    phase: int
    mode: str
    worker: int
    episode: int
    timeline: str = ""  # of a phase with bodies: an environment, or one of its bodies

    def __str__(self) -> str:
        return f"phase {self.phase}, {self.mode}, worker {self.worker}, episode {self.episode}"


@dataclass(slots=True)
class Return:
    """Sum what one body got in one episode."""

    steps: int = 0
    reward: float | None = None
    objective: float | None = None

    def add(self, reward: float | None, objective: float | None) -> None:
        """Count one decision; None is unknown and changes no sum."""
        self.steps += 1
        if reward is not None:
            self.reward = reward + (self.reward or 0.0)
        if objective is not None:
            self.objective = objective + (self.objective or 0.0)


class Segment:
    """Hold rows until they are written, and what is known of those that are written already.

    Rows arrive in ascending order of step, then body. `number` is the segment's in the database, None as long as it
    has none. `size_bytes` bounds the memory of the rows that are held.
    """

    def __init__(self, kind: RowKind, name: str, episode: Episode, writer: str, body: int | None = None) -> None:
        self.kind = kind
        self.body = body  # of an agent in a phase with bodies
        self.name = name
        self.episode = episode
        self.writer = writer
        self.number: int | None = None
        self.rows: list[Sequence[Any]] = []
        self.size_bytes = 0
        self.returns: dict[int, Return] = {}
        self._fresh: list[Sequence[Any]] = []
        self._blocks: list[Sequence[Any]] = []
        self._digest = hashlib.sha256()
        self._last: tuple[int, int] = (-1, -1)

    def __str__(self) -> str:
        return f"{self.kind.table} of {self.kind.member} {self.name}, {self.episode}"

    def take(self, rows: Sequence[Sequence[Any]], blocks: bool = False) -> None:
        """Take rows as they came, with values in blocks or as they rest; `absorb` checks those of several records."""
        (self._blocks if blocks else self._fresh).extend(rows)

    def absorb(self, declarations: Declarations) -> None:
        """Check the rows that were taken and add them; a StoreError leaves none of them."""
        fresh, self._fresh, blocks, self._blocks = self._fresh, [], self._blocks, []
        if not fresh and not blocks:
            return
        try:
            rows = Rows.of(self.kind, fresh + self._resting(blocks, declarations))
            last = self._ascending(rows)
            if self.kind.member == "agent":
                self._sum(rows, declarations)
        except StoreError as error:
            raise StoreError(f"{self}: {error}") from error
        self._last = last
        self._digest.update(rows.packed)
        self.rows.extend(rows.rows)
        self.size_bytes += len(rows.packed) + ROW_OVERHEAD_BYTES * len(rows.rows)

    def release(self) -> None:
        """Forget the rows, which are written."""
        self.rows = []
        self.size_bytes = 0

    def digest(self) -> bytes:
        """Return the SHA-256 of all rows in canonical form, however they were cut into batches."""
        return self._digest.digest()

    def _ascending(self, rows: Rows) -> tuple[int, int]:
        """Return the last (step, body); raise if any row does not come after the one before it."""
        steps = rows.columns[self.kind.columns.index("step")]
        bodies: Iterable[int] = rows.columns[0] if self.kind.member == "agent" else [0] * len(steps)
        keys = list(zip(steps, bodies, strict=True))
        if not (self._last < keys[0] and all(map(lt, keys, keys[1:]))):
            pairs = zip([self._last, *keys], keys, strict=False)
            last, wrong = next(pair for pair in pairs if not pair[0] < pair[1])
            raise StoreError(
                f"expected rows in ascending order after step {last[0]}, body {last[1]}; "
                f"found step {wrong[0]}, body {wrong[1]}"
            )
        return keys[-1]

    def _resting(self, rows: list[Sequence[Any]], declarations: Declarations) -> list[Sequence[Any]]:
        """Return rows with their values as value lists, whole columns at once; rows of another form stay."""
        if len({*map(len, rows)}) != 1:
            return rows
        columns = list(zip(*rows, strict=True))
        for place, name in enumerate(self.kind.columns[: len(columns)]):
            if name in VALUES:
                declared = declarations.of(self.episode.phase, self.kind.member, self.name, VALUES[name])
                columns[place] = value_lists(columns[place], declared)
        return list(zip(*columns, strict=True))

    def _sum(self, rows: Rows, declarations: Declarations) -> None:
        columns = dict(zip(self.kind.columns, rows.columns, strict=True))
        declared = declarations.of(self.episode.phase, "agent", self.name, "reward", self.episode.timeline)
        rewards = sums(columns["rewards"], declared)
        for body, reward, objective in zip(columns["body"], rewards, columns["objective"], strict=True):
            found = self.returns.get(body)
            if found is None:
                found = self.returns[body] = Return()
            found.add(reward, objective)


OUTCOME = ("steps", "terminated", "truncated", "reason", "round", "inner")


@dataclass(slots=True)
class Seal:
    """Say that an episode is over: its row, and the segments that belong to it."""

    episode: Episode
    environment: str
    steps: int
    terminated: bool
    truncated: bool
    reason: str
    round: int
    inner: int = 0
    segments: list[Segment] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.episode}, environment {self.environment}" if self.environment else str(self.episode)

    @property
    def outcome(self) -> tuple[Any, ...]:
        """Return what is said of the episode, in the order of its columns."""
        return tuple(getattr(self, name) for name in OUTCOME)

    def digest(self, predecessor: bytes) -> bytes:
        """Return the SHA-256 that stands for the episode and, through its predecessor, for all before it."""
        # By name: the digest may not depend on which of two workers was first to declare.
        segments = sorted((s.kind.table, s.name, s.digest()) for s in self.segments)
        content = [*self.episode[:4], self.environment, *self.outcome, segments]
        return hashlib.sha256(predecessor + msgpack.packb(content)).digest()


DIGEST_BYTES = 16  # of a row: enough against accidents, and the head of the run is whole
ROWS_PER_SEAL = 256  # 4 KiB in one row: a page of the database

SEALED: Mapping[str, str] = sql.SELECT_ALL
"""Query for the rows of a run in each sealed table, in the order in which the run's head covers them."""


def sealed_of(connection: Connection | Cursor, run: int) -> Mapping[str, str]:
    """Return the queries for what is sealed of a run: where it has bodies or rows of topics, these too."""
    more = sql.SEALED_LATER
    there = {name: query for name, query in more.items() if connection.execute(query, (run,)).fetchone() is not None}
    return {**SEALED, **there} if there else SEALED


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
        digest.update(msgpack.packb(name))
        for piece in pieces:
            digest.update(piece)
    return digest.digest()


def seal_run(cursor: Cursor, run: int) -> bytes:
    """Seal all rows of a run that belong to no episode, in place of earlier seals; return the run's head."""
    cursor.execute(sql.DELETE_SEALS, (run,))
    head = run_head((name, _sealing(cursor, run, name, query)) for name, query in sealed_of(cursor, run).items())
    cursor.execute(sql.UPDATE_RUN_HEAD, (head, run))
    return head


def _sealing(cursor: Cursor, run: int, name: str, query: str) -> Iterator[bytes]:
    rows = cursor.connection.execute(query, (run,))
    position = 0
    while found := rows.fetchmany(ROWS_PER_SEAL):
        piece = b"".join(map(row_digest, found))
        cursor.execute(sql.INSERT_SEAL, (run, name, position, piece))
        position += 1
        yield piece
