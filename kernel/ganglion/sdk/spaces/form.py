"""Forms: spaces read from the maps of the bus."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ganglion.errors import SpaceError
from ganglion.limits import ARRAY_RANK, SPACE_DEPTH, SPACE_ELEMENTS
from ganglion.sdk.spaces.box import Box
from ganglion.sdk.spaces.composite import Dict, Tuple
from ganglion.sdk.spaces.discrete import Discrete
from ganglion.sdk.spaces.multi_binary import MultiBinary
from ganglion.sdk.spaces.multi_discrete import MultiDiscrete
from ganglion.sdk.spaces.number import from_form
from ganglion.sdk.spaces.space import Space

__all__ = ["space_from_wire"]


def space_from_wire(form: Mapping[str, Any]) -> Space:
    """Return the space that a map describes: the inverse of `Space.to_wire`.

    Keys that are not known are skipped. Sizes are checked before memory is taken.

    Raises:
        SpaceError: It describes no space; the message names the path of what is wrong.
    """
    return _read(form, "space", SPACE_DEPTH)


def _read(form: Any, path: str, depth: int) -> Space:
    if not isinstance(form, Mapping):
        raise SpaceError(f"{path}: expected a map with the key type, found {type(form).__name__}")
    if depth == 0:
        raise SpaceError(f"{path}: spaces are nested deeper than {SPACE_DEPTH} (space_depth)")
    reader = _READERS.get(form["type"]) if isinstance(form.get("type"), str) else None
    if reader is None:
        raise SpaceError(f"{path}.type: expected one of {', '.join(_READERS)}, found {form.get('type')!r}")
    try:
        return reader(form, path, depth)
    except KeyError as error:
        raise SpaceError(f"{path}: the key {error} is missing") from error
    except (ValueError, OverflowError, SpaceError) as error:
        if str(error).startswith((f"{path}.", f"{path}:")):  # from a space within: its path is there already
            raise
        raise SpaceError(f"{path}: {error}") from error


def _shape(form: Mapping[str, Any]) -> tuple[int, ...]:
    shape = form["shape"]
    if not isinstance(shape, list | tuple) or len(shape) > ARRAY_RANK:
        raise ValueError(
            f"shape: expected a list of at most {ARRAY_RANK} integers (array_rank), found {shape!r:.100}"
        )
    if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in shape):
        raise ValueError(f"shape: expected integers >= 0, found {shape!r:.100}")
    if math.prod(shape) > SPACE_ELEMENTS:
        raise ValueError(f"shape: expected at most {SPACE_ELEMENTS} elements (space_elements), found {shape}")
    return tuple(shape)


def _integer(form: Any, name: str) -> int:
    number = from_form(form)
    if number != number or number in (math.inf, -math.inf) or number != int(number):
        raise ValueError(f"{name}: expected an integer, found {form!r:.100}")
    return int(number)


def _integers(form: Any, name: str, shape: tuple[int, ...]) -> Any:
    if not isinstance(form, list | tuple):
        return _integer(form, name)
    if len(form) != math.prod(shape):
        raise ValueError(f"{name}: expected {math.prod(shape)} integers, found {len(form)}")
    return np.array([_integer(n, name) for n in form], dtype=object).reshape(shape).tolist()


def _bounds(form: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a bound, checked; integers stay Python integers until their dtype is known to hold them."""
    if not isinstance(form, list | tuple):
        return _array([from_form(form)], name, dtype).reshape(())
    if len(form) != math.prod(shape):
        raise ValueError(f"{name}: expected one number or {math.prod(shape)}, found {len(form)}")
    return _array([from_form(number) for number in form], name, dtype).reshape(shape)


def _array(numbers: list[Any], name: str, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return np.array([float(n) for n in numbers], dtype=np.float64)
    limits = np.iinfo(dtype)
    whole = [limits.min if n == -math.inf else limits.max if n == math.inf else n for n in numbers]
    if any(n != n or n != int(n) or not limits.min <= n <= limits.max for n in whole):
        raise ValueError(f"{name}: expected integers that fit into {dtype}")
    return np.array([int(n) for n in whole], dtype=dtype)


def _box(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    shape = _shape(form)
    if form["dtype"] not in _DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)}, found {form['dtype']!r:.100}")
    dtype = np.dtype(form["dtype"]).newbyteorder("=")
    return Box(
        _bounds(form["low"], "low", shape, dtype), _bounds(form["high"], "high", shape, dtype), shape, dtype
    )


def _discrete(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    return Discrete(_integer(form["n"], "n"), _integer(form.get("start", 0), "start"))


def _multi_discrete(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    nvec = form["nvec"]
    shape = _shape(form) if "shape" in form else (len(nvec),) if isinstance(nvec, list | tuple) else ()
    counts = np.array(_integers(nvec, "nvec", shape), dtype=np.int64).reshape(shape)
    return MultiDiscrete(counts, _integers(form.get("start", 0), "start", shape) if counts.size else 0)


def _multi_binary(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    return MultiBinary(_shape(form))


def _tuple(form: Mapping[str, Any], path: str, depth: int) -> Space:
    spaces = form["spaces"]
    if not isinstance(spaces, list | tuple):
        raise ValueError(f"spaces: expected a list, found {type(spaces).__name__}")
    return Tuple([_read(part, f"{path}.spaces[{i}]", depth - 1) for i, part in enumerate(spaces)])


def _dict(form: Mapping[str, Any], path: str, depth: int) -> Space:
    spaces = form["spaces"]
    if not isinstance(spaces, Mapping) or not all(isinstance(name, str) for name in spaces):
        raise ValueError(f"spaces: expected a map with text keys, found {type(spaces).__name__}")
    return Dict({name: _read(part, f"{path}.spaces.{name}", depth - 1) for name, part in spaces.items()})


_DTYPES = ("<f8", "<f4", "<f2", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")
_READERS = {
    "box": _box,
    "discrete": _discrete,
    "multi_discrete": _multi_discrete,
    "multi_binary": _multi_binary,
    "tuple": _tuple,
    "dict": _dict,
}
