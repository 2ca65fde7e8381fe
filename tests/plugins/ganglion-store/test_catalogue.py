from __future__ import annotations

from typing import Any

from sqlalchemy import create_engine

from ganglion_store.reader import Catalogue
from ganglion_store.schema import SHOWN


def test_ids_are_listed_by_column(writer: Any, uri: str) -> None:
    """Each column of value lists has its ids in declared order; tables without value lists have none."""
    engine = create_engine(uri)
    with engine.connect() as connection:
        catalogue = Catalogue(connection)
        ids = catalogue.ids(SHOWN["actions"], [1])
        assert {} == catalogue.ids(SHOWN["runs"], [])
    engine.dispose()

    lists = {"sensors": ["grid.a", "grid.b"], "setpoints": ["grid.x", "grid.y"], "rewards": ["grid.r"]}
    assert {**lists, "proposed": ["grid.x", "grid.y"]} == ids
