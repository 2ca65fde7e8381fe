"""Portraits: plain values of an author's object as bytes, and back again exactly; nothing is pickled.

A portrait is a tree in msgpack: numbers, text and bytes as they are, all else as a list that begins with a letter.
Large arrays and bytes are parts of their own behind the tree, and are not copied: a memory may be most of a machine's,
and packing it in one piece would keep all other threads of the process from running. What can change is numbered in the
order in which it is met: what is met again is named by its number, so that two names of one list stay two names of one
list. Objects of the host (its memory, its generators) are named, and not portrayed; objects of authors are portrayed in
their place, and put back into those that were made in the same way; one that was made later comes back if there is
another one of its class.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MethodType
from typing import Any, TypeAlias

import msgpack
import numpy as np
from numpy.random import Generator, RandomState, SeedSequence
from numpy.typing import NDArray

from ganglion.errors import AuthorError, RemoteProtocolError, SpaceError
from ganglion.peer.sitter import attributes_of, put_attributes, way_of
from ganglion.sdk.flow import Mode, Signal
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.simtime import SimTime
from ganglion.sdk.spaces import Space, space_from_wire

Portrait: TypeAlias = Sequence[bytes | memoryview]
"""The tree, and the large parts that it names by their numbers; these show the author's own arrays until written."""

_LARGE_BYTES = 64 * 1024  # of an array, or bytes, that is a part of its own
_DEPTH_MAX = 120  # lists within lists take two levels of msgpack's 511 at most
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1  # of msgpack
_KINDS = "biufcMmSU"  # of arrays: their bytes are all that there is of them
_BITS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_FACTORIES: dict[str, Any] = {
    "": None, "int": int, "float": float, "bool": bool, "str": str, "list": list, "dict": dict, "set": set
}  # fmt: skip
_ENUMS: dict[str, Any] = {"Mode": Mode, "Signal": Signal}
_INFORMATION: dict[str, type[Information]] = {
    "actuator": ActuatorInformation,
    "reward": RewardInformation,
    "sensor": SensorInformation,
}
Array = NDArray[Any]


class NoPortrait(ValueError):
    """Say what cannot be portrayed, and where it is."""


def portray(
    value: Any,
    known: Mapping[str, Any],
    sitters: Mapping[str, Any] | None = None,
    passing: Collection[str] = (),
) -> Portrait:
    """Return the portrait of a value.

    Args:
        value: What is portrayed.
        known: Objects by name that are there when it is restored, and are only named.
        sitters: Likewise, with what they are: as they say by `save_state`, or all their attributes.
        passing: Paths of attributes that are left out.

    Raises:
        NoPortrait: Something in it is neither plain nor known, or could come back as something else.
    """
    painter = _Painter(known, sitters or {}, passing)
    try:
        return [msgpack.packb(painter.of(value, 0)), *painter.large]
    except NoPortrait:
        raise
    except (ValueError, OverflowError) as error:
        raise NoPortrait(f"{painter.where}: {error}") from error


def restored(portrait: Portrait, known: Mapping[str, Any]) -> Any:
    """Return the value of a portrait; `known` are the objects of now that were known, or sat: these are as then.

    Raises:
        AuthorError: `load_state` of one of them fails.
        RemoteProtocolError: It is no portrait.
    """
    try:
        tree = msgpack.unpackb(portrait[0], strict_map_key=False)
        return _Reader(known, portrait[1:]).of(tree)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, SpaceError) as error:
        raise RemoteProtocolError(f"expected a portrait: {type(error).__name__}: {error}") from error


class _Painter:
    """Turn values into a tree."""

    def __init__(
        self, known: Mapping[str, Any], sitters: Mapping[str, Any], passing: Collection[str]
    ) -> None:
        self._sitters = {id(one): name for name, one in sitters.items()}
        self._classes = {type(one): name for name, one in reversed(list(sitters.items()))}
        self._known = {id(one): name for name, one in known.items()}
        self._passing = passing
        self._numbers: dict[int, int] = {}
        self._met: list[Any] = []  # so that no number of an object is given to another one
        self._roots: dict[
            int, tuple[int, bool]
        ] = {}  # of arrays: who shows this memory, and whether it may write
        self._path: list[str] = []
        self.large: list[bytes | memoryview] = []

    @property
    def where(self) -> str:
        """Return the path to what is being portrayed."""
        return "".join(self._path).lstrip(".") or "it"

    def of(self, value: Any, depth: int) -> Any:
        """Return a value as a tree."""
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is bytes:
            return value if len(value) <= _LARGE_BYTES else self._large(value)
        if kind is int:
            return value if _INT_MIN <= value <= _INT_MAX else ["i", str(value)]
        if kind is str:
            return (
                value
                if value.isprintable() or _encodes(value)
                else ["u", value.encode("utf-8", "surrogatepass")]
            )
        name = self._known.get(id(value))
        if name is not None:
            return ["h", name]
        number = self._numbers.get(id(value))
        if number is not None:
            return ["r", number]
        if depth >= _DEPTH_MAX:
            raise NoPortrait(f"{self.where}: expected at most {_DEPTH_MAX} levels, found more")
        name = self._sitters.get(id(value))
        if name is not None:
            self._known[id(value)] = name
            return self._sitter(name, value, depth + 1)
        name = self._classes.get(kind)
        if name is not None:
            return self._sibling(name, value, depth + 1)
        paint = _PAINTERS.get(kind)
        if paint is not None:
            return paint(self, value, depth + 1)
        if isinstance(value, np.generic):
            return self._scalar(value)
        if isinstance(value, Space):
            self._meet(value)
            return ["S", value.to_wire(), self.part("._rng", value._rng, depth + 1)]  # noqa: SLF001 - its own stream
        raise self._strange(value)

    def part(self, step: str, value: Any, depth: int) -> Any:
        """Return what lies one step deeper."""
        self._path.append(step)
        found = self.of(value, depth)
        self._path.pop()
        return found

    def _sitter(self, name: str, value: Any, depth: int) -> Any:
        way = way_of(value)
        if way is not None:
            try:
                saved = dict(way[0]())
            except Exception as error:  # it is no fault of a run that a state is not to be had
                raise NoPortrait(f"{self.where}: save_state: {type(error).__name__}: {error}") from error
            return ["v", name, self.part("", saved, depth)]
        own = attributes_of(value)
        if own is None:
            raise self._strange(value)
        return [
            "o",
            name,
            self.part("", {n: v for n, v in own.items() if f"{name}.{n}" not in self._passing}, depth),
        ]

    def _sibling(self, name: str, value: Any, depth: int) -> Any:
        """Paint an object that a successor has not, but has another one of its class."""
        self._meet(value)
        own = attributes_of(value)
        if own is None or way_of(value) is not None:
            raise self._strange(value)
        return ["N", name, self.part("", own, depth)]

    def _meet(self, value: Any) -> None:
        self._numbers[id(value)] = len(self._met)
        self._met.append(value)

    def _strange(self, value: Any) -> NoPortrait:
        kind = type(value)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        return NoPortrait(f"{self.where}: a {name} cannot be portrayed")

    # -- collections --------------------------------------------------------------------------------------------------
    def _items(self, values: Any, depth: int) -> list[Any]:
        return [self.part(f"[{i}]", value, depth) for i, value in enumerate(values)]

    def paint_list(self, value: list[Any], depth: int) -> Any:
        self._meet(value)
        return ["l", *self._items(value, depth)]

    def paint_tuple(self, value: tuple[Any, ...], depth: int) -> Any:
        return ["t", *self._items(value, depth)]

    def paint_deque(self, value: deque[Any], depth: int) -> Any:
        self._meet(value)
        return ["q", value.maxlen, *self._items(value, depth)]

    def paint_dict(self, value: dict[Any, Any], depth: int) -> Any:
        self._meet(value)
        flat: list[Any] = []
        for key, inner in value.items():
            if not _is_key(key):
                raise NoPortrait(f"{self.where}: a {type(key).__name__} as key of a map cannot be portrayed")
            step = f".{key}" if type(key) is str else f"[{key!r}]"
            flat += [self.part(f"{step} (key)", key, depth), self.part(step, inner, depth)]
        kind = type(value).__name__
        if type(value) is defaultdict:
            factory = next((name for name, made in _FACTORIES.items() if made is value.default_factory), None)
            if factory is None:
                raise NoPortrait(
                    f"{self.where}: a defaultdict of {value.default_factory!r:.60} cannot be portrayed"
                )
            kind = f"defaultdict {factory}"
        return ["d", kind, *flat]

    def paint_set(self, value: set[Any], depth: int) -> Any:
        self._meet(value)
        return ["s", *self._elements(value, set, depth)]

    def paint_frozenset(self, value: frozenset[Any], depth: int) -> Any:
        return ["f", *self._elements(value, frozenset, depth)]

    def _elements(self, value: Any, kind: Callable[[Any], Any], depth: int) -> list[Any]:
        elements = list(value)
        if not all(map(_is_key, elements)):
            raise NoPortrait(f"{self.where}: a set of other than plain values cannot be portrayed")
        again = list(kind(elements))
        if any(one is not other for one, other in zip(elements, again, strict=True)):
            raise NoPortrait(
                f"{self.where}: a set whose order another one would not have cannot be portrayed"
            )
        return self._items(elements, depth)

    def paint_bytearray(self, value: bytearray, depth: int) -> Any:
        self._meet(value)
        return ["b", bytes(value)]

    # -- numbers ------------------------------------------------------------------------------------------------------
    def paint_complex(self, value: complex, depth: int) -> Any:
        return ["c", value.real, value.imag]

    def _scalar(self, value: np.generic) -> Any:
        if value.dtype.kind not in _KINDS:
            raise self._strange(value)
        return ["n", value.dtype.str, value.tobytes()]

    def paint_array(self, value: Array, depth: int) -> Any:
        if value.dtype.kind not in _KINDS:
            raise NoPortrait(f"{self.where}: an array of dtype {value.dtype} cannot be portrayed")
        order = "C" if value.flags.c_contiguous else "F"
        if not value.flags.forc:
            raise NoPortrait(f"{self.where}: an array that shows parts of another one cannot be portrayed")
        self._meet(value)
        root, writes = id(_root(value)), value.flags.writeable
        shown = self._roots.setdefault(root, (id(value), writes))
        if shown[0] != id(value) and (writes or shown[1]):
            raise NoPortrait(
                f"{self.where}: an array that shares memory with another one cannot be portrayed"
            )
        data: Any = value if order == "C" else value.T
        if value.nbytes > _LARGE_BYTES:
            data = self._large(data.reshape(-1).view(np.uint8).data)
        else:
            data = data.tobytes()
        return ["a", value.dtype.str, list(value.shape), order, writes, data]

    def _large(self, data: bytes | memoryview) -> Any:
        self.large.append(data)
        return ["L", len(self.large) - 1]

    # -- chance -------------------------------------------------------------------------------------------------------
    def paint_generator(self, value: Generator, depth: int) -> Any:
        self._meet(value)
        return ["g", *self._bits(value.bit_generator, depth)]

    def paint_random_state(self, value: RandomState, depth: int) -> Any:
        self._meet(value)
        state = self.part(".state", value.get_state(legacy=False), depth)
        return ["R", state]

    def paint_random(self, value: random.Random, depth: int) -> Any:
        self._meet(value)
        return ["P", self.part(".state", value.getstate(), depth)]

    def _bits(self, bits: Any, depth: int) -> list[Any]:
        if id(bits) in self._numbers:
            raise NoPortrait(f"{self.where}: two generators of one stream cannot be portrayed")
        self._meet(bits)
        name = type(bits).__name__
        if name not in _BITS or type(bits) is not getattr(np.random, name):
            raise self._strange(bits)
        sequence = bits.seed_seq  # what `spawn` is drawn from
        if type(sequence) is not SeedSequence:
            raise self._strange(sequence)
        return [
            name,
            self.part(".seed_seq", sequence.state, depth),
            self.part(".state", bits.state, depth),
        ]

    # -- our own ------------------------------------------------------------------------------------------------------
    def paint_enum(self, value: Any, depth: int) -> Any:
        return ["e", type(value).__name__, value.name]

    def paint_simtime(self, value: SimTime, depth: int) -> Any:
        timestamp = value.simtime_timestamp
        if timestamp is not None and timestamp.tzinfo is not None:
            raise NoPortrait(f"{self.where}: a time with a time zone cannot be portrayed")
        return ["T", value.simtime_ticks, None if timestamp is None else timestamp.isoformat()]

    def paint_information(self, value: Information, depth: int) -> Any:
        self._meet(value)
        kind = next(name for name, cls in _INFORMATION.items() if cls is type(value))
        parts = [
            self.part(f".{name}", getattr(value, name), depth)
            for name in ("value", "space", "uid", "value_ids", "body")
        ]
        return ["I", kind, *parts]

    def paint_method(self, value: MethodType, depth: int) -> Any:
        owner, name = value.__self__, value.__name__
        known = self._known.get(id(owner))
        if known is None or getattr(getattr(type(owner), name, None), "__wrapped__", None) is not None:
            raise self._strange(value)
        if getattr(type(owner), name, None) is not value.__func__:
            raise self._strange(value)
        return ["m", known, name]


class _Reader:
    """Turn a tree into values again."""

    def __init__(self, known: Mapping[str, Any], large: Portrait) -> None:
        self._known = known
        self._large = large
        self._met: list[Any] = []

    def of(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if type(tree) is not list:
            return tree
        return _READERS[tree[0]](self, *tree[1:])

    def read_large(self, number: int) -> Any:
        return bytes(self._large[number])

    def read_sitter(self, name: str, state: Any) -> Any:
        one = self._known[name]
        put_attributes(one, self.of(state))
        return one

    def read_sibling(self, name: str, state: Any) -> Any:
        cls: Any = type(self._known[name])
        one = self._meet(cls.__new__(cls))
        put_attributes(one, self.of(state))
        return one

    def read_saved(self, name: str, state: Any) -> Any:
        one = self._known[name]
        way = way_of(one)
        saved = self.of(state)
        try:
            if way is not None:
                way[1](saved)
        except Exception as error:
            raise AuthorError(f"{name}: load_state: {type(error).__name__}: {error}") from error
        return one

    def _meet(self, value: Any) -> Any:
        self._met.append(value)
        return value

    def read_host(self, name: str) -> Any:
        return self._known[name]

    def read_again(self, number: int) -> Any:
        return self._met[number]

    def read_list(self, *items: Any) -> Any:
        found: list[Any] = self._meet([])
        found += [self.of(item) for item in items]
        return found

    def read_tuple(self, *items: Any) -> Any:
        return tuple([self.of(item) for item in items])

    def read_deque(self, maxlen: int | None, *items: Any) -> Any:
        found: deque[Any] = self._meet(deque(maxlen=maxlen))
        found.extend([self.of(item) for item in items])
        return found

    def read_dict(self, kind: str, *flat: Any) -> Any:
        found = self._meet(_empty(kind))
        for i in range(0, len(flat), 2):
            key = self.of(flat[i])
            found[key] = self.of(flat[i + 1])
        return found

    def read_set(self, *items: Any) -> Any:
        found: set[Any] = self._meet(set())
        found.update([self.of(item) for item in items])
        return found

    def read_frozenset(self, *items: Any) -> Any:
        return frozenset([self.of(item) for item in items])

    def read_bytearray(self, data: bytes) -> Any:
        return self._meet(bytearray(data))

    def read_text(self, data: bytes) -> Any:
        return data.decode("utf-8", "surrogatepass")

    def read_integer(self, digits: str) -> Any:
        return int(digits)

    def read_complex(self, real: float, imaginary: float) -> Any:
        return complex(real, imaginary)

    def read_scalar(self, dtype: str, data: bytes) -> Any:
        return np.frombuffer(data, dtype=_dtype(dtype))[0]

    def read_array(self, dtype: str, shape: list[int], order: Any, writes: bool, data: Any) -> Any:
        found = np.empty(tuple(shape), dtype=_dtype(dtype), order=order)
        flat = np.frombuffer(self.of(data), dtype=found.dtype)
        found[...] = flat.reshape(tuple(shape), order=order)
        found.flags.writeable = writes
        return self._meet(found)

    def read_generator(self, name: str, seed: Any, state: Any) -> Any:
        place = len(self._met)
        self._met += [None, None]  # itself and its stream, which are met before what they consist of
        bits = _bit_generator(name)(SeedSequence(**self.of(seed)))
        bits.state = self.of(state)
        found = Generator(bits)
        self._met[place : place + 2] = [found, bits]
        return found

    def read_random_state(self, state: Any) -> Any:
        found = self._meet(RandomState(0))
        found.set_state(self.of(state))
        return found

    def read_random(self, state: Any) -> Any:
        found: random.Random = self._meet(random.Random(0))
        found.setstate(self.of(state))
        return found

    def read_space(self, form: Any, rng: Any) -> Any:
        found = self._meet(space_from_wire(form))
        stream = self.of(rng)
        if stream is not None:
            found.seed(stream)
        return found

    def read_enum(self, kind: str, name: str) -> Any:
        return _ENUMS[kind][name]

    def read_simtime(self, ticks: Any, timestamp: Any) -> Any:
        return SimTime(ticks, None if timestamp is None else dt.datetime.fromisoformat(timestamp))

    def read_information(self, kind: str, *parts: Any) -> Any:
        cls = _INFORMATION[kind]
        found = self._meet(cls.__new__(cls))
        names = ("_value", "space", "uid", "value_ids", "body")
        for name, part in zip(names, parts, strict=True):
            setattr(found, name, self.of(part))
        return found

    def read_method(self, owner: str, name: str) -> Any:
        return getattr(self._known[owner], name)


_PAINTERS: dict[type[Any], Callable[[_Painter, Any, int], Any]] = {
    list: _Painter.paint_list,
    tuple: _Painter.paint_tuple,
    dict: _Painter.paint_dict,
    OrderedDict: _Painter.paint_dict,
    defaultdict: _Painter.paint_dict,
    Counter: _Painter.paint_dict,
    set: _Painter.paint_set,
    frozenset: _Painter.paint_frozenset,
    deque: _Painter.paint_deque,
    bytearray: _Painter.paint_bytearray,
    complex: _Painter.paint_complex,
    np.ndarray: _Painter.paint_array,
    Generator: _Painter.paint_generator,
    RandomState: _Painter.paint_random_state,
    random.Random: _Painter.paint_random,
    Mode: _Painter.paint_enum,
    Signal: _Painter.paint_enum,
    SimTime: _Painter.paint_simtime,
    MethodType: _Painter.paint_method,
    **dict.fromkeys(_INFORMATION.values(), _Painter.paint_information),
}
_READERS: dict[str, Callable[..., Any]] = {
    "h": _Reader.read_host,
    "o": _Reader.read_sitter,
    "v": _Reader.read_saved,
    "N": _Reader.read_sibling,
    "r": _Reader.read_again,
    "l": _Reader.read_list,
    "t": _Reader.read_tuple,
    "q": _Reader.read_deque,
    "d": _Reader.read_dict,
    "s": _Reader.read_set,
    "f": _Reader.read_frozenset,
    "b": _Reader.read_bytearray,
    "u": _Reader.read_text,
    "i": _Reader.read_integer,
    "c": _Reader.read_complex,
    "n": _Reader.read_scalar,
    "a": _Reader.read_array,
    "L": _Reader.read_large,
    "g": _Reader.read_generator,
    "R": _Reader.read_random_state,
    "P": _Reader.read_random,
    "S": _Reader.read_space,
    "e": _Reader.read_enum,
    "T": _Reader.read_simtime,
    "I": _Reader.read_information,
    "m": _Reader.read_method,
}


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_key(key: Any) -> bool:
    """Say whether a value is plain and never changes."""
    kind = type(key)
    if kind is tuple or kind is frozenset:
        return all(map(_is_key, key))
    return key is None or kind in (bool, int, float, str, bytes) or isinstance(key, np.generic)


def _root(array: Array) -> Any:
    """Return what holds the memory that an array shows."""
    root: Any = array
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    return root


def _empty(kind: str) -> Any:
    word, _, factory = kind.partition(" ")
    if word == "defaultdict":
        return defaultdict(_FACTORIES[factory])
    return {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}[word]()


def _dtype(text: str) -> np.dtype[Any]:
    if type(text) is not str or text[1:2] not in _KINDS:
        raise ValueError(f"expected a dtype, found {text!r:.40}")
    return np.dtype(text)


def _bit_generator(name: str) -> Any:
    if name not in _BITS:
        raise ValueError(f"expected one of {', '.join(_BITS)}, found {name!r:.40}")
    return getattr(np.random, name)
