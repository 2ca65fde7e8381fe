"""Spaces read from the maps of the bus, and from what `to_string` writes, by the syntax tree of Python."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NoReturn

import numpy as np

from ganglion.errors import SpaceError
from ganglion.limits import ARRAY_RANK, SPACE_DEPTH, SPACE_TEXT_BYTES
from ganglion.sdk.spaces.kinds import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, shape_of
from ganglion.sdk.spaces.space import Space, from_form

# -- maps of the bus --------------------------------------------------------------------------------------------------


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
    if form.get("type") not in _KINDS:
        raise SpaceError(f"{path}.type: expected one of {', '.join(_KINDS)}, found {form.get('type')!r}")
    try:
        return _made(form, path, depth)
    except KeyError as error:
        raise SpaceError(f"{path}: the key {error} is missing") from error
    except (ValueError, OverflowError, SpaceError) as error:
        if str(error).startswith((f"{path}.", f"{path}:")):  # from a space within: its path is there already
            raise
        raise SpaceError(f"{path}: {error}") from error


def _made(form: Mapping[str, Any], path: str, depth: int) -> Space:
    match form["type"]:
        case "box":
            return _box(form)
        case "discrete":
            return Discrete(_integer(form["n"], "n"), _integer(form.get("start", 0), "start"))
        case "multi_discrete":
            return _multi_discrete(form)
        case "multi_binary":
            return MultiBinary(_shape(form))
    spaces = form["spaces"]
    if form["type"] == "tuple":
        if not isinstance(spaces, list | tuple):
            raise ValueError(f"spaces: expected a list, found {type(spaces).__name__}")
        return Tuple([_read(part, f"{path}.spaces[{i}]", depth - 1) for i, part in enumerate(spaces)])
    if not isinstance(spaces, Mapping) or not all(isinstance(name, str) for name in spaces):
        raise ValueError(f"spaces: expected a map with text keys, found {type(spaces).__name__}")
    return Dict({name: _read(part, f"{path}.spaces.{name}", depth - 1) for name, part in spaces.items()})


def _shape(form: Mapping[str, Any]) -> tuple[int, ...]:
    shape = form["shape"]
    if not isinstance(shape, list | tuple) or not all(type(n) is int for n in shape):
        raise ValueError(f"shape: expected a list of integers, found {shape!r:.100}")
    return shape_of(0, 0, shape)


def _integer(form: Any, name: str) -> int:
    number = from_form(form)
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"{name}: expected an integer, found {form!r:.100}")
    return int(number)


def _array(
    form: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], number: Callable[[Any, str], Any]
) -> Any:
    """Return one number for all elements, or a flat list of numbers, as an array."""
    flat = form if isinstance(form, list | tuple) else [form]
    if flat is form and len(flat) != math.prod(shape):
        raise ValueError(f"{name}: expected one number or {math.prod(shape)}, found {len(flat)}")
    try:
        return np.array([number(it, name) for it in flat], dtype=dtype).reshape(shape if flat is form else ())
    except OverflowError as error:
        raise ValueError(f"{name}: expected integers that fit into {dtype}") from error


def _box(form: Mapping[str, Any]) -> Space:
    shape = _shape(form)
    if form["dtype"] not in _DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)}, found {form['dtype']!r:.100}")
    dtype = np.dtype(form["dtype"]).newbyteorder("=")

    def bound(form: Any, name: str) -> float | int:
        if dtype.kind == "f":
            return float(from_form(form))
        if from_form(form) in (-math.inf, math.inf):
            return int(np.iinfo(dtype).min if from_form(form) < 0 else np.iinfo(dtype).max)
        return _integer(form, name)

    wide = np.dtype(np.float64) if dtype.kind == "f" else dtype
    low, high = (_array(form[name], name, shape, wide, bound) for name in ("low", "high"))
    return Box(low, high, shape, dtype)


def _multi_discrete(form: Mapping[str, Any]) -> Space:
    nvec = form["nvec"]
    shape = _shape(form) if "shape" in form else (len(nvec),) if isinstance(nvec, list | tuple) else ()
    counts, start = (
        _array(it, name, shape, np.dtype(np.int64), _integer)
        for name, it in (("nvec", nvec), ("start", form.get("start", 0)))
    )
    return MultiDiscrete(counts, start)


_DTYPES = ("<f8", "<f4", "<f2", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")
_KINDS = ("box", "discrete", "multi_discrete", "multi_binary", "tuple", "dict")


# -- text -------------------------------------------------------------------------------------------------------------

_TYPES = {np.dtype(code).name: np.dtype(code).newbyteorder("=") for code in _DTYPES}
_QUOTED_NAME = re.compile(r'("(?:[^"\\\x00-\x1f]|\\.)*")\s*=')  # of a Dict: the only text that there is


def parse_space(text: str) -> Space:
    """Return the space that `text` describes; nothing in it is evaluated.

    Raises:
        SpaceError: The text describes no space; the message names what was expected and the column, from 1.
    """
    if len(text) > SPACE_TEXT_BYTES:
        raise SpaceError(f"expected at most {SPACE_TEXT_BYTES} characters (space_text_bytes), found {len(text)}")
    return _Reading(text).space()


class _Reading:
    """Read the syntax tree that Python makes of a text; names of a Dict that are in quotes become words for it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, str] = {}

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
        """Put a word in the place of a name in quotes, as long as that as a rule, so that columns stay."""
        word = f"_{len(self.names)}_"
        try:
            self.names[word] = str(json.loads(match[1]))
        except ValueError as error:
            raise SpaceError(f"space, column {match.start() + 1}: no JSON string: {match[1]:.40}") from error
        return f"{word:{len(match[0]) - 1}}="

    def column(self, offset: int) -> int:
        """Return a column of the text, from 1."""
        return len(self.text) - len(self.text.lstrip()) + offset + 1

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
        make = _MAKERS[node.func.id]
        try:
            signature(make).bind(*plain, **named)
            return make(*plain, **named)
        except (SpaceError, TypeError, ValueError, OverflowError) as error:
            raise SpaceError(f"space, column {self.column(node.col_offset)}: {node.func.id}: {error}") from error

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
        if isinstance(node, ast.Name) and node.id in _TYPES:
            return _TYPES[node.id]
        if isinstance(node, ast.List | ast.Tuple):
            if rank == 0:
                self.fail(node, f"lists nested at most {ARRAY_RANK} deep (array_rank)")
            return [self.value(it, depth, rank - 1) for it in node.elts]
        return self.space_of(node, depth - 1)


def _multi_discrete_of(nvec: Any, start: Any = 0, shape: Any = None) -> Space:
    return MultiDiscrete(nvec if shape is None else np.reshape(np.array(nvec, dtype=np.int64), shape), start)


_MAKERS: dict[str, Callable[..., Space]] = {
    "Box": Box,
    "Discrete": Discrete,
    "MultiDiscrete": _multi_discrete_of,
    "MultiBinary": MultiBinary,
    "Tuple": lambda *spaces: Tuple(spaces),
    "Dict": lambda **spaces: Dict(spaces),
}
