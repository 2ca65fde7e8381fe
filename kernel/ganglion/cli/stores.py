"""Stores for commands: which one is meant, found by the scheme of its URI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ganglion.errors import UsageError

if TYPE_CHECKING:
    from ganglion.sdk.store import Store, StoreReader

__all__ = ["Options", "default_uri", "open_reader", "store_class", "store_uri"]

_FILE = "ganglion.db"


class Options(Protocol):
    """Name the options of every command that these commands look at; `store` is a URI, `none`, or None."""

    results: str
    store: str | None
    json: bool


def default_uri(results: str | Path) -> str:
    """Return the URI of the store that lies in a results folder unless something else was said."""
    return f"sqlite:///{Path(results).absolute() / _FILE}"


def store_uri(options: Options) -> str:
    """Return the URI of the store that a command is about."""
    if options.store == "none":
        raise UsageError("expected a store to read from, found --store none, which keeps nothing")
    return options.store or default_uri(options.results)


def store_class(uri: str) -> type[Store]:
    """Return the plugin that opens a store: its name is the scheme of the URI."""
    from ganglion import registry  # late: reads the tables of all distributions

    scheme, colon, _ = uri.partition("://")
    if not colon:
        raise UsageError(f"expected a store URI such as sqlite:///results/{_FILE}, found {uri!r}")
    loaded: type[Store] = registry.load("store", scheme)
    return loaded


def open_reader(options: Options) -> StoreReader:
    """Open the store that a command is about for reading."""
    uri = store_uri(options)
    return store_class(uri).reader(uri)
