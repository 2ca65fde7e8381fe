from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.settings import Settings
from ganglion.cli.stores import default_uri, open_reader, store_class, store_uri
from ganglion.errors import PluginInvalid, StoreError, UsageError


def test_the_store_lies_in_the_results_unless_said_otherwise(tmp_path: Path) -> None:
    """Without a URI the store is the database of the results folder, by its absolute path."""
    assert f"sqlite:///{tmp_path}/ganglion.db" == default_uri(tmp_path)
    assert default_uri(Path("results").absolute()) == default_uri(Path("results"))
    assert "sqlite:///x.db" == store_uri(Settings(results=tmp_path, store="sqlite:///x.db"))
    with pytest.raises(UsageError, match="--store none"):
        store_uri(Settings(results=tmp_path, store="none"))


def test_the_scheme_names_the_plugin(tmp_path: Path) -> None:
    """The store is the plugin of the URI's scheme; what is no URI, or has no plugin, is refused."""
    assert "sqlite" in store_class("sqlite:///x.db").schemes
    with pytest.raises(UsageError, match="expected a store URI"):
        store_class("x.db")
    with pytest.raises(PluginInvalid, match="sqlit"):
        store_class("sqlit:///x.db")
    with pytest.raises(StoreError, match="found nothing"):
        open_reader(Settings(results=tmp_path, store=None))
