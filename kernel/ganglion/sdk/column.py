"""Columns: how a memory keeps each kind of value in one array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.sdk.spaces.space import Space
from ganglion.sdk.table import NOTHING, Layout, Table

__all__ = ["Column", "Flags", "Integers", "Numbers", "Objects", "Tables", "Texts", "Vectors"]

Array = NDArray[Any]
Cell = tuple[Layout, Sequence[Any]]
INT64_MIN = np.iinfo(np.int64).min


class Column(ABC):
    """Keep one kind of value; a cell is a value or None, which is missing.

    `array` has one entry per row of the memory's capacity and is None until a first value is given. Rows that have
    been written are never written again, so that a shard may keep a slice.
    """

    __slots__ = ("array",)

    array: Array | None

    def __init__(self) -> None:
        self.array = None

    def fresh(self) -> Self:
        """Return an empty column that knows what this one knows."""
        return type(self)()

    @abstractmethod
    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:
        """Return cells in the form of storage; may change the dtype of `blank` for what follows.

        `gap` says that rows before them are missing, for which the dtype needs a sign.
        """

    @abstractmethod
    def blank(self, rows: int) -> Array:
        """Return storage for so many rows, all missing."""

    @abstractmethod
    def show(self, stored: Array | None, rows: int) -> Any:
        """Return what an author sees of stored rows; None stands for `rows` missing ones."""

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
        if state is None:
            return
        array = self.restored(state)
        self.array = self.blank(capacity)
        self.array[: len(array)] = array

    def restored(self, state: Mapping[str, Any]) -> Array:
        """Return the rows of an exported state, and know again what the column knew."""
        found: Array = state["array"]
        return found

    def move(self, rows: slice | Array, capacity: int) -> None:
        """Take some rows over into new storage, from its row 0 on."""
        if self.array is None:
            return
        kept = self.fitted(len(self.array))[rows]
        array = self.blank(capacity)
        array[: len(kept)] = kept
        self.array = array


class Numbers(Column):
    """Keep floats; missing is NaN."""

    __slots__ = ()

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)

    def blank(self, rows: int) -> Array:  # noqa: D102
        return np.full(rows, np.nan)

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        return self.blank(rows) if stored is None else stored


class Integers(Column):
    """Keep integers; where one of those shown is missing they are shown as floats, with NaN."""

    __slots__ = ()

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        return np.array([INT64_MIN if cell is None else cell for cell in cells], dtype=np.int64)

    def blank(self, rows: int) -> Array:  # noqa: D102
        return np.full(rows, INT64_MIN, dtype=np.int64)

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        stored = self.blank(rows) if stored is None else stored
        missing = stored == INT64_MIN
        return np.where(missing, np.nan, stored) if bool(missing.any()) else stored


class Flags(Column):
    """Keep booleans; where one of those shown is missing they are shown as objects, with None."""

    __slots__ = ()

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        return np.array([-1 if cell is None else bool(cell) for cell in cells], dtype=np.int8)

    def blank(self, rows: int) -> Array:  # noqa: D102
        return np.full(rows, -1, dtype=np.int8)

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        stored = self.blank(rows) if stored is None else stored
        found = stored.astype(bool)
        missing = stored < 0
        if bool(missing.any()):
            found = found.astype(object)
            found[missing] = None
        return found


class Objects(Column):
    """Keep any values; missing is None."""

    __slots__ = ()

    def store(self, cells: Sequence[Any], gap: bool = False) -> Array:  # noqa: D102
        found: Array = np.empty(len(cells), dtype=object)
        for i, cell in enumerate(cells):  # not by np.array, which would unpack lists and arrays
            found[i] = cell
        return found

    def blank(self, rows: int) -> Array:  # noqa: D102
        return np.full(rows, None, dtype=object)

    def export(self, rows: slice) -> dict[str, Any] | None:  # noqa: D102
        return None if self.array is None else {"array": list(self.array[rows])}

    def restored(self, state: Mapping[str, Any]) -> Array:  # noqa: D102
        return self.store(state["array"])

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        return self.blank(rows) if stored is None else stored


class Texts(Column):
    """Keep texts of which there are few, as numbers."""

    __slots__ = ("_numbers", "texts")

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
        return np.array([self.number(cell) for cell in cells], dtype=np.int32)

    def blank(self, rows: int) -> Array:  # noqa: D102
        return np.zeros(rows, dtype=np.int32)

    def export(self, rows: slice) -> dict[str, Any] | None:  # noqa: D102
        found = super().export(rows)
        return None if found is None else {**found, "texts": list(self.texts)}

    def restored(self, state: Mapping[str, Any]) -> Array:  # noqa: D102
        for text in state["texts"]:
            self.number(text)
        return super().restored(state)

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        names = np.array([*self.texts, ""], dtype=object)
        return names[self.blank(rows) if stored is None else stored]


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
                raise AuthorError(
                    f"memory: expected {self.width} numbers per row, found {vector.size} {vector.dtype}"
                )
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
        return self.blank(capacity) if self.array is None else self.array.astype(self.dtype, copy=False)

    def show(self, stored: Array | None, rows: int) -> Array:  # noqa: D102
        return self.blank(rows) if stored is None else stored


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
