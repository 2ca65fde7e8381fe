"""MultiDiscrete: an array of integers, each of a range of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from ganglion.errors import SpaceError
from ganglion.limits import ARRAY_RANK, SPACE_ELEMENTS
from ganglion.sdk.spaces.box import Box
from ganglion.sdk.spaces.number import to_form, to_text
from ganglion.sdk.spaces.space import Space, Vector

__all__ = ["MultiDiscrete"]

Integers = NDArray[np.int64]
INT64 = np.iinfo(np.int64)


class MultiDiscrete(Space):
    """Hold the int64 arrays with element i of `start[i]`, ..., `start[i] + nvec[i] - 1`.

    Args:
        nvec: How many integers each element can be, >= 1; the shape of the values.
        start: The first of them, one for all or an array of the shape of `nvec`.

    Raises:
        SpaceError: Not integers, an `nvec` below 1, another shape, or a range that leaves 64 bits.
    """

    __slots__ = ("_box", "dtype", "nvec", "scalar", "shape", "size", "start")

    kind = "multi_discrete"
    nvec: Integers
    start: Integers
    shape: tuple[int, ...]
    _box: Box

    def __init__(self, nvec: ArrayLike, start: ArrayLike = 0) -> None:
        counts = _integers(nvec, "nvec")
        firsts = _integers(start, "start")
        if counts.ndim == 0 or counts.ndim > ARRAY_RANK or counts.size > SPACE_ELEMENTS:
            raise SpaceError(f"nvec of MultiDiscrete has 1 to {ARRAY_RANK} axes, found shape {counts.shape}")
        if firsts.shape not in ((), counts.shape):
            raise SpaceError(f"start of MultiDiscrete: expected shape {counts.shape}, found {firsts.shape}")
        firsts = np.array(np.broadcast_to(firsts, counts.shape))
        if bool((counts < 1).any()):
            raise SpaceError(f"nvec of MultiDiscrete is at least 1, found {nvec!r}")
        if bool((firsts > INT64.max - (counts - 1)).any()):
            raise SpaceError(f"MultiDiscrete holds 64-bit integers, found nvec={nvec!r}, start={start!r}")
        box = Box(firsts, firsts + (counts - 1), counts.shape, np.int64)
        self._freeze(
            nvec=counts,
            start=firsts,
            shape=counts.shape,
            size=counts.size,
            scalar=False,
            dtype=box.dtype,
            _box=box,
        )

    def contains(self, value: Any) -> bool:
        """Tell whether each element is one of its integers, see `Space.contains`."""
        return self._box.contains(value)

    def canonical(self, value: Any) -> Integers:
        """Return a contained value as read-only int64 array."""
        if not self._box.contains(value):
            raise self._refuse(value)
        found: Integers = self._box.canonical(value)
        return found

    def default(self) -> Integers:
        """Return the contained array nearest to zero."""
        found: Integers = self._box.default()
        return found

    def clip(self, value: Any) -> Integers:
        """Return the nearest contained array, see `Space.clip`."""
        found: Integers = self._box.clip(value)
        return found

    def to_vector(self, value: Any) -> Vector:
        """Return the elements flat, in C order."""
        return np.array(self.canonical(value)).reshape(-1)

    def from_vector(self, vector: Any) -> Integers:
        """Return the array whose elements these are."""
        found: Integers = self._box.from_vector(vector)
        return found

    def _sample(self, rng: Generator) -> Integers:
        found: Integers = self._box.sample(rng)
        return found

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.nvec.tobytes(), self.start.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return (MultiDiscrete, (self.nvec, self.start))

    def to_string(self) -> str:
        """Return `MultiDiscrete([...])`, with `start=[...]` unless it is 0 everywhere."""
        start = f", start={to_text(self.start.tolist())}" if bool(self.start.any()) else ""
        # Without elements the nesting alone does not tell the shape.
        shape = f", shape={self.shape}" if self.size == 0 and self.shape != (0,) else ""
        return f"MultiDiscrete({to_text(self.nvec.tolist())}{start}{shape})"

    def to_wire(self) -> dict[str, Any]:
        """Return the map with shape, and nvec and start flat in C order."""
        return {
            "type": self.kind,
            "shape": list(self.shape),
            "nvec": [to_form(n) for n in self.nvec.ravel().tolist()],
            "start": [to_form(n) for n in self.start.ravel().tolist()],
        }


def _integers(value: ArrayLike, name: str) -> Integers:
    try:
        array = np.asarray(value)
        if array.size == 0:
            return np.zeros(array.shape, dtype=np.int64)
        if array.dtype.kind in "iu" and int(array.max()) <= INT64.max:
            return np.array(array, dtype=np.int64, order="C")
    except (ValueError, TypeError, OverflowError):  # ragged lists, foreign objects
        pass
    raise SpaceError(f"{name} of MultiDiscrete: expected 64-bit integers, found {value!r}")
