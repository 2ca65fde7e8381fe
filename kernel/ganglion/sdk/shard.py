"""Shards: some rows of a memory, column by column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.sdk.column import Column, Tables, Texts
from ganglion.sdk.table import Table

__all__ = ["MemoryShard", "Rows", "Source", "Span"]

Array = NDArray[Any]


AMENDED = ("objective", "additional_data", "dones", "terminated", "truncated")
"""Columns in which a memory changes its newest row after it was appended."""


class Source(ABC):
    """Give the columns of a shard when they are asked for."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, name: str) -> Any:
        """Return a column: an array or a Table."""


class Rows(Source):
    """Show rows that still wait in Python objects."""

    __slots__ = ("_columns", "_fields", "_rows")

    def __init__(self, columns: Mapping[str, Column], fields: Sequence[str], rows: list[list[Any]]) -> None:
        self._columns = columns
        self._fields = fields
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, name: str) -> Any:
        """Return a column, made from the rows alone."""
        place = self._fields.index(name)
        cells = [row[place] for row in self._rows]
        column = self._columns[name]
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


class Span(Source):
    """Show rows of the blocks: a slice without copying, or places by number.

    Args:
        columns: Where they are.
        rows: Which.
        newest: The place of the memory's newest row, the only one that may still be amended.
    """

    __slots__ = ("_count", "_found", "_place", "_rows", "_then")

    def __init__(self, columns: Mapping[str, Column], rows: slice | Array, newest: int) -> None:
        # The arrays are taken now: but for what is amended rows are never written twice, so they stay as they are.
        self._found = {name: (column, column.array) for name, column in columns.items()}
        self._rows = rows
        self._count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        self._place: Any  # where the newest row is among those
        if isinstance(rows, slice):
            first = newest - rows.start
            self._place, shown = slice(first, first + 1), 0 <= first < self._count
        else:
            self._place = rows == newest
            shown = bool(self._place.any())
        self._then = {  # as an array of one row: a cell may be a list itself
            name: array[newest : newest + 1].copy()
            for name in AMENDED
            if shown and (array := columns[name].array) is not None
        }

    def __len__(self) -> int:
        return self._count

    def read(self, name: str) -> Any:
        """Return a column as it was when the shard was made."""
        column, array = self._found[name]
        if array is None:
            return column.show(None, self._count)
        stored = array[self._rows]
        if name in self._then:  # what has been looked at is not to change either
            stored = stored.copy()
            stored[self._place] = self._then[name]
        return column.show(stored, self._count)


class _Part(Source):
    """Show some rows of a source."""

    __slots__ = ("_rows", "_source")

    def __init__(self, source: Source, rows: slice) -> None:
        self._source = source
        self._rows = rows

    def __len__(self) -> int:
        return len(range(len(self._source))[self._rows])

    def read(self, name: str) -> Any:
        column = self._source.read(name)
        return column.rows(self._rows) if isinstance(column, Table) else column[self._rows]


class _Whole(Source):
    """Show a shard, with the columns that it has read already."""

    __slots__ = ("_shard",)

    def __init__(self, shard: MemoryShard) -> None:
        self._shard = shard

    def __len__(self) -> int:
        return len(self._shard)

    def read(self, name: str) -> Any:
        return self._shard.column(name)


class _Joined(Source):
    """Show several sources as one."""

    __slots__ = ("_sources",)

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def __len__(self) -> int:
        return sum(len(source) for source in self._sources)

    def read(self, name: str) -> Any:
        parts = [source.read(name) for source in self._sources]
        if isinstance(parts[0], Table):
            return Table.join(parts)
        given = [part for part in parts if part.ndim == 1 or part.shape[1]]
        if 0 < len(given) < len(parts):  # flat arrays that a whole source lacks
            width = given[0].shape[1]
            parts = [part if part.shape[1] else np.full((len(part), width), np.nan) for part in parts]
        return np.concatenate(parts)


class MemoryShard:
    """Show rows of a memory, oldest first, as they were when it was taken; arrays are read-only.

    What was not given for a row is missing in it: NaN among numbers, None among flags and objects. `shard[i]` and
    `shard[a:b]` are shards of some of the rows, `MemoryShard.concat(...)` joins several.
    """

    __slots__ = ("_read", "_source")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._read: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, key: int | slice) -> MemoryShard:
        if isinstance(key, slice):
            return MemoryShard(_Part(self._source, key))
        place = range(len(self))[key]
        return MemoryShard(_Part(self._source, slice(place, place + 1)))

    @staticmethod
    def concat(*shards: MemoryShard | Iterable[MemoryShard]) -> MemoryShard:
        """Return the rows of several shards (or of a list of them), one shard after the other.

        Raises:
            AuthorError: There is none.
        """
        flat = [part for it in shards for part in ([it] if isinstance(it, MemoryShard) else it)]
        if not flat:
            raise AuthorError("concat needs at least one shard")
        return MemoryShard(_Joined([_Whole(shard) for shard in flat]))

    def column(self, name: str) -> Any:
        """Return a column by name; KeyError or ValueError if there is none of this name."""
        found = self._read.get(name)
        if found is None:
            found = self._source.read(name)
            if isinstance(found, np.ndarray):
                found = found.view()
                found.flags.writeable = False
            self._read[name] = found
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
