"""Composites: spaces made of spaces, by position (Tuple) or by name (Dict)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.errors import SpaceError
from ganglion.limits import SPACE_ELEMENTS
from ganglion.sdk.spaces.space import Space, Vector

__all__ = ["Dict", "Tuple"]


class _Composite(Space):
    """Lay the vectors of several spaces side by side."""

    __slots__ = ("_offsets", "_parts", "dtype", "scalar", "size")

    _parts: tuple[Space, ...]
    _offsets: tuple[int, ...]

    def _join(self, parts: tuple[Space, ...], **attributes: Any) -> None:
        for part in parts:
            if not isinstance(part, Space):
                raise SpaceError(f"a {type(self).__name__} is made of spaces, found {part!r}")
        offsets = [0]
        for part in parts:
            offsets.append(offsets[-1] + part.size)
        if offsets[-1] > SPACE_ELEMENTS:
            raise SpaceError(
                f"a {type(self).__name__} has at most {SPACE_ELEMENTS} columns, found {offsets[-1]}"
            )
        dtype = np.result_type(*(part.dtype for part in parts)) if parts else np.dtype(np.float64)
        self._freeze(
            _parts=parts, _offsets=tuple(offsets), size=offsets[-1], scalar=False, dtype=dtype, **attributes
        )

    def __len__(self) -> int:
        return len(self._parts)

    def _split(self, value: Any) -> tuple[Any, ...] | None:
        """Return the parts of `value` in the order of the spaces, or None if its structure is another."""
        raise NotImplementedError

    def _assemble(self, values: list[Any]) -> Any:
        """Return the value with these parts."""
        raise NotImplementedError

    def _pairs(self, value: Any) -> Iterator[tuple[Space, Any]]:
        parts = self._split(value)
        if parts is None:
            raise self._refuse(value, "the structure must fit")
        return zip(self._parts, parts, strict=True)

    def contains(self, value: Any) -> bool:
        """Tell whether each part is contained in its space."""
        parts = self._split(value)
        return parts is not None and all(
            space.contains(part) for space, part in zip(self._parts, parts, strict=True)
        )

    def canonical(self, value: Any) -> Any:
        """Return the value with each part in canonical form."""
        return self._assemble([space.canonical(part) for space, part in self._pairs(value)])

    def default(self) -> Any:
        """Return the defaults of the parts."""
        return self._assemble([space.default() for space in self._parts])

    def clip(self, value: Any) -> Any:
        """Return the value with each part clipped."""
        return self._assemble([space.clip(part) for space, part in self._pairs(value)])

    def to_vector(self, value: Any) -> Vector:
        """Return the vectors of the parts, one after the other.

        Raises:
            SpaceError: Not contained; or a 64-bit integer that a float column beside it would round.
        """
        vector: NDArray[Any] = np.empty(self.size, dtype=self.dtype)
        for (space, part), (begin, end) in zip(self._pairs(value), pairwise(self._offsets), strict=True):
            columns = space.to_vector(part)
            vector[begin:end] = columns
            if columns.dtype.kind in "iu" and self.dtype.kind == "f" and columns.dtype.itemsize == 8:
                exact = columns.size == 0 or max(abs(int(columns.min())), abs(int(columns.max()))) <= 2**53
                if not exact and vector[begin:end].tolist() != columns.tolist():
                    raise self._refuse(value, "beyond 53 bits an integer has no place in a float vector")
        return vector

    def from_vector(self, vector: Any) -> Any:
        """Return the value whose parts have these vectors."""
        array = np.asarray(vector)
        if array.shape != (self.size,):
            raise self._refuse(vector, f"the vector has shape ({self.size},)")
        spans = zip(self._parts, pairwise(self._offsets), strict=True)
        return self._assemble([space.from_vector(array[begin:end]) for space, (begin, end) in spans])

    def _sample(self, rng: Generator) -> Any:
        return self._assemble([space.sample(rng) for space in self._parts])


class Tuple(_Composite):
    """Hold the tuples (or lists) with element i in `spaces[i]`.

    Raises:
        SpaceError: A part is no space.
    """

    __slots__ = ("spaces",)

    kind = "tuple"
    spaces: tuple[Space, ...]

    def __init__(self, spaces: Iterable[Space]) -> None:
        parts = tuple(spaces)
        self._join(parts, spaces=parts)

    def __getitem__(self, index: int) -> Space:
        return self.spaces[index]

    def __iter__(self) -> Iterator[Space]:
        return iter(self.spaces)

    def _split(self, value: Any) -> tuple[Any, ...] | None:
        if not isinstance(value, tuple | list) or len(value) != len(self._parts):
            return None
        return tuple(value)

    def _assemble(self, values: list[Any]) -> tuple[Any, ...]:
        return tuple(values)

    def _key(self) -> tuple[Any, ...]:
        return self.spaces

    def __reduce__(self) -> tuple[Any, ...]:
        return (Tuple, (self.spaces,))

    def to_string(self) -> str:
        """Return `Tuple(space, ...)`."""
        return f"Tuple({', '.join(space.to_string() for space in self.spaces)})"

    def to_wire(self) -> dict[str, Any]:
        """Return the map with the list of spaces."""
        return {"type": self.kind, "spaces": [space.to_wire() for space in self.spaces]}


class Dict(_Composite):
    """Hold the maps with the keys of `spaces`, each value in the space of its key; the order is that of sorted keys.

    Raises:
        SpaceError: A key is no text, a part is no space.
    """

    __slots__ = ("spaces",)

    kind = "dict"
    spaces: Mapping[str, Space]

    def __init__(
        self, spaces: Mapping[str, Space] | Iterable[tuple[str, Space]] = (), **named: Space
    ) -> None:
        given: dict[Any, Space] = {**dict(spaces), **named}
        if not all(isinstance(name, str) for name in given):
            raise SpaceError(f"the keys of a Dict are texts, found {list(given)!r}")
        ordered = {name: given[name] for name in sorted(given)}
        self._join(tuple(ordered.values()), spaces=MappingProxyType(ordered))

    def __getitem__(self, name: str) -> Space:
        return self.spaces[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def keys(self) -> Iterable[str]:
        """Return the keys, sorted."""
        return self.spaces.keys()

    def _split(self, value: Any) -> tuple[Any, ...] | None:
        if not isinstance(value, Mapping) or value.keys() != self.spaces.keys():
            return None
        return tuple(value[name] for name in self.spaces)

    def _assemble(self, values: list[Any]) -> dict[str, Any]:
        return dict(zip(self.spaces, values, strict=True))

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.spaces.items())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dict, (dict(self.spaces),))

    def to_string(self) -> str:
        """Return `Dict(name=space, "other name"=space, ...)`."""
        parts = [f"{_key_text(name)}={space.to_string()}" for name, space in self.spaces.items()]
        return f"Dict({', '.join(parts)})"

    def to_wire(self) -> dict[str, Any]:
        """Return the map with the map of spaces."""
        return {"type": self.kind, "spaces": {name: space.to_wire() for name, space in self.spaces.items()}}


def _key_text(name: str) -> str:
    """Return a key as it stands in text: bare if it is an ASCII identifier, else as a JSON string."""
    return name if name.isascii() and name.isidentifier() else json.dumps(name)
