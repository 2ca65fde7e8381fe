"""Likeness: all that the authors' objects of one process are, taken as bytes and put back into objects made alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.random import PCG64, Generator

from ganglion.errors import RemoteProtocolError
from ganglion.peer.portrait import NoPortrait, Portrait, portray, restored
from ganglion.peer.sitter import found_in, way_of
from ganglion.peer.state import Generators
from ganglion.sdk.memory import Memory
from ganglion.sdk.spaces import Space

_PART = ("uid", "name", "worker", "mode", "seed", "rng", "params")  # what every object of a plugin is given


class Likeness:
    """Take and put back objects with their generators, those of the process, their memory and their spaces.

    It is made where a successor makes one too, when all objects have been made and prepared, and nothing of what is
    taken has happened: objects that are there then are there in a successor, and are given their attributes again.

    Args:
        parts: Name -> object, and the names of the attributes that the bus gives it beside those that all objects have.
        memory: Of the agent.
        spaces: Of the agent: they have streams of their own.
        classes: Of objects that may be made later.
        passing: Paths of attributes that the bus sets again before they are read: name of the object, dot, attribute.
        given: What else the bus has given, by name; generators among it are taken with those of the objects.
    """

    def __init__(
        self,
        parts: Mapping[str, tuple[Any, Iterable[str]]],
        memory: Memory | None = None,
        spaces: Sequence[Space] = (),
        passing: Iterable[str] = (),
        classes: Iterable[type[Any]] = (),
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._memory, self._spaces, self._passing = memory, list(spaces), frozenset(passing)
        self._parts = {name: made for name, (made, _) in parts.items()}
        host: dict[str, Any] = {f"space {i}": space for i, space in enumerate(self._spaces)}
        host |= {f"stream {i}": _stream(space) for i, space in enumerate(self._spaces)}
        host |= {"memory": memory, **(given or {})}
        for name, (made, ours) in parts.items():
            own_of = {f"{name}.{one}": getattr(made, one, None) for one in (*_PART, *ours)}
            for path, value in own_of.items():
                if isinstance(value, list | tuple):
                    host |= {f"{path}[{i}]": one for i, one in enumerate(value)}
            host |= own_of
        host = {path: one for path, one in host.items() if not isinstance(one, bool | int | str | None)}
        self._sitters, constants = found_in(self._parts, host)
        self._sitters |= {f"a {cls.__name__}": object.__new__(cls) for cls in classes}
        self._known = {**host, **constants}
        own = {path: one for path, one in host.items() if isinstance(one, Generator)}
        self._generators = Generators({p: g for p, g in own.items() if type(g.bit_generator) is PCG64})

    def take(self, books: Mapping[str, Any], portraits: bool = True) -> list[Portrait]:
        """Return what `read` and `put` take; `books` are what the host knows beside the objects, as plain values.

        With `portraits` False only objects that say themselves what they are can be taken.

        Raises:
            NoPortrait: Something of it cannot be taken.
            AuthorError: There are rows in the memory that cannot be taken.
        """
        memory = self._memory
        mute = [name for name, made in self._parts.items() if not portraits and way_of(made) is None]
        if mute:
            raise NoPortrait(f"{self._whose(mute[0])}: this run has gone back before")
        tree = {
            "books": dict(books),
            "memory": None if memory is None else [memory.size_limit, memory.rng, memory.export()],
            "generators": self._generators.save(),
            "streams": [_stream(space) for space in self._spaces],
        }
        try:
            first = portray(tree, self._known)
            return [first, portray(self._parts, self._known, self._sitters, self._passing)]
        except NoPortrait as error:
            name = max((name for name in self._parts if str(error).startswith(name)), key=len, default="")
            text = f"{self._whose(name)}{str(error).removeprefix(name)}" if name else str(error)
            raise NoPortrait(text) from error

    def _whose(self, name: str) -> str:
        return f"{name} ({type(self._parts[name]).__qualname__})"

    def read(self, data: Sequence[Portrait]) -> tuple[Mapping[str, Any], Portrait]:
        """Return what was taken: under `books` what the host knew; the rest is for `put`.

        Raises:
            RemoteProtocolError: It is no likeness.
        """
        try:
            first, second = data
        except (ValueError, TypeError) as error:
            raise RemoteProtocolError(f"expected a likeness: {error}") from error
        found: Mapping[str, Any] = restored(first, self._known)
        return found, second

    def put(self, read: tuple[Mapping[str, Any], Portrait]) -> None:
        """Put back what was read.

        Raises:
            AuthorError: An object does not take its state.
            RemoteProtocolError: It is no likeness.
        """
        tree, objects = read
        if self._memory is not None:
            self._memory.size_limit, self._memory.rng, rows = tree["memory"]
            self._memory.restore(rows)
        self._generators.restore(tree["generators"])
        for space, stream in zip(self._spaces, tree["streams"], strict=True):
            if stream is not None and stream is not _stream(space):
                space.seed(stream)
        restored(objects, {**self._known, **self._sitters})


def _stream(space: Space) -> Generator | None:
    return space._rng  # noqa: SLF001 - what it will draw next is part of what it is
