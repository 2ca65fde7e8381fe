from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.settings import Settings
from ganglion.cli.stores import open_reader, store_class
from ganglion.errors import PluginInvalid, StoreError, UsageError


def test_the_scheme_names_the_plugin(tmp_path: Path) -> None:
    """The store is the plugin of the URI's scheme; what is no URI, or has no plugin, is refused."""
    assert "sqlite" in store_class("sqlite:///x.db").schemes
    with pytest.raises(UsageError, match="expected a store URI"):
        store_class("x.db")
    with pytest.raises(PluginInvalid, match="sqlit"):
        store_class("sqlit:///x.db")
    with pytest.raises(StoreError, match="found nothing"):
        open_reader(Settings(results=tmp_path, store=None))
