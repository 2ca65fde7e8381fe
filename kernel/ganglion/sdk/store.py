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
    """Describe a difference from the written data: kind (`episode`, `row`, `file` ...), place, and text."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: {self.text}"


class _Opened(ABC):
    """Hold a store until it is closed, by name or by the end of a `with`."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StoreWriter(_Opened):
    """Write the results of one run.

    Readers see an episode from the transaction on that seals it: completely, once, after its predecessor of the same
    worker. They never see rows of an open episode. Unless stated otherwise, `StoreError` means that the store cannot be
    written, and that nothing has changed.

    Attributes:
        working: Call this at least once a second while `heads` takes long, so that peers keep waiting.
    """

    working: Callable[[], None] = staticmethod(lambda: None)

    @abstractmethod
    def apply(self, writer: str, records: Sequence[Sequence[Any]]) -> None:
        """Take the records of one batch of the peer `writer`, in order; call `commit` before acknowledging.

        Each record is a list `[kind, field, ...]`. Value lists are msgpack of one row in declared order, in which an
        array is its little-endian bytes in C order and nil means not given. Ids are full (`<environment>.<local id>`);
        where bodies of an agent are in several environments they are local, and rows are shown under full ids. Fields
        that follow those below are skipped.

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

        Raises:
            StoreError: A record is malformed; those before it are taken. Or rows could not be written to disk;
                everything is kept, and `commit` tries again.
        """

    @abstractmethod
    def commit(self) -> None:
        """Make everything durable that was applied, in one transaction; rows of open episodes may wait.

        After a transaction whose end failed the store is asked whether it was carried out.

        Raises:
            StoreUnavailable: Nothing was written, or that is not known yet. Everything is kept, and the next call tries
                again; `apply` may refuse more until one succeeds.
            StoreError: Nothing was written, and another try would not help.
            Nondeterministic: An episode was sealed before with other rows; that seal is dropped, all else is durable.
        """

    def is_open(self, record: Sequence[Any]) -> bool:
        """Return whether an applied record `steps` or `actions` is of an open episode, also if that is not known.

        A store that was started again needs the rows of open episodes once more.
        """
        return True

    def withdraw(self, phase: int = 0) -> int:
        """Withdraw what keeps an interrupted run from going on in this phase, durably; return how many episodes.

        Call it before `apply`. One transaction removes, from this phase on, the episodes that were cut short (their
        reasons begin with `interrupted` or `failed`; each is the last of its worker), signals and models, which come
        again, and the end of the run. A run that is unknown or was not cut short stays as it is.
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

        One transaction removes, from this phase on, the episodes, evaluations and rows of topics behind those named:
        they come again, and may differ. All that was applied becomes durable too.

        Args:
            phase: In which the run goes on.
            episodes: (phase, mode, worker, environment or empty) -> number of the last that stays; without, none stays.
            evaluations: (phase, agent) -> number of the last that stays.
            topics: (phase, mode, worker) -> number of the last row that stays.
        """
        raise StoreError(_AS_THEY_ENDED)

    def keep(self, phase: int) -> None:
        """Keep episodes sealed from this phase on without comparison: they are not repeatable. Call before `apply`."""
        raise StoreError(_AS_THEY_ENDED)

    def heads(self) -> Mapping[str, Any] | None:
        """Return plain values that protect the rows of a run, once `end` is durable; None without any.

        They are for the manifest and for recipients of copies. The first call reads the run back as a reader does;
        StoreDamaged: the rows differ from the written ones.
        """
        return None

    def abandon(self, status: str, reason: str, ended: str) -> None:
        """Drop rows that are not durable, and write the end of the run into reserved space."""
        raise StoreError(f"this store keeps nothing in reserve to write: {reason}")

    @abstractmethod
    def discard(self, writer: str) -> None:
        """Drop the rows of the open episodes of a lost peer; its successor sends them again."""

    @abstractmethod
    def close(self) -> None:
        """Commit, drop the rows of open episodes, and close the store; a second call does nothing."""


class StoreReader(_Opened):
    """Read the results of all runs of a store, also while they are written; change nothing.

    A wrong name of a table, column or run, or a faulty `where`, is a `UsageError` with the nearest known name; an error
    of the store is a `StoreError`.
    """

    @abstractmethod
    def tables(self) -> dict[str, list[str]]:
        """Return the tables with the columns that each has without `wide`, both in the order of display."""

    @abstractmethod
    def columns(
        self, table: str, runs: Sequence[str] = (), columns: Sequence[str] | None = None, wide: bool = False
    ) -> list[str]:
        """Return the keys of the rows of `rows` with the same arguments, in order."""

    @abstractmethod
    def count(self, table: str, runs: Sequence[str] = ()) -> int:
        """Return the number of rows of a table, of the named runs or of all."""

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
            columns: The columns, in this order; None means all.
            order: Columns to sort by, a leading `-` sorts downwards; None means the table's order.
            limit: The most rows.
            wide: Show each value of a value list as a column of its own, `sensors.<full id>`.

        Returns:
            Maps column -> plain value. A value list is a map full id -> number, boolean, list for an array, or None
            where unknown, without the setpoints that were not given.
        """

    @abstractmethod
    def resolve(self, run: str) -> str:
        """Return the id of a run given by an id, a `uid` (its newest run), a beginning of either, or `last`."""

    def verify(self, run: str) -> Iterator[Damage]:
        """Recompute the protection of the rows of a run, in constant memory; yield damage in order.

        StoreError: stores of this kind have no protection.
        """
        raise StoreError("expected a store whose rows can be verified; this kind cannot")

    def heads(self, run: str) -> Mapping[str, Any] | None:
        """Return the values of `StoreWriter.heads` at the end of a run, None before it."""
        return None

    def write_parquet(self, stream: BinaryIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows of this reader as a Parquet file; UsageError: this store cannot."""
        raise UsageError("expected a store that writes Parquet; this kind cannot: use csv or jsonl")

    @abstractmethod
    def query(self, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return the columns and rows of a query in the store's own language, on a connection that cannot write."""


class PointBook(_Opened):
    """Keep the points of one experiment and their states; each call is one transaction.

    A point is a map with `point` (its number, from 0), `row` and `repetition` of the design, `seed` (text), `factors`
    (name -> plain value), `digest` (of its document), `state` (planned, running, done, failed), `run` (the id of its
    newest run, None before the first) and `reason` (text or None).
    """

    @abstractmethod
    def points(self) -> list[dict[str, Any]]:
        """Return the known points, by number."""

    @abstractmethod
    def plan(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Record points as planned, without a run; a known point is replaced unless it is done."""

    @abstractmethod
    def change(self, point: int, state: str, run: str | None, reason: str | None = None) -> None:
        """Record the state of a known point, durably; StoreError also for an unknown point."""


class Store(ABC):
    """Open stores of one kind; found by the scheme of a URI, which is the name of its entry point.

    A method raises `StoreError`, and has changed nothing, if the store cannot be opened, read or written, is of another
    program or a newer revision, or if its kind lacks the feature.
    """

    schemes: ClassVar[tuple[str, ...]]

    @classmethod  # noqa: B027 - where a writer finds out as soon there is nothing to do
    def check(cls, uri: str) -> None:
        """Raise StoreError, before a run begins, if the store could not be written."""

    @classmethod
    @abstractmethod
    def writer(cls, uri: str, run: str, resume: bool = False, started: str = "") -> StoreWriter:
        """Open a store for the results of a run; make the store, but not its folder, if there is none.

        Args:
            uri: Of the store, such as `sqlite:////home/ada/results/ganglion.db` (three slashes: a relative path).
            run: The run's id.
            resume: Continue the run if the store has it; otherwise the store must not have it.
            started: When the run began, as in its record `run`; a run with another begin is another run.

        Raises:
            RunExists: The store has the run, or another one of its id.
        """

    @classmethod
    @abstractmethod
    def reader(cls, uri: str) -> StoreReader:
        """Open a store for reading; StoreError also if it does not exist."""

    @classmethod
    @abstractmethod
    def remove(cls, uri: str, runs: Iterable[str]) -> Mapping[str, int]:
        """Remove runs by id in one transaction; return the number of episodes of each; StoreError: a run is unknown."""

    @classmethod
    def migrate(cls, uri: str) -> tuple[int, int]:
        """Copy a store of an older revision, then migrate it to this software's; return both revisions."""
        raise StoreError(f"{uri}: expected a store that has revisions; this kind has none")

    @classmethod
    def point_book(cls, uri: str, experiment: str) -> PointBook:
        """Open a store for the points of an experiment; make the store, but not its folder, if there is none."""
        raise StoreError(f"{uri}: expected a store that keeps the points of experiments; this kind does not")


class Observer(ABC):
    """Read the messages of a run without influence on it.

    A slow observer loses messages instead of slowing the run; `missed` names the lost ones. Stores, which must not lose
    any, have a contract of their own.
    """

    # The last parts of its topics' names; `events` has phases, episodes, signals, waits and lost processes.
    topics: ClassVar[tuple[str, ...]] = ("events",)
    run: str = ""  # the id of the run; set before `setup`
    folder: str = ""  # the folder of the run, for files of its own; set before `setup`

    def setup(self) -> None:  # noqa: B027 - an observer that needs none of this is complete
        """Prepare; called once, before the first message."""

    @abstractmethod
    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Take one message.

        Args:
            topic: One of `topics`.
            event: Name of the event, such as `episode.ended`.
            fields: Its fields, plain values.
            time_s: When it was sent, in seconds since 1970 (UTC).
        """

    def missed(self, topic: str, first: int, last: int) -> None:  # noqa: B027
        """Handle that the messages `first` to `last` of a topic, both included, did not arrive."""

    def teardown(self) -> None:  # noqa: B027
        """Release resources; called once, also after an error."""
