"""Matrices: rows of the wire as arrays with one row per body, without an object per value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.peer.layout import Layout
from ganglion.sdk.brain import Brain
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.spaces import Space

Array = NDArray[Any]


def takes_arrays(muscle: Muscle) -> bool:
    """Say whether a muscle decides on arrays: the default `propose_batch` only asks for one body after the other."""
    return muscle.batched and type(muscle).propose_batch is not Muscle.propose_batch


def learns_arrays(brain: Brain) -> bool:
    """Say whether a brain learns from arrays: the default `learn` only thinks about one row after the other."""
    return brain.batched and type(brain).learn is not Brain.learn


class Columns:
    """Know in which columns of a flat row the values of a layout lie: each as the vector of its space.

    `dtype` is numpy's `result_type` of the spaces: of integers only if all are.
    """

    __slots__ = ("_parts", "_places", "_scalar", "_shape", "dtype", "layout", "width")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        offsets = np.cumsum([0, *(space.size for space in layout.spaces)]).tolist()
        self.width: int = offsets[-1]
        self._shape = (self.width,)
        self._places = dict(zip(layout.ids, pairwise(offsets), strict=True))
        self._scalar = all(space.scalar for space in layout.spaces)
        self._parts = [
            (slice(*place), space.size, space.dtype.newbyteorder("<"), space.scalar)
            for place, space in zip(self._places.values(), layout.spaces, strict=True)
        ]
        dtypes = [space.dtype for space in layout.spaces]
        self.dtype: np.dtype[Any] = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)

    def matrix(self, rows: Sequence[Any], what: str) -> Array:
        """Return rows of the wire as `[rows, columns]`, read-only; RemoteProtocolError says which value does not fit.

        A number of a scalar, and the bytes of a vector of the right length, are taken as they are: who made the row
        has looked at its bounds.
        """
        if self._scalar and len(rows) == 1:  # the usual case, by the shortest way
            try:
                only = np.array(rows[0])
            except ValueError:  # said in words below
                only = np.zeros(0)
            if only.dtype is self.dtype and only.shape == self._shape:
                only.setflags(write=False)
                return only[np.newaxis]
        found = self._numbers(rows) if self._scalar else self._vectors_as_they_travel(rows)
        if found is None:
            found = self.vectors([self.layout.from_row(row, what) for row in rows])
        found.setflags(write=False)
        return found

    def vectors(self, rows: Sequence[Sequence[Any]]) -> Array:
        """Return contained values in declared order as `[rows, columns]`; None is NaN."""
        found = np.empty((len(rows), self.width), self.dtype)
        if any(value is None for row in rows for value in row):
            found = found.astype(np.result_type(self.dtype, np.float16))
        for line, row in zip(found, rows, strict=True):
            for space, value, (begin, end) in zip(self.layout.spaces, row, self._places.values(), strict=True):
                line[begin:end] = np.nan if value is None else space.to_vector(value)
        return found

    def value(self, matrix: Array, uid: str) -> Array:
        """Return the values of one id, `[rows, *shape]` of its space's dtype; a Tuple or Dict as its vector."""
        begin, end = self._places[uid]
        space = self.layout.spaces[self.layout.index[uid]]
        return matrix[:, begin:end].reshape(len(matrix), *shape_of(space)).astype(space.dtype, copy=False)

    def _numbers(self, rows: Sequence[Any]) -> Array | None:
        """Return rows that hold nothing but numbers; None if that is not so."""
        try:
            found = np.array(rows)
        except ValueError:  # of different lengths
            return None
        if found.shape != (len(rows), self.width):
            return None
        kind = found.dtype.kind
        return found.astype(self.dtype) if kind in "iu" or kind == self.dtype.kind == "f" else None

    def _vectors_as_they_travel(self, rows: Sequence[Any]) -> Array | None:
        """Return rows that hold bytes of vectors, and numbers of the right type; None if that is not so.

        Making a value of each, and a vector of that, would look at its bounds twice, at ten times the cost.
        """
        found = np.empty((len(rows), self.width), self.dtype)
        for line, row in zip(found, rows, strict=True):
            if type(row) is not list or len(row) != len(self._parts):
                return None
            for value, (place, size, dtype, scalar) in zip(row, self._parts, strict=True):
                if scalar and type(value) is (float if dtype.kind == "f" else int):
                    line[place] = value
                elif not scalar and type(value) is bytes and len(value) == size * dtype.itemsize:
                    line[place] = np.frombuffer(value, dtype)
                else:
                    return None
        return found


def shape_of(space: Space) -> tuple[int, ...]:
    """Return the shape of a value in an array; a Tuple or Dict has that of its vector."""
    if space.scalar:
        return ()
    shape: tuple[int, ...] = getattr(space, "shape", (space.size,))
    return shape


class Readings(Mapping[str, Array]):
    """Map ids to their part of a matrix, cut out when somebody looks."""

    __slots__ = ("_columns", "_matrix")

    def __init__(self, columns: Columns, matrix: Array) -> None:
        self._columns, self._matrix = columns, matrix

    def __getitem__(self, uid: str) -> Array:
        if uid not in self._columns.layout.index:
            raise KeyError(uid)
        return self._columns.value(self._matrix, uid)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.layout.ids)

    def __len__(self) -> int:
        return len(self._columns.layout.ids)
