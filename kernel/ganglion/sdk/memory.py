"""Memory: the completed decisions of an agent, as aligned columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
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

FIRST_BLOCK_ROWS = 256

# The fields of a row, in order, with their columns. A plain column has a dtype and a value for missing entries; a
# table (None) has those of its values.
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
_TABLES = tuple(name for name, kind in _KINDS.items() if kind is None)
_PLAIN = tuple(name for name, kind in _KINDS.items() if kind is not None)
AMENDED = ("objective", "additional_data", "dones", "terminated", "truncated")
"""Columns in which a memory changes its newest row after appending it."""
_MISSING = np.dtype(np.float16)  # joined with the dtype of integers if one is missing: integers have no NaN


class _Column:
    """Keep one kind of value in an array with an entry per row, None until a first value is given.

    Entries after the newest row are blank, so that a value that is not given stays missing. Only the newest row may be
    written twice, so that a shard may keep a slice.
    """

    __slots__ = ("array", "dtype", "layout", "missing")

    def __init__(self, dtype: Any = np.float64, missing: Any = np.nan, layout: Layout | None = None) -> None:
        self.array: Array | None = None
        self.dtype = np.dtype(dtype)
        self.missing = missing
        self.layout = layout  # of a table; None of a plain column

    def blank(self, rows: int) -> Array:
        """Return storage for so many rows, all missing; integers of a table are zeros, since they are never missing."""
        shape = rows if self.layout is None else (rows, self.layout.width)
        if self.layout is None or self.dtype.kind == "f":
            return np.full(shape, self.missing, self.dtype)
        # Pages of zeros take memory once written; filling 256 rows of pictures would take a second.
        return np.zeros(shape, self.dtype)

    def moved(self, kept: slice | Array, capacity: int) -> _Column:
        """Return a new column that begins with some of the rows; shards keep this one."""
        found = _Column(self.dtype, self.missing, self.layout)
        if self.array is not None:
            rows, found.array = self.array[kept], found.blank(capacity)
            found.array[: len(rows)] = rows
        return found

    def put(self, begin: int, values: Sequence[Any] | Array) -> None:
        """Write values from row `begin` on."""
        assert self.array is not None
        if self.dtype != object:
            self.array[begin : begin + len(values)] = values
        else:
            for row, value in enumerate(values, begin):  # one by one: a slice would unpack lists and arrays
                self.array[row] = value

    def show(self, stored: Array) -> Array:
        """Return the stored rows of a plain column as authors see them.

        If an integer is missing all become floats with NaN, if a flag is missing all become objects with None.
        """
        if self.dtype == np.int64:
            missing = stored == self.missing
            return np.where(missing, np.nan, stored) if bool(missing.any()) else stored
        if self.dtype == np.int8:
            missing, stored = stored < 0, stored.astype(bool)
            if bool(missing.any()):
                stored = stored.astype(object)
                stored[missing] = None
        return stored

    def fit(self, dtype: np.dtype[Any], rows: int, capacity: int) -> Array:
        """Return the array, with room for values of this dtype; `rows` are written."""
        if self.layout is not None and dtype.kind == "f" != self.dtype.kind:
            self.widen(dtype, rows)
        if self.array is None:
            self.array = self.blank(capacity)
        return self.array

    # -- tables ------------------------------------------------------------------------------------------------------
    def widen(self, dtype: np.dtype[Any], rows: int) -> None:
        """Make room for values of another dtype, or for missing ones; `rows` are written."""
        wider = np.result_type(self.dtype, dtype)
        if wider != self.dtype:
            self.dtype = wider
            if self.array is not None:
                old, self.array = self.array, self.blank(len(self.array))
                self.array[:rows] = old[:rows]

    def learn(self, layout: Layout, rows: int) -> None:
        """Add columns for new ids of a layout; AuthorError: a known id has another shape."""
        known = self.layout
        assert known is not None
        dtype = np.result_type(self.dtype, layout.dtype) if known.uids else layout.dtype
        joined = known.join(layout, dtype)
        if rows and joined.width > known.width:
            dtype = np.result_type(dtype, _MISSING)  # earlier rows lack the new ids
        self.layout, self.dtype = joined, dtype
        if self.array is not None and (joined.width > known.width or dtype != self.array.dtype):
            old, self.array = self.array, self.blank(len(self.array))
            self.array[:rows, : known.width] = old[:rows]  # known ids keep their columns


def _vector(space: Space | None, value: Any, shape: tuple[int, ...]) -> Array:
    """Return the vector of a value, NaN if missing."""
    if value is None:
        return np.full(shape, np.nan).reshape(-1)
    if space is not None and is_composite(space):
        return space.to_vector(value)
    array = np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise AuthorError(f"memory: expected numbers of shape {shape}, found {value!r:.100}")
    return array.reshape(-1)


class MemoryShard:
    """Show rows of a memory, oldest first, as they were when it was taken; arrays are read-only.

    A value that was not given for a row is missing: NaN among numbers, None among flags and objects. `shard[i]` and
    `shard[a:b]` are shards of some rows, `MemoryShard.concat(...)` joins several shards.
    """

    __slots__ = ("_columns", "_copies", "_count", "_known", "_rows", "_tags")

    tag: Array  # the uids of the rows' muscles, (n,) texts
    sensor_readings: Table  # the readings of the decisions
    next_readings: Table  # the readings after the decisions
    actuator_setpoints: Table
    """The setpoints; a brain's: as proposed, in the muscle's own action space; a muscle's: as applied."""
    applied_setpoints: Table  # the setpoints that were applied, after filters
    rewards: Table  # the rewards; NaN if missing
    objective: Array  # the objectives, (n,) float64; NaN is none
    dones: Array  # whether the episode ended with the decision, (n,) bool
    terminated: Array  # whether no future exists, (n,) bool
    truncated: Array  # whether the episode was cut off from outside, (n,) bool
    decision_index: Array  # numbers of the decisions in their episodes, (n,) int64
    episode: Array  # numbers of the episodes in their workers, (n,) int64
    additional_data: Array  # the muscle's data, (n,) objects
    body: Array  # places of the bodies among `bodies` of the agent, (n,) int32; -1 in phases without bodies

    def __init__(self, columns: Mapping[str, _Column], tags: Iterable[str], rows: slice | Array, newest: int) -> None:
        # Later rows change nothing here: new blocks are new columns.
        self._columns, self._tags, self._rows = columns, tags, rows
        self._count: int
        self._known: dict[str, Any] = {}
        self._copies: dict[str, Array] = {}
        if isinstance(rows, slice):
            self._count = rows.stop - rows.start
            has_newest = rows.start <= newest < rows.stop
        else:
            self._count, has_newest = len(rows), bool((rows == newest).any())
        for name in AMENDED if has_newest else ():
            array = columns[name].array
            self._copies[name] = columns[name].blank(self._count) if array is None else array[rows].copy()

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
        """Return a column by name, observations and actions as tables of one id; KeyError: there is none."""
        found = self._known.get(name)
        if found is None:
            column = self._columns[name]
            stored = self._copies.get(name)
            if stored is None:
                stored = column.blank(self._count) if column.array is None else column.array[self._rows]
            if column.layout is None:
                stored = column.show(stored)
                if name == "tag":
                    stored = np.array([*self._tags, ""], dtype=object)[stored]
            stored.flags.writeable = False
            found = self._known[name] = stored if column.layout is None else Table(column.layout, stored)
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

        return _Derived(len(range(self._count)[rows]), read)

    @staticmethod
    def concat(*shards: MemoryShard | Iterable[MemoryShard]) -> MemoryShard:
        """Return the rows of several shards (or of a list of them), one after the other; AuthorError for none."""
        flat = [part for it in shards for part in ([it] if isinstance(it, MemoryShard) else it)]
        if not flat:
            raise AuthorError("concat needs at least one shard")

        def read(name: str) -> Any:
            parts = [shard.column(name) for shard in flat]
            return Table.join(parts) if isinstance(parts[0], Table) else read_only(np.concatenate(parts))

        return _Derived(sum(map(len, flat)), read)

    def __repr__(self) -> str:
        return f"MemoryShard({len(self)} rows)"


for _name in _KINDS.keys() - set(FLAT):
    setattr(MemoryShard, _name, property(methodcaller("column", _name)))


class _Derived(MemoryShard):
    """Show rows whose columns are made from those of other shards at their first use."""

    __slots__ = ("_read",)

    def __init__(self, count: int, read: Callable[[str], Any]) -> None:
        super().__init__({}, (), slice(0, count), -1)
        self._read = read

    def column(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]


class Memory:
    """Keep whole decisions as rows; all columns are aligned, whatever was given.

    >>> from ganglion.sdk import Box, SensorInformation
    >>> memory = Memory(size_limit=1000)
    >>> for number in range(3):
    ...     memory.append("ada/0", [SensorInformation(number, Box(0, 9), "arena.level")], objective=0.5 * number)
    >>> memory.tail(2).objective
    array([0.5, 1. ])
    >>> memory.tail(2).sensor_readings.iloc[-1]
    TableRow({'arena.level': 2.0})

    A value that was not given is missing in its own row (None or NaN). Rows are kept in blocks that grow by doubling:
    appending is O(1), a tail is a slice. `rng` is the default generator of `sample`.
    """

    def __init__(self, size_limit: int = MEMORY_ROWS, rng: Generator | None = None) -> None:
        self.rng = rng
        self._limit = int(size_limit)
        self._declared: dict[str, Layout] = {}
        self.clear()

    def clear(self) -> None:
        """Forget all rows; declarations and limit stay."""
        self._use({name: _Column(*kind) if kind else _Column(layout=NOTHING) for name, kind in _KINDS.items()}, 0)
        self._tags: dict[str, int] = {}  # tag -> its number
        self._start = self._end = 0
        self._seen: dict[str, Layout] = {}  # table -> the last layout of informations, or the last flat array
        self._learned: list[tuple[str, Any, Any, Any]] = []  # earlier layouts of tables, until the row is added
        for name, layout in self._declared.items():
            self._columns[name].learn(layout, 0)

    def _use(self, columns: dict[str, _Column], capacity: int) -> None:
        self._columns, self._capacity = columns, capacity
        self._tables, self._plain = [columns[name] for name in _TABLES], [columns[name] for name in _PLAIN]

    def declare(
        self,
        sensors: Iterable[Information] = (),
        actuators: Iterable[Information] = (),
        rewards: Iterable[Information] = (),
        applied: Iterable[Information] | None = None,
    ) -> None:
        """Declare the informations of rows, so that `append` takes plain values in this order.

        `applied` are the actuators after filters if they differ from the agent's own, else None.
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
                self._columns[name].learn(self._declared[name], self._end)

    # -- writing -----------------------------------------------------------------------------------------------------

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
        """Add one completed decision of a muscle, the columns of `MemoryShard`; None is missing.

        Lists have informations, or, after `declare`, values in declared order. `observations` and `actions` are one
        flat array each. `done` is the same as `dones`. `complete` adds the objective later.

        Raises:
            AuthorError: Plain values without declaration or of another number, an id with another shape than before.
                Nothing was added.
        """
        if self._limit == 0:
            return
        if self._end == self._capacity:
            self._make_room(1)
        row = self._end
        lists = (sensor_readings, actuator_setpoints, rewards, next_readings, applied_setpoints, observations, actions)
        number = self._tags.get(muscle_uid, len(self._tags))
        ends = (done if dones is None else dones, terminated, truncated)
        cells = (number, objective, *ends, decision_index, episode, additional_data, body)
        vectors: list[Array | None] = []
        try:  # all that can fail comes before the first table has the row
            for name, values in zip(_TABLES, lists, strict=True):
                vector = None
                if values is not None:
                    layout = self._declared.get(name)
                    # The usual case without a call: a list of numbers in declared order.
                    if type(values) is list and layout is not None and layout.scalar and len(values) == layout.width:
                        vector = np.array(values) if type(values[0]) in (float, int) else None
                    if vector is None or vector.dtype.kind not in "if":
                        vector = self._vector(name, values)
                vectors.append(vector)
            for column, cell in zip(self._plain, cells, strict=True):
                if cell is not None:
                    if column.array is None:
                        column.fit(column.dtype, row, self._capacity)
                    column.array[row] = cell  # type: ignore[index]
        except (AuthorError, TypeError, ValueError, OverflowError) as error:
            self._withdraw(row)
            if isinstance(error, AuthorError):
                raise
            raise AuthorError(f"memory: {error}") from error
        if self._learned:
            self._learned.clear()
        self._tags[muscle_uid] = number
        for column, vector in zip(self._tables, vectors, strict=True):
            if vector is None:
                if column.dtype.kind != "f":
                    column.widen(_MISSING, row)
                continue
            if column.array is None or (column.dtype.kind != "f" and vector.dtype.kind == "f"):
                column.fit(vector.dtype, row, self._capacity)
            column.array[row] = vector  # type: ignore[index]
        self._end += 1
        if self._end - self._start > self._limit:
            self._start += 1

    def _withdraw(self, row: int) -> None:
        """Undo a row that failed: cells of plain columns, ids of tables."""
        for column in self._plain:
            if column.array is not None:
                column.array[row] = column.missing
        for name, *former in self._learned:
            self._columns[name].layout, self._columns[name].dtype, self._columns[name].array = former
            self._seen.pop(name, None)
        self._learned.clear()

    def extend(self, muscle_uids: Sequence[str], **columns: Array | Sequence[Any]) -> None:
        """Add completed decisions of these muscles in their order, by a few operations on arrays.

        `columns` are what `append` takes, for each decision; lists of values are vectors side by side in declared
        order, `(n, columns)`, without gaps. AuthorError: there is no such column, it was not declared, or its shape is
        another; nothing was added.
        """
        count = len(muscle_uids)
        kept: dict[str, Any] = {}
        newest = slice(max(0, count - self._limit), count)
        for name, values in columns.items():
            table = name in _TABLES and name not in FLAT
            layout = self._declared.get(name, NOTHING) if table else None
            if not table and (name not in _PLAIN or name == "tag"):
                raise AuthorError(f"memory: {name}: expected the name of a column, and no flat one")
            rows: Any = values if name == "additional_data" else np.asarray(values)
            shape = (count,) if layout is None else (count, layout.width)
            found = (len(rows),) if name == "additional_data" else rows.shape
            if found != shape:
                raise AuthorError(f"memory: {name}: expected rows of shape {shape}, found {found}")
            if name != "additional_data" and rows.dtype.kind not in "biuf":
                raise AuthorError(f"memory: {name}: expected numbers, found {rows.dtype}")
            kept[name] = rows[newest]
        count = newest.stop - newest.start
        if not count:
            return
        self._make_room(count)
        kept["tag"] = [self._tags.setdefault(tag, len(self._tags)) for tag in muscle_uids[newest]]
        begin = self._end
        for name, column in self._columns.items():
            given = kept.get(name)
            if column.layout is not None:
                uids = self._declared.get(name, NOTHING).uids
                whole = uids == column.layout.uids
                if given is None or not whole:
                    column.widen(_MISSING, begin)
                if given is not None:
                    places = slice(None) if whole else column.layout.columns(uids)
                    column.fit(given.dtype, begin, self._capacity)[begin : begin + count, places] = given
            elif given is not None:
                column.fit(column.dtype, begin, self._capacity)
                column.put(begin, given)
        self._end += count
        self._start = max(self._start, self._end - self._limit)

    def complete(self, objective: float | None) -> None:
        """Set the objective of the newest row, which is computed from the row."""
        column = self._columns["objective"]
        if column.array is None:
            self._amend("objective", objective)
        elif self._end > self._start:  # inlined, since this runs for each decision
            column.array[self._end - 1] = np.nan if objective is None else objective

    def annotate(self, data: Any) -> None:
        """Replace the additional data of the newest row, which may depend on the row."""
        self._amend("additional_data", data)

    def close(self, terminated: bool, truncated: bool) -> None:
        """Set the flags of the newest row if its episode ended after the row was added."""
        for name, flag in (("dones", terminated or truncated), ("terminated", terminated), ("truncated", truncated)):
            self._amend(name, flag)

    def _amend(self, name: str, value: Any) -> None:
        if self._end > self._start:
            column = self._columns[name]
            array = column.fit(column.dtype, self._end, self._capacity) if column.array is None else column.array
            array[self._end - 1] = column.missing if value is None else value

    def _vector(self, name: str, values: Any) -> Array:
        """Return a row of a table: the vectors of all ids side by side, NaN if missing."""
        column, layout = self._columns[name], self._seen.get(name)
        if name in FLAT:
            array = np.array(values)
            if array.dtype.kind not in "biuf":
                raise AuthorError(f"memory: {name}: expected numbers, found {array.dtype}")
            values = [array.reshape(-1)]
            if layout is None or layout.shapes != (values[0].shape,) or layout.dtype != array.dtype:
                layout = self._see(name, Layout((name,), (None,), (values[0].shape,), array.dtype))
        elif len(values) and isinstance(values[0], Information):
            uids = tuple([it.uid for it in values])
            if layout is None or layout.uids != uids:
                layout = self._see(name, Layout(uids, [it.space for it in values]))
            values = [it.value for it in values]
        else:
            layout = self._declared.get(name, None if len(values) else NOTHING)
            if layout is None or len(layout.uids) != len(values):
                expected = "informations" if layout is None else f"{len(layout.uids)} values in declared order"
                raise AuthorError(f"memory: {name}: expected {expected}, found {len(values)} values")
        parts = [_vector(*part) for part in zip(layout.spaces, values, layout.shapes, strict=True)]
        vector = np.concatenate(parts) if parts else np.zeros(0)
        whole = column.layout
        assert whole is not None
        if layout.uids == whole.uids:
            return vector
        row = np.full(whole.width, np.nan)
        row[whole.columns(layout.uids)] = vector
        return row

    def _see(self, name: str, layout: Layout) -> Layout:
        """Add the ids of a layout to a table; return the layout."""
        column = self._columns[name]
        self._learned.append((name, column.layout, column.dtype, column.array))
        column.learn(layout, self._end)
        self._seen[name] = layout
        return layout

    def _make_room(self, count: int) -> None:
        """Allocate new blocks if so many rows do not fit; shards keep the old ones."""
        if self._end + count > self._capacity:
            first = max(self._start, min(self._end, self._end + count - self._limit))
            self._move(slice(first, self._end), self._end - first, count)

    def _move(self, kept: slice | Array, count: int, more: int = 0) -> None:
        """Move `count` rows to new blocks with room for `more`."""
        capacity = max(min(FIRST_BLOCK_ROWS, 2 * self._limit), 2 * (count + more))
        self._use({name: column.moved(kept, capacity) for name, column in self._columns.items()}, capacity)
        self._start, self._end = 0, count

    # -- checkpoints -------------------------------------------------------------------------------------------------
    def export(self) -> dict[str, Any]:
        """Return all rows as values that can be sent; AuthorError: ids of rows were not declared."""
        columns: dict[str, Any] = {}
        for name, column in self._columns.items():
            if column.layout is not None and name not in FLAT:
                if column.layout.uids != self._declared.get(name, NOTHING).uids:
                    raise AuthorError(f"memory: {name}: rows with ids that were not declared cannot be exported")
            rows = None if column.array is None else column.array[self._start : self._end]
            columns[name] = list(rows) if rows is not None and rows.dtype == object else rows
        return {"rows": self._end - self._start, "tags": list(self._tags), "columns": columns}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace all rows by those of `export`; declarations and limit stay."""
        self.clear()
        self._tags = {tag: number for number, tag in enumerate(state["tags"])}
        self._end = int(state["rows"])
        self._capacity = max(FIRST_BLOCK_ROWS, 2 * self._end)
        for name, rows in state["columns"].items():
            column = self._columns[name]
            if column.layout is not None and rows is None:
                column.widen(_MISSING, 0)
            if rows is None:
                continue
            if name in FLAT:
                self._see(name, Layout((name,), (None,), (rows.shape[1:],), rows.dtype))
            if column.layout is not None:
                column.dtype = rows.dtype
            column.fit(column.dtype, 0, self._capacity)
            column.put(0, rows)
        self._learned.clear()

    # -- bounds ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def size_limit(self) -> int:
        """The most rows to keep; the oldest are dropped. Setting a smaller limit drops rows at once."""
        return self._limit

    @size_limit.setter
    def size_limit(self, rows: int) -> None:
        if rows < 0:
            raise AuthorError(f"memory: size_limit is at least 0, found {rows}")
        self._limit = int(rows)
        self._start = max(self._start, self._end - self._limit)

    @property
    def tags(self) -> list[str]:
        """The muscles with rows, in order of their first row."""
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
        """Return the number of the tag of each row."""
        array = self._columns["tag"].array
        return np.zeros(0, dtype=np.int32) if array is None else array[self._start : self._end]

    # -- reading -----------------------------------------------------------------------------------------------------

    def tail(self, n: int = 1, include_only: str | Iterable[str] | None = None) -> MemoryShard:
        """Return the last `n` rows, or fewer, of these tags (None for all), in order of arrival."""
        n = max(0, int(n))
        tags = None if include_only is None else _tags(include_only)
        rows: slice | Array = slice(max(self._start, self._end - n), self._end)
        if tags is not None and not tags.issuperset(self._tags):  # rows of one muscle only
            places = self._places(tags)
            rows = places[len(places) - min(n, len(places)) :]
        return MemoryShard(self._columns, self._tags, rows, self._end - 1)

    def sample(
        self,
        n: int,
        include_only: str | Iterable[str] | None = None,
        replace: bool = False,
        rng: Generator | None = None,
    ) -> MemoryShard:
        """Return `n` rows of these tags (None for all), drawn uniformly, oldest first.

        With `replace` a row may be drawn several times; without it there are at most as many as rows. `rng` None is the
        generator of the memory; AuthorError: it has none.
        """
        rng = rng if rng is not None else self.rng
        if rng is None:
            raise AuthorError("memory: sample needs a generator; give rng, or set the memory's")
        places = None if include_only is None else self._places(_tags(include_only))
        count = self._end - self._start if places is None else len(places)
        n = max(0, int(n)) if replace and count else min(max(0, int(n)), count)
        drawn: Any = rng.integers(count, size=n) if replace and n else rng.choice(count, n, replace=False) if n else []
        rows = np.sort(np.asarray(drawn, dtype=np.int64))
        rows = rows + self._start if places is None else places[rows]
        return MemoryShard(self._columns, self._tags, rows, self._end - 1)

    def __getitem__(self, key: int | slice) -> MemoryShard:
        """Return rows by position, the oldest first."""
        rows = range(self._start, self._end)[key]
        if isinstance(rows, int):
            rows = range(rows, rows + 1)
        places = slice(rows.start, rows.stop) if rows.step == 1 and len(rows) else np.array(rows, dtype=int)
        return MemoryShard(self._columns, self._tags, places, self._end - 1)

    def _places(self, tags: frozenset[str]) -> Array:
        wanted = [number for tag, number in self._tags.items() if tag in tags]
        found: Array = np.flatnonzero(np.isin(self._numbers(), wanted)) + self._start
        return found


def _tags(include_only: str | Iterable[str]) -> frozenset[str]:
    return frozenset([include_only]) if isinstance(include_only, str) else frozenset(include_only)
