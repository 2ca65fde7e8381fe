"""Spaces read from the maps of the bus, and from what `to_string` writes, by a parser of our own."""

from __future__ import annotations

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

__all__ = ["parse_space", "space_from_wire"]


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


# space    = NAME "(" [argument {"," argument} [","]] ")"
# argument = [(NAME | TEXT) "="] value
# value    = number | dtype | list | tuple | space
TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:inf\b|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?))
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<text>"(?:[^"\\\x00-\x1f]|\\.)*")
    | (?P<sign>[()\[\],=])
    )""",
    re.VERBOSE,
)
DTYPES = ("float16", "float32", "float64", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))
INTEGER_DIGITS = 20  # hold every 64-bit integer; Python's own conversion takes time that grows with the square


def parse_space(text: str) -> Space:
    """Return the space that `text` describes; nothing in it is evaluated.

    Raises:
        SpaceError: The text describes no space; the message names what was expected and the column, from 1.
    """
    if len(text) > SPACE_TEXT_BYTES:
        raise SpaceError(f"expected at most {SPACE_TEXT_BYTES} characters (space_text_bytes), found {len(text)}")
    parser = _Parser(text)
    space = parser.space(SPACE_DEPTH)
    if parser.kind:
        parser.fail("the end of the text")
    return space


@dataclass(frozen=True, slots=True)
class _Dtype:
    name: str


class _Parser:
    """Read one token ahead; each method consumes what it is named for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0
        self.advance()

    def advance(self) -> None:
        self.begin = self.end
        match = TOKEN.match(self.text, self.end)
        if match is None:
            if self.text[self.end :].strip():
                self.kind, self.token = "unknown", self.text[self.end :].strip()[:20]
                return
            self.kind, self.token = "", ""
            return
        self.kind, self.token = str(match.lastgroup), match.group(str(match.lastgroup))
        self.end = match.end()

    def fail(self, expected: str) -> NoReturn:
        found = repr(self.token) if self.kind else "the end"
        column = self.begin + 1 + len(self.text[self.begin :]) - len(self.text[self.begin :].lstrip())
        raise SpaceError(f"space, column {column}: expected {expected}, found {found}")

    def sign(self, sign: str) -> bool:
        if self.kind == "sign" and self.token == sign:
            self.advance()
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.sign(sign):
            self.fail(repr(sign))

    def space(self, depth: int) -> Space:
        if self.kind != "name" or self.token not in _MAKERS:
            self.fail(f"one of {', '.join(_MAKERS)}")
        if depth == 0:
            self.fail(f"spaces nested at most {SPACE_DEPTH} deep (space_depth)")
        column, name = self.begin + 1, self.token
        self.advance()
        self.expect("(")
        plain, named = self.arguments(depth)
        try:
            return _MAKERS[name](plain, named)
        except (SpaceError, TypeError, ValueError, OverflowError) as error:
            raise SpaceError(f"space, column {column}: {error}") from error

    def arguments(self, depth: int) -> tuple[list[Any], dict[str, Any]]:
        plain: list[Any] = []
        named: dict[str, Any] = {}
        while not self.sign(")"):
            if plain or named:
                self.expect(",")
                if self.sign(")"):
                    break
            name = self.argument_name()
            if name is None:
                if named:
                    self.fail("an argument with a name")
                plain.append(self.value(depth, ARRAY_RANK))
                continue
            if name in named:
                self.fail(f"{name} once")
            named[name] = self.value(depth, ARRAY_RANK)
        return plain, named

    def argument_name(self) -> str | None:
        """Consume `name =` if it stands here."""
        if self.kind not in ("name", "text"):
            return None
        begin, end, kind, token = self.begin, self.end, self.kind, self.token
        self.advance()
        if self.sign("="):
            if kind == "name":
                return token
            try:
                return str(json.loads(token))
            except ValueError as error:
                raise SpaceError(f"space, column {begin + 1}: no JSON string: {token:.40}") from error
        self.begin, self.end, self.kind, self.token = begin, end, kind, token
        return None

    def value(self, depth: int, rank: int) -> Any:
        if self.kind == "number":
            return self.number()
        if self.kind == "name" and self.token in DTYPES:
            dtype = _Dtype(self.token)
            self.advance()
            return dtype
        for opening, closing in (("[", "]"), ("(", ")")):
            if self.sign(opening):
                return self.items(closing, depth, rank)
        return self.space(depth - 1)

    def number(self) -> int | float:
        token = self.token
        if token.lstrip("+-").isdigit():
            if len(token) > INTEGER_DIGITS + 1:
                self.fail(f"an integer of at most {INTEGER_DIGITS} digits")
            self.advance()
            return int(token)
        self.advance()
        return float(token)

    def items(self, closing: str, depth: int, rank: int) -> list[Any]:
        if rank == 0:
            self.fail(f"lists nested at most {ARRAY_RANK} deep (array_rank)")
        found: list[Any] = []
        while not self.sign(closing):
            if found:
                self.expect(",")
                if self.sign(closing):
                    break
            found.append(self.value(depth, rank - 1))
        return found


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
