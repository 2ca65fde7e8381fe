"""Spaces read from the maps of the bus, and from what `to_string` writes, by the syntax tree of Python."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ganglion.errors import SpaceError
from ganglion.limits import ARRAY_RANK, SPACE_DEPTH, SPACE_ELEMENTS, SPACE_TEXT_BYTES
from ganglion.sdk.spaces.kinds import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from ganglion.sdk.spaces.space import Space, from_form


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
        raise ValueError(f"shape: expected a list of at most {ARRAY_RANK} integers (array_rank), found {shape!r:.100}")
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


def _box_of(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    shape = _shape(form)
    if form["dtype"] not in _DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)}, found {form['dtype']!r:.100}")
    dtype = np.dtype(form["dtype"]).newbyteorder("=")
    return Box(_bounds(form["low"], "low", shape, dtype), _bounds(form["high"], "high", shape, dtype), shape, dtype)


def _discrete_of(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    return Discrete(_integer(form["n"], "n"), _integer(form.get("start", 0), "start"))


def _multi_discrete_of(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    nvec = form["nvec"]
    shape = _shape(form) if "shape" in form else (len(nvec),) if isinstance(nvec, list | tuple) else ()
    counts = np.array(_integers(nvec, "nvec", shape), dtype=np.int64).reshape(shape)
    return MultiDiscrete(counts, _integers(form.get("start", 0), "start", shape) if counts.size else 0)


def _multi_binary_of(form: Mapping[str, Any], _path: str, _depth: int) -> Space:
    return MultiBinary(_shape(form))


def _tuple_of(form: Mapping[str, Any], path: str, depth: int) -> Space:
    spaces = form["spaces"]
    if not isinstance(spaces, list | tuple):
        raise ValueError(f"spaces: expected a list, found {type(spaces).__name__}")
    return Tuple([_read(part, f"{path}.spaces[{i}]", depth - 1) for i, part in enumerate(spaces)])


def _dict_of(form: Mapping[str, Any], path: str, depth: int) -> Space:
    spaces = form["spaces"]
    if not isinstance(spaces, Mapping) or not all(isinstance(name, str) for name in spaces):
        raise ValueError(f"spaces: expected a map with text keys, found {type(spaces).__name__}")
    return Dict({name: _read(part, f"{path}.spaces.{name}", depth - 1) for name, part in spaces.items()})


_DTYPES = ("<f8", "<f4", "<f2", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")
_READERS = {
    "box": _box_of,
    "discrete": _discrete_of,
    "multi_discrete": _multi_discrete_of,
    "multi_binary": _multi_binary_of,
    "tuple": _tuple_of,
    "dict": _dict_of,
}


DTYPES = ("float16", "float32", "float64", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))
_QUOTED_NAME = re.compile(r'("(?:[^"\\\x00-\x1f]|\\.)*")\s*=')  # of a Dict: the only text that there is


def parse_space(text: str) -> Space:
    """Return the space that `text` describes; nothing in it is evaluated.

    Raises:
        SpaceError: The text describes no space; the message names what was expected and the column, from 1.
    """
    if len(text) > SPACE_TEXT_BYTES:
        raise SpaceError(f"expected at most {SPACE_TEXT_BYTES} characters (space_text_bytes), found {len(text)}")
    return _Reading(text).space()


@dataclass(frozen=True, slots=True)
class _Dtype:
    name: str


class _Reading:
    """Read the syntax tree that Python makes of a text; names of a Dict that are in quotes become words for it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, str] = {}
        self.shifts: list[tuple[int, int]] = []  # from which column on, and by how many

    def space(self) -> Space:
        """Return the space of the whole text."""
        try:
            tree = ast.parse(_QUOTED_NAME.sub(self.word_of, self.text.lstrip()), mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            column = self.column((getattr(error, "offset", None) or 1) - 1)
            said = getattr(error, "msg", None) or type(error).__name__
            raise SpaceError(f"space, column {column}: expected a space, found {self.text[:40]!r}: {said}") from error
        return self.space_of(tree.body, SPACE_DEPTH)

    def word_of(self, match: re.Match[str]) -> str:
        """Put a word in the place of a name in quotes."""
        word = f"_{len(self.names)}_"
        try:
            self.names[word] = str(json.loads(match[1]))
        except ValueError as error:
            raise SpaceError(f"space, column {match.start() + 1}: no JSON string: {match[1]:.40}") from error
        self.shifts.append((match.start() - sum(by for _, by in self.shifts), len(match[0]) - len(word) - 1))
        return f"{word}="

    def column(self, offset: int) -> int:
        """Return a column of the text, from 1."""
        before = len(self.text) - len(self.text.lstrip())
        return before + offset + 1 + sum(by for start, by in self.shifts if start < offset)

    def fail(self, node: ast.expr, expected: str) -> NoReturn:
        """Refuse what stands at a node."""
        column = self.column(node.col_offset)
        found = self.text[column - 1 :][:20]
        raise SpaceError(f"space, column {column}: expected {expected}, found {found!r}")

    def space_of(self, node: ast.expr, depth: int) -> Space:
        """Return the space of a call."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _MAKERS:
            self.fail(node, f"one of {', '.join(_MAKERS)}")
        if depth == 0:
            self.fail(node, f"spaces nested at most {SPACE_DEPTH} deep (space_depth)")
        plain = [self.value(it, depth, ARRAY_RANK) for it in node.args]
        named: dict[str, Any] = {}
        for it in node.keywords:
            name = self.names.get(it.arg or "", it.arg)
            if name is None or name in named:
                self.fail(it.value, "each argument once, by its name")
            named[name] = self.value(it.value, depth, ARRAY_RANK)
        try:
            return _MAKERS[node.func.id](plain, named)
        except (SpaceError, TypeError, ValueError, OverflowError) as error:
            raise SpaceError(f"space, column {self.column(node.col_offset)}: {error}") from error

    def value(self, node: ast.expr, depth: int, rank: int) -> Any:
        """Return a number, a dtype, a list or a space."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            number = self.value(node.operand, depth, rank)
            if type(number) not in (int, float):
                self.fail(node, "a number")
            return -number if isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.Name) and node.id == "inf":
            return math.inf
        if isinstance(node, ast.Name) and node.id in DTYPES:
            return _Dtype(node.id)
        if isinstance(node, ast.List | ast.Tuple):
            if rank == 0:
                self.fail(node, f"lists nested at most {ARRAY_RANK} deep (array_rank)")
            return [self.value(it, depth, rank - 1) for it in node.elts]
        return self.space_of(node, depth - 1)


def _bind(kind: str, names: tuple[str, ...], plain: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    if len(plain) > len(names):
        raise SpaceError(f"{kind} takes {', '.join(names)}, found {len(plain)} arguments")
    bound = dict(zip(names, plain, strict=False))
    for name, value in named.items():
        if name not in names or name in bound:
            raise SpaceError(f"{kind} takes {', '.join(names)} once each, found {name}")
        bound[name] = value
    for name, value in bound.items():
        if isinstance(value, _Dtype) != (name == "dtype") or _has_space(value):
            raise SpaceError(f"{kind}: {name} is of another type")
    return bound


def _has_space(value: Any) -> bool:
    return isinstance(value, Space) or (isinstance(value, list) and any(_has_space(part) for part in value))


def _box(plain: list[Any], named: dict[str, Any]) -> Space:
    bound = _bind("Box", ("low", "high", "shape", "dtype"), plain, named)
    if "low" not in bound or "high" not in bound:
        raise SpaceError("Box takes low and high")
    dtype = np.dtype(bound["dtype"].name if "dtype" in bound else "float64")
    shape = bound.get("shape")
    return Box(_bound(bound["low"], shape, dtype), _bound(bound["high"], shape, dtype), shape, dtype)


def _bound(value: Any, shape: Any, dtype: np.dtype[Any]) -> Any:
    """Return a bound as array, in the dtype if that is an integer one: mixed with floats numpy would round it."""
    if dtype.kind == "f" or _has_float(value):
        array = np.array(value, dtype=np.float64)
    else:
        array = np.array(value, dtype=dtype)
    if isinstance(shape, list) and array.size == 0:
        array = array.reshape(shape)
    return array


def _has_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and any(_has_float(part) for part in value))


def _discrete(plain: list[Any], named: dict[str, Any]) -> Space:
    return Discrete(**_bind("Discrete", ("n", "start"), plain, named))


def _multi_discrete(plain: list[Any], named: dict[str, Any]) -> Space:
    bound = _bind("MultiDiscrete", ("nvec", "start", "shape"), plain, named)
    shape = bound.pop("shape", None)
    if shape is not None:
        bound["nvec"] = np.reshape(np.array(bound.get("nvec"), dtype=np.int64), shape)
    return MultiDiscrete(**bound)


def _multi_binary(plain: list[Any], named: dict[str, Any]) -> Space:
    return MultiBinary(**_bind("MultiBinary", ("n",), plain, named))


def _tuple(plain: list[Any], named: dict[str, Any]) -> Space:
    if named:
        raise SpaceError(f"Tuple takes spaces without names, found {next(iter(named))}")
    return Tuple(plain)


def _dict(plain: list[Any], named: dict[str, Any]) -> Space:
    if plain:
        raise SpaceError("Dict takes spaces with names, found one without")
    return Dict(named)


_MAKERS: dict[str, Callable[[list[Any], dict[str, Any]], Space]] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Tuple": _tuple,
    "Dict": _dict,
}
