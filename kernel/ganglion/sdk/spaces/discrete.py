"""Discrete: one integer of a range."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from ganglion.errors import SpaceError
from ganglion.sdk.spaces.number import integer_or_none, to_form
from ganglion.sdk.spaces.space import Space, Vector

__all__ = ["Discrete"]

INT64 = np.iinfo(np.int64)


class Discrete(Space):
    """Hold the integers `start`, ..., `start + n - 1`; its values are Python integers.

    Args:
        n: How many, >= 1.
        start: The first of them.

    Raises:
        SpaceError: `n` or `start` is no integer, `n` is below 1, or the range leaves 64 bits.
    """

    __slots__ = ("_last", "dtype", "n", "scalar", "size", "start")

    kind = "discrete"
    n: int
    start: int
    _last: int

    def __init__(self, n: int, start: int = 0) -> None:
        count, first = integer_or_none(n), integer_or_none(start)
        if count is None or first is None or count < 1:
            raise SpaceError(
                f"Discrete takes an integer n >= 1 and an integer start, found n={n!r}, start={start!r}"
            )
        if not (INT64.min <= first and first + count - 1 <= INT64.max):
            raise SpaceError(f"Discrete holds 64-bit integers, found n={n!r}, start={start!r}")
        self._freeze(
            n=count, start=first, _last=first + count - 1, size=1, scalar=True, dtype=np.dtype(np.int64)
        )

    def contains(self, value: Any) -> bool:
        """Tell whether `value` is one of the integers, see `Space.contains`."""
        if type(value) is int:
            return self.start <= value <= self._last
        number = integer_or_none(value)
        return number is not None and self.start <= number <= self._last

    def canonical(self, value: Any) -> int:
        """Return a contained value as Python integer."""
        if type(value) is int and self.start <= value <= self._last:
            return value
        number = integer_or_none(value)
        if number is None or not self.start <= number <= self._last:
            raise self._refuse(value)
        return number

    def default(self) -> int:
        """Return the integer nearest to zero."""
        return min(max(0, self.start), self._last)

    def clip(self, value: Any) -> int:
        """Return the nearest of the integers, see `Space.clip`."""
        number = integer_or_none(value)
        if number is None:
            array = np.asarray(value)
            if array.shape != () or array.dtype.kind != "f" or bool(np.isnan(array)):
                raise self._refuse(value)
            if bool(np.isinf(array)):
                return self._last if array > 0 else self.start
            number = round(array.item())  # half to even
        return min(max(number, self.start), self._last)

    def to_vector(self, value: Any) -> Vector:
        """Return one column with the value."""
        return np.array([self.canonical(value)], dtype=np.int64)

    def from_vector(self, vector: Any) -> int:
        """Return the integer of the one column."""
        array = np.asarray(vector)
        if array.shape != (1,):
            raise self._refuse(vector, "the vector has shape (1,)")
        return self.canonical(array.reshape(()))

    def _sample(self, rng: Generator) -> int:
        return int(rng.integers(self.start, self._last, endpoint=True))

    def _key(self) -> tuple[Any, ...]:
        return (self.n, self.start)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Discrete, (self.n, self.start))

    def to_string(self) -> str:
        """Return `Discrete(n)` or `Discrete(n, start=...)`."""
        return f"Discrete({self.n})" if self.start == 0 else f"Discrete({self.n}, start={self.start})"

    def to_wire(self) -> dict[str, Any]:
        """Return the map with n and start."""
        return {"type": self.kind, "n": to_form(self.n), "start": to_form(self.start)}
