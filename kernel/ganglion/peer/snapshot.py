"""Snapshots: authors' objects, generators and a brain's books as plain trees, put back into objects made alike."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import random
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeAlias

import msgpack
import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from ganglion.errors import AuthorError, RemoteProtocolError, SpaceError
from ganglion.peer.values import deserialize, serialize
from ganglion.sdk.brain import CheckpointableBrain
from ganglion.sdk.condition import TerminationCondition
from ganglion.sdk.information import Information
from ganglion.sdk.memory import Memory
from ganglion.sdk.seed import derive, generator_from_words
from ganglion.sdk.spaces import Space

_KIND = "PCG64"
_WORD_BYTES = 16  # of PCG64's two integers of 128 bits
_KEY_WORDS = 624  # of a Mersenne twister


class Generators:
    """Take and put back the state of an object's generators and of those of its process.

    `save` leaves out what has not been drawn from since the object was made: most objects never use most of them.
    """

    def __init__(self, own: Mapping[str, Generator]) -> None:
        self._own = dict(own)
        self._fresh = self._all()

    def save(self) -> dict[str, Any]:
        """Return name -> state of every generator that has been used."""
        now = self._all()
        return {name: state for name, state in now.items() if state != self._fresh[name]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Put back what `save` returned; what it left out is as it was at first. RemoteProtocolError if it is none."""
        strange = [name for name in saved if name not in self._fresh]
        if strange:
            raise RemoteProtocolError(f"state: there is no generator {strange[0]!r}")
        for name, fresh in self._fresh.items():
            state = saved.get(name, fresh)
            try:
                self._put(name, state)
            except (KeyError, TypeError, ValueError) as error:
                raise RemoteProtocolError(f"state.{name}: {error}") from error

    def _all(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: _pcg64(generator) for name, generator in self._own.items()}
        return {**found, "random": _python(), "numpy": _numpy()}

    def _put(self, name: str, state: Mapping[str, Any]) -> None:
        if name == "random":
            random.setstate((3, (*_key(state).tolist(), state["position"]), state["gauss"]))
        elif name == "numpy":
            words = ("MT19937", _key(state), state["position"], state["has_gauss"], state["gauss"])
            np.random.set_state(words)  # noqa: NPY002 - authors may use it
        else:
            numbers = {word: int.from_bytes(state[word], "little") for word in ("state", "inc")}
            half = {"has_uint32": state["has_half"], "uinteger": state["half"]}
            self._own[name].bit_generator.state = {"bit_generator": _KIND, "state": numbers, **half}


def streams_of(informations: Sequence[Information], words: bytes) -> dict[str, Generator]:
    """Return the streams of the spaces of informations, by kind and id; those without one get theirs, out of `words`.

    A space that a filter declares has none.
    """
    found = {}
    for it in informations:
        if it.space._rng is None:  # noqa: SLF001 - what it will draw next is part of what a process is
            it.space.seed(generator_from_words(derive(words, "space", it.uid)))
        stream = it.space._rng  # noqa: SLF001
        assert stream is not None
        found[f"{it.what} {it.uid}"] = stream
    return found


def _key(state: Mapping[str, Any]) -> NDArray[np.uint32]:
    """Return the words of a Mersenne twister; ValueError if they are not as many as it has."""
    words = np.frombuffer(state["key"], dtype="<u4")
    if len(words) != _KEY_WORDS:
        raise ValueError(f"expected a key of {_KEY_WORDS} words, found {len(words)}")
    return words


def _pcg64(generator: Generator) -> dict[str, Any]:
    state: Any = generator.bit_generator.state
    words = {name: state["state"][name].to_bytes(_WORD_BYTES, "little") for name in ("state", "inc")}
    return {**words, "has_half": int(state["has_uint32"]), "half": int(state["uinteger"])}


def _python() -> dict[str, Any]:
    _, words, gauss = random.getstate()
    key = np.array(words[:_KEY_WORDS], dtype="<u4").tobytes()
    return {"key": key, "position": words[_KEY_WORDS], "gauss": gauss}


def _numpy() -> dict[str, Any]:
    _, key, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 - authors may have drawn from it
    words = np.asarray(key, dtype="<u4").tobytes()
    return {"key": words, "position": int(position), "has_gauss": int(has_gauss), "gauss": float(gauss)}


_TIMES_COST = 20.0  # a checkpoint may take a twentieth of the time


@dataclass(slots=True)
class Checkpoints:
    """Say when a brain's next checkpoint is due: not before `every_s`, nor before 20 times what the last one took."""

    every_s: float
    clock: Callable[[], float]
    last_s: float = 0.0
    cost_s: float = 0.0

    def __post_init__(self) -> None:
        self.last_s = self.clock()

    @property
    def due(self) -> bool:
        """Say whether it is time for one."""
        return self.clock() - self.last_s >= max(self.every_s, _TIMES_COST * self.cost_s)

    def taken(self, began_s: float) -> None:
        """Note that one was taken, or could not be."""
        self.last_s = self.clock()
        self.cost_s = self.last_s - began_s


def export(brain: CheckpointableBrain, memory: Memory, generators: Generators, books: Mapping[str, Any]) -> list[Any]:
    """Return what `restore` needs; `books` are the host's own.

    Raises:
        AuthorError: Something of it cannot travel.
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
    # What authors sent stands deeper here than where it travelled, and no body holds it.
    return [serialize(tree, blobs, "checkpoint", -8), blobs]


def restore(brain: CheckpointableBrain, memory: Memory, generators: Generators, checkpoint: Any) -> Mapping[str, Any]:
    """Put back what `export` returned; return the host's books.

    Raises:
        AuthorError: It is of another format than the brain's.
        RemoteProtocolError: It is no checkpoint.
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


State: TypeAlias = list[bytes | memoryview]
"""The tree, and the large parts that it names by their numbers; these show the author's own arrays until written."""

_GIVEN = ("uid", "name", "worker", "mode", "seed", "rng", "params")  # to every object of a plugin
_LARGE_BYTES = 64 * 1024  # of an array, or bytes, that is a part of its own
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1  # of msgpack
_KINDS = "biufcMmSU"  # of arrays: their bytes are all that there is of them
_BITS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_FIXED = (
    np.ufunc,
    np.dtype,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    logging.Logger,
    re.Pattern,
    PurePath,
)
_CONTAINERS = (dict, list, tuple, set, frozenset, deque, str, bytes, bytearray, int, float, np.ndarray)


class NotPlain(ValueError):
    """Say what cannot be part of a snapshot, and where it is."""


# -- one object -------------------------------------------------------------------------------------------------------
def own_state(one: Any) -> tuple[Any, Any] | None:
    """Return the two methods by which an object saves and loads its state itself; None if it does not."""
    if isinstance(one, TerminationCondition):
        said = type(one).state is not TerminationCondition.state
        return (one.state, one.restore) if said else None
    pair = getattr(one, "save_state", None), getattr(one, "load_state", None)
    return pair if all(map(callable, pair)) else None


def attributes_of(one: Any) -> dict[str, Any]:
    """Return all attributes of an object, those in slots too.

    Raises:
        NotPlain: It is more than its attributes.
    """
    if isinstance(one, _CONTAINERS):
        raise NotPlain(f": a {type(one).__qualname__} is more than its attributes")
    found = dict(getattr(one, "__dict__", ()))
    for name in _slots(type(one)):
        if hasattr(one, name):
            found[name] = getattr(one, name)
    return found


def put_attributes(one: Any, state: Mapping[str, Any], left: Iterable[str] = ()) -> None:
    """Give an object these attributes and no others, but for those that are `left` as they are."""
    for name in attributes_of(one).keys() - state.keys() - set(left):
        object.__delattr__(one, name)
    slots = _slots(type(one))
    for name, value in state.items():
        if name in slots:
            object.__setattr__(one, name, value)
        else:
            vars(one)[name] = value  # past properties, and in a class that is frozen


def _slots(cls: type[Any]) -> set[str]:
    kinds = (vars(base).items() for base in cls.__mro__)
    return {name for items in kinds for name, it in items if isinstance(it, types.MemberDescriptorType)}


# -- values -----------------------------------------------------------------------------------------------------------
class Packer:
    """Turn plain values into a tree for msgpack: what it does not have is a list that begins with a letter.

    `given` are objects by name that are only named.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.large: State = []
        self._given = {id(one): name for name, one in given.items()}
        self._met: dict[int, tuple[int, Any]] = {}  # with the object, so that its id is not given to another one
        self._streams: set[int] = set()
        self._roots: dict[int, tuple[Any, bool]] = {}  # memory of arrays -> which shows it, and whether it may write

    def pack(self, value: Any, at: str) -> Any:
        """Return a value as a tree; NotPlain names `at`, where it is."""
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return value if _INT_MIN <= value <= _INT_MAX else ["i", str(value)]
        if kind is str:
            return value if value.isprintable() else ["u", value.encode("utf-8", "surrogatepass")]
        if kind is bytes:
            return value if len(value) <= _LARGE_BYTES else self._large(value)
        if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
            return ["n", value.dtype.str, value.tobytes()]
        if isinstance(value, Enum):
            return ["e", _name(kind, at), value.name]
        if kind is dt.datetime:
            return ["T", value.isoformat()]
        if id(value) in self._given:
            return ["h", self._given[id(value)]]
        if kind is tuple:
            return ["t", *self._items(value, at)]
        if id(value) in self._met:
            return ["r", self._met[id(value)][0]]
        self._met[id(value)] = len(self._met), value
        if kind is list:
            return ["l", *self._items(value, at)]
        if kind is deque:
            return ["q", value.maxlen, *self._items(value, at)]
        if kind is dict:
            steps = [(f"{at}.{key}" if type(key) is str else f"{at}[{key!r:.80}]") for key in value]
            pairs = zip(value.items(), steps, strict=True)
            return ["d", *(self.pack(part, step) for pair, step in pairs for part in pair)]
        if kind is np.ndarray:
            return self._array(value, at)
        if kind is Generator:
            return self._generator(value.bit_generator, at)
        if kind is random.Random:
            return ["P", self.pack(value.getstate(), at)]
        if dataclasses.is_dataclass(kind):
            own = attributes_of(value)
            return ["D", _name(kind, at), *(self.pack(p, f"{at}.{n}") for n, it in own.items() for p in (n, it))]
        raise NotPlain(f"{at}: a {_words(kind)} is no plain value")

    def _items(self, values: Any, at: str) -> list[Any]:
        return [self.pack(one, f"{at}[{i}]") for i, one in enumerate(values)]

    def _array(self, value: np.ndarray[Any, Any], at: str) -> Any:
        if value.dtype.kind not in _KINDS or not value.flags.forc:
            raise NotPlain(f"{at}: an array of dtype {value.dtype}, or one that shows parts of another one")
        root: Any = value
        while isinstance(root, np.ndarray) and root.base is not None:
            root = root.base
        writes = value.flags.writeable
        shown, wrote = self._roots.setdefault(id(root), (value, writes))
        if shown is not value and (writes or wrote):
            raise NotPlain(f"{at}: an array that shares its memory with another one")
        order = "C" if value.flags.c_contiguous else "F"
        data: Any = value if order == "C" else value.T
        large = value.nbytes > _LARGE_BYTES
        data = self._large(data.reshape(-1).view(np.uint8).data) if large else data.tobytes()
        return ["a", value.dtype.str, list(value.shape), order, writes, data]

    def _generator(self, bits: Any, at: str) -> Any:
        name, sequence = type(bits).__name__, bits.seed_seq  # what `spawn` is drawn from
        if name not in _BITS or type(sequence) is not SeedSequence:
            raise NotPlain(f"{at}: a generator of {_words(type(bits))}")
        if id(bits) in self._streams:
            raise NotPlain(f"{at}: a generator of a stream that another one has, too")
        self._streams.add(id(bits))
        return ["g", name, self.pack(sequence.state, at), self.pack(bits.state, at)]

    def _large(self, data: bytes | memoryview) -> Any:
        self.large.append(data)
        return ["L", len(self.large) - 1]


class Reader:
    """Turn a tree back into values; `given` are the objects of now that were only named."""

    def __init__(self, given: Mapping[str, Any], large: Sequence[Any]) -> None:
        self._given, self._large, self._met = given, large, list[Any]()

    def read(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if type(tree) is not list:
            return tree
        letter, *parts = tree
        if letter == "t":
            return tuple(map(self.read, parts))
        if letter in "iuneThrL":
            return self._leaf(letter, parts)
        number = len(self._met)
        self._met.append(None)  # what lies within may name it
        found = self._met[number] = self._empty(letter, parts)
        if letter in "lq":
            found.extend(map(self.read, parts))
        elif letter in "dD":
            items = {self.read(key): self.read(value) for key, value in zip(parts[::2], parts[1::2], strict=True)}
            found.update(items) if letter == "d" else put_attributes(found, items)
        return found

    def _leaf(self, letter: str, parts: list[Any]) -> Any:
        if letter == "i":
            return int(parts[0])
        if letter == "u":
            return parts[0].decode("utf-8", "surrogatepass")
        if letter == "n":
            return np.frombuffer(parts[1], _dtype(parts[0]))[0]
        if letter == "e":
            return _class(parts[0])[parts[1]]
        if letter == "T":
            return dt.datetime.fromisoformat(parts[0])
        if letter == "h":
            return self._given[parts[0]]
        return self._met[parts[0]] if letter == "r" else bytes(self._large[parts[0]])

    def _empty(self, letter: str, parts: list[Any]) -> Any:
        """Make what a letter stands for; of a collection the head is taken from the parts, which are read later."""
        if letter == "q":
            return deque[Any](maxlen=parts.pop(0))
        if letter == "D":
            cls = _class(parts.pop(0))
            return object.__new__(cls)
        if letter == "a":
            dtype, shape, order, writes, data = parts
            flat = np.frombuffer(self.read(data), _dtype(dtype))
            array = flat.reshape(shape[::-1]).T if order == "F" else flat.reshape(shape)
            return array.copy(order) if writes else array
        if letter == "g":
            name, sequence, state = parts
            if name not in _BITS:
                raise ValueError(f"expected one of {', '.join(_BITS)}, found {name!r:.40}")
            bits = getattr(np.random, name)(SeedSequence(**self.read(sequence)))
            bits.state = self.read(state)
            return Generator(bits)
        if letter == "P":
            found = random.Random(0)
            found.setstate(self.read(parts[0]))
            return found
        return {"l": list, "d": dict}[letter]()


def _words(kind: type[Any]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _name(kind: type[Any], at: str) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        if _class(name) is kind:
            return name
    except (KeyError, AttributeError, ValueError):
        pass
    raise NotPlain(f"{at}: a {_words(kind)} is not found by its name")


def _class(name: str) -> Any:
    """Return a dataclass or an enumeration of a module that has been imported."""
    module, _, path = name.partition(":")
    found: Any = sys.modules[module]
    for word in path.split("."):
        found = getattr(found, word)
    if isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, Enum)):
        return found
    raise ValueError(f"expected a dataclass or an enumeration, found {name!r:.80}")


def _dtype(text: str) -> np.dtype[Any]:
    if type(text) is not str or text[1:2] not in _KINDS:
        raise ValueError(f"expected a dtype, found {text!r:.40}")
    return np.dtype(text)


# -- all objects of a process -----------------------------------------------------------------------------------------
class Snapshot:
    """Take and put back objects with their generators, those of the process, their memory and their spaces.

    It is made where a successor makes one too, when all objects have been made and prepared, and nothing of what is
    taken has happened.

    Args:
        parts: Name -> object, and the names of the attributes that the bus gives it beside those that all objects have.
        memory: Of the agent.
        spaces: Of the agent: they have streams of their own.
        passing: Paths of attributes that the bus sets again before they are read: name of the object, dot, attribute.
        given: What else the bus has given, by name; generators among it are taken with those of the objects.
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
        found |= {"memory": memory, **self._parts, **(given or {})}  # parts may know each other
        self._fixed: dict[str, Any] = {}  # attributes that a successor has by itself, unless they are changed
        for name, (made, ours) in parts.items():
            bus = {f"{name}.{one}": getattr(made, one, None) for one in (*_GIVEN, *ours)}
            for path, value in bus.items():
                if isinstance(value, list | tuple):
                    found |= {f"{path}[{i}]": one for i, one in enumerate(value)}
            found |= bus
            self._fixed |= bus
            if own_state(made) is None and not isinstance(made, _CONTAINERS):
                for attribute, value in attributes_of(made).items():
                    fixed = dict(_fixed_in(value, f"{name}.{attribute}"))
                    found |= fixed
                    self._fixed |= fixed
        self._given = {path: one for path, one in found.items() if not isinstance(one, bool | int | str | None)}
        streams = {path: one for path, one in self._given.items() if isinstance(one, Generator)}
        self._generators = Generators({p: g for p, g in streams.items() if type(g.bit_generator) is PCG64})

    def check(self) -> None:
        """Look whether all objects can be taken as they are now; NotPlain says which attribute cannot.

        What an object says by `save_state` is not asked for.
        """
        packer = Packer(self._given)
        for name, made in self._parts.items():
            if own_state(made) is None:
                self._attributes(packer, name, made)

    def take(self, books: Mapping[str, Any], attributes: bool = True) -> State:
        """Return what `read` takes; `books` are what the host knows beside the objects, as plain values.

        With `attributes` False only objects that say themselves what they are can be taken.

        Raises:
            NotPlain: Something of it cannot be taken.
            AuthorError: There are rows in the memory that cannot be taken.
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
            objects = {name: self._object(packer, name, made, attributes) for name, made in self._parts.items()}
            return [msgpack.packb([packed, objects]), *packer.large]
        except (OverflowError, RecursionError) as error:
            raise NotPlain(f"{next(iter(self._parts), '')}: {error}") from error

    def _object(self, packer: Packer, name: str, made: Any, attributes: bool) -> Any:
        pair = own_state(made)
        if pair is None:
            if not attributes:
                raise NotPlain(f"{self._whose(name)}: this run has gone back before")
            return self._attributes(packer, name, made)
        try:
            saved = dict(pair[0]())
        except Exception as error:  # it is no fault of a run that a state is not to be had
            raise NotPlain(f"{self._whose(name)}: save_state: {type(error).__name__}: {error}") from error
        return [packer.pack(saved, f"{self._whose(name)}: save_state")]

    def _attributes(self, packer: Packer, name: str, made: Any) -> dict[str, Any]:
        own = self._changing(name, made)
        return {attribute: packer.pack(it, f"{self._whose(name)}.{attribute}") for attribute, it in own.items()}

    def _changing(self, name: str, made: Any) -> dict[str, Any]:
        """Return the attributes of an object but for those that a successor has by itself."""
        try:
            own = attributes_of(made)
        except NotPlain as error:
            raise NotPlain(f"{self._whose(name)}{error}") from error
        paths = {attribute: f"{name}.{attribute}" for attribute in own}
        left = {a for a, path in paths.items() if path in self._fixed and self._fixed[path] is own[a]}
        return {a: it for a, it in own.items() if a not in left and paths[a] not in self._passing}

    def _whose(self, name: str) -> str:
        return f"{name} ({type(self._parts[name]).__qualname__})"

    def read(self, state: Sequence[Any]) -> Mapping[str, Any]:
        """Return what was taken: under `books` what the host knew; the rest is for `put`.

        Raises:
            RemoteProtocolError: It is no snapshot.
        """
        try:
            packed, objects = msgpack.unpackb(state[0])
            reader = Reader(self._given, state[1:])
            tree = {name: reader.read(value) for name, value in packed.items()}
            said = (list, dict)
            if objects.keys() != self._parts.keys() or not all(type(it) in said for it in objects.values()):
                raise ValueError(f"expected the objects {sorted(self._parts)}, found {sorted(objects)}")
            tree["objects"] = {
                name: [reader.read(it[0])] if type(it) is list else {a: reader.read(v) for a, v in it.items()}
                for name, it in objects.items()
            }
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, SpaceError) as error:
            raise RemoteProtocolError(f"expected a snapshot: {type(error).__name__}: {error}") from error
        return tree

    def put(self, tree: Mapping[str, Any]) -> None:
        """Put back what was read.

        Raises:
            AuthorError: `load_state` of an object fails.
            RemoteProtocolError: It is no snapshot.
        """
        if self._memory is not None:
            self._memory.size_limit, self._memory.rng, rows = tree["memory"]
            self._memory.restore(rows)
        self._generators.restore(tree["generators"])
        for space, stream in zip(self._spaces, tree["streams"], strict=True):
            if stream is not None and stream is not _stream(space):
                space.seed(stream)
        for name, state in tree["objects"].items():
            made = self._parts[name]
            pair = own_state(made)
            if isinstance(state, list):
                if pair is None:
                    raise RemoteProtocolError(f"expected attributes of {self._whose(name)}, found a saved state")
                try:
                    pair[1](state[0])
                except Exception as error:
                    text = f"{self._whose(name)}: load_state: {type(error).__name__}: {error}"
                    raise AuthorError(text) from error
            else:
                left = attributes_of(made).keys() - self._changing(name, made).keys()
                put_attributes(made, state, left)


def _fixed_in(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Yield what never changes in a value that is plain otherwise, by its path: a successor makes it anew."""
    if isinstance(value, (*_FIXED, Space)) and getattr(value, "__closure__", None) is None:
        yield at, value
    elif isinstance(value, dict):
        for key, it in value.items():
            yield from _fixed_in(it, f"{at}[{key!r:.80}]")
    elif isinstance(value, list | tuple):
        for i, it in enumerate(value):
            yield from _fixed_in(it, f"{at}[{i}]")
    elif dataclasses.is_dataclass(type(value)):
        for name, it in attributes_of(value).items():
            yield from _fixed_in(it, f"{at}.{name}")


def _stream(space: Space) -> Generator | None:
    return space._rng  # noqa: SLF001 - what it will draw next is part of what it is
