"""Snapshots: authors' objects and generators as plain trees, restored into objects made in the same way."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import random
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from itertools import count
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Generator, Philox, SeedSequence

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.values import deserialize, serialize
from ganglion.sdk.brain import CheckpointableBrain
from ganglion.sdk.condition import TerminationCondition
from ganglion.sdk.information import Information
from ganglion.sdk.memory import Memory
from ganglion.sdk.seed import derive, generator_from_words
from ganglion.sdk.spaces import Space

State: TypeAlias = Mapping[str, Any]
"""A tree for msgpack; large arrays in it share the author's memory until the tree is written."""

_GIVEN = ("uid", "name", "worker", "mode", "seed", "rng", "params")  # set by the bus on all objects
_LARGE_BYTES = 64 * 1024  # of an array whose memory is shown
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1  # of msgpack
_KINDS = "biufcMmSU"  # of arrays whose bytes are their whole state
_BITS: dict[str, Any] = {bits.__name__: bits for bits in (PCG64, PCG64DXSM, MT19937, Philox, SFC64)}
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.ufunc)
_FIXED = (Space, np.dtype, logging.Logger, re.Pattern, PurePath, *_CODE)  # no state: the class makes them again
_ATOMS = (type(None), bool, float, str, bytes)
_PLAIN = (*_ATOMS, int)  # equal values are interchangeable
_CONTAINERS = (dict, list, tuple, set, frozenset, bytearray, str, bytes, int, float, np.ndarray)


class NotPlain(ValueError):
    """Name a value that cannot be part of a snapshot, and its path."""


# -- values -----------------------------------------------------------------------------------------------------------
class Packer:
    """Turn values into a tree for msgpack; types that msgpack lacks become lists that begin with a word.

    Objects of `given` are kept by name; functions, classes and spaces by their paths in `fixed`, if given.
    """

    def __init__(self, given: Mapping[str, Any], fixed: dict[str, Any] | None = None) -> None:
        self._fixed, self._numbers = fixed, count()
        # Name or number of each object, with the object: while it lives no other object has its id.
        self._known: dict[int, tuple[Any, Any]] = {id(one): (name, one) for name, one in given.items()}
        self._roots: dict[int, tuple[Any, bool]] = {}  # memory or stream -> owner's path, may write

    def pack(self, value: Any, at: str) -> Any:
        """Return a value as a tree; NotPlain names the path of a value that has none."""
        kind = type(value)
        if kind in _ATOMS or (kind is int and _INT_MIN <= value <= _INT_MAX):
            return value
        if id(value) in self._known:
            return ["known", self._known[id(value)][0]]
        if kind is tuple:
            return ["tuple", *(self.pack(one, f"{at}[{i}]") for i, one in enumerate(value))]
        self._known[id(value)] = next(self._numbers), value
        name = f"{kind.__module__}:{kind.__qualname__}"
        if kind is list:
            return ["list", *(self.pack(one, f"{at}[{i}]") for i, one in enumerate(value))]
        if kind is dict:
            return ["dict", *self._pairs(value, at)]
        if kind is np.ndarray:
            return self._array(value, at)
        if kind is Generator:
            return self._generator(value.bit_generator, at)
        if kind is int:
            return ["int", hex(value)]
        if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
            return ["scalar", value.dtype.str, value.tobytes()]
        if kind is dt.datetime:
            return ["time", value.isoformat()]
        if isinstance(value, Enum) and _class(name) is kind:
            return ["enum", name, value.name]
        if dataclasses.is_dataclass(kind) and _class(name) is kind:
            return ["data", name, *self._pairs(attributes_of(value, at), at)]
        if self._fixed is not None and isinstance(value, _FIXED) and getattr(value, "__closure__", None) is None:
            self._fixed[at] = value
            return None
        raise NotPlain(f"{at}: a {kind.__qualname__} is no plain value")

    def _pairs(self, value: Mapping[Any, Any], at: str) -> list[Any]:
        steps = [(key, it, f"{at}.{key}" if type(key) is str else f"{at}[{key!r:.80}]") for key, it in value.items()]
        return [self.pack(part, step) for key, it, step in steps for part in (key, it)]

    def _array(self, value: np.ndarray[Any, Any], at: str) -> Any:
        if value.dtype.kind not in _KINDS or not value.flags.forc:
            raise NotPlain(f"{at}: an array of dtype {value.dtype}, or a view of a part of another array")
        root: Any = value
        while isinstance(root, np.ndarray) and root.base is not None:
            root = root.base
        writes = value.flags.writeable
        shown, wrote = self._roots.setdefault(id(root), (value, writes))
        if shown is not value and (writes or wrote):
            raise NotPlain(f"{at}: an array that shares its memory with another array")
        order: Any = "C" if value.flags.c_contiguous else "F"
        flat = value.reshape(-1, order=order)
        data = flat.view(np.uint8).data if value.nbytes > _LARGE_BYTES else flat.tobytes()
        return ["array", value.dtype.str, order, writes, data, *value.shape]

    def _generator(self, bits: Any, at: str) -> Any:
        name = type(bits).__name__
        if _BITS.get(name) is not type(bits) or type(bits.seed_seq) is not SeedSequence:  # from which `spawn` draws
            raise NotPlain(f"{at}: a generator of {name}")
        if id(bits) in self._roots:
            raise NotPlain(f"{at}: a generator that shares its stream with another generator")
        self._roots[id(bits)] = bits, True
        return ["generator", name, self.pack(bits.seed_seq.state, at), self.pack(bits.state, at)]


class Reader:
    """Turn a tree back into values; `given` has this process's objects by name."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._known, self._numbers = dict[Any, Any](given), count()

    def read(self, tree: Any) -> Any:
        """Return the value of a tree; an invalid tree raises ValueError or another built-in error."""
        if type(tree) is not list:
            return tree
        word, *parts = tree
        if word == "known":
            return self._known[parts[0]]
        if word == "tuple":
            return tuple(map(self.read, parts))
        number = next(self._numbers)
        if word in _MAKE:
            found = self._known[number] = _MAKE[word](*map(self.read, parts))
            return found
        found = self._known[number] = _EMPTY[word](parts)  # its own parts may refer to it
        if word == "list":
            found.extend(map(self.read, parts))
        else:
            items = {self.read(key): self.read(it) for key, it in zip(parts[::2], parts[1::2], strict=True)}
            found.update(items) if word == "dict" else put_attributes(found, items)
        return found


def _read_array(dtype: Any, order: Any, writes: bool, data: Any, *shape: int) -> np.ndarray[Any, Any]:
    if dtype[1:2] not in _KINDS:
        raise ValueError(f"expected a dtype, found {dtype!r:.40}")
    array = np.frombuffer(data, np.dtype(dtype)).reshape(shape, order=order)
    return array.copy(order) if writes else array


def _read_generator(bits: str, sequence: Mapping[str, Any], state: Any) -> Generator:
    found = Generator(_BITS[bits](SeedSequence(**sequence)))
    found.bit_generator.state = state
    return found


_EMPTY: dict[str, Callable[[list[Any]], Any]] = {  # word -> an empty object; the head is removed from the parts
    "list": lambda parts: [],
    "dict": lambda parts: {},
    "data": lambda parts: object.__new__(_class(parts.pop(0))),
}
_MAKE: dict[str, Callable[..., Any]] = {
    "array": _read_array,
    "generator": _read_generator,
    "int": lambda text: int(text, 16),
    "scalar": lambda dtype, data: _read_array(dtype, "C", False, data)[()],
    "enum": lambda name, member: _class(name)[member],
    "time": dt.datetime.fromisoformat,
}


def _class(name: str) -> Any:
    """Return a dataclass or an enumeration of an imported module; None if there is none."""
    module, _, path = name.partition(":")
    found: Any = reduce(lambda one, word: getattr(one, word, None), path.split("."), sys.modules.get(module))
    return found if isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, Enum)) else None


# -- objects ----------------------------------------------------------------------------------------------------------
def own_state(one: Any) -> tuple[Any, Any] | None:
    """Return the methods by which an object saves and loads its own state; None without them."""
    if isinstance(one, TerminationCondition):
        said = type(one).state is not TerminationCondition.state
        return (one.state, one.restore) if said else None
    pair = getattr(one, "save_state", None), getattr(one, "load_state", None)
    return pair if all(map(callable, pair)) else None


def attributes_of(one: Any, at: str = "") -> dict[str, Any]:
    """Return all attributes of an object, slots included; NotPlain if the object has other state."""
    if isinstance(one, _CONTAINERS):
        raise NotPlain(f"{at}: a {type(one).__qualname__} is more than its attributes")
    slots = {name: getattr(one, name) for name in _slots(type(one)) if hasattr(one, name)}
    return {**getattr(one, "__dict__", {}), **slots}


def put_attributes(one: Any, state: Mapping[str, Any], left: Iterable[str] = ()) -> None:
    """Set these attributes of an object and remove others, except those in `left`."""
    for name in attributes_of(one).keys() - state.keys() - set(left):
        object.__delattr__(one, name)
    slots = _slots(type(one))
    for name, value in state.items():
        if name in slots:
            object.__setattr__(one, name, value)
        else:
            vars(one)[name] = value  # works for frozen classes and beside properties


def _slots(cls: type[Any]) -> set[str]:
    return {n for base in cls.__mro__ for n, it in vars(base).items() if isinstance(it, types.MemberDescriptorType)}


class Snapshot:
    """Take and restore objects with their generators, those of the process, their memory and their spaces.

    A process and its successor make it at the same point: when all objects are made and prepared, before they change.
    Attributes that the bus has set by then, functions, classes and spaces are kept by name.

    Args:
        parts: Name -> object, and names of attributes that the bus sets beside those of all objects.
        memory: The agent's memory.
        spaces: The agent's spaces, with their generators.
        passing: Paths (object.attribute) of attributes that the bus sets again before they are read.
        given: Other objects of the bus by name; generators among them are taken with those of the objects.
    """

    def __init__(
        self,
        parts: Mapping[str, tuple[Any, Iterable[str]]],
        memory: Memory | None = None,
        spaces: Sequence[Space] = (),
        passing: Iterable[str] = (),
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._memory, self._spaces, self._passing = memory, list(spaces), frozenset(passing)
        self._parts = {name: made for name, (made, _) in parts.items()}
        found: dict[str, Any] = {f"space {i}": space for i, space in enumerate(self._spaces)}
        found |= {f"stream {i}": _stream(space) for i, space in enumerate(self._spaces)}
        found |= {"memory": memory, **self._parts, **(given or {})}  # parts may refer to each other
        for name, (made, ours) in parts.items():
            for path, value in {f"{name}.{one}": getattr(made, one, None) for one in (*_GIVEN, *ours)}.items():
                if isinstance(value, dict):
                    found |= {f"{path}[{key!r}]": one for key, one in value.items()}
                if isinstance(value, list | tuple):
                    found |= {f"{path}[{i}]": one for i, one in enumerate(value)}
                found[path] = value
        self._given = {path: one for path, one in found.items() if not isinstance(one, _PLAIN)}
        streams = {path: one for path, one in self._given.items() if isinstance(one, Generator)}
        self._generators = Generators({p: g for p, g in streams.items() if type(g.bit_generator) is PCG64})
        self._refused: NotPlain | None = None
        fixed: dict[str, Any] = {}
        packer = Packer(self._given, fixed)
        for name, made in self._parts.items():
            try:
                if own_state(made) is None:
                    self._object(packer, name)
            except NotPlain as error:
                self._refused = self._refused or error
        self._given |= fixed

    def add(self, name: str, made: Any, ours: Iterable[str] = ()) -> None:
        """Replace the object of that name; a successor does the same."""
        for path in [path for path in self._given if path == name or path.startswith((f"{name}.", f"{name} ("))]:
            del self._given[path]
            self._generators.remove(path)
        part = Snapshot({name: (made, ours)})
        self._parts[name] = made
        for path, one in part._given.items():
            if path.startswith(name):
                self._given[path] = one
        self._generators.add(part._generators)
        self._refused = self._refused or part._refused

    def books(self, state: Any) -> Mapping[str, Any]:
        """Return the host's part of a state without reading its objects; raises like `read`."""
        try:
            found: Mapping[str, Any] = Reader(self._given).read(state["books"])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise RemoteProtocolError(f"expected a snapshot: {type(error).__name__}: {error}") from error
        return found

    def check(self) -> None:
        """Raise NotPlain for an attribute that cannot be taken; `save_state` of objects is not called."""
        if self._refused is not None:
            raise self._refused

    def take(self, books: Mapping[str, Any], attributes: bool = True) -> State:
        """Return the state of all objects and the host's `books` (plain values), for `read`.

        With `attributes` False only objects with `save_state` can be taken.

        Raises:
            NotPlain: A value cannot be taken.
            AuthorError: A row of the memory cannot be taken.
        """
        memory, packer = self._memory, Packer(self._given)
        tree = {
            "books": dict(books),
            "memory": None if memory is None else [memory.size_limit, memory.rng, memory.export()],
            "generators": self._generators.save(),
            "streams": [_stream(space) for space in self._spaces],
        }
        try:
            packed = {name: packer.pack(value, name) for name, value in tree.items()}
            return packed | {"objects": {name: self._object(packer, name, attributes) for name in self._parts}}
        except RecursionError as error:
            raise NotPlain(f"{next(iter(self._parts), '')}: {error}") from error

    def _object(self, packer: Packer, name: str, attributes: bool = True) -> list[Any]:
        """Return whether an object saved its own state, and the state."""
        made, whose, left = self._parts[name], self._whose(name), self._left(name)
        pair = own_state(made)
        if pair is None:
            if not attributes:
                raise NotPlain(f"{whose}: this run has begun a phase again before")
            own = {one: it for one, it in attributes_of(made, whose).items() if one not in left}
            return [False, packer.pack(own, whose)]
        try:
            saved = dict(pair[0]())
        except Exception as error:  # a missing state does not fail a run
            raise NotPlain(f"{whose}: save_state: {type(error).__name__}: {error}") from error
        return [True, packer.pack(saved, f"{whose}: save_state")]

    def _left(self, name: str) -> set[str]:
        return {path.removeprefix(f"{name}.") for path in self._passing if path.startswith(f"{name}.")}

    def _whose(self, name: str) -> str:
        return f"{name} ({type(self._parts[name]).__qualname__})"

    def read(self, state: Any) -> Mapping[str, Any]:
        """Return what `take` returned, decoded: the host's part under `books`; the rest is for `put`.

        Raises:
            RemoteProtocolError: The state is no snapshot of these objects.
        """
        try:
            reader = Reader(self._given)
            tree = {name: reader.read(state[name]) for name in ("books", "memory", "generators", "streams")}
            if state["objects"].keys() != self._parts.keys():
                raise ValueError(f"expected the objects {sorted(self._parts)}, found {sorted(state['objects'])}")
            tree["objects"] = {name: [own, reader.read(it)] for name, (own, it) in state["objects"].items()}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise RemoteProtocolError(f"expected a snapshot: {type(error).__name__}: {error}") from error
        return tree

    def put(self, tree: Mapping[str, Any]) -> None:
        """Restore what `read` returned.

        Raises:
            AuthorError: `load_state` of an object fails.
            RemoteProtocolError: The state is no snapshot of these objects.
        """
        if self._memory is not None:
            self._memory.size_limit, self._memory.rng, rows = tree["memory"]
            self._memory.restore(rows)
        self._generators.restore(tree["generators"])
        for space, stream in zip(self._spaces, tree["streams"], strict=True):
            if stream is not None and stream is not _stream(space):
                space.seed(stream)
        for name, (own, state) in tree["objects"].items():
            made, whose = self._parts[name], self._whose(name)
            pair = own_state(made)
            if not own:
                put_attributes(made, state, self._left(name))
                continue
            if pair is None:
                raise RemoteProtocolError(f"expected attributes of {whose}, found a saved state")
            try:
                pair[1](state)
            except Exception as error:
                raise AuthorError(f"{whose}: load_state: {type(error).__name__}: {error}") from error


def _stream(space: Space) -> Generator | None:
    return space._rng  # noqa: SLF001 - what it will draw next is part of what it is


# -- generators -------------------------------------------------------------------------------------------------------
class Generators:
    """Save and restore the state of generators.

    `save` omits generators that were never used: most objects never use most of theirs.
    """

    def __init__(self, own: Mapping[str, Generator]) -> None:
        self._own = dict(own)
        self._fresh = self._all()

    def add(self, other: Generators) -> None:
        """Add the generators of another object."""
        self._own |= other._own
        self._fresh |= {name: other._fresh[name] for name in other._own}

    def remove(self, name: str) -> None:
        """Remove a generator, if present."""
        self._own.pop(name, None)
        self._fresh.pop(name, None)

    def save(self) -> dict[str, Any]:
        """Return name -> state of every generator that has been used."""
        return {name: state for name, state in self._all().items() if state != self._fresh[name]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what `save` returned, omitted generators to their first state. RemoteProtocolError: it is invalid."""
        try:
            states = {name: Reader({}).read(state) for name, state in {**self._fresh, **saved}.items()}
            random.setstate(states.pop("random"))
            np.random.set_state(states.pop("numpy"))  # noqa: NPY002 - authors may use it
            for name, state in states.items():
                self._own[name].bit_generator.state = state
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise RemoteProtocolError(f"state of generators: {type(error).__name__}: {error}") from error

    def _all(self) -> dict[str, Any]:
        states: dict[str, Any] = {name: one.bit_generator.state for name, one in self._own.items()}
        states["random"], states["numpy"] = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
        return {name: Packer({}).pack(state, name) for name, state in states.items()}


def streams_of(informations: Sequence[Information], words: bytes) -> dict[str, Generator]:
    """Return the generators of informations' spaces by kind and id; a space of a filter gets one out of `words`."""
    found = {}
    for it in informations:
        if _stream(it.space) is None:
            it.space.seed(generator_from_words(derive(words, "space", it.uid)))
        stream = _stream(it.space)
        assert stream is not None
        found[f"{it.what} {it.uid}"] = stream
    return found


# -- checkpoints of brains --------------------------------------------------------------------------------------------
_TIMES_COST = 20.0  # the time between two checkpoints, in durations of the last one: 5 % of the time


@dataclass(slots=True)
class Checkpoints:
    """Decide when a brain's next checkpoint is due: after the longer of `every_s` and 20 durations of the last one."""

    every_s: float
    clock: Callable[[], float]
    last_s: float = 0.0
    cost_s: float = 0.0

    def __post_init__(self) -> None:
        self.last_s = self.clock()

    @property
    def due(self) -> bool:
        """Return whether a checkpoint is due."""
        return self.clock() - self.last_s >= max(self.every_s, _TIMES_COST * self.cost_s)

    def taken(self, began_s: float) -> None:
        """Record that a checkpoint was taken, or failed."""
        self.last_s = self.clock()
        self.cost_s = self.last_s - began_s


def export(brain: CheckpointableBrain, memory: Memory, generators: Generators, books: Mapping[str, Any]) -> list[Any]:
    """Return the checkpoint of a brain with the host's `books`, for `restore`.

    Raises:
        AuthorError: A value cannot be serialized.
    """
    state = brain.export_checkpoint_state()
    tree = {
        "format": brain.CHECKPOINT_FORMAT,
        "schema": brain.CHECKPOINT_SCHEMA_VERSION,
        "brain": state if isinstance(state, bytes) else dict(state),
        "memory": memory.export(),
        "generators": generators.save(),
        "books": dict(books),
    }
    blobs: list[bytes] = []
    # Values of authors are nested deeper here than in a message, so the bounds of a body do not apply.
    return [serialize(tree, blobs, "checkpoint", -8), blobs]


def restore(brain: CheckpointableBrain, memory: Memory, generators: Generators, checkpoint: Any) -> Mapping[str, Any]:
    """Restore what `export` returned; return the host's books.

    Raises:
        AuthorError: The brain has another format.
        RemoteProtocolError: The bytes are no checkpoint.
    """
    try:
        tree, blobs = checkpoint
        state = deserialize(tree, blobs, "checkpoint")
        found = (state["format"], state["schema"])
        expected = (brain.CHECKPOINT_FORMAT, brain.CHECKPOINT_SCHEMA_VERSION)
        if found != expected:
            raise AuthorError(f"checkpoint: expected format and version {expected}, found {found}")
        brain.restore_checkpoint_state(state["brain"])
        memory.restore(state["memory"])
        generators.restore(state["generators"])
        books: Mapping[str, Any] = state["books"]
    except (KeyError, TypeError, ValueError) as error:
        raise RemoteProtocolError(f"checkpoint: {type(error).__name__}: {error}") from error
    return books
