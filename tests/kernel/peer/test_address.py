from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import PluginInvalid
from ganglion.peer.address import keepers_of, located, shown, store_class
from ganglion.run.model import Keeper


def test_relative_stores_lie_beside_the_document(tmp_path: Path) -> None:
    """Three slashes begin at the document's folder, four are absolute; other kinds stay as they are."""
    assert f"sqlite:///{tmp_path}/m.db" == located("sqlite:///m.db", tmp_path)
    assert "sqlite:////srv/m.db" == located("sqlite:////srv/m.db", tmp_path)
    assert "other:///m" == located("other:///m", tmp_path)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("sqlite:///m.db", "sqlite:///m.db"),
        ("other://ada:secret@host/x", "other://host/x"),
        ("other://host/x", "other://host/x"),
    ],
)
def test_what_stands_before_the_host_is_not_shown(uri: str, words: str) -> None:
    """Who reads a message learns which store it is, and not how it is opened."""
    assert words == shown(uri)


def test_the_scheme_names_the_kind() -> None:
    """A kind that is not installed is refused by its name."""
    assert "sqlite" in store_class("sqlite:///m.db").schemes
    with pytest.raises(PluginInvalid, match="nosuch"):
        store_class("nosuch:///x")


def test_runs_come_in_the_order_of_their_store() -> None:
    """Id, uid and status of each are what `load` and `replay` choose by."""
    rows = [{"run": "b-1", "uid": "b", "status": "failed"}, {"run": "a-1", "uid": "a", "status": "finished"}]

    class Two:
        def rows(self, table: str, **_: Any) -> list[dict[str, str]]:
            assert "runs" == table
            return rows

    assert [Keeper("b-1", "b", "failed"), Keeper("a-1", "a", "finished")] == keepers_of(Two())  # type: ignore[arg-type]
