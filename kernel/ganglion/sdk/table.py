"""Table: rows of values with one column per full id."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError
from ganglion.sdk.spaces import Space

Array = NDArray[Any]


class Layout:
    """Describe the columns and shape of each id in a flat row.

    A value without a space is one number. Shapes and the common dtype are by default those of the spaces.
    """

    __slots__ = ("dtype", "offsets", "scalar", "shapes", "spaces", "uids", "width")

    def __init__(
        self,
        uids: Sequence[str],
        spaces: Sequence[Space | None],
        shapes: Sequence[tuple[int, ...]] | None = None,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self.uids = tuple(uids)
        self.spaces = tuple(spaces)
        self.shapes = tuple(() if it is None else it.shape for it in spaces) if shapes is None else tuple(shapes)
        widths = [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]
        self.offsets = (0, *np.cumsum(widths, dtype=np.int64).tolist())
        self.width: int = self.offsets[-1]
        self.scalar = all(shape == () for shape in self.shapes)
        if dtype is None:
            dtypes = [np.dtype(np.float64) if space is None else space.dtype for space in spaces]
            dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
        self.dtype = dtype

    def span(self, i: int) -> slice:
        """Return the columns of the i-th id in a flat row."""
        return slice(self.offsets[i], self.offsets[i + 1])

    def columns(self, uids: Sequence[str]) -> list[int]:
        """Return the columns of some ids in a flat row."""
        return [column for i in map(self.index, uids) for column in range(self.offsets[i], self.offsets[i + 1])]

    def select(self, uids: Sequence[str]) -> Layout:
        """Return the layout of some ids."""
        chosen = [self.index(uid) for uid in uids]
        return Layout(uids, [self.spaces[i] for i in chosen], [self.shapes[i] for i in chosen], self.dtype)

    def join(self, other: Layout, dtype: np.dtype[Any]) -> Layout:
        """Return a layout with the new ids of another one appended; AuthorError: an id has another shape."""
        known = dict(zip(self.uids, zip(self.spaces, self.shapes, strict=True), strict=True))
        for uid, space, shape in zip(other.uids, other.spaces, other.shapes, strict=True):
            before = known.setdefault(uid, (space, shape))[1]
            if before != shape:
                raise AuthorError(f"memory: {uid} had shape {before}, found {shape}")
        return Layout(list(known), [it[0] for it in known.values()], [it[1] for it in known.values()], dtype)

    def index(self, uid: str) -> int:
        """Return the place of an id; KeyError names it."""
        try:
            return self.uids.index(uid)
        except ValueError:
            raise KeyError(f"no column {uid!r}; there are {', '.join(self.uids) or 'none'}") from None

    def value(self, row: Array, i: int) -> Any:
        """Return the value of the i-th id in a flat row: a number, an array, or the composite of its space."""
        space, part = self.spaces[i], row[self.span(i)]
        if space is not None and is_composite(space):
            return None if part.dtype.kind == "f" and np.isnan(part).all() else space.from_vector(part)
        return part[0].item() if self.shapes[i] == () else part.reshape(self.shapes[i])


def is_composite(space: Space | None) -> bool:
    """Return whether values of a space have no common shape: tuples, maps, arrays of several lengths."""
    return space is not None and space.composite


NOTHING = Layout((), ())  # the layout of a row without values


_REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (np.add.reduce, np.nansum),
    "mean": (np.mean, np.nanmean),
    "min": (np.minimum.reduce, np.nanmin),
    "max": (np.maximum.reduce, np.nanmax),
}


class _Frame:
    """Hold rows of flat vectors and their layout; `sum mean min max` leave out NaN."""

    __slots__ = ("flat", "layout")

    flat: Array  # the vectors of all values side by side, `[rows, columns of the vectors]`
    layout: Layout  # the columns of each id

    def __init__(self, layout: Layout, flat: Array) -> None:
        self.layout = layout
        self.flat = flat

    @property
    def columns(self) -> list[str]:
        """The full ids, in order."""
        return list(self.layout.uids)

    @property
    def values(self) -> Array:
        """The values `[rows, ids]`; `[rows, ids, *shape]` if all have one shape; objects where shapes differ."""
        layout = self.layout
        if layout.scalar:
            return self.flat
        if len(set(layout.shapes)) == 1 and not any(map(is_composite, layout.spaces)):
            return self.flat.reshape(len(self.flat), len(layout.uids), *layout.shapes[0])
        found: Array = np.empty((len(self.flat), len(layout.uids)), dtype=object)
        for r, i in np.ndindex(found.shape):
            found[r, i] = layout.value(self.flat[r], i)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout.uids)

    def __contains__(self, uid: object) -> bool:
        return uid in self.layout.uids

    def _reduce(self, name: str, axis: int | None) -> Any:
        numbers = self.values
        if numbers.dtype == object:
            raise TypeError("values of different shapes have no common sum; take one column by its id")
        if numbers.size == 1 and axis is None:  # one reward of one row, the usual call of an objective
            only = numbers.item()
            return 0.0 if only != only and name == "sum" else only
        plain, without_nan = _REDUCTIONS[name]
        if numbers.size == 0:  # numpy refuses the least of nothing
            found = np.full(np.add.reduce(numbers, axis=axis).shape, 0.0 if name == "sum" else np.nan)
        else:
            found = plain(numbers, axis=axis)
            # A NaN shows in the result; only then the function that ignores NaN is needed: ten times slower for one row
            if found.dtype.kind == "f" and bool(np.isnan(found).any()):
                with warnings.catch_warnings():
                    # numpy warns for values that are all NaN and returns NaN, as promised.
                    warnings.simplefilter("ignore", RuntimeWarning)
                    found = without_nan(numbers, axis=axis)
        return found.item() if np.ndim(found) == 0 else found

    def sum(self, axis: int | None = 0) -> Any:
        """Return sums; 0 without values."""
        if axis is None and self.flat.size == 1 and self.layout.scalar:  # inlined: the usual call of an objective
            only = self.flat.item()
            return 0.0 if only != only else only
        return self._reduce("sum", axis)

    def mean(self, axis: int | None = 0) -> Any:
        """Return means; NaN without values."""
        return self._reduce("mean", axis)

    def min(self, axis: int | None = 0) -> Any:
        """Return the least values; NaN without values."""
        return self._reduce("min", axis)

    def max(self, axis: int | None = 0) -> Any:
        """Return the greatest values; NaN without values."""
        return self._reduce("max", axis)


class TableRow(_Frame):
    """Show one row: `row[id]`, `.columns`, `.values`; `sum mean min max` are of all its values."""

    __slots__ = ()

    @property
    def values(self) -> Array:
        """The values, one per id."""
        return np.asarray(super().values[0])

    def __getitem__(self, uid: str) -> Any:
        return self.layout.value(self.flat[0], self.layout.index(uid))

    def __len__(self) -> int:
        return len(self.layout.uids)

    def _reduce(self, name: str, axis: int | None) -> float:
        return float(super()._reduce(name, None))

    def __repr__(self) -> str:
        return f"TableRow({ {uid: self[uid] for uid in self} })"


class Table(_Frame):
    """Show rows of values by full id, read-only, oldest first.

    A missing value is NaN. `table[id]` is the array `[rows, *shape]` of one column, `table[list]` a
    table of some. `sum mean min max` leave out NaN; `axis` 0 gives one number per column, 1 one per row, None one.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, key: str) -> Array: ...
    @overload
    def __getitem__(self, key: list[str]) -> Table: ...
    def __getitem__(self, key: str | list[str]) -> Array | Table:
        if isinstance(key, list):
            return Table(self.layout.select(key), read_only(self.flat[:, self.layout.columns(key)]))
        i = self.layout.index(key)
        if is_composite(self.layout.spaces[i]):
            found: Array = np.empty(len(self.flat), dtype=object)
            for r, row in enumerate(self.flat):
                found[r] = self.layout.value(row, i)
            return found
        return self.flat[:, self.layout.span(i)].reshape(len(self.flat), *self.layout.shapes[i])

    @property
    def iloc(self) -> _Rows:
        """Rows by position, negative ones from the end: `table.iloc[i]` is a row, `table.iloc[a:b]` a table."""
        return _Rows(self)

    def __len__(self) -> int:
        return len(self.flat)

    @staticmethod
    def join(tables: Sequence[Table]) -> Table:
        """Return the rows of several tables; an id that a table lacks is NaN in its rows."""
        layout = tables[0].layout
        if all(table.layout.uids == layout.uids for table in tables):
            return Table(layout, read_only(np.concatenate([table.flat for table in tables])))
        dtype = np.result_type(np.float16, *(table.flat.dtype for table in tables))
        for table in tables:
            layout = layout.join(table.layout, dtype)
        array = np.full((sum(map(len, tables)), layout.width), np.nan, dtype=dtype)
        begin = 0
        for table in tables:
            array[begin : begin + len(table), layout.columns(table.layout.uids)] = table.flat
            begin += len(table)
        return Table(layout, read_only(array))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the same rows, numbered from 0, and columns; it is a copy.

        A column of numbers has the dtype of `table[id]`, so that a missing value is NaN; other columns have the dtype
        object and arrays (or values of a Tuple or Dict) as cells. ModuleNotFoundError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")  # by name: the kernel needs none, and a check holds it to that
        except ModuleNotFoundError as error:
            if error.name != "pandas":
                raise
            raise ModuleNotFoundError(
                "to_frame makes a DataFrame of pandas, which is not installed: pip install 'pandas>=2.2'", name="pandas"
            ) from error
        columns = {uid: self[uid].copy() for uid in self}
        cells = {uid: it if it.ndim == 1 else pandas.Series(list(it), dtype=object) for uid, it in columns.items()}
        return pandas.DataFrame(cells, index=range(len(self)), columns=self.columns)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows of {', '.join(self.layout.uids)})"


class _Rows:
    __slots__ = ("_table",)

    def __init__(self, table: Table) -> None:
        self._table = table

    @overload
    def __getitem__(self, key: int) -> TableRow: ...
    @overload
    def __getitem__(self, key: slice) -> Table: ...
    def __getitem__(self, key: int | slice) -> TableRow | Table:
        table = self._table
        if isinstance(key, slice):
            return Table(table.layout, table.flat[key])
        return TableRow(table.layout, table.flat[key][np.newaxis])

    def __len__(self) -> int:
        return len(self._table)


def read_only(array: Array) -> Array:
    """Make an array read-only; return it."""
    array.flags.writeable = False
    return array
