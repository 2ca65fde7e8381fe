"""Values between objects and the wire: rows in declared order, arrays as bytes, plain values, many bodies at once."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from operator import attrgetter, is_, le, methodcaller
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError, RemoteProtocolError, SpaceError
from ganglion.limits import BODY_DEPTH, INTEGER_MAX, WORLD_STATE_VALUES
from ganglion.sdk.brain import Brain
from ganglion.sdk.environment import EnvironmentState, StepBatch
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.spaces import Box, Space, space_from_wire

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
            return _bounded(value)
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


def _bounded(value: int) -> int:
    if abs(value) > INTEGER_MAX:
        raise ValueError(f"expected integers of at most {INTEGER_MAX}, found {value:.3e}")
    return int(value)


_BLOB_BYTES = 64 * 1024  # larger arrays travel as frames of their own
_ARRAY_KEYS = ({"dtype", "shape", "data"}, {"dtype", "shape", "blob"})
_DTYPE = re.compile(r"([<|][biuf](1|2|4|8|16)|<c(8|16|32)|\|S[1-9][0-9]{0,8})\Z")
_KINDS = "biufcS"  # booleans, integers, floats, complex numbers, bytes: what an array on the wire may hold


_UID, _SPACE, _VALUE = attrgetter("uid"), attrgetter("space"), attrgetter("value")


class Layout:
    """Hold the ids and spaces of a declaration, in its order; turn values into a row of the wire and back.

    A scalar is a number on the wire, anything else the bytes of its vector. So a row of scalars of the right types is
    the list of its values. With `missing` a value may be None: the reward of an environment that was not stepped.

    Attributes:
        scalar: Whether each value is a number.
        open: Where infinity may be contained.
        types: The type of each value in a row where all are numbers; None where they are not.
    """

    __slots__ = ("_highs", "_ids", "_lows", "_missing", "ids", "index", "open", "scalar", "spaces", "types")

    def __init__(self, ids: Sequence[str], spaces: Sequence[Space], missing: bool = False) -> None:
        self._missing = missing
        self.ids = tuple(ids)
        self.spaces = tuple(spaces)
        self.index = {uid: i for i, uid in enumerate(self.ids)}
        self.scalar = all(space.scalar for space in self.spaces)
        self.open = [i for i, space in enumerate(self.spaces) if _is_open(space)]
        self._ids = list(self.ids)
        # Bounds between which a value of its type is contained, and travels as it is; None where that is not so of all.
        self.types = [float if space.dtype.kind == "f" else int for space in self.spaces] if self.scalar else None
        exact = self.scalar and all(s._exact is not None and s.dtype.itemsize == 8 for s in self.spaces)  # noqa: SLF001
        self._lows = [space._low for space in self.spaces] if exact else None  # noqa: SLF001
        self._highs = [space._high for space in self.spaces] if exact else None  # noqa: SLF001

    @classmethod
    def of(cls, declarations: Iterable[Mapping[str, Any]], missing: bool = False) -> Layout:
        """Return the layout of declarations as they travel: maps with `id` and `space`."""
        rows = list(declarations)
        return cls([str(row["id"]) for row in rows], [space_from_wire(row["space"]) for row in rows], missing)

    def __len__(self) -> int:
        return len(self.ids)

    def holds(self, row: Any) -> bool:
        """Say whether a row has only numbers of the right types within their bounds: one comparison for all of them.

        False says nothing: a row of other values may be contained, too.
        """
        if type(row) is not list or list(map(type, row)) != self.types or self._lows is None:
            return False
        assert self._highs is not None
        return all(map(le, self._lows, row)) and all(map(le, row, self._highs))

    def row_set(self, informations: Any) -> list[Any] | None:
        """Return what informations in declared order were set to, as a row of numbers.

        Each has checked its number when it was set. None says that it is no such row: another order, other spaces, a
        number of another type, no number at all, or an infinite one.
        """
        try:
            if list(map(_UID, informations)) != self._ids or not all(map(is_, map(_SPACE, informations), self.spaces)):
                return None
            row = list(map(_VALUE, informations))
        except (AttributeError, TypeError):
            return None
        if list(map(type, row)) != self.types or (self.open and not all(map(math.isfinite, row))):
            return None
        return row

    def infinite(self, values: Sequence[Any]) -> str | None:
        """Return the first id whose value is infinite, which spaces without bounds contain; None if there is none."""
        for i in self.open:
            value, space = values[i], self.spaces[i]
            if value is not None and not np.isfinite(value if space.scalar else space.to_vector(value)).all():
                return self.ids[i]
        return None

    def sensors(self, declarations: Sequence[Mapping[str, Any]]) -> list[SensorInformation]:
        """Return sensors without readings, with the names of their values as declarations have them."""
        return [
            SensorInformation(None, space, uid, declared.get("value_ids"))
            for declared, (uid, space) in zip(declarations, self.pairs(), strict=True)
        ]

    def noops(self, declarations: Sequence[Mapping[str, Any]]) -> list[ActuatorInformation]:
        """Return actuators with their no-ops as declarations have them, else with the value nearest to zero."""
        row = [
            declared.get("value", space.default()) for declared, space in zip(declarations, self.spaces, strict=True)
        ]
        values = self.from_row(row, "setup.actuators")
        return [
            ActuatorInformation(value, space, uid, declared.get("value_ids"))
            for declared, value, (uid, space) in zip(declarations, values, self.pairs(), strict=True)
        ]

    def pairs(self) -> list[tuple[str, Space]]:
        """Return each id with its space."""
        return list(zip(self.ids, self.spaces, strict=True))

    def to_row(self, values: Sequence[Any]) -> list[Any]:
        """Return contained values as they travel."""
        types = self.types
        if types is None:
            return [self._out(space, value) for space, value in zip(self.spaces, values, strict=True)]
        if list(map(type, values)) == types:
            return list(values)
        return [
            value if type(value) is kind else self._out(space, value)
            for value, kind, space in zip(values, types, self.spaces, strict=True)
        ]

    def _out(self, space: Space, value: Any) -> Any:
        return None if value is None and self._missing else _out(space, value)

    def from_row(self, row: Any, what: str) -> list[Any]:
        """Return the values of a row; RemoteProtocolError says which one does not fit its declaration.

        A row of scalars of the right types is returned itself: its sender has checked the bounds.
        """
        types = self.types
        if types is not None and type(row) is list and list(map(type, row)) == types:
            return row
        if type(row) is not list or len(row) != len(self.ids):
            found = f"{len(row)} values" if isinstance(row, list) else type(row).__name__
            raise RemoteProtocolError(f"{what}: expected a list of {len(self.ids)} values, found {found}")
        if types is None:
            return [self._in(i, value, what) for i, value in enumerate(row)]
        return [
            value if type(value) is kind else self._in(i, value, what)
            for i, (value, kind) in enumerate(zip(row, types, strict=True))
        ]

    def _in(self, i: int, value: Any, what: str) -> Any:
        space = self.spaces[i]
        if value is None and self._missing:
            return None
        try:
            if space.scalar:
                if type(value) is bool:
                    raise TypeError(f"expected a number, found {value}")
                return space.canonical(value)
            if type(value) is bytes:
                flat = np.frombuffer(value, dtype=space.dtype.newbyteorder("<"))
                return space.from_vector(flat.astype(space.dtype))
            array = np.asarray(value)
            return space.canonical(value) if array.shape != (space.size,) else space.from_vector(array)
        except (SpaceError, ValueError, TypeError) as error:
            raise RemoteProtocolError(f"{what}.{self.ids[i]}: {error}") from error


def _is_open(space: Space) -> bool:
    """Say whether a space may contain infinity."""
    if space.kind in ("tuple", "dict"):
        return space.dtype.kind == "f"
    return isinstance(space, Box) and not bool(np.isfinite([space.low, space.high]).all())


def _out(space: Space, value: Any) -> Any:
    if space.scalar:
        return space.canonical(value)
    vector = space.to_vector(value)
    return vector.astype(vector.dtype.newbyteorder("<"), copy=False).tobytes()


def declaration(uid: str, space: Space, value: Any = None, value_ids: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a declaration as it travels."""
    found: dict[str, Any] = {"id": uid, "space": space.to_wire()}
    if value is not None:
        found["value"] = _out(space, value)
    if value_ids is not None:
        found["value_ids"] = list(value_ids)
    return found


# -- free data: updates of brains, data of muscles, models ------------------------------------------------------------
_ATOMS = frozenset({NoneType, bool, float, bytes})
SIMPLE = _ATOMS | {int, str}
"""Types of free data that `deserialize` and `copied` return as they are."""


def serialize(value: Any, blobs: list[bytes] | None, path: str, depth: int = 0) -> Any:
    """Return a copy of `value` that can travel; large arrays are appended to `blobs`, if there are any.

    Raises:
        AuthorError: Something in it cannot travel; the message begins with the path to it.
    """
    kind = type(value)
    if kind in _ATOMS or (kind is int and -INTEGER_MAX <= value <= INTEGER_MAX):
        return value
    if isinstance(value, Mapping | list | tuple):
        if depth >= _DEPTH_MAX:
            raise AuthorError(f"{path}: expected at most {_DEPTH_MAX} levels of maps and lists, found more")
        if not isinstance(value, Mapping):
            return [serialize(inner, blobs, f"{path}[{i}]", depth + 1) for i, inner in enumerate(value)]
        if len(value) == 3 and value.keys() in _ARRAY_KEYS:
            raise AuthorError(f"{path}: a map with the keys {', '.join(value)} alone stands for an array")
        return {_key(k, path): serialize(v, blobs, f"{path}.{k}", depth + 1) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _serialize_array(value, blobs, path)
    if isinstance(value, np.generic):
        if value.dtype.kind == "c":
            raise _stuck(value, path)
        return serialize(value.item(), blobs, path)
    if isinstance(value, str):  # also of a subclass, such as a member of an enumeration
        return _text(value, path)
    if isinstance(value, int):
        return _integer(int(value), path)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise _stuck(value, path)


def _stuck(value: Any, path: str) -> AuthorError:
    hint = "; send .detach().cpu().numpy()" if type(value).__module__.startswith("torch") else ""
    return AuthorError(f"{path}: a {type(value).__module__}.{type(value).__qualname__} cannot travel{hint}")


def _text(value: str, path: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise AuthorError(f"{path}: expected text that is UTF-8, found {value!r:.60}") from error
    return str.__str__(value)


def _integer(value: int, path: str) -> int:
    if abs(value) > INTEGER_MAX:
        raise AuthorError(f"{path}: expected an integer of at most 53 bits, found one of {value.bit_length()}")
    return value


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise AuthorError(f"{path}: expected keys that are text, found {key!r:.60}")
    return _text(key, path)


def _serialize_array(value: np.ndarray[Any, Any], blobs: list[bytes] | None, path: str) -> dict[str, Any]:
    if value.dtype.kind not in _KINDS:
        raise AuthorError(f"{path}: expected an array of numbers, booleans or bytes, found dtype {value.dtype}")
    little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    form: dict[str, Any] = {"dtype": little.dtype.str, "shape": list(value.shape)}
    data = little.tobytes()
    if len(data) > _BLOB_BYTES and blobs is not None:
        form["blob"] = len(blobs)
        blobs.append(data)
    else:
        form["data"] = data
    return form


def copied(value: Any) -> Any:
    """Return free data whose lists and maps are of their own; arrays are read-only, and shared."""
    if type(value) is dict:
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if type(value) is list else value


def deserialize(value: Any, blobs: Sequence[bytes], path: str) -> Any:
    """Return what `serialize` was given: lists for tuples, read-only arrays; RemoteProtocolError if it does not fit."""
    if type(value) is dict:
        if value.keys() in _ARRAY_KEYS:
            return _deserialize_array(value, blobs, path)
        return {key: deserialize(inner, blobs, f"{path}.{key}") for key, inner in value.items()}
    if type(value) is list:
        return [deserialize(inner, blobs, f"{path}[{i}]") for i, inner in enumerate(value)]
    return value


def _deserialize_array(form: Mapping[str, Any], blobs: Sequence[bytes], path: str) -> Any:
    try:
        name, shape = form["dtype"], form["shape"]
        if type(name) is not str or not _DTYPE.match(name):  # numpy's own reader knows a language of its own
            raise ValueError(f"expected a dtype such as <f8, |u1 or |b1, found {str(name)[:40]!r}")
        if type(shape) is not list or not all(type(n) is int and 0 <= n <= INTEGER_MAX for n in shape):
            raise ValueError(f"expected a shape, found {str(shape)[:40]}")
        data = form["data"] if "data" in form else _blob(blobs, form["blob"])
        return np.frombuffer(data, dtype=np.dtype(name)).reshape(shape)
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"{path}: not an array: {error}") from error


def to_json(value: Any) -> str:
    """Return frozen data without blobs as JSON: arrays as lists, bytes as `{"$bytes": base64}`, NaN and inf as text."""
    return json.dumps(_shown(deserialize(value, (), "value")), ensure_ascii=False, allow_nan=False)


def _shown(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if type(value) is dict:
        return {key: _shown(inner) for key, inner in value.items()}
    if type(value) is list:
        return [_shown(inner) for inner in value]
    if type(value) is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    if type(value) is complex:
        return [_shown(value.real), _shown(value.imag)]
    return str(value) if type(value) is float and not math.isfinite(value) else value


def _blob(blobs: Sequence[bytes], number: Any) -> bytes:
    if type(number) is not int or not 0 <= number < len(blobs):
        raise ValueError(f"expected the number of one of {len(blobs)} blobs, found {str(number)[:40]}")
    return blobs[number]


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

        A number of a scalar, and the bytes of a vector of the right length, are taken as they are: the
        sender of the row has checked the bounds.
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
    """Map ids to their part of a matrix, cut out when it is read."""

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


_BODIES = 1  # that an environment has in a run
_SHAPE, _ITEM = attrgetter("shape"), methodcaller("item")


def arrays_of(layout: Layout, values: Sequence[Any]) -> dict[str, Array]:
    """Return setpoints by id, `[bodies, *shape]`; a Tuple or Dict as its vector, None is left out."""
    return {
        uid: space.to_vector(value).reshape(_BODIES, *shape_of(space))
        for (uid, space), value in zip(layout.pairs(), values, strict=True)
        if value is not None
    }


def values_of(what: str, layout: Layout, given: Any) -> list[Any]:
    """Return the contained values of a map from ids to arrays; AuthorError names what is strange, missing or wrong."""
    if not isinstance(given, Mapping):
        raise AuthorError(f"{what}s: expected a map from ids to arrays, found {type(given).__name__}")
    if layout.scalar and list(given) == list(layout.ids):  # the usual case: an array of one number for each
        arrays = list(given.values())
        if {*map(type, arrays)} == {np.ndarray} and {*map(_SHAPE, arrays)} == {(_BODIES,)}:
            row = list(map(_ITEM, arrays))
            if layout.holds(row):
                return row
    strange = [uid for uid in given if uid not in layout.index]
    if strange:
        raise AuthorError(f"{what} {strange[0]!r} was not declared")
    return [_value(what, uid, space, given) for uid, space in layout.pairs()]


def _value(what: str, uid: str, space: Space, given: Mapping[str, Any]) -> Any:
    if uid not in given:
        raise AuthorError(f"{what} {uid!r} is missing")
    array = np.asarray(given[uid])
    shape = (_BODIES, *shape_of(space))
    if array.shape != shape:
        raise AuthorError(f"{what} {uid!r}: expected an array of shape {shape}, found {array.shape}")
    if space.kind in ("tuple", "dict"):
        return space.from_vector(array[0])
    value = array[0].item() if space.scalar else array[0]
    if not space.contains(value):
        kind = SensorInformation if what == "sensor" else RewardInformation
        kind(value, space, uid)  # refuses it by its id
    return space.canonical(value)


def reward_layout(rewards: Any) -> Layout:
    """Return the layout of rewards that are declared by the first step: boxes without bounds, of the arrays' dtypes."""
    if not isinstance(rewards, Mapping):
        raise AuthorError(f"rewards: expected a map from ids to arrays, found {type(rewards).__name__}")
    arrays = {str(uid): np.asarray(array) for uid, array in rewards.items()}
    for uid, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise AuthorError(f"reward {uid!r}: expected an array [bodies, *shape] of numbers, found {array!r:.80}")
    boxes = [Box(-np.inf, np.inf, a.shape[1:], a.dtype if a.dtype.kind == "f" else np.float64) for a in arrays.values()]
    return Layout(list(arrays), boxes)


def flag_of(name: str, flag: Any) -> bool:
    """Return a flag of the one body, which may be an array."""
    found = np.asarray(flag)
    if found.dtype.kind != "b" or found.size != 1:
        raise AuthorError(f"{name}: expected a boolean, or one per body, found {flag!r:.80}")
    return bool(found.item())


def state_of(batch: StepBatch, sensors: Layout, rewards: Layout) -> EnvironmentState:
    """Return a step as rewards and transformers take it."""
    readings = values_of("sensor", sensors, batch.readings)
    earned = values_of("reward", rewards, batch.rewards)
    return EnvironmentState(
        [SensorInformation(v, s, u) for (u, s), v in zip(sensors.pairs(), readings, strict=True)],
        [RewardInformation(v, s, u) for (u, s), v in zip(rewards.pairs(), earned, strict=True)],
        simtime=batch.simtime,
        terminated=flag_of("terminated", batch.terminated),
        truncated=flag_of("truncated", batch.truncated),
    )
