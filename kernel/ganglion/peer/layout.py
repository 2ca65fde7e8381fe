"""Values between objects and the wire: rows in declared order, arrays as little-endian bytes."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ganglion.errors import AuthorError, RemoteProtocolError, SpaceError
from ganglion.limits import BODY_DEPTH, INTEGER_MAX
from ganglion.sdk.information import ActuatorInformation, SensorInformation
from ganglion.sdk.spaces import Box, Space, space_from_wire

_BLOB_BYTES = 64 * 1024  # larger arrays travel as frames of their own
_ARRAY_KEYS = ({"dtype", "shape", "data"}, {"dtype", "shape", "blob"})
_DTYPE = re.compile(r"([<|][biuf](1|2|4|8|16)|<c(8|16|32)|\|S[1-9][0-9]{0,8})\Z")
_KINDS = "biufcS"  # booleans, integers, floats, complex numbers, bytes: what an array on the wire may hold
_DEPTH_MAX = BODY_DEPTH - 4  # levels of free data; it stands inside of a message that has some of its own


class Layout:
    """Know ids and spaces in declared order; turn values into a row of the wire and back.

    A scalar is a number on the wire, anything else the bytes of its vector. With `missing` a value may be None: the
    reward of an environment that was not stepped.
    """

    __slots__ = ("_float", "_missing", "_open", "_scalar", "ids", "index", "spaces")

    def __init__(self, ids: Sequence[str], spaces: Sequence[Space], missing: bool = False) -> None:
        self._missing = missing
        self.ids = tuple(ids)
        self.spaces = tuple(spaces)
        self.index = {uid: i for i, uid in enumerate(self.ids)}
        self._scalar = all(space.scalar for space in self.spaces)
        self._open = [i for i, space in enumerate(self.spaces) if _is_open(space)]
        self._float = [space.scalar and space.dtype.kind == "f" for space in self.spaces]

    @classmethod
    def of(cls, declarations: Iterable[Mapping[str, Any]], missing: bool = False) -> Layout:
        """Return the layout of declarations as they travel: maps with `id` and `space`."""
        rows = list(declarations)
        return cls([str(row["id"]) for row in rows], [space_from_wire(row["space"]) for row in rows], missing)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def scalar(self) -> bool:
        """Say whether each value is a number."""
        return self._scalar

    def infinite(self, values: Sequence[Any]) -> str | None:
        """Return the first id whose value is infinite, which spaces without bounds contain; None if there is none."""
        for i in self._open:
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
        if self._scalar:
            return [
                value if type(value) is (float if real else int) else self._out(space, value)
                for value, real, space in zip(values, self._float, self.spaces, strict=True)
            ]
        return [self._out(space, value) for space, value in zip(self.spaces, values, strict=True)]

    def _out(self, space: Space, value: Any) -> Any:
        return None if value is None and self._missing else _out(space, value)

    def from_row(self, row: Any, what: str) -> list[Any]:
        """Return the values of a row; RemoteProtocolError says which one does not fit its declaration.

        In a row of scalars a number of the right type is taken as it is: who made the row has looked at its bounds.
        """
        if type(row) is not list or len(row) != len(self.ids):
            found = f"{len(row)} values" if isinstance(row, list) else type(row).__name__
            raise RemoteProtocolError(f"{what}: expected a list of {len(self.ids)} values, found {found}")
        if self._scalar:
            return [
                value if type(value) is (float if real else int) else self._in(i, value, what)
                for i, (value, real) in enumerate(zip(row, self._float, strict=True))
            ]
        return [self._in(i, value, what) for i, value in enumerate(row)]

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
def freeze(value: Any, blobs: list[bytes] | None, path: str, depth: int = 0) -> Any:
    """Return a copy of `value` that can travel; large arrays are appended to `blobs`, if there are any.

    Raises:
        AuthorError: Something in it cannot travel; the message begins with the path to it.
    """
    if value is None or type(value) in (bool, float, bytes):
        return value
    if isinstance(value, Mapping | list | tuple):
        if depth >= _DEPTH_MAX:
            raise AuthorError(f"{path}: expected at most {_DEPTH_MAX} levels of maps and lists, found more")
        if not isinstance(value, Mapping):
            return [freeze(inner, blobs, f"{path}[{i}]", depth + 1) for i, inner in enumerate(value)]
        if len(value) == 3 and value.keys() in _ARRAY_KEYS:
            raise AuthorError(f"{path}: a map with the keys {', '.join(value)} alone stands for an array")
        return {_key(k, path): freeze(v, blobs, f"{path}.{k}", depth + 1) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _freeze_array(value, blobs, path)
    if isinstance(value, np.generic):
        if value.dtype.kind == "c":
            raise _stuck(value, path)
        return freeze(value.item(), blobs, path)
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


def _freeze_array(value: np.ndarray[Any, Any], blobs: list[bytes] | None, path: str) -> dict[str, Any]:
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


def thaw(value: Any, blobs: Sequence[bytes], path: str) -> Any:
    """Return what `freeze` was given: lists for tuples, read-only arrays; RemoteProtocolError if it does not fit."""
    if type(value) is dict:
        if value.keys() in _ARRAY_KEYS:
            return _thaw_array(value, blobs, path)
        return {key: thaw(inner, blobs, f"{path}.{key}") for key, inner in value.items()}
    if type(value) is list:
        return [thaw(inner, blobs, f"{path}[{i}]") for i, inner in enumerate(value)]
    return value


def _thaw_array(form: Mapping[str, Any], blobs: Sequence[bytes], path: str) -> Any:
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
    return json.dumps(_shown(thaw(value, (), "value")), ensure_ascii=False, allow_nan=False)


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
