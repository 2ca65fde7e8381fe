"""Plain values: what an author left for the store, as numbers, text, booleans, lists and maps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from ganglion.limits import BODY_DEPTH, INTEGER_MAX, WORLD_STATE_VALUES

_DEPTH_MAX = BODY_DEPTH - 4  # levels; it stands inside of a message that has some of its own


def plain(value: Any, path: str = "value") -> Any:
    """Return a value as it can be sent and stored: arrays become lists, times text; NaN and infinities stay.

    Raises:
        TypeError: Something in it is neither plain nor an array, or a key of a map is no text.
        ValueError: It is larger or deeper than the bounds allow, or an integer is.
            Both messages begin with the path to it, which begins with `path`.
    """
    try:
        return _Plain().of(value, 0)
    except TypeError as error:
        raise TypeError(f"{_path_to(value, path)}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{_path_to(value, path)}: {error}") from None


def _path_to(value: Any, path: str, depth: int = 0) -> str:
    """Return where in a value the first part lies that cannot be sent; looked for only once something has failed."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        parts = [(f"{path}.{key}", part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{i}]", part) for i, part in enumerate(value)]
    for below, part in parts:
        try:
            _Plain().of(part, depth + 1)
        except (TypeError, ValueError):
            return below if depth == _DEPTH_MAX else _path_to(part, below, depth + 1)
    return path


class _Plain:
    """Count what is taken over: a bound on each value alone would bound nothing."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, value: Any, depth: int) -> Any:
        """Return a value at a level."""
        self._take(1)
        if depth > _DEPTH_MAX:
            raise ValueError(f"expected at most {_DEPTH_MAX} levels, found more")
        if isinstance(value, np.ndarray | np.generic):
            self._take(value.size)
            value = value.tolist()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, int):
            return _integer(value)
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, Mapping):
            return {self._key(key): self.of(part, depth + 1) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part, depth + 1) for part in value]
        raise TypeError(f"expected numbers, text, booleans, lists, maps or arrays, found {type(value).__name__}")

    def _key(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"expected text as keys of a map, found {type(key).__name__}")
        return self._text(key)

    def _text(self, text: str) -> str:
        self._take(len(text.encode(errors="surrogatepass")) // 8)
        return str(text)

    def _take(self, count: int) -> None:
        self._count += count
        if self._count > WORLD_STATE_VALUES:
            raise ValueError(f"expected at most {WORLD_STATE_VALUES} values, found more (limit world_state_values)")


def _integer(value: int) -> int:
    if abs(value) > INTEGER_MAX:
        raise ValueError(f"expected integers of at most {INTEGER_MAX}, found {value:.3e}")
    return int(value)
