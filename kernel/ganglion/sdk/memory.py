"""Memory: the completed decisions of an agent, as aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.limits import MEMORY_ROWS
from ganglion.sdk.column import Column, Flags, Integers, Numbers, Objects, Tables, Texts, Vectors
from ganglion.sdk.information import Information
from ganglion.sdk.shard import MemoryShard, Rows, Span
from ganglion.sdk.table import NOTHING, Layout

__all__ = ["Memory"]

Array = NDArray[Any]
Values = Sequence[Any]

# Rows that wait in Python objects before they are written into blocks together: writing one by one costs ten times
# as much, and what is asked of the newest few is answered from them.
PENDING_ROWS = 256
FIRST_BLOCK_ROWS = 256

# The order of the fields of a row; `tag` is the muscle's uid.
FIELDS = (
    "tag",
    "sensor_readings",
    "actuator_setpoints",
    "rewards",
    "objective",
    "next_readings",
    "dones",
    "terminated",
    "truncated",
    "decision_index",
    "episode",
    "applied_setpoints",
    "observations",
    "actions",
    "additional_data",
)
TABLES = {
    "sensor_readings": "sensors",
    "next_readings": "sensors",
    "actuator_setpoints": "actuators",
    "applied_setpoints": "applied",
    "rewards": "rewards",
}


def _columns() -> dict[str, Column]:
    kinds: dict[str, type[Column]] = {
        "tag": Texts,
        "objective": Numbers,
        "dones": Flags,
        "terminated": Flags,
        "truncated": Flags,
        "decision_index": Integers,
        "episode": Integers,
        "observations": Vectors,
        "actions": Vectors,
        "additional_data": Objects,
    }
    return {name: kinds.get(name, Tables)() for name in FIELDS}


class Memory:
    """Keep whole decisions as rows; every column is aligned with them, whatever was given.

    A value that was not given is missing in its own row (None or NaN) and shifts nothing. Rows are kept in blocks
    that grow by doubling: appending is O(1), a tail is a slice.

    Args:
        size_limit: Rows that are kept; the oldest are dropped. 0 keeps none.
        rng: What `sample` draws from unless it is given another generator.
    """

    def __init__(self, size_limit: int = MEMORY_ROWS, rng: Generator | None = None) -> None:
        self.rng = rng
        self._limit = int(size_limit)
        self._declared: dict[str, Layout] = {}
        self.clear()

    def clear(self) -> None:
        """Forget all rows; declarations and limit stay."""
        self._columns = _columns()
        self._pending: list[list[Any]] = []
        self._start = self._end = self._capacity = 0
        self._layouts: dict[str, Layout] = {}
        for name, kind in TABLES.items():
            if kind in self._declared:
                self._learn(name, self._declared[kind])

    def declare(
        self,
        sensors: Iterable[Information] = (),
        actuators: Iterable[Information] = (),
        rewards: Iterable[Information] = (),
        applied: Iterable[Information] | None = None,
    ) -> None:
        """Say what rows consist of, so that `append` takes plain values in this order.

        `applied` are the actuators after filters, where these are others than an agent's own; None: they are not.
        """
        actuators = list(actuators)
        kinds = {"sensors": sensors, "actuators": actuators, "rewards": rewards}
        for kind, informations in {**kinds, "applied": actuators if applied is None else applied}.items():
            given = list(informations)
            if given:
                layout = Layout([it.uid for it in given], [it.space for it in given])
                self._declared[kind] = layout
                for name in (name for name, of in TABLES.items() if of == kind):
                    self._learn(name, layout)

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(
        self,
        muscle_uid: str,
        sensor_readings: Values | None = None,
        actuator_setpoints: Values | None = None,
        rewards: Values | None = None,
        objective: float | None = None,
        next_readings: Values | None = None,
        dones: bool | None = None,
        terminated: bool | None = None,
        truncated: bool | None = None,
        decision_index: int | None = None,
        episode: int | None = None,
        applied_setpoints: Values | None = None,
        observations: Any = None,
        actions: Any = None,
        additional_data: Any = None,
        done: bool | None = None,
    ) -> None:
        """Add one completed decision.

        Args:
            muscle_uid: Whose it is; the row's tag.
            sensor_readings: Informations, or values in declared order (after `declare`); likewise the other lists.
            actuator_setpoints: A brain's: as the muscle proposed. A muscle's: as applied.
            rewards: Of this decision.
            objective: None is missing; `complete` adds it to the newest row.
            next_readings: What the decision led to.
            dones: Whether the episode ended with it; `done` is the same.
            terminated: Whether no future exists.
            truncated: Whether the episode was cut off from outside.
            decision_index: Number of the decision in its episode, from 0.
            episode: Number of the episode in its worker, from 0.
            applied_setpoints: After filters.
            observations: One flat array. Where no row has one they are what the vectors of the readings make.
            actions: One flat array. Where no row has one they are what the vectors of the setpoints make.
            additional_data: Anything; kept as it is.

        Raises:
            AuthorError: Plain values without declaration or of another number, an id with another shape than before.
                Nothing was added.
        """
        if self._limit == 0:
            return
        layout = self._cell
        self._pending.append(
            [
                muscle_uid,
                None if sensor_readings is None else layout("sensor_readings", sensor_readings),
                None if actuator_setpoints is None else layout("actuator_setpoints", actuator_setpoints),
                None if rewards is None else layout("rewards", rewards),
                objective,
                None if next_readings is None else layout("next_readings", next_readings),
                done if dones is None else dones,
                terminated,
                truncated,
                decision_index,
                episode,
                None if applied_setpoints is None else layout("applied_setpoints", applied_setpoints),
                None if observations is None else np.array(observations),
                None if actions is None else np.array(actions),
                additional_data,
            ]
        )
        if len(self._pending) >= min(PENDING_ROWS, self._limit):
            self._flush()

    def complete(self, objective: float | None) -> None:
        """Give the newest row its objective, which is computed when the row is there."""
        self._amend("objective", objective)

    def annotate(self, data: Any) -> None:
        """Give the newest row other additional data, which are known when the row is there."""
        self._amend("additional_data", data)

    def close(self, terminated: bool, truncated: bool) -> None:
        """Give the newest row the flags of its episode's end, when that comes after the row."""
        for name, flag in (
            ("dones", terminated or truncated),
            ("terminated", terminated),
            ("truncated", truncated),
        ):
            self._amend(name, flag)

    def _amend(self, name: str, value: Any) -> None:
        if self._pending:
            row = self._pending[-1] = list(
                self._pending[-1]
            )  # another list: shards that have the row stay as they are
            row[FIELDS.index(name)] = value
        elif self._end > self._start:
            last = self._end - 1
            self._columns[name].write(last, [value], self._capacity, last > self._start)

    def _cell(self, name: str, values: Values) -> tuple[Layout, list[Any]]:
        """Return values with their layout, in a list of our own: what the author changes later changes no row."""
        if values and isinstance(values[0], Information):
            layout = self._layouts.get(name)
            uids = tuple([it.uid for it in values])
            if layout is None or layout.uids != uids:
                layout = Layout(uids, [it.space for it in values])
                self._learn(name, layout)
            values = [it.value for it in values]
        else:
            found = self._declared.get(TABLES[name], None if values else NOTHING)
            if found is None or len(found.uids) != len(values):
                expected = "informations" if found is None else f"{len(found.uids)} values in declared order"
                raise AuthorError(f"memory: {name}: expected {expected}, found {len(values)} values")
            layout, values = found, list(values)
        if not layout.scalar:
            values = [_kept(value) for value in values]
        return layout, values

    def _learn(self, name: str, layout: Layout) -> None:
        column = self._columns[name]
        assert isinstance(column, Tables)
        column.learn(layout)
        self._layouts[name] = layout

    def _flush(self) -> None:
        """Write what waits into the blocks, and drop what is beyond the limit."""
        rows, self._pending = self._pending, []
        if not rows:
            return
        self._reserve(len(rows))
        for name, cells in zip(FIELDS, zip(*rows, strict=True), strict=True):
            self._columns[name].write(self._end, cells, self._capacity, self._end > self._start)
        self._end += len(rows)
        self._start = max(self._start, self._end - self._limit)

    def _reserve(self, rows: int) -> None:
        """Make room behind the last row; old blocks are left to the shards that still show them."""
        if self._end + rows <= self._capacity:
            return
        kept = slice(max(self._start, self._end + rows - self._limit), self._end)
        kept = slice(min(kept.start, kept.stop), kept.stop)
        self._move(kept, kept.stop - kept.start, rows)

    def _move(self, kept: slice | Array, count: int, more: int = 0) -> None:
        self._capacity = max(min(FIRST_BLOCK_ROWS, 2 * self._limit), 2 * (count + more))
        for column in self._columns.values():
            column.move(kept, self._capacity)
        self._start, self._end = 0, count

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def export(self) -> dict[str, Any]:
        """Return all rows as values that can travel: arrays, lists, numbers.

        Raises:
            AuthorError: There are rows with ids that were not declared.
        """
        self._flush()
        for name, kind in TABLES.items():
            column, declared = self._columns[name], self._declared.get(kind, NOTHING)
            assert isinstance(column, Tables)
            if column.layout.uids != declared.uids:
                raise AuthorError(f"memory: {name}: rows with ids that were not declared cannot be exported")
        rows = slice(self._start, self._end)
        columns = {name: column.export(rows) for name, column in self._columns.items()}
        return {"rows": self._end - self._start, "columns": columns}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `export` returned, in place of all rows; declarations and limit are those of now."""
        self.clear()
        self._end = int(state["rows"])
        self._capacity = max(FIRST_BLOCK_ROWS, 2 * self._end)
        for name, column in self._columns.items():
            column.restore(state["columns"][name], self._capacity)

    # -- bounds -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return min(self._end - self._start + len(self._pending), self._limit)

    @property
    def size_limit(self) -> int:
        """Rows that are kept; the oldest are dropped. Setting a smaller one drops them now."""
        return self._limit

    @size_limit.setter
    def size_limit(self, rows: int) -> None:
        if rows < 0:
            raise AuthorError(f"memory: size_limit is at least 0, found {rows}")
        self._flush()
        self._limit = int(rows)
        self._start = max(self._start, self._end - self._limit)

    @property
    def tags(self) -> list[str]:
        """The muscles of which there are rows, in order of their first one."""
        self._flush()
        codes = self._codes()
        if codes.size == 0:
            return []
        numbers, first = np.unique(codes, return_index=True)
        return [self._texts().texts[i] for i in numbers[np.argsort(first)]]

    def truncate(self, n: int) -> None:
        """Keep the last `n` rows of each tag."""
        self._flush()
        n = max(0, int(n))
        if len(self._texts().texts) <= 1:
            self._start = max(self._start, self._end - n)
            return
        codes = self._codes()
        places = [
            np.flatnonzero(codes == code)[max(0, int((codes == code).sum()) - n) :] for code in set(codes)
        ]
        rows = np.sort(np.concatenate(places)) if places else np.zeros(0, dtype=np.int64)
        self._move(rows + self._start, len(rows))

    def _texts(self) -> Texts:
        column = self._columns["tag"]
        assert isinstance(column, Texts)
        return column

    def _codes(self) -> Array:
        array = self._texts().array
        return np.zeros(0, dtype=np.int32) if array is None else array[self._start : self._end]

    # -- reading ------------------------------------------------------------------------------------------------------

    def tail(self, n: int = 1, include_only: str | Iterable[str] | None = None) -> MemoryShard:
        """Return the last `n` rows, oldest first, in order of arrival over all tags; fewer if there are fewer.

        Args:
            n: How many.
            include_only: Tags; None is all.
        """
        n = max(0, min(int(n), len(self)))
        tags = _tags(include_only)
        if n <= len(self._pending):
            rows = self._pending[len(self._pending) - n :]
            if tags is None or all(row[0] in tags for row in rows):
                return MemoryShard(Rows(self._columns, FIELDS, list(rows)))
        self._flush()
        if tags is None:
            return self._shard(slice(self._end - n, self._end))
        return self._shard(self._places(tags)[-n:] if n else np.zeros(0, dtype=np.int64))

    def sample(
        self,
        n: int,
        include_only: str | Iterable[str] | None = None,
        replace: bool = False,
        rng: Generator | None = None,
    ) -> MemoryShard:
        """Return rows drawn uniformly, oldest first.

        Args:
            n: How many; without replacement at most as many as there are, of no row none.
            include_only: Tags; None is all.
            replace: Whether a row may be drawn several times.
            rng: None draws from the memory's own.

        Raises:
            AuthorError: There is no generator.
        """
        rng = rng if rng is not None else self.rng
        if rng is None:
            raise AuthorError("memory: sample needs a generator; give rng, or set the memory's")
        self._flush()
        tags = _tags(include_only)
        places = None if tags is None else self._places(tags)
        count = self._end - self._start if places is None else len(places)
        n = max(0, int(n)) if replace and count else min(max(0, int(n)), count)
        drawn: Any = (
            rng.integers(count, size=n) if replace and n else rng.choice(count, n, replace=False) if n else []
        )
        rows = np.sort(np.asarray(drawn, dtype=np.int64))
        return self._shard(rows + self._start if places is None else places[rows])

    def __getitem__(self, key: int | slice) -> MemoryShard:
        """Return rows by position, the oldest first."""
        return self.tail(len(self))[key]

    def _places(self, tags: frozenset[str]) -> Array:
        numbers = [i for i, text in enumerate(self._texts().texts) if text in tags]
        found: Array = np.flatnonzero(np.isin(self._codes(), numbers)) + self._start
        return found

    def _shard(self, rows: slice | Array) -> MemoryShard:
        return MemoryShard(Span(self._columns, rows, self._end - 1))


def _tags(include_only: str | Iterable[str] | None) -> frozenset[str] | None:
    if include_only is None:
        return None
    return frozenset([include_only]) if isinstance(include_only, str) else frozenset(include_only)


def _kept(value: Any) -> Any:
    """Return a value that nobody can change: read-only arrays are the bus's own, all else is copied."""
    if isinstance(value, np.ndarray):
        return value if not value.flags.writeable else value.copy()
    if isinstance(value, list):
        return [_kept(part) for part in value]
    if isinstance(value, tuple):
        return tuple(_kept(part) for part in value)
    return {name: _kept(part) for name, part in value.items()} if isinstance(value, dict) else value
