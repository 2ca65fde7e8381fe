"""Layouts: ids and spaces of a declaration, the two wire forms of values, and the conversions between them.

A *field* holds the values of n bodies. As **blocks** it has one `bytes` for each maximal run of neighbouring ids of
equal dtype, an array `[n, columns]` in C order, little-endian; Ganglion's own participants send blocks. As **rows** it
has one list per body, with a number for a scalar and the bytes of a vector for anything else; other programs may send
rows, and a field with a missing value travels as rows. The type of the first element tells the two forms apart; a field
of blocks without ids is an empty list.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, groupby, pairwise
from operator import attrgetter, is_, le
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import OutOfActionSpaceError, RemoteProtocolError, SpaceError
from ganglion.sdk.information import ActuatorInformation, SensorInformation, mask_columns
from ganglion.sdk.spaces import Box, Discrete, Mask, Space, space_from_wire

Array = NDArray[Any]
Field = list[Any]
ROW_NUMBER = np.dtype("<u2")
"""How the numbers of bodies travel."""

_UID, _SPACE, _VALUE = attrgetter("uid"), attrgetter("space"), attrgetter("value")
_CODES = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b"}
_CODES |= {"u8": "Q", "u4": "I", "u2": "H", "u1": "B"}


class Run(NamedTuple):
    """Describe one block: the places of its ids; of one body its columns, its bytes and, of scalars, its numbers."""

    first: int
    end: int
    dtype: np.dtype[Any]
    columns: slice
    width: int
    size_bytes: int
    numbers: struct.Struct | None

    def matrix(self, block: bytes, bodies: int) -> Array:
        """Return a block as `[bodies, columns]`, a read-only view."""
        return np.frombuffer(block, self.dtype).reshape(bodies, self.width)


class Layout:
    """Hold the ids and spaces of a declaration in order; convert values to their wire form and back.

    With `missing` a value may be None: the reward of an environment that was not stepped.

    Attributes:
        scalar: Whether each value is a number.
        open: The places whose spaces may contain infinity.
        types: The type of each value in a row of numbers; None if some value is no number.
        runs: The blocks.
        sizes: The bytes of each block of one body.
        width: The columns of `matrix`.
        pack, unpack: Convert one body's numbers to a block and back, where all values are numbers of one dtype.
        dtype: Of `matrix`: numpy's `result_type` of the spaces; an integer type only if all are integers.
    """

    def __init__(self, ids: Sequence[str], spaces: Sequence[Space], missing: bool = False) -> None:
        self._missing = missing
        self.ids = tuple(ids)
        self.spaces = tuple(spaces)
        self.index = {uid: i for i, uid in enumerate(self.ids)}
        self.scalar = all(space.scalar for space in self.spaces)
        self.open = [i for i, space in enumerate(self.spaces) if _is_open(space)]
        self._ids = list(self.ids)
        # Bounds between which a value of the right type is contained and sent unchanged; None if some space has none.
        self.types = [float if space.dtype.kind == "f" else int for space in self.spaces] if self.scalar else None
        exact = self.scalar and all(s._exact is not None and s.dtype.itemsize == 8 for s in self.spaces)  # noqa: SLF001
        self._lows = [space._low for space in self.spaces] if exact else None  # noqa: SLF001
        self._highs = [space._high for space in self.spaces] if exact else None  # noqa: SLF001
        self._offsets = list(accumulate((space.size for space in self.spaces), initial=0))
        self.width = self._offsets[-1]
        self.runs = list(self._runs())
        self.sizes = [run.size_bytes for run in self.runs]
        self._masks = [self.span(i) for i, space in enumerate(self.spaces) if isinstance(space, Mask)]
        self._bytes, self._firsts = [bytes] * len(self.runs), [run.first for run in self.runs]
        dtypes = [run.dtype for run in self.runs]
        self.dtype: np.dtype[Any] = np.result_type(*set(dtypes)) if dtypes else np.dtype(np.float64)
        numbers = self.runs[0].numbers if len(self.runs) == 1 else None
        self.pack: Any = None if numbers is None else numbers.pack
        self.unpack: Any = None if numbers is None else numbers.unpack

    def _runs(self) -> Iterable[Run]:
        dtypes = [space.dtype.newbyteorder("<") for space in self.spaces]
        for dtype, places in groupby(range(len(dtypes)), dtypes.__getitem__):
            first, *others = places
            end = others[-1] + 1 if others else first + 1
            columns = slice(self._offsets[first], self._offsets[end])
            count = columns.stop - columns.start
            numbers = None
            if all(space.scalar for space in self.spaces[first:end]):
                numbers = struct.Struct(f"<{count}{_CODES[dtype.kind + str(dtype.itemsize)]}")
            yield Run(first, end, dtype, columns, count, count * dtype.itemsize, numbers)

    @classmethod
    def of(cls, declarations: Iterable[Mapping[str, Any]], missing: bool = False) -> Layout:
        """Return the layout of declarations in wire form: maps with `id` and `space`."""
        rows = list(declarations)
        return cls([str(row["id"]) for row in rows], [space_from_wire(row["space"]) for row in rows], missing)

    def part(self, places: Sequence[int]) -> Layout:
        """Return the layout of some ids."""
        return Layout([self.ids[i] for i in places], [self.spaces[i] for i in places], self._missing)

    def place(self, i: int) -> tuple[int, int, int, int]:
        """Return the place of an id in one body's blocks: number, begin and end in the block, size of the block."""
        number = bisect_right(self._firsts, i) - 1
        run = self.runs[number]
        begin = (self._offsets[i] - run.columns.start) * run.dtype.itemsize
        return number, begin, begin + self.spaces[i].size * run.dtype.itemsize, run.size_bytes

    def span(self, i: int) -> tuple[int, slice]:
        """Return the place of an id in `matrices`: number of the matrix, and columns."""
        number = bisect_right([run.first for run in self.runs], i) - 1
        begin = self._offsets[i] - self.runs[number].columns.start
        return number, slice(begin, begin + self.spaces[i].size)

    def __len__(self) -> int:
        return len(self.ids)

    def pairs(self) -> list[tuple[str, Space]]:
        """Return each id with its space."""
        return list(zip(self.ids, self.spaces, strict=True))

    # -- objects -----------------------------------------------------------------------------------------------------
    def sensors(self, declarations: Sequence[Mapping[str, Any]]) -> list[SensorInformation]:
        """Return sensors without readings, with the declared names of their values."""
        return [
            SensorInformation(None, space, uid, declared.get("value_ids"))
            for declared, (uid, space) in zip(declarations, self.pairs(), strict=True)
        ]

    def noops(self, declarations: Sequence[Mapping[str, Any]]) -> list[ActuatorInformation]:
        """Return actuators with their declared no-ops, else with the values nearest to zero."""
        row = [
            declared.get("value", space.default()) for declared, space in zip(declarations, self.spaces, strict=True)
        ]
        values = self.from_row(row, "setup.actuators")
        return [
            ActuatorInformation(value, space, uid, declared.get("value_ids"))
            for declared, value, (uid, space) in zip(declarations, values, self.pairs(), strict=True)
        ]

    def values_set(self, informations: Any) -> list[Any] | None:
        """Return the numbers of informations in declared order, which were checked when they were set.

        None if the order, a space or a number's type differs, or if a value is no number or infinite.
        """
        try:
            if list(map(_UID, informations)) != self._ids or not all(map(is_, map(_SPACE, informations), self.spaces)):
                return None
            values = list(map(_VALUE, informations))
        except (AttributeError, TypeError):
            return None
        if list(map(type, values)) != self.types or (self.open and not all(map(math.isfinite, values))):
            return None
        return values

    # -- values ------------------------------------------------------------------------------------------------------
    def holds(self, values: Any) -> bool:
        """Return whether a list certainly has only contained numbers; False decides nothing."""
        if type(values) is not list or list(map(type, values)) != self.types or self._lows is None:
            return False
        assert self._highs is not None
        return all(map(le, self._lows, values)) and all(map(le, values, self._highs))

    def infinite(self, values: Sequence[Any]) -> str | None:
        """Return the first id with an infinite value, which spaces without bounds contain; None without one."""
        for i in self.open:
            value, space = values[i], self.spaces[i]
            if value is not None and not np.isfinite(value if space.scalar else space.to_vector(value)).all():
                return self.ids[i]
        return None

    def to_row(self, values: Sequence[Any]) -> list[Any]:
        """Return contained values of one body as a row."""
        if self.types is not None and list(map(type, values)) == self.types:
            return list(values)
        return [
            None if value is None and self._missing else out(space, value)
            for space, value in zip(self.spaces, values, strict=True)
        ]

    def from_row(self, row: Any, what: str) -> list[Any]:
        """Return the values of a row; RemoteProtocolError names the one that does not fit its declaration.

        A row of scalars of the right types is returned unchanged; `checked` compares the bounds.
        """
        if self.types is not None and type(row) is list and list(map(type, row)) == self.types:
            return row
        if type(row) is not list or len(row) != len(self.ids):
            found = f"{len(row)} values" if isinstance(row, list) else type(row).__name__
            raise RemoteProtocolError(f"{what}: expected one row of {len(self.ids)} values, found {found}")
        return [self._in(i, value, what) for i, value in enumerate(row)]

    def _in(self, i: int, value: Any, what: str) -> Any:
        space = self.spaces[i]
        if value is None and self._missing:
            return None
        try:
            if space.scalar:
                if type(value) is bool:
                    raise TypeError(f"expected a number, found {value}")
                return space.canonical(value)
            if type(value) is bytes:
                flat = np.frombuffer(value, dtype=space.dtype.newbyteorder("<"))
                return space.from_vector(flat.astype(space.dtype))
            array = np.asarray(value)
            return space.canonical(value) if array.shape != (space.size,) else space.from_vector(array)
        except (SpaceError, ValueError, TypeError) as error:
            raise RemoteProtocolError(f"{what}.{self.ids[i]}: {error}") from error

    # -- fields ------------------------------------------------------------------------------------------------------
    def field(self, bodies: Sequence[Sequence[Any]]) -> Field:
        """Return contained values of bodies as blocks, or as rows if a value is missing."""
        if self.pack is not None and len(bodies) == 1:  # the usual case
            try:
                return [self.pack(*bodies[0])]
            except struct.error:  # a value is missing, or of another type
                pass
        if self._missing and any(value is None for values in bodies for value in values):
            return [self.to_row(values) for values in bodies]
        rows = [[_vector(space, value) for space, value in zip(self.spaces, values, strict=True)] for values in bodies]
        return [b"".join(chain.from_iterable(row[run.first : run.end] for row in rows)) for run in self.runs]

    def fits(self, field: Field, bodies: int = 1) -> bool:
        """Return whether a field has blocks of so many bodies; the values are not compared."""
        if len(self.sizes) == 1:  # the usual case
            return len(field) == 1 and type(field[0]) is bytes and len(field[0]) == self.sizes[0] * bodies
        sizes = self.sizes if bodies == 1 else [size * bodies for size in self.sizes]
        return list(map(type, field)) == self._bytes and list(map(len, field)) == sizes

    def values(self, field: Field, what: str) -> list[Any]:
        """Return the values of one body, checked by the sender; RemoteProtocolError: a value does not fit."""
        if self.unpack is not None and len(field) == 1 and type(field[0]) is bytes:  # the usual case
            try:
                return list(self.unpack(field[0]))
            except struct.error:
                pass
        return self.bodies(field, what)[0]

    def bodies(self, field: Field, what: str, count: int = 1) -> list[list[Any]]:
        """Return the values of each body, arrays as views; RemoteProtocolError names a value that does not fit."""
        if not self.fits(field, count):
            if is_blocks(field) and field:
                raise self._misfit(field, what, count)
            if len(field) != count:
                rows = "one row" if count == 1 else f"{count} rows"
                text = f"expected {rows} of {len(self.ids)} values, found {len(field)} rows"
                raise RemoteProtocolError(f"{what}: {text}")
            return [self.from_row(row, what) for row in field]
        found: list[list[Any]] = [[] for _ in range(count)]
        for run, block in zip(self.runs, field, strict=True):
            matrix = run.matrix(block, count)
            if run.numbers is not None:
                for values, numbers in zip(found, matrix.tolist(), strict=True):
                    values += numbers
                continue
            for values, vector in zip(found, matrix, strict=True):
                values += [self._of_vector(i, vector, run, what) for i in range(run.first, run.end)]
        return found

    def _of_vector(self, i: int, vector: Array, run: Run, what: str) -> Any:
        """Return one value out of a body's part of a block."""
        space = self.spaces[i]
        begin = self._offsets[i] - run.columns.start
        part = vector[begin : begin + space.size]
        if space.scalar:
            return part.item()
        if space.composite:
            return self._in(i, part, what)
        return part.reshape(space.shape)

    def rows(self, field: Field, count: int = 1) -> Field:
        """Return a checked field as rows."""
        return [self.to_row(values) for values in self.bodies(field, "values", count)]

    def checked(self, field: Field, what: str, finite: bool = False, count: int = 1) -> Field:
        """Return a field of another program as blocks, or as rows if a value is missing.

        An integer becomes a float where a float is declared, and nested lists become bytes, so that equal programs in
        different languages leave equal results. RemoteProtocolError names the id whose value is not in its space, is
        NaN, or, with `finite`, infinite.
        """
        if self.fits(field, count) and self.contains(field, finite, count):
            return field
        found = self.bodies(field, what, count)
        for body, values in enumerate(found):
            of = f" of body {body}" if count > 1 else ""
            for uid, space, value in zip(self.ids, self.spaces, values, strict=True):
                if not (value is None and self._missing) and not space.contains(value):
                    text = f"expected a value of {space}, found {value!r:.60}{of}"
                    raise RemoteProtocolError(f"{what}.{uid}: {text}")
            infinite = self.infinite(values) if finite else None
            if infinite is not None:
                raise RemoteProtocolError(f"{what}.{infinite}: expected a finite number{of}")
        return self.field(found)

    def contains(self, field: Field, finite: bool, count: int) -> bool:
        """Compare blocks with the bounds of their ids, all bodies at once; False decides nothing."""
        for run, block, bounds in zip(self.runs, field, self._bounds[finite], strict=True):
            if bounds is None:
                return False
            matrix = run.matrix(block, count)
            # The ufunc itself: `all` of an array calls two Python functions first.
            if not np.logical_and.reduce((bounds[0] <= matrix) & (matrix <= bounds[1]), axis=None):
                return False
        masks = self._masks
        return not masks or all(self.runs[n].matrix(field[n], count)[:, part].any(1).all() for n, part in masks)

    @cached_property
    def _bounds(self) -> list[list[tuple[Array, Array] | None]]:
        """Return the bounds of the columns of each block, and the same bounds made finite.

        A block of composites has None: its spaces compare. NaN is within no bounds.
        """
        found: list[list[tuple[Array, Array] | None]] = [[], []]
        for run in self.runs:
            spaces: Any = self.spaces[run.first : run.end]
            if any(space.composite for space in spaces):
                for each in found:
                    each.append(None)
                continue
            lows, highs = _joined(spaces, "_lows"), _joined(spaces, "_highs")
            found[False].append((lows, highs))
            most = np.finfo(run.dtype).max if run.dtype.kind == "f" else None
            found[True].append((lows, highs) if most is None else (np.maximum(lows, -most), np.minimum(highs, most)))
        return found

    def _misfit(self, field: Field, what: str, count: int) -> RemoteProtocolError:
        for run, block in zip(self.runs, field, strict=False):
            found = len(block) if type(block) is bytes else type(block).__name__
            if found != run.size_bytes * count:
                ids = self.ids[run.first] + (f" to {self.ids[run.end - 1]}" if run.end - run.first > 1 else "")
                text = f"expected {run.size_bytes * count} bytes of {run.dtype.str} for {count} bodies, found {found}"
                return RemoteProtocolError(f"{what}.{ids}: {text}")
        return RemoteProtocolError(f"{what}: expected {len(self.runs)} blocks, found {len(field)}")

    # -- arrays ------------------------------------------------------------------------------------------------------
    def matrix(self, fields: Sequence[Field], what: str) -> Array:
        """Return fields of one body each as `[fields, columns]`, read-only, each value as the vector of its space.

        A missing value is NaN. RemoteProtocolError names a value that does not fit its declaration.
        """
        if len(fields) == len(self.runs) == 1 and self.fits(fields[0]):  # the usual case, without a copy
            return self.runs[0].matrix(fields[0][0], 1)
        if not all(map(is_blocks, fields)):
            found = self.vectors([self.values(field, what) for field in fields])
            found.setflags(write=False)
            return found
        try:
            parts = [
                run.matrix(blocks[0] if len(blocks) == 1 else b"".join(blocks), len(fields))
                for run, blocks in zip(self.runs, zip(*fields, strict=True), strict=True)
            ]
        except (ValueError, TypeError):
            raise next(self._misfit(field, what, 1) for field in fields if not self.fits(field)) from None
        if len(parts) == 1:
            return parts[0]
        found = np.hstack(parts) if parts else np.empty((len(fields), 0))
        found.setflags(write=False)
        return found

    def matrices(self, field: Field, count: int) -> list[Array]:
        """Return the blocks of a fitting field as matrices `[bodies, columns]`, read-only views."""
        if len(field) == len(self.runs) == 1:
            return [self.runs[0].matrix(field[0], count)]
        return [run.matrix(block, count) for run, block in zip(self.runs, field, strict=True)]

    def zeros(self, count: int) -> list[Array]:
        """Return a matrix of zeros `[bodies, columns]` for each block."""
        return [np.zeros((count, run.width), run.dtype) for run in self.runs]

    def side_by_side(self, runs: Sequence[Array]) -> Array:
        """Join the matrices of the blocks into one `[bodies, columns]` of the layout's dtype, read-only."""
        found = runs[0] if len(runs) == 1 else np.hstack(runs) if runs else np.empty((0, 0))
        found.setflags(write=False)
        return found

    def vectors(self, bodies: Sequence[Sequence[Any]]) -> Array:
        """Return contained values in declared order as `[bodies, columns]`; None is NaN."""
        found = np.empty((len(bodies), self.width), self.dtype)
        if any(value is None for values in bodies for value in values):
            found = found.astype(np.result_type(self.dtype, np.float16))
        for line, values in zip(found, bodies, strict=True):
            for space, value, (begin, end) in zip(self.spaces, values, pairwise(self._offsets), strict=True):
                line[begin:end] = np.nan if value is None else space.to_vector(value)
        return found

    def column(self, matrix: Array, uid: str) -> Array:
        """Return the values of one id, `[rows, *shape]` of its space's dtype; a Tuple or Dict as its vector."""
        i = self.index[uid]
        space = self.spaces[i]
        part = matrix[:, self._offsets[i] : self._offsets[i + 1]].reshape(len(matrix), *space.shape)
        return part.astype(space.dtype, copy=False)

    def arrays(self, field: Field, count: int = 1) -> dict[str, Array]:
        """Return a fitting field by id, `[bodies, *shape]`, as read-only views; a Tuple or Dict as its vector."""
        found: dict[str, Array] = {}
        for run, block in zip(self.runs, field, strict=True):
            matrix = run.matrix(block, count)
            for i in range(run.first, run.end):
                begin = self._offsets[i] - run.columns.start
                part = matrix[:, begin : begin + self.spaces[i].size]
                found[self.ids[i]] = part.reshape(count, *self.spaces[i].shape)
        return found


class Cut:
    """Select the fields of a layout from the fields of sources: an agent's readings from those of environments.

    Attributes:
        layout: Of the selected values.
        whole: The source whose whole field is selected, in its order; None if there is no such source.
    """

    def __init__(
        self, ids: Sequence[str], sources: Sequence[Layout], places: Sequence[tuple[int, int]], missing: bool = False
    ) -> None:
        self._sources, self._places = sources, list(places)
        self.layout = Layout(ids, [sources[source].spaces[place] for source, place in places], missing)
        first = places[0][0] if places else None
        whole = first is not None and self._places == [(first, i) for i in range(len(sources[first]))]
        self.whole = first if whole else None
        self._parts = [self._parts_of(run) for run in self.layout.runs]

    def _parts_of(self, run: Run) -> list[tuple[int, int, int, int, int]]:
        """Return the parts of a block: source, number and size of the source's block, begin and end there."""
        found: list[tuple[int, int, int, int, int]] = []
        for source, place in self._places[run.first : run.end]:
            number, begin, end, size = self._sources[source].place(place)
            if found and found[-1][:2] == (source, number) and found[-1][4] == begin:
                begin = found.pop()[3]
            found.append((source, number, size, begin, end))
        return found

    def __call__(self, fields: Sequence[Field], count: int = 1) -> Field:
        """Return the selected fields of `count` bodies."""
        if self.whole is not None:
            return fields[self.whole]
        bodies = range(count)
        if not all(is_blocks(fields[source]) for source, _ in self._places):
            rows = [layout.rows(field, count) for layout, field in zip(self._sources, fields, strict=True)]
            return [[rows[source][body][place] for source, place in self._places] for body in bodies]
        return [
            b"".join(
                [
                    fields[k][n][size * body + begin : size * body + end]
                    for body in bodies
                    for k, n, size, begin, end in parts
                ]
            )
            for parts in self._parts
        ]


class Masks:
    """Hold which sensors are masks of which actuators; false without masks.

    Attributes:
        columns: The columns of the masks in observations, see `mask_columns`.
    """

    def __init__(self, sensors: Layout, actuators: Layout) -> None:
        seen = [SensorInformation(None, space, uid) for uid, space in sensors.pairs()]
        moved = [ActuatorInformation(None, space, uid) for uid, space in actuators.pairs()]
        self.columns, self._parts = mask_columns(seen, moved), []
        begins = list(accumulate((it.space.size for it in seen), initial=0))
        for uid, columns in self.columns.items():
            mask, i = sensors.span(bisect_right(begins, columns.start) - 1), actuators.index[uid]
            space: Any = actuators.spaces[i]
            self._parts.append((uid, mask, actuators.span(i), space.start))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def of(self, readings: Sequence[Array]) -> dict[str, Array]:
        """Return the values that matrices of readings allow: actuator id -> `[bodies, n]`."""
        return {uid: readings[number][:, part] != 0 for uid, (number, part), _, _ in self._parts}

    def offer(self, offered: Iterable[ActuatorInformation], readings: Sequence[Array]) -> None:
        """Set the allowed values on the actuators of one body."""
        masks = self.of(readings)
        for it in offered:
            if it.uid in masks:
                it.mask = masks[it.uid][0]

    def check(self, readings: Sequence[Array], setpoints: Sequence[Array], names: Sequence[str] = ()) -> None:
        """Compare matrices of setpoints with the allowed values; OutOfActionSpaceError names id, body and values."""
        for uid, (number, part), (place, column), start in self._parts:
            allowed, values = readings[number][:, part], setpoints[place][:, column] - start
            for body in np.flatnonzero(np.take_along_axis(allowed, values, 1)[:, 0] == 0).tolist():
                free = (np.flatnonzero(allowed[body]) + start).tolist()
                text = ", ".join(map(str, free[:20])) + (f" or {len(free) - 20} others" if len(free) > 20 else "")
                of, found = f" of body {names[body]}" if names else "", int(values[body, 0]) + start
                raise OutOfActionSpaceError(f"setpoint {uid}{of}: only {text} is allowed now, found {found}")

    def allowed(self, readings: Sequence[Array], setpoints: Sequence[Array]) -> Field:
        """Return matrices of setpoints as blocks; the first allowed value replaces a forbidden one."""
        found = [run.copy() for run in setpoints]
        for _, (number, part), (place, column), start in self._parts:
            allowed, values = readings[number][:, part], found[place][:, column]
            free = np.take_along_axis(allowed, values - start, 1) != 0
            found[place][:, column] = np.where(free, values, allowed.argmax(1)[:, None] + start)
        return blocks_of(found)


def mask_fault(sensors: Layout, actuators: Layout) -> str | None:
    """Return the fault of the masks of a declaration; None if each mask is of a Discrete actuator of its size."""
    known: dict[str, str] = {}
    for uid, space in sensors.pairs():
        if not isinstance(space, Mask):
            continue
        i = actuators.index.get(space.of)
        moved = None if i is None else actuators.spaces[i]
        if not isinstance(moved, Discrete) or moved.n != space.size:
            found = "none" if moved is None else str(moved)
            expected = f"an actuator {space.of!r} with Discrete({space.size})"
            return f"sensor {uid!r} is {space}: expected {expected}, found {found}"
        if known.setdefault(space.of, uid) != uid:
            return f"actuator {space.of!r} has two masks: sensors {known[space.of]!r} and {uid!r}"
    return None


class Groups:
    """Hold the layout of each group of bodies.

    Matrices are those of one layout after the other, with a row for every body; a body has zeros in those of other
    groups. Blocks are those of one layout after the other, with the bodies of its group alone. Rows are those of the
    bodies of one group after the other.

    Args:
        layouts: Of each group.
        of: The group of each body; None with one group.
    """

    def __init__(self, layouts: Sequence[Layout], of: Array | None) -> None:
        self.layouts, self.of = list(layouts), of
        self.firsts = list(accumulate((len(layout.runs) for layout in layouts), initial=0))  # run of each layout

    def sorted(self, places: Array) -> Array:
        """Return the order that sorts bodies by groups, stable within a group."""
        assert self.of is not None
        return np.argsort(self.of[places], kind="stable")

    def zeros(self, count: int) -> list[Array]:
        """Return matrices of zeros."""
        if self.of is None:
            return self.layouts[0].zeros(count)
        return [run for layout in self.layouts for run in layout.zeros(count)]

    def size_bytes(self) -> int:
        """Return the bytes of one body of the largest group."""
        return max(sum(layout.sizes) for layout in self.layouts)

    def parts(self, places: Array) -> list[tuple[Layout, slice, slice]]:
        """Return for each group its layout, its matrices, and its places among bodies sorted by groups."""
        if self.of is None:
            return [(self.layouts[0], slice(0, self.firsts[1]), slice(0, len(places)))]
        ends = np.searchsorted(self.of[places], range(len(self.layouts) + 1)).tolist()
        spans = zip(pairwise(self.firsts), pairwise(ends), strict=True)
        return [(layout, slice(*runs), slice(*span)) for layout, (runs, span) in zip(self.layouts, spans, strict=True)]

    def packed(self, runs: Sequence[Array], places: Array, rows: Array | slice) -> bytes:
        """Return the matrices' rows of bodies of one group, at these places, block after block."""
        if self.of is not None:
            group = int(self.of[places[0]])
            runs = runs[self.firsts[group] : self.firsts[group + 1]]
        return runs[0][rows].tobytes() if len(runs) == 1 else b"".join([run[rows].tobytes() for run in runs])

    def blocks(self, runs: Sequence[Array], places: Array, rows: bool = False) -> Field:
        """Return matrices of bodies sorted by groups in wire form: as blocks, or as rows."""
        if self.of is None and not rows:
            return blocks_of(runs)
        found: Field = []
        for layout, mine, span in self.parts(places):
            field = blocks_of([run[span] for run in runs[mine]])
            found += layout.rows(field, span.stop - span.start) if rows else field
        return found

    def fields(self, field: Field, places: Array, what: str) -> list[Field]:
        """Split a field of bodies sorted by groups into one per group; RemoteProtocolError: a part is missing."""
        parts, blocks = self.parts(places), is_blocks(field) and (bool(field) or not len(places))
        expected = self.firsts[-1] if blocks else len(places)
        if len(field) != expected:
            kind = "blocks" if blocks else "rows"
            raise RemoteProtocolError(f"{what}: expected {expected} {kind} of {len(parts)} groups, found {len(field)}")
        return [field[runs] if blocks else field[span] for _, runs, span in parts]

    def matrices(self, field: Field, places: Array, what: str, finite: bool = False) -> list[Array]:
        """Return a field of bodies sorted by groups as matrices; RemoteProtocolError names what does not fit."""
        if self.of is None:
            (layout,), count = self.layouts, len(places)
            fits = layout.fits(field, count)
            return layout.matrices(field if fits else layout.checked(field, what, finite=finite, count=count), count)
        found: list[Array] = []
        parts = zip(self.parts(places), self.fields(field, places, what), strict=True)
        for (layout, _, span), given in parts:
            count = span.stop - span.start
            fitting = given if layout.fits(given, count) else layout.checked(given, what, finite=finite, count=count)
            for run in layout.matrices(fitting, count):
                found.append(np.zeros((len(places), run.shape[1]), run.dtype))
                found[-1][span] = run
        return found


def of_group(declarations: Iterable[Mapping[str, Any]], number: int) -> list[Mapping[str, Any]]:
    """Return the declarations of one group of bodies; those without a number belong to the first."""
    return [row for row in declarations if row.get("group", 0) == number]


def blocks_of(runs: Sequence[Array], places: Array | None = None) -> Field:
    """Return matrices, one for each block, in wire form: those of all bodies, or of the bodies at some places."""
    if places is None:
        return [runs[0].tobytes()] if len(runs) == 1 else [run.tobytes() for run in runs]
    return [run[places].tobytes() for run in runs]


def writable_copy(value: Any) -> Any:
    """Return a copy of a state whose arrays, in lists and tuples too, are writable."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [writable_copy(one) for one in value]
    return tuple(map(writable_copy, value)) if isinstance(value, tuple) else value


def is_blocks(field: Field) -> bool:
    """Return whether a field has blocks, or is empty."""
    return not field or type(field[0]) is bytes


def zero_outside(agent: str, uid: str, b: int | None, actuators: Iterable[tuple[str, Space]]) -> str | None:
    """Return the fault of `between: zero` of a body (b None: of bodies that may be spawned); None if valid."""
    for name, space in actuators:
        try:
            space.from_vector(np.zeros(space.size, space.dtype))
        except SpaceError:
            where = f"{agent}/{uid}/{'*' if b is None else b}"
            return f"body {where}: decision.between: zero is outside of {space} of {uid}.{name}"
    return None


def out(space: Space, value: Any) -> Any:
    """Return a contained value in the wire form of rows and declarations."""
    return space.canonical(value) if space.scalar else _vector(space, value)


def _vector(space: Space, value: Any) -> bytes:
    vector = space.to_vector(value)
    return vector.astype(vector.dtype.newbyteorder("<"), copy=False).tobytes()


def _joined(spaces: Sequence[Space], bounds: str) -> Array:
    return np.concatenate([getattr(space, bounds).reshape(-1) for space in spaces])


def _is_open(space: Space) -> bool:
    """Return whether a space may contain infinity."""
    if space.composite:
        return space.dtype.kind == "f"
    return isinstance(space, Box) and not bool(np.isfinite([space.low, space.high]).all())


def declaration(uid: str, space: Space, value: Any = None, value_ids: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a declaration in wire form."""
    found: dict[str, Any] = {"id": uid, "space": space.to_wire()}
    if value is not None:
        found["value"] = out(space, value)
    if value_ids is not None:
        found["value_ids"] = list(value_ids)
    return found
