"""Stores for commands: which one is meant, found by the scheme of its URI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ganglion.cli.settings import Settings
from ganglion.errors import UsageError
from ganglion.supervisor.output import without_password

if TYPE_CHECKING:
    from ganglion.sdk.store import Store, StoreReader

__all__ = ["default_uri", "open_reader", "store_class", "store_uri"]

_FILE = "ganglion.db"


def default_uri(results: Path) -> str:
    """Return the URI of the store that lies in a results folder unless something else was said."""
    return f"sqlite:///{results.absolute() / _FILE}"


def store_uri(settings: Settings) -> str:
    """Return the URI of the store that a command is about."""
    if settings.store == "none":
        raise UsageError("expected a store to read from, found --store none, which keeps nothing")
    return settings.store or default_uri(settings.results)


def store_class(uri: str) -> type[Store]:
    """Return the plugin that opens a store: its name is the scheme of the URI."""
    from ganglion import registry  # late: reads the tables of all distributions

    scheme, colon, _ = uri.partition("://")
    if not colon:
        raise UsageError(
            f"expected a store URI such as sqlite:///results/{_FILE}, found {without_password(uri)!r}"
        )
    loaded: type[Store] = registry.load("store", scheme)
    return loaded


def open_reader(settings: Settings) -> StoreReader:
    """Open the store that a command is about for reading."""
    uri = store_uri(settings)
    return store_class(uri).reader(uri)
