from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from ganglion_store.schema import SHOWN, metadata

DOCUMENTED = {
    "runs": "run uid experiment seed status reason started ended",
    "phases": "run phase name mode status reason",
    "episodes": "run phase mode worker environment episode steps terminated truncated reason",
    "steps": "run phase mode worker environment episode step tick simtime_ticks simtime_timestamp sensors setpoints "
    "rewards terminated truncated world_state",
    "resets": "run phase mode worker environment episode step tick simtime_ticks simtime_timestamp sensors",
    "actions": "run phase mode worker agent environment body episode step tick sensors setpoints proposed rewards "
    "objective terminated truncated statistics policy policy_version late_reward",
    "signals": "run phase worker episode step signal issuer reason data",
    "brains": "run phase agent tag episode updates created bytes sha256 path",
    "evaluations": "run phase agent number episode metrics brain completed",
    "declarations": "run phase environment agent kind position id space unit dtype shape",
    "incidents": "run time name incarnation kind position detail",
    "bodies": "run phase agent environment body role team group learn policy dynamic",
    "opponents": "run phase worker tick agent environment body version",
    "ratings": "run phase worker tick agent environment body rating",
    "topics": "run phase mode worker tick peer topic key value",
    "returns": "run phase mode worker agent environment body episode steps return objective",
    "points": "run experiment point row repetition seed state reason factors digest",
}


def test_tables_show_what_is_documented() -> None:
    """Users see these tables and columns, in this order."""
    assert DOCUMENTED == {name: " ".join(shown.columns) for name, shown in SHOWN.items()}


def test_no_key_holds_null() -> None:
    """No column of a unique key may be NULL: databases take two of them for different."""
    columns = [
        column
        for table in metadata.sorted_tables
        for constraint in table.constraints
        if constraint.__class__.__name__ in ("UniqueConstraint", "PrimaryKeyConstraint")
        for column in constraint.columns
    ]

    assert len(columns) > 30
    assert [] == [str(column) for column in columns if column.nullable]


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=str)
def test_the_schema_is_portable(table: Any) -> None:
    """Each table can be made by PostgreSQL too."""
    assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=postgresql.dialect()))
