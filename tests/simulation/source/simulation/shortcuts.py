"""Shortcuts of the simulation: what takes time and decides nothing is left out, bounds are near enough to be met."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from ganglion import registry
from ganglion.broker import rights
from ganglion.peer.agent import brain, host, table
from ganglion.peer.environment import host as environment
from ganglion.peer.results import records
from ganglion.peer.worker import controller
from ganglion_store import writer

Patch = tuple[Any, str, Any]
"""A module, a name in it, what it means meanwhile."""

_locate = registry.locate


@cache
def _located(variables: tuple[str, str], *given: Any) -> registry.Entry:
    return _locate(*given)


def _known(kind: str, name: str, folder: str = "", allow: Sequence[str] = (), local: bool = True) -> registry.Entry:
    """Locate a plugin once: each process of a run would look through the same entry points again."""
    variables = os.environ.get("GANGLION_ALLOW", ""), os.environ.get("GANGLION_BLOCK", "")
    return _located(variables, kind, name, folder, tuple(allow), local)


_INSTEAD: tuple[Patch, ...] = (
    # Nobody seeds the generators of the interpreter: they are not one process's own, as they would be elsewhere.
    *((room, "seed_process", lambda words: None) for room in (host, controller, environment, table)),
    (registry, "locate", _known),
    (writer, "STORE_RESERVE_BYTES", 1),  # taking and giving back megabytes is a tenth of a small run
)


def _compaction() -> list[Patch]:
    """Let journals begin anew wherever they may, if these processes do so by their length."""
    found: list[Patch] = [(environment, "_JOURNAL_S", 0.0)] if hasattr(environment, "_JOURNAL_S") else []
    found += [(room, "_LOOK_EVERY", 1) for room in (brain, table) if hasattr(room, "_LOOK_EVERY")]
    with contextlib.suppress(ImportError):
        compaction = importlib.import_module("ganglion.peer.journal.compaction")
        found += [(compaction, name, value) for name, value in (("JOURNAL_BEGIN_BYTES", 0), ("_TIMES_SIZE", 0))]
    return found


_TIGHT: tuple[Patch, ...] = (
    (rights, "OPEN_CALLS", 1),
    (rights, "OPEN_CALLS_CONTROL", 1),
    (records, "STREAM_CREDIT_MESSAGES", 1),
    *_compaction(),
)


_FINE: tuple[Patch, ...] = ((records, "_ROWS_PER_BATCH", 1),)


@contextlib.contextmanager
def shortcuts(tight: bool = False, fine: bool = False) -> Iterator[None]:
    """Take them meanwhile; `tight` bounds are met by small runs, which have to keep them all the same.

    Where it is `fine` the rows of an episode go to the store one by one, as those of a large run come in many batches.
    """
    former: list[Callable[[], None]] = []
    for place, name, value in (*_INSTEAD, *(_TIGHT if tight else ()), *(_FINE if fine else ())):
        former.append(partial(setattr, place, name, getattr(place, name)))
        setattr(place, name, value)
    try:
        yield
    finally:
        for restore in former:
            restore()
