"""Store: keeps the results of runs, and reads them back; observers follow a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, NamedTuple, Self

from ganglion.errors import DiskError as DiskError
from ganglion.errors import Nondeterministic as Nondeterministic
from ganglion.errors import RunExists as RunExists
from ganglion.errors import StoreAbsent as StoreAbsent
from ganglion.errors import StoreDamaged as StoreDamaged
from ganglion.errors import StoreError as StoreError
from ganglion.errors import StoreUnavailable as StoreUnavailable
from ganglion.errors import UsageError as UsageError
from ganglion.limits import OPEN_ROWS_BYTES as OPEN_ROWS_BYTES
from ganglion.limits import STORE_RESERVE_BYTES as STORE_RESERVE_BYTES

_AS_THEY_ENDED = "expected a store whose runs can be taken up again; this kind keeps them as they ended"


class Damage(NamedTuple):
    """Name something that is not what was written: what it is (`episode`, `row`, `file` ...), where, and how."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: {self.text}"


class _Opened(ABC):
    """Hold a store until it is closed, by name or by the end of a `with`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StoreWriter(_Opened):
    """Write the results of one run.

    An episode is shown to readers from the transaction on that seals it: completely, once, after its predecessor of
    the same worker. Rows of an open episode are never shown. Use as a context manager closes it.

    Attributes:
        working: To be called at least once a second while `heads` takes long, so that nobody gives the store up.
    """

    working: Callable[[], None] = staticmethod(lambda: None)

    @abstractmethod
    def apply(self, writer: str, records: Sequence[Sequence[Any]]) -> None:
        """Take the records of one batch, in order; call `commit` before they are acknowledged.

        Each record is a list `[kind, field, ...]`. Value lists are msgpack of one row in declared order, in which an
        array is its little-endian bytes in C order and nil means not given. Ids are full ids
        (`<environment>.<local id>`), but local ones where bodies of an agent are in several environments: their rows
        are shown under full ids. Fields that follow those below are skipped.

        ```text
        run      {uid, experiment, seed, document, plan_digest?, started}      seed: text; started: UTC, ISO 8601
        declare  phase, environment|nil, agent|nil, kind, [[id, space, unit|nil, dtype|nil, shape], ...]
                 kind: sensor, actuator, reward, the order of the value lists of `steps` (environment) and `actions`
                 (agent); or static_world_model: one row, whose `space` is the JSON of what an environment tells of
                 itself; before the rows, in document order; a repeat is harmless
        phase    phase, name, mode, status, reason|nil                         a repeat replaces
        steps    phase, mode, worker, environment, episode, rows, blocks?
                 row: step, tick, simtime_ticks, simtime_timestamp, sensors, setpoints, rewards, terminated, truncated,
                 world_state?|nil                              msgpack of any plain value
        actions  phase, mode, worker, agent, episode, rows, blocks?
                 row: body, step, tick, sensors, setpoints, proposed|nil, rewards, objective|nil, terminated,
                 truncated, statistics|nil
        bodies   phase, [[agent, environment, b, role|nil, team|nil, group|nil, learn, each, policy?], ...]
                 the bodies of a phase that has some, in the order of agents, environments, b, before their rows; each:
                 they have episodes of their own, of the environment `<environment>[<agent>/<b>]`; a repeat is harmless
        spawned  phase, [[position, agent, environment, b, role|nil, team|nil, group|nil, learn, each, policy?], ...]
                 bodies that an environment has spawned, before their rows; position: of agent and environment among
                 those that may be, from 1 on, times 2^32, plus b; a repeat is harmless
        opponents  phase, worker, [[tick, number of the body, version], ...]
                 by which model it decides from that tick on: the number of its update; a repeat is harmless
        ratings  phase, worker, [[tick, number of the body, rating], ...]
                 how good its side is after an episode that ended at that tick; a repeat is harmless
        body_steps  phase, mode, worker, environment, entries
                 entry: episode, step, tick, simtime_ticks, simtime_timestamp, bodies, readings, setpoints, rewards,
                 flags, terminated, truncated, world_state|nil, positions?|nil
                 episode, step: integers, or `<i4` of each body; positions: `<i8`, if a body was spawned
        body_actions  phase, mode, worker, agent, entries
                 entry: bodies, episodes, steps, ticks, readings, setpoints, proposed|nil, rewards, objectives, flags,
                 [statistics|nil, ...]|nil, policy?, policy_version?, late_rewards?, positions?|nil
                 bodies: `<u2`; episodes, steps, ticks: `<i4`; objectives: `<f8`, NaN is nil; policy: text, or one of
                 each body, where the model comes from by which it decided; policy_version: `<i8`, its update;
                 late_rewards: `<f8`, what fell due after the end of the body, at its last row; NaN is nil
        resets   phase, mode, worker, environment, entries
                 entry: episode, step, tick, simtime_ticks, simtime_timestamp, bodies|nil, readings, positions?|nil
                 first readings: those of a begin or reset at step 0, those of a body that came later at the last
                 step before; episode: an integer, or `<i4` of each body; before the rows of the episode
        episode  phase, mode, worker, environment|nil, episode, steps, terminated, truncated, reason, round, inner?
                 seals; `round`, then `inner` (of an evaluation within its round) order episodes within their phase
        signal   phase, worker|nil, episode|nil, step|nil, signal, issuer, reason, data|nil, round, inner?, ordinal?|nil
                 ordinal: its number in the run, or, negative, that of a tolerated error in its episode (and `data`
                 names the mode); a repeat is harmless
        topic    phase, mode, worker, tick, peer, topic, key, value, number
                 number: of the row in its worker, from 1; what comes again with a known number takes its place, and
                 where it differs all behind it go
        evaluation  phase, agent, number, episode|nil, metrics, brain|nil, completed      a repeat is harmless
        brain    phase, agent, tag, episode, updates, created, bytes, sha256, path      a repeat is harmless
        incident  time, name, incarnation, kind, position|nil, detail|nil         a repeat is harmless
        end      status, reason, ended
        ```

        Args:
            writer: Name of the peer that wrote the batch.
            records: Its records.

        Raises:
            StoreError: A record is malformed (those before it are taken), or rows had to go to disk and could not;
                then everything is kept, and `commit` tries again.
        """

    @abstractmethod
    def commit(self) -> None:
        """Make everything durable that was applied, in one transaction; rows of open episodes may wait.

        Whether a transaction whose end broke was carried out is looked up, never guessed.

        Raises:
            StoreUnavailable: Nothing was written, or that is not known yet; everything is kept, and the next call
                tries again. Until one succeeds `apply` may refuse to take more.
            StoreError: Nothing was written, and it will not be by trying again.
            Nondeterministic: An episode was sealed before with other rows; that seal is dropped, all else is durable.
        """

    def is_open(self, record: Sequence[Any]) -> bool:
        """Say whether the rows of a record `steps` or `actions` that was applied belong to an episode not sealed yet.

        A store that was started again needs these rows once more; a store that does not know returns True.
        """
        return True

    def withdraw(self, phase: int = 0) -> int:
        """Withdraw what keeps an interrupted run from going on in this phase, durably; return how many episodes.

        In one transaction go: the episodes from this phase on that interruption or failure has cut short, always the
        last of their worker (by their reasons, `interrupted...` and `failed...`); signals and models from this phase
        on, which are told again; the end of the run. A run that is not there, or was not cut short, stays as it is. To
        be called before anything is applied.

        Raises:
            StoreError: It cannot be written; nothing was withdrawn.
        """
        raise StoreError(_AS_THEY_ENDED)

    def withdraw_behind(
        self,
        phase: int,
        episodes: Mapping[tuple[int, str, int, str], int],
        evaluations: Mapping[tuple[int, str], int],
        topics: Mapping[tuple[int, str, int], int] = MappingProxyType({}),
    ) -> int:
        """Withdraw, durably, what was written behind the place where a run goes on; return how many episodes.

        In one transaction go, from this phase on, the episodes, evaluations and rows of topics that come behind those
        named: they are told again, and need not be the same ones. All that was applied is made durable too.

        Args:
            phase: In which the run goes on.
            episodes: (phase, mode, worker, environment or empty) -> number of the last that stays; without, all go.
            evaluations: (phase, agent) -> number of the last that stays.
            topics: (phase, mode, worker) -> number of the last row that stays.

        Raises:
            StoreError: It cannot be written; nothing was withdrawn.
        """
        raise StoreError(_AS_THEY_ENDED)

    def keep(self, phase: int) -> None:
        """Keep what was sealed from this phase on, whatever comes out again: it is not repeatable, nor compared.

        To be called before anything is applied.
        """
        raise StoreError(_AS_THEY_ENDED)

    def heads(self) -> Mapping[str, Any] | None:
        """Return what a run's rows can be checked by once `end` is durable, as plain values; None if there is nothing.

        For recipients of copies of the results, and for the run's manifest. On the first call a writer reads the run
        back as readers will find it.

        Raises:
            StoreDamaged: Something is not what was written.
        """
        return None

    def abandon(self, status: str, reason: str, ended: str) -> None:
        """Give up what is not durable, and write how the run ended, with space that was kept for that.

        Raises:
            StoreError: Not even that can be written.
        """
        raise StoreError(f"this store keeps nothing in reserve to write: {reason}")

    @abstractmethod
    def discard(self, writer: str) -> None:
        """Forget the rows of the open episodes of a peer that is gone; its successor sends them again."""

    @abstractmethod
    def close(self) -> None:
        """Commit, forget the rows of open episodes, and let go of the store; a second call does nothing."""


class StoreReader(_Opened):
    """Read the results of all runs of a store, also while they are written; change nothing.

    Errors of the caller (names of tables, columns and runs, a faulty `where`) are `UsageError` with the nearest right
    name, those of the store are `StoreError`.
    """

    @abstractmethod
    def tables(self) -> dict[str, list[str]]:
        """Return the tables and the columns that each has without `wide`, both in the order in which they are shown."""

    @abstractmethod
    def columns(
        self, table: str, runs: Sequence[str] = (), columns: Sequence[str] | None = None, wide: bool = False
    ) -> list[str]:
        """Return the keys that the rows of `rows` have with the same arguments, in their order."""

    @abstractmethod
    def count(self, table: str, runs: Sequence[str] = ()) -> int:
        """Return how many rows a table has, of the named runs or of all."""

    @abstractmethod
    def rows(
        self,
        table: str,
        runs: Sequence[str] = (),
        where: str | None = None,
        columns: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        limit: int | None = None,
        wide: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table.

        Args:
            table: One of `tables`.
            runs: Ids of runs; none means all.
            where: A condition: columns, literals, `= != < <= > >= in like is null and or not` and parentheses.
            columns: Which columns, in this order; None means all.
            order: Columns to sort by, a leading `-` sorts downwards; None means the order that the table has.
            limit: How many rows at most.
            wide: Show each value of a value list as a column of its own, `sensors.<full id>`.

        Returns:
            Maps column -> plain value. Value lists are maps full id -> number, boolean, list for arrays, or None
            where unknown; a setpoint that was not given is left out.
        """

    @abstractmethod
    def resolve(self, run: str) -> str:
        """Return the id that is meant by an id, a `uid` (its newest run), a beginning of either, or `last`."""

    def verify(self, run: str) -> Iterator[Damage]:
        """Recompute whatever protects the rows of a run, by id; yield what is damaged, the first first.

        Memory does not grow with the run. StoreError: a store of this kind protects nothing.
        """
        raise StoreError("expected a store whose rows can be verified; this kind cannot")

    def heads(self, run: str) -> Mapping[str, Any] | None:
        """Return what `StoreWriter.heads` gave at the end of a run, None while it has not ended."""
        return None

    def write_parquet(self, stream: BinaryIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows that this reader gave as a Parquet file; UsageError where that cannot be."""
        raise UsageError("expected a store that writes Parquet; this kind cannot: use csv or jsonl")

    @abstractmethod
    def query(self, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return the columns and rows of a query in the store's own language, on a connection that cannot write."""


class PointBook(_Opened):
    """Keep the points of one experiment and how far each has come; each call is one transaction.

    A point is a map with `point` (its number, from 0), `row` and `repetition` of the design, `seed` (text), `factors`
    (name -> plain value), `digest` (of the document that the point is), `state` (planned, running, done, failed), `run`
    (the id of its newest run, None before the first) and `reason` (text or None).
    """

    @abstractmethod
    def points(self) -> list[dict[str, Any]]:
        """Return the points that are known, by number."""

    @abstractmethod
    def plan(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Take points as planned, without a run; those that are known are replaced unless they are done."""

    @abstractmethod
    def change(self, point: int, state: str, run: str | None, reason: str | None = None) -> None:
        """Note the state of a point that is known, durably.

        Raises:
            StoreError: It cannot be written, or the point is not known.
        """


class Store(ABC):
    """Open stores of one kind; found by the scheme of a URI, which is the name of its entry point."""

    schemes: ClassVar[tuple[str, ...]]

    @classmethod  # noqa: B027 - where a writer finds out as soon there is nothing to do
    def check(cls, uri: str) -> None:
        """Raise StoreError, before a run begins, if it could not be written into this store."""

    @classmethod
    @abstractmethod
    def writer(cls, uri: str, run: str, resume: bool = False, started: str = "") -> StoreWriter:
        """Open a store for the results of a run; makes the store, but not its folder, if there is none.

        Args:
            uri: Where it is, such as `sqlite:////home/ada/results/ganglion.db` (three slashes: a relative path).
            run: The run's id.
            resume: Go on with the run if it is there; otherwise it must not be.
            started: When the run began, as its record `run` says; one that began at another time is another one.

        Raises:
            StoreError: It cannot be opened or made, or is of another program or revision.
            RunExists: The run is there, or another one of its id.
        """

    @classmethod
    @abstractmethod
    def reader(cls, uri: str) -> StoreReader:
        """Open a store that is there for reading.

        Raises:
            StoreError: There is none, it cannot be read, or it is of another program or a newer revision.
        """

    @classmethod
    @abstractmethod
    def remove(cls, uri: str, runs: Iterable[str]) -> Mapping[str, int]:
        """Remove runs by id, in one transaction; return how many episodes each had.

        Raises:
            StoreError: A run is not there, or the store cannot be written; nothing was removed.
        """

    @classmethod
    def migrate(cls, uri: str) -> tuple[int, int]:
        """Bring a store of an older revision to that of this software, after a copy; return both revisions.

        They are equal where there was nothing to do.

        Raises:
            StoreError: It cannot be opened or written, is of another program or a newer revision, or a store of this
                kind has no revisions; it is as it was.
        """
        raise StoreError(f"{uri}: expected a store that has revisions; this kind has none")

    @classmethod
    def point_book(cls, uri: str, experiment: str) -> PointBook:
        """Open a store for the points of an experiment; makes the store, but not its folder, if there is none.

        Raises:
            StoreError: As for `writer`; or a store of this kind keeps no points.
        """
        raise StoreError(f"{uri}: expected a store that keeps the points of experiments; this kind does not")


class Observer(ABC):
    """Take what the participants of a run tell; have no influence on it.

    An observer that is slow loses messages instead of slowing the run: `missed` is told which. The store is the one
    reader that must not lose, and has a contract of its own (`ganglion.sdk.store`).

    `topics` are the ends of the topics that it listens to; `events` carries the events of a run (phases, episodes,
    signals, waits, lost processes).
    """

    topics: ClassVar[tuple[str, ...]] = ("events",)
    run: str = ""  # the run's id; set before `setup`
    folder: str = ""  # that of the run, for files of its own; set before `setup`

    def setup(self) -> None:  # noqa: B027 - an observer that needs none of this is complete
        """Prepare; called once, before the first message."""

    @abstractmethod
    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Take one message.

        Args:
            topic: One of `topics`.
            event: Name of the event, such as `episode.ended`.
            fields: What it says; plain values.
            time_s: When it was told, in seconds since 1970 (UTC).
        """

    def missed(self, topic: str, first: int, last: int) -> None:  # noqa: B027
        """Learn that the messages `first` to `last` of a topic, both included, did not arrive."""

    def teardown(self) -> None:  # noqa: B027
        """Let go of everything; called once, also after an error."""
