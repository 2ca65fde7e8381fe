"""Shortcuts of the simulation: what takes time, or is one process's own elsewhere, and decides nothing here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from ganglion import registry
from ganglion.peer import brain, controller, environment, muscle
from ganglion_store import writer

__all__ = ["shortcuts"]

_locate = registry.locate


@cache
def _located(variables: tuple[str, str], *given: Any) -> registry.Entry:
    return _locate(*given)


def _known(
    kind: str, name: str, folder: str = "", allow: Sequence[str] = (), local: bool = True
) -> registry.Entry:
    """Locate a plugin once: each process of a run would look through the same entry points again."""
    variables = os.environ.get("GANGLION_ALLOW", ""), os.environ.get("GANGLION_BLOCK", "")
    return _located(variables, kind, name, folder, tuple(allow), local)


_INSTEAD: tuple[tuple[Any, str, Any], ...] = (
    # Nobody seeds the generators of the interpreter: they are not one process's own, as they would be elsewhere.
    *((host, "seed_process", lambda words: None) for host in (brain, controller, environment, muscle)),
    (registry, "locate", _known),
    (writer, "STORE_RESERVE_BYTES", 1),  # taking and giving back megabytes is a tenth of a small run
)


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Take them meanwhile."""
    former: list[Callable[[], None]] = []
    for place, name, value in _INSTEAD:
        former.append(partial(setattr, place, name, getattr(place, name)))
        setattr(place, name, value)
    try:
        yield
    finally:
        for restore in former:
            restore()
