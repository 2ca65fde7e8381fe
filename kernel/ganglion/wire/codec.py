"""Bodies: between typed messages and bytes, msgpack or JSON, checked by the message's declaration."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import msgpack

from ganglion.errors import GanglionError, LocalProtocolError, RemoteProtocolError
from ganglion.limits import BODY_BYTES, BODY_CONTAINERS, BODY_DEPTH, BODY_KEYS, INTEGER_MAX

M = TypeVar("M")
Check = Callable[[Any, str], Any]
"""Return the value as declared; RemoteProtocolError has the path of a fault."""


class Content(StrEnum):
    """Name the encoding of bodies; a peer chooses one in HELLO, msgpack unless it says otherwise."""

    MSGPACK = "msgpack"
    JSON = "json"


def encode_map(tree: Any, content: Content = Content.MSGPACK) -> bytes:
    """Return a tree of plain values as bytes; LocalProtocolError: a value cannot be sent."""
    try:
        data = msgpack.packb(tree) if content is Content.MSGPACK else _json_text(tree).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"body: {error}") from error
    if len(data) > _SHORT_BYTES or openings(data) > BODY_DEPTH:
        _check_sent(tree, data)
    return data


def _check_sent(tree: Any, data: bytes) -> None:
    """Raise LocalProtocolError if a body that is long, or may be deep, breaks a bound."""
    if len(data) > BODY_BYTES:
        raise LocalProtocolError(f"body: expected at most {BODY_BYTES} bytes (body_bytes), found {len(data)}")
    _check_bounds(tree, LocalProtocolError)


def decode_map(data: bytes) -> dict[str, Any]:
    """Return the map in a body; JSON begins with the byte `{`.

    An empty body is an empty map. RemoteProtocolError: the body is no map with text keys, or beyond BODY_BYTES,
    BODY_DEPTH, BODY_CONTAINERS or BODY_KEYS; a body refused for its size took no memory.
    """
    if not data:
        return {}
    if len(data) > BODY_BYTES:
        raise RemoteProtocolError(f"body: expected at most {BODY_BYTES} bytes (body_bytes), found {len(data)}")
    try:
        tree = _from_json(data) if data[:1] == b"{" else _from_msgpack(data)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        why = str(error) or type(error).__name__  # msgpack's FormatError has no text
        raise RemoteProtocolError(f"body: neither a msgpack map nor a JSON object: {why}") from error
    if type(tree) is not dict:
        raise RemoteProtocolError(f"body: expected a map, found {type(tree).__name__}")
    if len(data) > _SHORT_BYTES or openings(data) > BODY_DEPTH:
        _check_bounds(tree, RemoteProtocolError)
    return tree


def _check_bounds(tree: Any, error: type[GanglionError]) -> None:
    """Raise an error if a tree breaks a bound of maps and lists."""
    if excess := _excess(tree):
        raise error(f"body: {excess}")


_TOO_DEEP = f"expected at most {BODY_DEPTH} levels of maps and lists (body_depth)"
_TOO_MANY = f"expected at most {BODY_CONTAINERS} maps and lists (body_containers)"
_TOO_WIDE = f"expected at most {BODY_KEYS} keys in a map (body_keys)"
_MSGPACK_OPENINGS = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])  # the first byte of a map or a list
_JSON_OPENINGS = b"{["
_JSON_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def _from_json(data: bytes) -> Any:
    if openings(data) > BODY_CONTAINERS and openings(b"{" + _JSON_TEXT.sub(b"", data)) - 1 > BODY_CONTAINERS:
        raise ValueError(_TOO_MANY)
    tree = json.loads(data, object_hook=_json_object, parse_constant=_refuse_constant)
    if b"\\u" in data:  # half a surrogate pair passes the parser, and breaks code that encodes the text
        _json_text(tree).encode()
    return tree


def _from_msgpack(data: bytes) -> Any:
    check_claims(data)
    if len(data) <= BODY_CONTAINERS or openings(data) <= BODY_CONTAINERS:
        return _unpackb(data, object_hook=_text_keys)
    left = BODY_CONTAINERS

    def count(container: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(_TOO_MANY)
        return container

    return _unpackb(data, object_hook=lambda found: count(_text_keys(found)), list_hook=count)


def check_claims(data: bytes) -> None:
    """Raise msgpack's error if lists or maps claim more elements than the data have.

    The decoder takes memory for a claim before it reads the elements, and claims may be nested. One pass without making
    objects finds false claims; short data need no pass.
    """
    if len(data) > _SHORT_BYTES:
        unpacker = msgpack.Unpacker(max_buffer_size=len(data))
        unpacker.feed(data)
        unpacker.skip()


_SHORT_BYTES = 4096  # counting signs in a longer body, perhaps of images, takes longer than looking at its containers


def openings(data: bytes) -> int:
    """Return an upper bound of the maps and lists in a body, without decoding."""
    return len(data) - len(data.translate(None, _JSON_OPENINGS if data[:1] == b"{" else _MSGPACK_OPENINGS))


def _excess(tree: Any) -> str:
    """Return the bound of maps and lists that a tree breaks; empty if none."""
    level = [tree]
    count = 0
    for _ in range(BODY_DEPTH):
        count += len(level)
        if count > BODY_CONTAINERS:
            return _TOO_MANY
        below = []
        for node in level:
            children = node
            if isinstance(node, dict):
                if len(node) > BODY_KEYS:
                    return _TOO_WIDE
                children = node.values()
            if not _CONTAINERS.isdisjoint(map(type, children)):  # a row of plain numbers has none
                for child in children:
                    if type(child) in _CONTAINERS:
                        below.append(child)
        if not below:
            return ""
        level = below
    return _TOO_DEEP


_CONTAINERS = frozenset({dict, list, tuple})


def _text_keys(value: dict[Any, Any]) -> dict[str, Any]:
    for key in value:
        if type(key) is not str:
            raise ValueError(f"expected keys that are text, found {type(key).__name__}")
    return value


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension types do not travel, found type {code}")


_unpackb = partial(msgpack.unpackb, ext_hook=_refuse_extension, max_ext_len=0, max_map_len=BODY_KEYS)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _json_text(tree: Any) -> str:
    return json.dumps(tree, default=_json_bytes, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _json_bytes(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError(f"a {type(value).__name__} cannot travel")


def _json_object(value: dict[str, Any]) -> Any:
    if len(value) == 1 and "$bytes" in value:
        try:
            return base64.b64decode(value["$bytes"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"$bytes: expected base64: {error}") from error
    return value


# -- checks, built once per declaration -----------------------------------------------------------------------------
def _fault(path: str, expected: str, value: Any) -> RemoteProtocolError:
    found = value if isinstance(value, bool | int | float) or value is None else type(value).__name__
    return RemoteProtocolError(f"{path}: expected {expected}, found {str(found)[:60]}")


def _check_int(value: Any, path: str) -> Any:
    if type(value) is int:
        if -INTEGER_MAX <= value <= INTEGER_MAX:
            return value
        raise _fault(path, "an integer of at most 53 bits", value)
    if type(value) is float and value.is_integer() and abs(value) <= INTEGER_MAX:
        return int(value)  # some languages have only floats
    raise _fault(path, "an integer", value)


def _check_float(value: Any, path: str) -> Any:
    if type(value) is float:
        return value
    if type(value) is int and abs(value) <= INTEGER_MAX:
        return float(value)
    raise _fault(path, "a number", value)


def _exactly(kind: type, word: str) -> Check:
    def check(value: Any, path: str) -> Any:
        if type(value) is kind:
            return value
        raise _fault(path, word, value)

    return check


def _check_any(value: Any, path: str) -> Any:
    return value


_INTEGERS = frozenset({int})


def _list_of(inner: Check) -> Check:
    if inner is _check_any:
        return _exactly(list, "a list")
    usual = _INTEGERS if inner is _check_int else frozenset()

    def check(value: Any, path: str) -> Any:
        if type(value) is not list:
            raise _fault(path, "a list", value)
        if usual.issuperset(map(type, value)) and max(map(abs, value), default=0) <= INTEGER_MAX:
            return value
        try:
            return [inner(element, path) for element in value]
        except RemoteProtocolError:  # a second pass for the path, which only a fault needs
            return [inner(element, f"{path}[{i}]") for i, element in enumerate(value)]

    return check


def _map_of(inner: Check) -> Check:
    def check(value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise _fault(path, "a map", value)
        for key in value:
            if type(key) is not str:
                raise _fault(path, "a map with text keys", key)
        if inner is _check_any:
            return value
        try:
            return {key: inner(element, path) for key, element in value.items()}
        except RemoteProtocolError:
            return {key: inner(element, f"{path}.{key}") for key, element in value.items()}

    return check


_PLAIN: dict[Any, Check] = {
    int: _check_int,
    float: _check_float,
    str: _exactly(str, "text"),
    bytes: _exactly(bytes, "bytes"),
    bool: _exactly(bool, "true or false"),
}


def _judged(annotation: Any) -> tuple[frozenset[type] | None, Check, bool]:
    """Return the types that need no check (None: all), the check of other values, and whether messages are nested."""
    if annotation is Any:
        return None, _check_any, False
    if annotation in _PLAIN:
        return frozenset({annotation}), _PLAIN[annotation], False
    if dataclasses.is_dataclass(annotation):
        return frozenset(), codec_of(typing.cast(type[Any], annotation)).from_map, True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, dict):
        _, inner, nests = _judged(arguments[-1])
        usual = frozenset({origin} if arguments[-1] is Any else ())
        return usual, _list_of(inner) if origin is list else _map_of(inner), nests
    if arguments[1:] != (types.NoneType,):
        raise LocalProtocolError(f"a field of type {annotation} cannot be declared")
    found, check, nests = _judged(arguments[0])
    return (found or frozenset()) | {types.NoneType}, check, nests


class Codec(typing.Generic[M]):
    """Encode and decode the messages of one class, by its declaration.

    A field that has its default is not sent, a missing field gets its default, an unknown field is skipped.
    """

    def __init__(self, kind: type[M]) -> None:
        self.kind = kind
        fields, hints = dataclasses.fields(typing.cast(Any, kind)), typing.get_type_hints(kind)
        self.names = tuple(f.name for f in fields)
        self.decode: Callable[[bytes], M] = partial(self.from_map, None, "")
        """Return the message in a body."""
        self._required = frozenset(f.name for f in fields if f.default is MISSING)
        judged = {f.name: _judged(hints[f.name]) for f in fields}
        self._checks = {name: (usual, check) for name, (usual, check, _) in judged.items()}
        self._nested = frozenset(name for name, (_, _, nests) in judged.items() if nests)
        self._pairs = tuple((f.name, f.default) for f in fields)
        self._word = kind.__name__.lower()
        self._values: Callable[[Any], Any]
        if len(self.names) > 1:
            self._values = attrgetter(*self.names)
        else:
            self._values = lambda message: tuple(getattr(message, name) for name in self.names)

    def to_map(self, message: M) -> dict[str, Any]:
        """Return the message as a map without fields that have their default."""
        tree = {}
        for (name, default), value in zip(self._pairs, self._values(message), strict=True):
            if value is not default:
                tree[name] = _plain(value) if name in self._nested else value
        return tree

    def encode(self, message: M, content: Content = Content.MSGPACK) -> bytes:
        """Return the message as a body; empty if every field has its default."""
        if content is not Content.MSGPACK:
            return encode_map(self.to_map(message), content)
        tree = {}
        for (name, default), value in zip(self._pairs, self._values(message), strict=True):
            if value is not default:
                tree[name] = _plain(value) if name in self._nested else value
        if not tree:
            return b""
        try:
            data = _pack(tree)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return encode_map(tree)  # raises with the reason
        if len(data) > _SHORT_BYTES or len(data) - len(data.translate(None, _MSGPACK_OPENINGS)) > BODY_DEPTH:
            _check_sent(tree, data)
        return data

    def from_map(self, tree: Any, path: str = "", data: bytes | None = None) -> M:
        """Return the message in a map, or in `data`; RemoteProtocolError names a wrong field."""
        short = nested = False
        if data is not None:  # the usual body is decoded by one call of msgpack
            if 0 < len(data) <= _SHORT_BYTES and data[:1] != b"{":
                short = True
                try:
                    tree = _unpackb(data)
                except (ValueError, msgpack.UnpackException, RecursionError):
                    tree = None
            if type(tree) is not dict:
                tree = decode_map(data)  # large, JSON, empty, or wrong
            elif len(data) - len(data.translate(None, _MSGPACK_OPENINGS)) > BODY_DEPTH:
                _check_bounds(tree, RemoteProtocolError)
        elif type(tree) is not dict:
            raise _fault(path or self._word, "a map", tree)
        message = _new(self.kind)
        checks = self._checks
        for name, value in tree.items():
            if name in checks:
                usual, check = checks[name]
                found = type(value)
                if found is dict or (found is list and not _ATOMS.issuperset(map(type, value))):
                    nested = True  # else no map, as a list of blocks
                if usual is not None and (found not in usual or (found is int and not -_MOST <= value <= _MOST)):
                    value = check(value, f"{path or self._word}.{name}")
                setattr(message, name, value)
            else:
                nested = True
        # Without one of these signs of msgpack there are no bytes in a body, so that no key can be bytes.
        if short and nested and data is not None and (b"\xc4" in data or b"\xc5" in data or b"\xc6" in data):
            decode_map(data)  # this refuses such a key
        if not self._required <= tree.keys():
            missing = next(name for name in self.names if name in self._required and name not in tree)
            raise RemoteProtocolError(f"{path or self._word}.{missing}: expected a value, found nothing")
        return message


_ATOMS = frozenset({types.NoneType, bool, int, float, str, bytes})
_new, _pack, _MOST = object.__new__, msgpack.Packer().pack, INTEGER_MAX


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return codec_of(type(value)).to_map(value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return value


class _Codecs(dict[type[Any], Codec[Any]]):
    def __missing__(self, kind: type[Any]) -> Codec[Any]:
        codec = self[kind] = Codec(kind)
        return codec


CODECS = _Codecs()
"""The codec of each message class, built at its first use."""


def codec_of(kind: type[M]) -> Codec[M]:
    """Return the codec of a message class."""
    return CODECS[kind]
