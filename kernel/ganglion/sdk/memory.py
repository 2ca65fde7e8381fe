"""Memory: the completed decisions of an agent, as aligned columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from types import NoneType
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.limits import MEMORY_ROWS
from ganglion.sdk.information import Information
from ganglion.sdk.spaces import Space
from ganglion.sdk.table import NOTHING, Layout, Table, is_composite, read_only

Array = NDArray[Any]
Values = Sequence[Any]
Cell = tuple[Layout, Values]

# Rows that wait in Python objects before they are written into blocks together: writing one by one costs ten times
# as much, and what is asked of the newest few is answered from them.
PENDING_ROWS = 256
FIRST_BLOCK_ROWS = 256

# The fields of a row, in their order, and what holds each. A plain column has a dtype of its own and a value that
# stands for missing; a table (None) has those of its values.
_KINDS: dict[str, tuple[type, Any] | None] = {
    "tag": (np.int32, 0),  # the muscle's uid, by its number
    "sensor_readings": None,
    "actuator_setpoints": None,
    "rewards": None,
    "objective": (np.float64, np.nan),
    "next_readings": None,
    "dones": (np.int8, -1),
    "terminated": (np.int8, -1),
    "truncated": (np.int8, -1),
    "decision_index": (np.int64, np.iinfo(np.int64).min),
    "episode": (np.int64, np.iinfo(np.int64).min),
    "applied_setpoints": None,
    "observations": None,
    "actions": None,
    "additional_data": (object, None),
    "body": (np.int32, -1),
}
FIELDS = tuple(_KINDS)
FLAT = ("observations", "actions")  # columns of one flat array per row: tables whose only id is their own name
_OBJECTIVE = FIELDS.index("objective")
_TABLES = {name: FIELDS.index(name) for name, kind in _KINDS.items() if kind is None and name not in FLAT}
_NO_FLAT = Table(NOTHING, read_only(np.empty((1, 0))))  # a flat column of one row that has none
AMENDED = ("objective", "additional_data", "dones", "terminated", "truncated")
"""Columns in which a memory changes its newest row after it was appended."""


class _Column:
    """Keep one kind of value; a cell is a value or None, which is missing.

    `array` has one entry per row of the memory's capacity and is None until a first value is given. But for the newest
    row of what is amended, rows that have been written are never written again, so that a shard may keep a slice.
    """

    __slots__ = ("array", "dtype", "missing")

    def __init__(self, dtype: Any, missing: Any) -> None:
        self.array: Array | None = None
        self.dtype = np.dtype(dtype)
        self.missing = missing

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:
        """Return cells in the form of storage; may change the dtype of what follows.

        `gap` says that rows before them are missing, for which the dtype needs a sign.
        """
        if self.dtype != object:
            return np.array([self.missing if cell is None else cell for cell in cells], dtype=self.dtype)
        found: Array = np.empty(len(cells), dtype=object)
        for i, cell in enumerate(cells):  # not by np.array, which would unpack lists and arrays
            found[i] = cell
        return found

    def blank(self, rows: int) -> Array:
        """Return storage for so many rows, all missing."""
        return np.full(rows, self.missing, dtype=self.dtype)

    def show(self, stored: Array | None, rows: int) -> Any:
        """Return what an author sees of stored rows; None stands for `rows` missing ones.

        Where an integer is missing all are shown as floats with NaN, where a flag is missing all as objects with None.
        """
        found = self.blank(rows) if stored is None else stored
        if self.dtype == np.int64:
            missing = found == self.missing
            return np.where(missing, np.nan, found) if bool(missing.any()) else found
        if self.dtype == np.int8:
            missing, found = found < 0, found.astype(bool)
            if bool(missing.any()):
                found = found.astype(object)
                found[missing] = None
        return found

    def write(self, begin: int, cells: Sequence[Any], capacity: int, gap: bool) -> None:
        """Write cells from row `begin` on; `gap` says that rows came before them."""
        if self.array is None and set(map(type, cells)) == {NoneType}:
            return
        stored = self.store(cells, gap and self.array is None)
        self.array = self.fitted(capacity)
        self.array[begin : begin + len(cells)] = stored

    def write_rows(self, begin: int, rows: Array, capacity: int, gap: bool) -> None:
        """Write as `write`, of what is an array and has no gaps itself."""
        self.array = self.fitted(capacity)
        self.array[begin : begin + len(rows)] = rows

    def fitted(self, capacity: int) -> Array:
        """Return the array in today's layout and dtype, with all that was written before."""
        return self.blank(capacity) if self.array is None else self.array

    def put(self, rows: Array, capacity: int) -> None:
        """Take over rows into new storage, from its row 0 on."""
        self.array = self.blank(capacity)
        self.array[: len(rows)] = rows


class _TableColumn(_Column):
    """Keep rows of values by id, flat; an id that turns up later gets columns behind the others."""

    __slots__ = ("layout",)

    def __init__(self, layout: Layout = NOTHING, dtype: Any = np.float64) -> None:
        super().__init__(dtype, np.nan)
        self.layout = layout

    def learn(self, layout: Layout) -> None:
        """Give the ids of a layout columns, if they have none yet.

        Raises:
            AuthorError: An id comes back with another shape.
        """
        dtype = np.result_type(self.dtype, layout.dtype) if self.layout.uids else layout.dtype
        self.layout = self.layout.join(layout, dtype)
        self.dtype = dtype

    def store(self, cells: Sequence[Cell | None], gap: bool = False) -> Array:
        layout = self.layout
        full = not gap and None not in cells
        given, values = zip(*cells, strict=True) if full else ((), ())
        full = full and all(one.uids == layout.uids for one in set(given))
        if full and layout.scalar:
            found = np.array(values)
            if found.dtype.kind in "biuf" and found.shape == (len(cells), layout.width):
                self._widen(found.dtype)
                return found
        rows = [[] if cell is None else _vectors(*cell) for cell in cells]
        self._widen(*(vector.dtype for row in rows for _, vector in row if vector is not None))
        if not full or any(vector is None for row in rows for _, vector in row):
            self._widen(np.dtype(np.float16))
        found = self.blank(len(cells))
        for r, row in enumerate(rows):
            for uid, vector in row:
                if vector is not None:
                    found[r, layout.span(layout.index(uid))] = vector
        return found

    def write_rows(self, begin: int, rows: Array, capacity: int, gap: bool) -> None:
        if rows.dtype != self.dtype:
            self._widen(rows.dtype)
        if gap and self.array is None:
            self._widen(np.dtype(np.float16))
        super().write_rows(begin, rows, capacity, gap)

    def spread(self, rows: Array, layout: Layout) -> Array:
        """Return rows of the ids of a layout as rows of all ids; those of others are missing."""
        if layout.uids == self.layout.uids:
            return rows
        self._widen(rows.dtype, np.dtype(np.float16))
        found = self.blank(len(rows))
        found[:, self.layout.columns(layout.uids)] = rows
        return found

    def _widen(self, *dtypes: np.dtype[Any]) -> None:
        """Widen the dtype where values need it: a float among integers, NaN among integers."""
        if any(dtype.kind == "f" for dtype in dtypes) and self.dtype.kind != "f":
            self.dtype = np.result_type(self.dtype, np.float16)
        elif any(not np.can_cast(dtype, self.dtype, "same_kind") for dtype in dtypes):
            self.dtype = np.result_type(self.dtype, *dtypes)

    def blank(self, rows: int) -> Array:
        # Integers have no sign for missing; rows that are not written in full are never stored as integers.
        shape = (rows, self.layout.width)
        # Pages of zeros are only there once they are written: 256 rows of pictures take a second otherwise.
        return np.full(shape, np.nan, self.dtype) if self.dtype.kind == "f" else np.zeros(shape, self.dtype)

    def fitted(self, capacity: int) -> Array:
        array = super().fitted(capacity)
        known = array.shape[1]
        if known < self.layout.width:
            if self.dtype.kind != "f":
                self.dtype = np.result_type(self.dtype, np.float16)  # rows of before lack the new ids
            array, narrow = self.blank(len(array)), array
            array[:, :known] = narrow  # known ids keep their columns
        return array.astype(self.dtype, copy=False)

    def show(self, stored: Array | None, rows: int) -> Table:
        width = self.layout.width
        if stored is None or stored.shape[1] < width:
            wide = np.full((rows, width), np.nan)
            if stored is not None:
                wide[:, : stored.shape[1]] = stored
            stored = wide
        return Table(self.layout, read_only(stored.view()))


def _vectors(layout: Layout, values: Values) -> list[tuple[str, Array | None]]:
    """Return each id of a cell with the vector of its value, None where that is missing."""
    rows = zip(layout.uids, layout.spaces, values, layout.shapes, strict=True)
    return [(uid, None if value is None else _vector(space, value, shape)) for uid, space, value, shape in rows]


def _vector(space: Space | None, value: Any, shape: tuple[int, ...]) -> Array:
    if space is not None and is_composite(space):
        return space.to_vector(value)
    array = np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise AuthorError(f"memory: expected numbers of shape {shape}, found {value!r:.100}")
    return array.reshape(-1)


class MemoryShard:
    """Show rows of a memory, oldest first, as they were when it was taken; arrays are read-only.

    What was not given for a row is missing in it: NaN among numbers, None among flags and objects. `shard[i]` and
    `shard[a:b]` are shards of some of the rows, `MemoryShard.concat(...)` joins several.
    """

    __slots__ = ("_count", "_known", "_read")

    tag: Array  # whose rows these are: the uids of the muscles, (n,) texts
    sensor_readings: Table  # the readings that were decided on
    next_readings: Table  # the readings that the decisions led to
    actuator_setpoints: Table
    """The setpoints; a brain's: as proposed, in the muscle's own action space; a muscle's: as applied."""
    applied_setpoints: Table  # the setpoints that were applied, after filters
    rewards: Table  # the rewards; NaN where a row does not have one
    objective: Array  # the objectives, (n,) float64; NaN is none
    dones: Array  # whether the episode ended with the decision, (n,) bool
    terminated: Array  # whether no future exists, (n,) bool
    truncated: Array  # whether the episode was cut off from outside, (n,) bool
    decision_index: Array  # numbers of the decisions in their episodes, (n,) int64
    episode: Array  # numbers of the episodes in their workers, (n,) int64
    additional_data: Array  # what the muscle added, (n,) objects
    body: Array  # places of the bodies among `bodies` of the agent, (n,) int32; -1 in phases without bodies

    def __init__(self, count: int, read: Callable[[str], Any]) -> None:
        self._count = count
        self._read = read
        self._known: dict[str, Any] = {}

    @property
    def observations(self) -> Array:
        """Flat arrays, (n, columns): as given, else the vectors of the readings side by side."""
        given: Table = self.column("observations")
        return given.flat if given.flat.shape[1] else self.sensor_readings.flat

    @property
    def actions(self) -> Array:
        """Flat arrays, (n, columns): as given, else the vectors of the setpoints side by side."""
        given: Table = self.column("actions")
        return given.flat if given.flat.shape[1] else self.actuator_setpoints.flat

    def column(self, name: str) -> Any:
        """Return a column by name, observations and actions as tables of one id; KeyError if there is none."""
        found = self._known.get(name)
        if found is None:
            found = self._read(name)
            if isinstance(found, np.ndarray):
                found = read_only(found.view())
            self._known[name] = found
        return found

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: int | slice) -> MemoryShard:
        if not isinstance(key, slice):
            place = range(self._count)[key]
            key = slice(place, place + 1)
        rows = key

        def read(name: str) -> Any:
            column = self.column(name)
            return column.iloc[rows] if isinstance(column, Table) else column[rows]

        return MemoryShard(len(range(self._count)[rows]), read)

    @staticmethod
    def concat(*shards: MemoryShard | Iterable[MemoryShard]) -> MemoryShard:
        """Return the rows of several shards (or of a list of them), one shard after the other.

        Raises:
            AuthorError: There is none.
        """
        flat = [part for it in shards for part in ([it] if isinstance(it, MemoryShard) else it)]
        if not flat:
            raise AuthorError("concat needs at least one shard")

        def read(name: str) -> Any:
            parts = [shard.column(name) for shard in flat]
            return Table.join(parts) if isinstance(parts[0], Table) else np.concatenate(parts)

        return MemoryShard(sum(map(len, flat)), read)

    def __repr__(self) -> str:
        return f"MemoryShard({len(self)} rows)"


for _name in _KINDS.keys() - set(FLAT):
    setattr(MemoryShard, _name, property(methodcaller("column", _name)))


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
        self._columns: dict[str, _Column] = {
            name: _TableColumn() if kind is None else _Column(*kind) for name, kind in _KINDS.items()
        }
        self._tags: dict[str, int] = {}  # the number of each
        self._pending: list[list[Any]] = []
        self._start = self._end = self._capacity = 0
        self._layouts: dict[str, Layout] = {}
        for name, layout in self._declared.items():
            self._learn(name, layout)

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
        actuators, sensors = list(actuators), list(sensors)
        columns = {
            "sensor_readings": sensors,
            "next_readings": sensors,
            "actuator_setpoints": actuators,
            "applied_setpoints": actuators if applied is None else list(applied),
            "rewards": list(rewards),
        }
        for name, given in columns.items():
            if given:
                self._declared[name] = Layout([it.uid for it in given], [it.space for it in given])
                self._learn(name, self._declared[name])

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
        body: int | None = None,
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
            body: Place of the body among `bodies` of the agent.

        Raises:
            AuthorError: Plain values without declaration or of another number, an id with another shape than before.
                Nothing was added.
        """
        if self._limit == 0:
            return
        row = [
            muscle_uid,
            sensor_readings,
            actuator_setpoints,
            rewards,
            objective,
            next_readings,
            done if dones is None else dones,
            terminated,
            truncated,
            decision_index,
            episode,
            applied_setpoints,
            None if observations is None else self._flat_cell("observations", observations),
            None if actions is None else self._flat_cell("actions", actions),
            additional_data,
            body,
        ]
        for name, place in _TABLES.items():
            values = row[place]
            if values is None:
                continue
            layout = self._declared.get(name)
            # The usual case without a call: a list of numbers in declared order.
            plain = type(values) is list and layout is not None and layout.scalar and len(values) == layout.width
            if plain and not isinstance(values[0], Information):
                row[place] = (layout, values.copy())
            else:
                row[place] = self._cell(name, values)
        self._pending.append(row)
        if len(self._pending) >= min(PENDING_ROWS, self._limit):
            self._flush()

    def extend(self, muscle_uids: Sequence[str], **columns: Array | Sequence[Any]) -> None:
        """Add completed decisions in their order; costs a few operations on arrays, however many they are.

        Args:
            muscle_uids: Whose each of them is.
            columns: What `append` takes, by its names, for each of them. Lists of values are vectors side by side in
                declared order, `(n, columns)`, without gaps. What is not given is missing.

        Raises:
            AuthorError: There is no such column, it was not declared, or its shape is another. Nothing was added.
        """
        count = len(muscle_uids)
        kept: dict[str, Any] = {}
        newest = slice(max(0, count - self._limit), count)
        for name, values in columns.items():
            layout = self._declared.get(name, NOTHING if name in _TABLES else None)
            if layout is None and (_KINDS.get(name) is None or name == "tag"):
                raise AuthorError(f"memory: {name}: expected the name of a column, and no flat one")
            rows: Any = values if name == "additional_data" else np.asarray(values)
            shape = (count,) if layout is None else (count, layout.width)
            found = (len(rows),) if name == "additional_data" else rows.shape
            if found != shape:
                raise AuthorError(f"memory: {name}: expected rows of shape {shape}, found {found}")
            kept[name] = rows[newest]
        self._flush()
        count = newest.stop - newest.start
        if not count:
            return
        self._make_room(count)
        kept["tag"] = [self._tags.setdefault(tag, len(self._tags)) for tag in muscle_uids[newest]]
        begin, gap = self._end, self._end > self._start
        for name, column in self._columns.items():
            given = kept.get(name)
            if given is None or name == "additional_data":
                column.write(begin, given or [None] * count, self._capacity, gap)
            else:
                if isinstance(column, _TableColumn):
                    given = column.spread(given, self._declared.get(name, NOTHING))
                column.write_rows(begin, given, self._capacity, gap)
        self._grow(count)

    def complete(self, objective: float | None) -> None:
        """Give the newest row its objective, which is computed when the row is there."""
        if self._pending:
            row = self._pending[-1] = self._pending[-1].copy()  # as in `_amend`, for each decision
            row[_OBJECTIVE] = objective
        else:
            self._amend("objective", objective)

    def annotate(self, data: Any) -> None:
        """Give the newest row other additional data, which are known when the row is there."""
        self._amend("additional_data", data)

    def close(self, terminated: bool, truncated: bool) -> None:
        """Give the newest row the flags of its episode's end, when that comes after the row."""
        for name, flag in (("dones", terminated or truncated), ("terminated", terminated), ("truncated", truncated)):
            self._amend(name, flag)

    def _amend(self, name: str, value: Any) -> None:
        if self._pending:
            row = self._pending[-1] = list(self._pending[-1])  # another list: shards that have the row stay as they are
            row[FIELDS.index(name)] = value
        elif self._end > self._start:
            last = self._end - 1
            self._columns[name].write(last, [value], self._capacity, last > self._start)

    def _cell(self, name: str, values: Values) -> Cell:
        """Return values with their layout, in a list of our own: what the author changes later changes no row."""
        if values and isinstance(values[0], Information):
            layout = self._layouts.get(name)
            uids = tuple([it.uid for it in values])
            if layout is None or layout.uids != uids:
                layout = Layout(uids, [it.space for it in values])
                self._learn(name, layout)
            values = [it.value for it in values]
        else:
            found = self._declared.get(name, None if values else NOTHING)
            if found is None or len(found.uids) != len(values):
                expected = "informations" if found is None else f"{len(found.uids)} values in declared order"
                raise AuthorError(f"memory: {name}: expected {expected}, found {len(values)} values")
            layout, values = found, list(values)
        if not layout.scalar:
            values = [_kept(value) for value in values]
        return layout, values

    def _flat_cell(self, name: str, values: Any) -> Cell:
        """Return a copy of a flat array, as the only value of a table."""
        array = np.array(values)
        if array.dtype.kind not in "biuf":
            raise AuthorError(f"memory: {name}: expected numbers, found {array.dtype}")
        layout = self._layouts.get(name)
        if layout is None or layout.shapes != ((array.size,),) or layout.dtype != array.dtype:
            layout = Layout((name,), (None,), ((array.size,),), array.dtype)
            self._learn(name, layout)
        return layout, [array.reshape(-1)]

    def _learn(self, name: str, layout: Layout) -> None:
        column = self._columns[name]
        assert isinstance(column, _TableColumn)
        column.learn(layout)
        self._layouts[name] = layout

    def _flush(self) -> None:
        """Write what waits into the blocks, and drop what is beyond the limit."""
        rows, self._pending = self._pending, []
        if not rows:
            return
        self._make_room(len(rows))
        tags, *others = zip(*rows, strict=True)
        numbers = [self._tags.setdefault(tag, len(self._tags)) for tag in tags]
        for column, cells in zip(self._columns.values(), (numbers, *others), strict=True):
            column.write(self._end, cells, self._capacity, self._end > self._start)
        self._grow(len(rows))

    def _make_room(self, count: int) -> None:
        """Take new blocks if so many rows do not fit; old ones are left to the shards that still show them."""
        if self._end + count > self._capacity:
            first = max(self._start, min(self._end, self._end + count - self._limit))
            self._move(slice(first, self._end), self._end - first, count)

    def _grow(self, count: int) -> None:
        """Count rows that were written, and drop what is beyond the limit."""
        self._end += count
        self._start = max(self._start, self._end - self._limit)

    def _move(self, kept: slice | Array, count: int, more: int = 0) -> None:
        """Take `count` rows over into new blocks with room for `more`."""
        self._capacity = max(min(FIRST_BLOCK_ROWS, 2 * self._limit), 2 * (count + more))
        for column in self._columns.values():
            if column.array is not None:
                column.put(column.fitted(0)[kept], self._capacity)
        self._start, self._end = 0, count

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def export(self) -> dict[str, Any]:
        """Return all rows as values that can travel: arrays, lists, numbers.

        Raises:
            AuthorError: There are rows with ids that were not declared.
        """
        self._flush()
        columns: dict[str, Any] = {}
        for name, column in self._columns.items():
            if isinstance(column, _TableColumn) and name not in FLAT:
                if column.layout.uids != self._declared.get(name, NOTHING).uids:
                    raise AuthorError(f"memory: {name}: rows with ids that were not declared cannot be exported")
            rows = None if column.array is None else column.fitted(0)[self._start : self._end]
            columns[name] = list(rows) if rows is not None and rows.dtype == object else rows
        return {"rows": self._end - self._start, "tags": list(self._tags), "columns": columns}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `export` returned, in place of all rows; declarations and limit are those of now."""
        self.clear()
        self._tags = {tag: number for number, tag in enumerate(state["tags"])}
        self._end = int(state["rows"])
        self._capacity = max(FIRST_BLOCK_ROWS, 2 * self._end)
        for name, rows in state["columns"].items():
            column = self._columns[name]
            if rows is None:
                continue
            if name in FLAT:
                self._learn(name, Layout((name,), (None,), (rows.shape[1:],), rows.dtype))
            if isinstance(column, _TableColumn):
                column.dtype = rows.dtype
            column.put(column.store(rows) if column.dtype == object else rows, self._capacity)

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
        numbers, first = np.unique(self._numbers(), return_index=True)
        names = list(self._tags)
        return [names[i] for i in numbers[np.argsort(first)]]

    def truncate(self, n: int) -> None:
        """Keep the last `n` rows of each tag."""
        numbers = self._numbers()
        if len(self._tags) <= 1:
            self._start = max(self._start, self._end - max(0, int(n)))
            return
        last = [np.flatnonzero(numbers == i)[::-1][: max(0, int(n))] for i in range(len(self._tags))]
        rows = np.sort(np.concatenate(last))
        self._move(rows + self._start, len(rows))

    def _numbers(self) -> Array:
        """Return the number of the tag of each row, all of which are in the blocks then."""
        self._flush()
        array = self._columns["tag"].array
        return np.zeros(0, dtype=np.int32) if array is None else array[self._start : self._end]

    # -- reading ------------------------------------------------------------------------------------------------------

    def tail(self, n: int = 1, include_only: str | Iterable[str] | None = None) -> MemoryShard:
        """Return the last `n` rows, oldest first, in order of arrival over all tags; fewer if there are fewer.

        Args:
            n: How many.
            include_only: Tags; None is all.
        """
        n = max(0, int(n))
        tags = None if include_only is None else _tags(include_only)
        rows = self._pending[len(self._pending) - n :] if n <= len(self._pending) else []
        if rows and (tags is None or all(row[0] in tags for row in rows)):  # what every objective asks for
            return MemoryShard(n, partial(_waiting, self._columns, rows))
        n = min(n, len(self))
        self._flush()
        if tags is None or tags.issuperset(self._tags):  # as nearly always, where there is one muscle
            return self._shard(slice(self._end - n, self._end))
        places = self._places(tags)
        return self._shard(places[len(places) - min(n, len(places)) :])

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
        places = None if include_only is None else self._places(_tags(include_only))
        count = self._end - self._start if places is None else len(places)
        n = max(0, int(n)) if replace and count else min(max(0, int(n)), count)
        drawn: Any = rng.integers(count, size=n) if replace and n else rng.choice(count, n, replace=False) if n else []
        rows = np.sort(np.asarray(drawn, dtype=np.int64))
        return self._shard(rows + self._start if places is None else places[rows])

    def __getitem__(self, key: int | slice) -> MemoryShard:
        """Return rows by position, the oldest first."""
        self._flush()
        rows = range(self._start, self._end)[key]
        if isinstance(rows, int):
            return self._shard(slice(rows, rows + 1))
        return self._shard(slice(rows.start, rows.stop) if rows.step == 1 and len(rows) else np.array(rows, dtype=int))

    def _places(self, tags: frozenset[str]) -> Array:
        numbers = self._numbers()
        wanted = [number for tag, number in self._tags.items() if tag in tags]
        found: Array = np.flatnonzero(np.isin(numbers, wanted)) + self._start
        return found

    def _shard(self, rows: slice | Array) -> MemoryShard:
        """Return rows of the blocks: a slice without copying, or places by number."""
        # The arrays are taken now: but for what is amended rows are never written twice, so they stay as they are.
        columns, tags = self._columns, self._tags
        arrays = {name: column.array for name, column in columns.items()}
        if isinstance(rows, slice):
            count, has_newest = rows.stop - rows.start, rows.start < rows.stop == self._end
        else:
            count, has_newest = len(rows), bool((rows == self._end - 1).any())
        copies = {name: array[rows].copy() for name in AMENDED if has_newest and (array := arrays[name]) is not None}

        def read(name: str) -> Any:
            array = arrays[name]
            stored = copies[name] if name in copies else None if array is None else array[rows]
            shown = columns[name].show(stored, count)
            return np.array([*tags, ""], dtype=object)[shown] if name == "tag" else shown

        return MemoryShard(count, read)


def _waiting(columns: Mapping[str, _Column], rows: list[list[Any]], name: str) -> Any:
    """Return a column of rows that still wait in Python objects, made from the rows alone."""
    place = FIELDS.index(name)
    column = columns[name]
    if len(rows) == 1 and name != "tag":  # the newest row, which objectives and learners ask for at each decision
        cell = rows[0][place]
        # Without another call; what is unknown has no place in an integer column.
        if cell is not None and name in _TABLES and cell[0].scalar and None not in cell[1]:
            only = np.array([cell[1]], dtype=cell[0].dtype)
            only.flags.writeable = False
            return Table(cell[0], only)
        found = _newest(column, cell, name)
        if found is not None:
            return found
    cells = [row[place] for row in rows]
    if name == "tag":
        return np.array([*cells, ""], dtype=object)[:-1]
    if isinstance(column, _TableColumn):
        # These rows alone decide upon its dtype; and upon its width where no declaration does.
        column = _TableColumn() if name in FLAT else _TableColumn(column.layout, column.dtype)
        for layout in {cell[0] for cell in cells if cell is not None} if name in FLAT else ():
            column.learn(layout)
    stored = column.store(cells) if any(cell is not None for cell in cells) else None
    return column.show(stored, len(cells))


def _newest(column: _Column, cell: Any, name: str) -> Any:
    """Return a column of one row that waits, at a part of the cost; None where its form is not a usual one."""
    if cell is None:
        return _NO_FLAT if name in FLAT else None
    if name in _TABLES:
        layout, values = cell
        only = values[0] if len(values) == 1 else None
        if isinstance(only, np.ndarray) and only.dtype == column.dtype and only.shape == layout.shapes[0]:
            return Table(layout, read_only(only.reshape(1, -1)))
        return None
    if name not in FLAT and column.dtype.kind in "if":
        return np.array([cell], bool if column.dtype == np.int8 else column.dtype)
    return None


def _tags(include_only: str | Iterable[str]) -> frozenset[str]:
    return frozenset([include_only]) if isinstance(include_only, str) else frozenset(include_only)


def _kept(value: Any) -> Any:
    """Return a value that cannot change: read-only arrays are the bus's own, all else is copied."""
    if isinstance(value, np.ndarray):
        return value if not value.flags.writeable else value.copy()
    if isinstance(value, list):
        return [_kept(part) for part in value]
    if isinstance(value, tuple):
        return tuple(_kept(part) for part in value)
    return {name: _kept(part) for name, part in value.items()} if isinstance(value, dict) else value
