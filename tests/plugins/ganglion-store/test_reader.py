from __future__ import annotations

from typing import Any

import msgpack
import pytest

from ganglion.sdk.store import StoreError, UsageError
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter

pack = msgpack.packb
GUARANTEED = {
    "runs": "run uid experiment seed status reason",
    "phases": "run phase name mode status reason",
    "episodes": "run phase mode worker episode steps terminated truncated reason",
    "steps": "run phase mode worker environment episode step simtime_ticks sensors setpoints rewards "
    "terminated truncated",
    "actions": "run phase mode worker agent body episode step sensors setpoints rewards objective terminated truncated",
    "signals": "run phase worker episode step signal issuer reason",
}


def test_rows_have_the_guaranteed_columns(writer: SqlWriter, tell: Any, uri: str) -> None:
    """Each table has at least the columns that every store guarantees, and rows have exactly the shown ones."""
    writer.apply("c", [*tell.whole(0), ["signal", 0, 1, 0, 2, "RESET", "ada", "why", {"a": [1]}, 0]])
    writer.commit()
    with SqlReader(uri) as reader:
        tables = reader.tables()
        for table, columns in GUARANTEED.items():
            assert set(columns.split()) <= set(tables[table])
        for table, columns in tables.items():
            for row in reader.rows(table):
                assert list(row) == columns == reader.columns(table)


def test_world_states_are_plain_values(writer: SqlWriter, tell: Any, read: Any) -> None:
    """What a transformer left in place of the world's state is shown as it was; None where there was nothing."""
    left = {"voltage": [1.0, None], "name": "ü"}
    steps = tell.steps(0, 1, 2)
    steps[-1] = [[*steps[-1][0], pack(left)], [*steps[-1][1], None]]
    writer.apply("c", [steps, tell.seal(0, 2)])
    writer.commit()

    assert [left, None] == [row["world_state"] for row in read("steps")]


def test_wide_rows_have_a_column_per_value(writer: SqlWriter, tell: Any, read: Any) -> None:
    """With `wide` each value is a column of its own, and one can also be asked for by its name."""
    writer.apply("c", tell.whole(0, steps=1))
    writer.commit()

    (row,) = read("steps", columns=["step", "sensors", "setpoints"], wide=True)
    assert {
        "step": 1,
        "sensors.grid.a": 1.0,
        "sensors.grid.b": 0,
        "setpoints.grid.x": 0.5,
        "setpoints.grid.y": None,
    } == row
    assert [{"rewards.grid.r": 1.0}] == read("steps", columns=["rewards.grid.r"])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("demo-2", "demo-2"),
        ("demo", "demo-2"),
        ("last", "journal-1"),
        ("jo", "journal-1"),
        ("dem", "demo-2"),
        ("journal-", "journal-1"),
    ],
)
def test_resolve(uri: str, tell: Any, text: str, meant: str) -> None:
    """A run is meant by its id, its uid (the newest), a beginning of either, or as the last."""
    for run, uid in (("demo-1", "demo"), ("demo-2", "demo"), ("journal-1", "journal")):
        with SqlWriter(uri, run) as writer:
            writer.apply("g", tell.begin(uid))
    with SqlReader(uri) as reader:
        assert meant == reader.resolve(text)
        with pytest.raises(UsageError, match="may be any of the runs demo-1, demo-2"):
            reader.resolve("demo-")
        with pytest.raises(UsageError, match="no run `dmeo`; did you mean `demo`"):
            reader.resolve("dmeo")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "stpes"}, "no table `stpes`; did you mean `steps`"),
        ({"columns": ["sensor"]}, "no column `sensor` in steps; did you mean `sensors`"),
        ({"columns": ["sensors.grid.q"]}, r"no column `sensors\.grid\.q` in steps; did you mean `sensors\.grid\.\w`"),
        ({"order": ["setpoints"]}, "holds many"),
        ({"order": ["-stp"]}, "did you mean"),
        ({"runs": ["demo-9"]}, "no run `demo-9`; did you mean `demo-1`"),
        ({"limit": -1}, "0 or more"),
    ],
)
def test_faults_are_named(writer: SqlWriter, uri: str, options: dict[str, Any], message: str) -> None:
    """What cannot be read is refused at once with the nearest right name."""
    with SqlReader(uri) as reader, pytest.raises(UsageError, match=message):
        reader.rows(**{"table": "steps", **options})


def test_values_without_declaration_are_an_error(writer: SqlWriter, tell: Any, read: Any) -> None:
    """Value lists that nobody declared are not guessed at."""
    writer.apply("c", tell.whole(0, environment="unknown"))
    writer.commit()

    with pytest.raises(
        StoreError, match="sensors of environment unknown, phase 0: expected 0 values as declared, found 2"
    ):
        read("steps")


def test_views_say_the_same_as_rows(writer: SqlWriter, tell: Any, uri: str) -> None:
    """The views for SQL have the documented names, columns and rows."""
    writer.apply("c", [*tell.whole(0), tell.steps(1, 1, 2)])
    writer.commit()
    with SqlReader(uri) as reader:
        for table, columns in reader.tables().items():
            names, rows = reader.query(f"SELECT * FROM {table}")
            assert columns == names
            assert reader.count(table) == len(list(rows))
