"""MultiBinary: an array of zeros and ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.sdk.spaces.box import Box
from ganglion.sdk.spaces.space import Space, Vector

__all__ = ["MultiBinary"]

Bits = NDArray[np.int8]


class MultiBinary(Space):
    """Hold the int8 arrays of zeros and ones of one shape.

    Args:
        n: Number of elements, or the shape of the values; `MultiBinary(3)` equals `MultiBinary((3,))`.

    Raises:
        SpaceError: A negative or too large shape.
    """

    __slots__ = ("_box", "dtype", "scalar", "shape", "size")

    kind = "multi_binary"
    shape: tuple[int, ...]
    _box: Box

    def __init__(self, n: int | Sequence[int]) -> None:
        box = Box(0, 1, n, np.int8)
        self._freeze(shape=box.shape, size=math.prod(box.shape), scalar=False, dtype=box.dtype, _box=box)

    def contains(self, value: Any) -> bool:
        """Tell whether each element is 0 or 1 (or a boolean), see `Space.contains`."""
        return self._box.contains(value)

    def canonical(self, value: Any) -> Bits:
        """Return a contained value as read-only int8 array."""
        array = self._box.canonical(value) if self._box.contains(value) else None
        if array is None:
            raise self._refuse(value)
        return self._own(array)

    def default(self) -> Bits:
        """Return zeros."""
        return self._own(np.zeros(self.shape, np.int8))

    def clip(self, value: Any) -> Bits:
        """Return the nearest array of zeros and ones, see `Space.clip`."""
        return self._own(np.asarray(self._box.clip(value)))

    def to_vector(self, value: Any) -> Vector:
        """Return the elements flat, in C order."""
        return np.array(self.canonical(value)).reshape(-1)

    def from_vector(self, vector: Any) -> Bits:
        """Return the array whose elements these are."""
        return self._own(np.asarray(self._box.from_vector(vector)))

    def _sample(self, rng: Generator) -> Bits:
        return self._own(np.asarray(self._box.sample(rng)))

    def _own(self, array: NDArray[Any]) -> Bits:
        found = np.array(array, dtype=np.int8, order="C").reshape(self.shape)
        found.flags.writeable = False
        return found

    def _key(self) -> tuple[Any, ...]:
        return self.shape

    def __reduce__(self) -> tuple[Any, ...]:
        return (MultiBinary, (self.shape,))

    def to_string(self) -> str:
        """Return `MultiBinary(shape)`."""
        return f"MultiBinary({self.shape})"

    def to_wire(self) -> dict[str, Any]:
        """Return the map with the shape."""
        return {"type": self.kind, "shape": list(self.shape)}
