from __future__ import annotations

import math
import sqlite3
import struct
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


def test_value_lists_are_objects_in_declared_order(uri: str, tell: Any, read: Any) -> None:
    """Values show as full id -> number, boolean, list; unknown is null, a setpoint that was not given is left out."""
    image = struct.pack("<4f", 1.0, 2.0, 3.0, 4.5)
    sensors = [
        ["g.z", "Box", None, "<f8", []],
        ["g.image", "Box", None, "<f4", [2, 2]],
        ["g.on", "Flag", None, "|b1", []],
    ]
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", tell.begin())
        writer.apply("c", [["declare", 0, "g", None, "sensor", [*sensors, ["g.a", "Discrete", None, "<i8", []]]]])
        writer.apply(
            "c",
            [["declare", 0, "g", None, "actuator", [["g.x", "Box", "kW", "<f8", []], ["g.y", "Box", None, "<f8", []]]]],
        )
        writer.apply("c", [["declare", 0, "g", None, "reward", [["g.r", "Box", None, "<f8", []]]]])
        row = [
            1,
            7,
            None,
            "2030-01-01T00:00:00",
            pack([None, image, True, 3]),
            pack([None, 0.5]),
            pack([math.nan]),
            False,
            True,
        ]
        writer.apply("c", [["steps", 0, "train", 0, "g", 0, [row]], tell.seal(0, 1)])

    (found,) = read("steps")
    assert {"g.z": None, "g.image": [[1.0, 2.0], [3.0, 4.5]], "g.on": True, "g.a": 3} == found["sensors"]
    assert ["g.z", "g.image", "g.on", "g.a"] == list(found["sensors"])
    assert ({"g.y": 0.5}, {"g.r": None}) == (found["setpoints"], found["rewards"])
    assert (False, True, None, "2030-01-01T00:00:00") == (
        found["terminated"],
        found["truncated"],
        found["simtime_ticks"],
        found["simtime_timestamp"],
    )


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


def test_order_of_rows(uri: str, tell: Any, read: Any) -> None:
    """Rows come by phase, mode with evaluations last, worker, document order, episode, step; episodes by round."""
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", tell.begin(agents=("zoe", "ada")))
        writer.apply("c1", tell.whole(0, worker=1, round=0, agent="ada"))
        writer.apply("c1", tell.whole(0, mode="evaluate", round=1))
        writer.apply("c0", [tell.actions(0, 0, 2, agent="ada"), tell.actions(0, 0, 1, agent="zoe"), tell.seal(0, 1)])
        writer.apply("c0", [tell.actions(1, 0, 1, agent="zoe"), tell.seal(1, 1, round=2)])

    actions = [(r["mode"], r["worker"], r["agent"], r["episode"], r["step"]) for r in read("actions")]
    train = [("zoe", 0, 0), ("zoe", 1, 0), ("ada", 0, 0), ("ada", 0, 1)]
    expected = [("train", 0, *key) for key in train]
    expected += [("train", 1, "ada", 0, step) for step in range(3)]
    expected += [("evaluate", 0, "ada", 0, step) for step in range(3)]
    assert expected == actions
    episodes = [(r["mode"], r["worker"], r["episode"]) for r in read("episodes")]
    assert [("train", 0, 0), ("train", 1, 0), ("evaluate", 0, 0), ("train", 0, 1)] == episodes


def test_document_order_is_that_of_the_declarations(uri: str, tell: Any, read: Any) -> None:
    """Agents stand in the order in which they were declared, also if their rows arrived first and otherwise."""
    with SqlWriter(uri, "demo-1") as writer:
        begin = tell.begin(agents=("zoe", "ada"))
        writer.apply("governor", begin[:1])
        writer.apply(
            "c", [tell.actions(0, 0, 1, agent="bea"), tell.actions(0, 0, 1), tell.actions(0, 0, 1, agent="zoe")]
        )
        writer.apply("c", [tell.seal(0, 1)])
        writer.commit()
        writer.apply("governor", begin[1:])
        writer.apply("governor", tell.declare(0, None, "bea"))

    assert ["zoe", "ada", "bea"] == [row["agent"] for row in read("actions")]
    assert {"grid"} == {row["environment"] for row in read("returns")}


def test_signals_show_in_the_order_of_issue(writer: SqlWriter, read: Any) -> None:
    """Signals come by phase and round, of one round by worker, those of the whole phase last."""
    places = [(1, None, 0), (0, 1, 5), (0, 0, 5), (0, None, 5), (0, 3, 4)]
    writer.apply("g", [["signal", p, w, None, None, "RESET", "i", "r", None, number] for p, w, number in places])
    writer.commit()

    assert [(0, 3), (0, 0), (0, 1), (0, None), (1, None)] == [(r["phase"], r["worker"]) for r in read("signals")]


def test_runs_are_kept_apart(uri: str, tell: Any, read: Any) -> None:
    """Rows of several runs come in order of start, and can be narrowed to some of them."""
    for number in (2, 1):
        with SqlWriter(uri, f"demo-{number}") as writer:
            writer.apply("g", tell.begin())
            writer.apply("c", tell.whole(0, steps=number))

    assert ["demo-2", "demo-2", "demo-1"] == [r["run"] for r in read("steps")]
    assert [1] == [r["step"] for r in read("steps", ["demo-1"])]
    with SqlReader(uri) as reader:
        assert (3, 1) == (reader.count("steps"), reader.count("steps", ["demo-1"]))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("demo-2", "demo-2"),
        ("demo", "demo-2"),
        ("last", "tape-1"),
        ("ta", "tape-1"),
        ("dem", "demo-2"),
        ("tape-", "tape-1"),
    ],
)
def test_resolve(uri: str, tell: Any, text: str, meant: str) -> None:
    """A run is meant by its id, its uid (the newest), a beginning of either, or as the last."""
    for run, uid in (("demo-1", "demo"), ("demo-2", "demo"), ("tape-1", "tape")):
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


def test_order_and_limit(writer: SqlWriter, tell: Any, read: Any) -> None:
    """Rows can be sorted by columns, downwards too, and be limited."""
    writer.apply("c", [*tell.whole(0), *tell.whole(1)])
    writer.commit()

    found = read("steps", order=["-step", "episode"], limit=3, columns=["step", "episode"])
    assert [(3, 0), (3, 1), (2, 0)] == [(r["step"], r["episode"]) for r in found]


def test_queries_change_nothing(writer: SqlWriter, uri: str) -> None:
    """A query in SQL is read-only: writing is refused, also through pragmas and second statements."""
    with SqlReader(uri) as reader:
        columns, rows = reader.query("SELECT run, uid FROM runs")
        assert (["run", "uid"], [("demo-1", "demo")]) == (columns, list(rows))
        with pytest.raises(UsageError, match="it may only read"):
            reader.query("PRAGMA query_only = OFF")
        for statement in ("DELETE FROM stored_runs", "CREATE TABLE t (a)", "SELECT 1; SELECT 2", "SELEC"):
            with pytest.raises(UsageError, match="cannot be carried out"):
                reader.query(statement)


def test_a_reader_follows_a_writer(writer: SqlWriter, tell: Any, read: Any) -> None:
    """A reader that stays open sees each sealed episode, and declarations that came after it was opened."""
    assert [] == read("steps")
    writer.apply("c", tell.declare(1, "later", None))
    rows = tell.steps(0, 1, 1, environment="later")
    writer.apply("c", [[rows[0], 1, *rows[2:]], ["episode", 1, "train", 0, None, 0, 1, False, False, "x", 0]])
    writer.commit()

    assert [1.0] == [row["sensors"]["grid.a"] for row in read("steps")]


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


def test_a_store_that_is_none(tmp_path: Any) -> None:
    """What cannot be read is named with its path: nothing, another program's file, no database, a newer revision."""
    other, text, newer = tmp_path / "other.db", tmp_path / "text.db", tmp_path / "newer.db"
    for path, statement in ((other, "CREATE TABLE t (a)"), (newer, "CREATE TABLE ganglion_store (revision INTEGER)")):
        connection = sqlite3.connect(path)
        connection.execute(statement)
        if path == newer:
            connection.execute("INSERT INTO ganglion_store VALUES (999)")
        connection.commit()
        connection.close()
    text.write_text("no database at all" * 100)
    cases = {
        tmp_path / "none.db": "found nothing",
        other: "a file of another program",
        text: "not a database",
        newer: "found 999",
    }
    for path, message in cases.items():
        with pytest.raises(StoreError, match=f"{path.name}.*{message}"):
            SqlReader(f"sqlite:///{path}")


def test_whoever_has_seen_enough_may_leave(
    writer: SqlWriter, tell: Any, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A table whose rows are not read to the end is let go of with its store, without a complaint."""
    writer.apply("c", tell.whole(0))
    writer.commit()
    with SqlReader(uri) as reader:
        rows = reader.rows("steps")
        next(iter(rows))
    del rows

    assert [] == caplog.records
