"""Free data between objects and the wire: updates of brains, data of muscles, models; plain values for the store."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any

import numpy as np

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.limits import BODY_DEPTH, INTEGER_MAX, WORLD_STATE_VALUES

_DEPTH_MAX = BODY_DEPTH - 4  # levels; it stands inside of a message that has some of its own


def plain(value: Any, path: str = "value") -> Any:
    """Return a value as it can be sent and stored: arrays become lists, times text; NaN and infinities stay.

    Raises:
        TypeError: Something in it is neither plain nor an array, or a key of a map is no text.
        ValueError: It is larger or deeper than the bounds allow, or an integer is.
            Both messages begin with the path to it, which begins with `path`.
    """
    return _Plain(path).of(value, path, 0)


class _Plain:
    """Count the copied values: a bound on each value alone would bound nothing."""

    def __init__(self, path: str) -> None:
        self._path, self._count = path, 0

    def of(self, value: Any, path: str, depth: int) -> Any:
        """Return a value at a level."""
        self._take(1)
        if depth > _DEPTH_MAX:
            raise ValueError(f"{path}: expected at most {_DEPTH_MAX} levels, found more")
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
            if abs(value) > INTEGER_MAX:
                raise ValueError(f"{path}: expected integers of at most {INTEGER_MAX}, found {value:.3e}")
            return int(value)
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, Mapping):
            strange = next((key for key in value if not isinstance(key, str)), None)
            if strange is not None:
                raise TypeError(f"{path}: expected text as keys of a map, found {type(strange).__name__}")
            return {self._text(key): self.of(part, f"{path}.{key}", depth + 1) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part, f"{path}[{i}]", depth + 1) for i, part in enumerate(value)]
        found = type(value).__name__
        raise TypeError(f"{path}: expected numbers, text, booleans, lists, maps or arrays, found {found}")

    def _text(self, text: str) -> str:
        self._take(len(text.encode(errors="surrogatepass")) // 8)
        return str(text)

    def _take(self, count: int) -> None:
        self._count += count
        if self._count > WORLD_STATE_VALUES:
            text = f"expected at most {WORLD_STATE_VALUES} values, found more (limit world_state_values)"
            raise ValueError(f"{self._path}: {text}")


_BLOB_BYTES = 64 * 1024  # larger arrays travel as frames of their own
_ARRAY_KEYS = ({"dtype", "shape", "data"}, {"dtype", "shape", "blob"})
_DTYPE = re.compile(r"([<|][biuf](1|2|4|8|16)|<c(8|16|32)|\|S[1-9][0-9]{0,8})\Z")
_KINDS = "biufcS"  # booleans, integers, floats, complex numbers, bytes: what an array on the wire may hold

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
    """Return free data with copied lists and maps; arrays are read-only, and shared."""
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
