"""Address: stores as documents name them, by a URI, and the runs that are in one."""

from __future__ import annotations

from pathlib import Path

from ganglion import registry
from ganglion.run.model import Keeper
from ganglion.sdk.store import Store, StoreReader

__all__ = ["keepers_of", "located", "shown", "store_class"]


def store_class(uri: str) -> type[Store]:
    """Return the kind of store that a URI names by its scheme; PluginInvalid if there is none."""
    found: type[Store] = registry.load("store", uri.partition(":")[0])
    return found


def keepers_of(reader: StoreReader) -> list[Keeper]:
    """Return the runs of a store, in its order."""
    return [Keeper(**row) for row in reader.rows("runs", columns=["run", "uid", "status"])]


def located(uri: str, folder: Path) -> str:
    """Return the URI of a store; a relative path of SQLite begins where the document lies, like every path."""
    scheme, slashes, path = uri.partition(":///")
    if scheme != "sqlite" or not slashes or path.startswith("/"):
        return uri
    return f"{scheme}:///{(folder / path).absolute()}"


def shown(uri: str) -> str:
    """Return a URI as people may see it: without what stands before an `@`."""
    scheme, slashes, rest = uri.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}"
