"""Memory: the completed decisions of an agent, as aligned columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.limits import MEMORY_ROWS
from ganglion.sdk.information import Information
from ganglion.sdk.spaces.space import Space
from ganglion.sdk.table import NOTHING, Layout, Table

Array = NDArray[Any]
Cell = tuple[Layout, Sequence[Any]]


class Column:
    """Keep one kind of value, here floats; a cell is a value or None, which is missing (NaN).

    `array` has one entry per row of the memory's capacity and is None until a first value is given. Rows that have
    been written are never written again, so that a shard may keep a slice.
    """

    __slots__ = ("array",)

    KIND: ClassVar[type] = np.float64
    MISSING: ClassVar[Any] = np.nan

    array: Array | None

    def __init__(self) -> None:
        self.array = None

    def fresh(self) -> Self:
        """Return an empty column that knows what this one knows."""
        return type(self)()

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:
        """Return cells in the form of storage; may change the dtype of `blank` for what follows.

        `gap` says that rows before them are missing, for which the dtype needs a sign.
        """
        return np.array([self.MISSING if cell is None else cell for cell in cells], dtype=self.KIND)

    def blank(self, rows: int) -> Array:
        """Return storage for so many rows, all missing."""
        return np.full(rows, self.MISSING, dtype=self.KIND)

    def show(self, stored: Array | None, rows: int) -> Any:
        """Return what an author sees of stored rows; None stands for `rows` missing ones."""
        return self.blank(rows) if stored is None else stored

    def write(self, begin: int, cells: Sequence[Any], capacity: int, gap: bool) -> None:
        """Write cells from row `begin` on; `gap` says that rows came before them."""
        if self.array is None and not any(cell is not None for cell in cells):
            return
        stored = self.store(cells, gap and self.array is None)
        self.array = self.fitted(capacity)
        self.array[begin : begin + len(cells)] = stored

    def fitted(self, capacity: int) -> Array:
        """Return the array in today's layout and dtype, with all that was written before."""
        return self.blank(capacity) if self.array is None else self.array

    def export(self, rows: slice) -> dict[str, Any] | None:
        """Return what is stored of these rows, as it can travel; None if no value was ever given."""
        return None if self.array is None else {"array": self.fitted(len(self.array))[rows]}

    def restore(self, state: Mapping[str, Any] | None, capacity: int) -> None:
        """Take over what `export` returned, from row 0 on."""
        if state is not None:
            self._put(self.restored(state), capacity)

    def restored(self, state: Mapping[str, Any]) -> Array:
        """Return the rows of an exported state, and know again what the column knew."""
        found: Array = state["array"]
        return found

    def move(self, rows: slice | Array, capacity: int) -> None:
        """Take some rows over into new storage, from its row 0 on."""
        if self.array is not None:
            self._put(self.fitted(len(self.array))[rows], capacity)

    def _put(self, rows: Array, capacity: int) -> None:
        self.array = self.blank(capacity)
        self.array[: len(rows)] = rows


class Integers(Column):
    """Keep integers; where one of those shown is missing they are shown as floats, with NaN."""

    __slots__ = ()

    KIND = np.int64
    MISSING = np.iinfo(np.int64).min

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        found: Array = super().show(stored, rows)
        missing = found == self.MISSING
        return np.where(missing, np.nan, found) if bool(missing.any()) else found


class Flags(Column):
    """Keep booleans; where one of those shown is missing they are shown as objects, with None."""

    __slots__ = ()

    KIND = np.int8
    MISSING = -1

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        found: Array = super().show(stored, rows)
        missing, flags = found < 0, found.astype(bool)
        if bool(missing.any()):
            flags = flags.astype(object)
            flags[missing] = None
        return flags


class Objects(Column):
    """Keep any values; missing is None."""

    __slots__ = ()

    KIND = object
    MISSING = None

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        found: Array = np.empty(len(cells), dtype=object)
        for i, cell in enumerate(cells):  # not by np.array, which would unpack lists and arrays
            found[i] = cell
        return found

    def export(self, rows: slice) -> dict[str, Any] | None:  # noqa: D102
        return None if self.array is None else {"array": list(self.array[rows])}

    def restored(self, state: Mapping[str, Any]) -> Array:  # noqa: D102
        return self.store(state["array"])


class Texts(Column):
    """Keep texts of which there are few, as numbers."""

    __slots__ = ("_numbers", "texts")

    KIND = np.int32
    MISSING = 0

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text; a new one gets the next."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        return np.array([self.number(cell) for cell in cells], dtype=self.KIND)

    def export(self, rows: slice) -> dict[str, Any] | None:  # noqa: D102
        found = super().export(rows)
        return None if found is None else {**found, "texts": list(self.texts)}

    def restored(self, state: Mapping[str, Any]) -> Array:  # noqa: D102
        for text in state["texts"]:
            self.number(text)
        return super().restored(state)

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        names = np.array([*self.texts, ""], dtype=object)
        found: Array = names[super().show(stored, rows)]
        return found


class Vectors(Column):
    """Keep flat arrays of one length; missing is NaN."""

    __slots__ = ("dtype", "width")

    def __init__(self) -> None:
        super().__init__()
        self.width: int | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        given = [np.asarray(cell).reshape(-1) for cell in cells if cell is not None]
        for vector in given:
            if self.width is None:
                self.width, self.dtype = vector.size, vector.dtype
            if vector.size != self.width or vector.dtype.kind not in "biuf":
                raise AuthorError(f"memory: expected {self.width} numbers per row, found {vector.size} {vector.dtype}")
        missing = gap or len(given) < len(cells)
        dtypes = [self.dtype, *(vector.dtype for vector in given)]
        self.dtype = np.result_type(*dtypes, *([np.float16] if missing else []))
        found = self.blank(len(cells))
        place = 0
        for i, cell in enumerate(cells):
            if cell is not None:
                found[i] = given[place]
                place += 1
        return found

    def blank(self, rows: int) -> Array:  # noqa: D102
        return _missing((rows, self.width or 0), self.dtype)

    def restored(self, state: Mapping[str, Any]) -> Array:  # noqa: D102
        array = super().restored(state)
        self.width, self.dtype = array.shape[1], array.dtype
        return array

    def fitted(self, capacity: int) -> Array:  # noqa: D102
        return super().fitted(capacity).astype(self.dtype, copy=False)


class Tables(Column):
    """Keep rows of values by id, flat; an id that turns up later gets columns behind the others."""

    __slots__ = ("dtype", "layout", "stored_layout")

    def __init__(self) -> None:
        super().__init__()
        self.layout = NOTHING
        self.stored_layout = self.layout
        self.dtype: np.dtype[Any] | None = None

    def fresh(self) -> Self:
        """Return an empty column with the same ids."""
        found = type(self)()
        found.layout, found.dtype = self.layout, self.dtype
        return found

    def learn(self, layout: Layout) -> None:
        """Give the ids of a layout columns, if they have none yet.

        Raises:
            AuthorError: An id comes back with another shape.
        """
        known = self.layout
        uids, spaces, shapes = list(known.uids), list(known.spaces), list(known.shapes)
        for uid, space, shape in zip(layout.uids, layout.spaces, layout.shapes, strict=True):
            if uid not in uids:
                uids, spaces, shapes = [*uids, uid], [*spaces, space], [*shapes, shape]
            elif shapes[uids.index(uid)] != shape:
                raise AuthorError(f"memory: {uid} had shape {shapes[uids.index(uid)]}, found {shape}")
        self.dtype = layout.dtype if self.dtype is None else np.result_type(self.dtype, layout.dtype)
        self.layout = Layout(uids, spaces, shapes, [self.dtype] * len(uids))

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        layout = self.layout
        same = not gap and all(cell is not None and cell[0].uids == layout.uids for cell in cells)
        if same and layout.scalar:
            found = np.array([cell[1] for cell in cells])
            if found.dtype.kind in "biuf" and found.shape == (len(cells), layout.width):
                self._widen(found.dtype)
                return found
        flats = [(cell, _flat(cell)) for cell in cells if cell is not None]
        self._widen(*(part.dtype for _, parts in flats for part in parts if part is not None))
        if not same or any(part is None for _, parts in flats for part in parts):
            self._widen(np.dtype(np.float16))
        found = self.blank(len(cells))
        rows = iter(flats)
        for r, cell in enumerate(cells):
            if cell is None:
                continue
            for uid, part in zip(cell[0].uids, next(rows)[1], strict=True):
                if part is not None:
                    found[r, layout.span(layout.index(uid))] = part
        return found

    def _widen(self, *dtypes: np.dtype[Any]) -> None:
        """Widen the dtype where values need it: a float among integers, NaN among integers."""
        current = self._dtype()
        if any(dtype.kind == "f" for dtype in dtypes) and current.kind != "f":
            self.dtype = np.result_type(current, np.float16)
        elif any(not np.can_cast(dtype, current, "same_kind") for dtype in dtypes):
            self.dtype = np.result_type(current, *dtypes)

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64) if self.dtype is None else self.dtype

    def blank(self, rows: int) -> Array:  # noqa: D102
        return _missing((rows, self.layout.width), self._dtype())

    def restored(self, state: Mapping[str, Any]) -> Array:  # noqa: D102
        array = super().restored(state)
        self.dtype, self.stored_layout = array.dtype, self.layout
        return array

    def fitted(self, capacity: int) -> Array:  # noqa: D102
        if self.array is None:
            self.stored_layout = self.layout
            return self.blank(capacity)
        array = self.array
        if self.stored_layout is not self.layout:
            if self._dtype().kind != "f" and self.layout.width > array.shape[1]:
                self.dtype = np.result_type(self._dtype(), np.float16)  # rows of before lack the new ids
            array = self.blank(len(self.array))
            array[:, : self.array.shape[1]] = self.array  # known ids keep their columns
            self.stored_layout = self.layout
        return array.astype(self._dtype(), copy=False)

    def show(self, stored: Array | None, rows: int) -> Table:  # noqa: D102
        layout = self.layout
        if stored is None:
            stored = np.full((rows, layout.width), np.nan)
        elif stored.shape[1] < layout.width:
            wide = np.full((len(stored), layout.width), np.nan)
            wide[:, : stored.shape[1]] = stored
            stored = wide
        stored = stored.view()
        stored.flags.writeable = False
        return Table(layout, stored)


def _flat(cell: Cell) -> list[Array | None]:
    layout, values = cell
    return [
        None if value is None else _vector(space, value, shape)
        for space, value, shape in zip(layout.spaces, values, layout.shapes, strict=True)
    ]


def _vector(space: Space | None, value: Any, shape: tuple[int, ...]) -> Array:
    if space is not None and space.kind in ("tuple", "dict"):
        return space.to_vector(value)
    array = np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise AuthorError(f"memory: expected numbers of shape {shape}, found {value!r:.100}")
    return array.reshape(-1)


def _missing(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    # Integers have no sign for missing; rows that are not written in full are never stored as integers.
    return np.full(shape, np.nan, dtype=dtype) if dtype.kind == "f" else np.zeros(shape, dtype=dtype)


AMENDED = ("objective", "additional_data", "dones", "terminated", "truncated")
"""Columns in which a memory changes its newest row after it was appended."""


def _waiting(columns: Mapping[str, Column], rows: list[list[Any]], name: str) -> Any:
    """Return a column of rows that still wait in Python objects, made from the rows alone."""
    cells = [row[FIELDS.index(name)] for row in rows]
    column = columns[name]
    if len(cells) == 1 and isinstance(column, Tables) and cells[0] is not None and cells[0][0].scalar:
        layout, values = cells[0]  # the newest row, which every objective asks for
        if None not in values:  # what is unknown has no place in an integer column
            only = np.array([values], dtype=layout.dtype)
            only.flags.writeable = False
            return Table(layout, only)
    if isinstance(column, Texts):
        return np.array([*cells, ""], dtype=object)[:-1]
    fresh = column.fresh()
    stored = fresh.store(cells) if any(cell is not None for cell in cells) else None
    return fresh.show(stored, len(cells))


def _written(columns: Mapping[str, Column], rows: slice | Array, newest: int) -> MemoryShard:
    """Return rows of the blocks: a slice without copying, or places by number.

    `newest` is the place of the memory's newest row, the only one that may still be amended.
    """
    # The arrays are taken now: but for what is amended rows are never written twice, so they stay as they are.
    arrays = {name: column.array for name, column in columns.items()}
    place: Any  # where the newest row is among those
    if isinstance(rows, slice):
        count, first = rows.stop - rows.start, newest - rows.start
        place, shown = slice(first, first + 1), 0 <= first < count
    else:
        count, place = len(rows), rows == newest
        shown = bool(place.any())
    then = {  # as an array of one row: a cell may be a list itself
        name: array[newest : newest + 1].copy() for name in AMENDED if shown and (array := arrays[name]) is not None
    }

    def read(name: str) -> Any:
        array = arrays[name]
        if array is None:
            return columns[name].show(None, count)
        stored = array[rows]
        if name in then:  # what has been looked at is not to change either
            stored = stored.copy()
            stored[place] = then[name]
        return columns[name].show(stored, count)

    return MemoryShard(count, read)


def _joined(shards: Sequence[MemoryShard], name: str) -> Any:
    """Return a column of several shards, one behind the other."""
    parts = [shard.column(name) for shard in shards]
    if isinstance(parts[0], Table):
        return Table.join(parts)
    given = [part for part in parts if part.ndim == 1 or part.shape[1]]
    if 0 < len(given) < len(parts):  # flat arrays that a whole shard lacks
        width = given[0].shape[1]
        parts = [part if part.shape[1] else np.full((len(part), width), np.nan) for part in parts]
    return np.concatenate(parts)


class MemoryShard:
    """Show rows of a memory, oldest first, as they were when it was taken; arrays are read-only.

    What was not given for a row is missing in it: NaN among numbers, None among flags and objects. `shard[i]` and
    `shard[a:b]` are shards of some of the rows, `MemoryShard.concat(...)` joins several.
    """

    __slots__ = ("_count", "_known", "_read")

    def __init__(self, count: int, read: Callable[[str], Any]) -> None:
        self._count = count
        self._read = read
        self._known: dict[str, Any] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: int | slice) -> MemoryShard:
        if not isinstance(key, slice):
            place = range(self._count)[key]
            key = slice(place, place + 1)
        rows = key

        def read(name: str) -> Any:
            column = self.column(name)
            return column.rows(rows) if isinstance(column, Table) else column[rows]

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
        return MemoryShard(sum(map(len, flat)), partial(_joined, flat))

    def column(self, name: str) -> Any:
        """Return a column by name; KeyError or ValueError if there is none of this name."""
        found = self._known.get(name)
        if found is None:
            found = self._read(name)
            if isinstance(found, np.ndarray):
                found = found.view()
                found.flags.writeable = False
            self._known[name] = found
        return found

    @property
    def tag(self) -> Array:
        """Whose rows these are: the uids of the muscles, (n,) texts."""
        return self._array("tag")

    @property
    def sensor_readings(self) -> Table:
        """The readings that were decided on."""
        return self._table("sensor_readings")

    @property
    def next_readings(self) -> Table:
        """The readings that the decisions led to."""
        return self._table("next_readings")

    @property
    def actuator_setpoints(self) -> Table:
        """The setpoints; a brain's: as proposed, in the muscle's own action space; a muscle's: as applied."""
        return self._table("actuator_setpoints")

    @property
    def applied_setpoints(self) -> Table:
        """The setpoints that were applied, after filters."""
        return self._table("applied_setpoints")

    @property
    def rewards(self) -> Table:
        """The rewards; NaN where a row does not have one."""
        return self._table("rewards")

    @property
    def objective(self) -> Array:
        """The objectives, (n,) float64; NaN is none."""
        return self._array("objective")

    @property
    def dones(self) -> Array:
        """Whether the episode ended with the decision, (n,) bool."""
        return self._array("dones")

    @property
    def terminated(self) -> Array:
        """Whether no future exists, (n,) bool."""
        return self._array("terminated")

    @property
    def truncated(self) -> Array:
        """Whether the episode was cut off from outside, (n,) bool."""
        return self._array("truncated")

    @property
    def decision_index(self) -> Array:
        """Numbers of the decisions in their episodes, (n,) int64."""
        return self._array("decision_index")

    @property
    def episode(self) -> Array:
        """Numbers of the episodes in their workers, (n,) int64."""
        return self._array("episode")

    @property
    def observations(self) -> Array:
        """Flat arrays, (n, columns): as given, else the vectors of the readings side by side."""
        given = self._array("observations")
        return given if given.shape[1] else self.sensor_readings.flat

    @property
    def actions(self) -> Array:
        """Flat arrays, (n, columns): as given, else the vectors of the setpoints side by side."""
        given = self._array("actions")
        return given if given.shape[1] else self.actuator_setpoints.flat

    @property
    def additional_data(self) -> Array:
        """What the muscle added, (n,) objects."""
        return self._array("additional_data")

    def _array(self, name: str) -> Array:
        found: Array = self.column(name)
        return found

    def _table(self, name: str) -> Table:
        found: Table = self.column(name)
        return found

    def __repr__(self) -> str:
        return f"MemoryShard({len(self)} rows)"


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
        "objective": Column,
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
        for name, flag in (("dones", terminated or truncated), ("terminated", terminated), ("truncated", truncated)):
            self._amend(name, flag)

    def _amend(self, name: str, value: Any) -> None:
        if self._pending:
            row = self._pending[-1] = list(self._pending[-1])  # another list: shards that have the row stay as they are
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
        places = [np.flatnonzero(codes == code)[max(0, int((codes == code).sum()) - n) :] for code in set(codes)]
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
                return MemoryShard(len(rows), partial(_waiting, self._columns, list(rows)))
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
        drawn: Any = rng.integers(count, size=n) if replace and n else rng.choice(count, n, replace=False) if n else []
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
        return _written(self._columns, rows, self._end - 1)


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
