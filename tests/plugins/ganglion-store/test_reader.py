"""Readers: rows, tables and files of them, and what is refused by name."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    insert,
    select,
)

from ganglion.sdk.store import StoreError, UsageError
from ganglion_store import reader as module
from ganglion_store.reader import SqlReader, write_parquet
from ganglion_store.where import condition
from ganglion_store.writer import SqlWriter

pack = msgpack.packb


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
    """Rows, and the views for SQL, have the documented names and columns."""
    signal = ["signal", 0, 1, 0, 2, "RESET", "ada", "why", {"a": [1]}, 0]
    writer.apply("c", [*tell.whole(0), signal, tell.steps(1, 1, 2)])
    writer.commit()
    with SqlReader(uri) as reader:
        for table, columns in reader.tables().items():
            names, rows = reader.query(f"SELECT * FROM {table}")
            assert columns == names == reader.columns(table)
            assert all(columns == list(row) for row in reader.rows(table))
            assert reader.count(table) == len(list(rows))


def _read(columns: list[str], rows: list[dict[str, Any]]) -> Any:
    """Return what pyarrow reads of the file that rows make."""
    reader = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    stream = io.BytesIO()
    write_parquet(stream, columns, rows)
    stream.seek(0)
    return reader.read_table(stream)


def test_columns_have_one_type_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers and floats of one column are floats, and value lists have a field for each id of any row."""
    monkeypatch.setattr(module, "_BATCH_ROWS", 1)
    rows = [
        {"run": "a-1", "n": 1, "sensors": {"g.x": 1, "g.y": [1.0]}, "gone": None},
        {"run": "a-1", "n": 2.5, "sensors": {"h.z": True}, "gone": None},
        {"run": "b-1", "n": None, "sensors": {}, "gone": None},
    ]

    table = _read(list(rows[0]), rows)

    assert ["string", "double", "null"] == [str(table.schema.field(n).type) for n in ("run", "n", "gone")]
    assert [1.0, 2.5, None] == table["n"].to_pylist()
    assert [{"g.x": 1, "g.y": [1.0], "h.z": None}, {"g.x": None, "g.y": None, "h.z": True}, None] == table[
        "sensors"
    ].to_pylist()


def test_no_row_is_a_file_with_the_columns() -> None:
    """A table without rows is a file that can be read, with its columns."""
    table = _read(["run", "n"], [])

    assert (["run", "n"], 0) == (table.column_names, table.num_rows)


@pytest.mark.parametrize("batch", [1, 10])
def test_values_of_different_kinds_are_refused(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of text and numbers is refused by name, with what to do."""
    monkeypatch.setattr(module, "_BATCH_ROWS", batch)
    with pytest.raises(UsageError, match=r"column 'n': expected values of one kind.*--columns"):
        _read(["n"], [{"n": 1}, {"n": "one"}])


def test_a_missing_package_comes_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow the error says how it is installed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install pyarrow"):
        write_parquet(io.BytesIO(), ["n"], [])


NUMBERS = [None, -3, 0, 1, 2, 7]
FLOATS = [None, -0.5, 0.0, 1.0, 2.5]
TEXTS = [None, "", "a", "B", "ab", "100%", "it's", 'q"q', "x_y"]
FLAGS = [None, True, False]
ROWS = [
    {"key": n, "n": NUMBERS[n % 6], "f": FLOATS[n % 5], "t": TEXTS[n % 9], "u": TEXTS[n * 7 % 9], "b": FLAGS[n % 3]}
    for n in range(90)
]
TABLE = Table(
    "t",
    MetaData(),
    Column("key", Integer, primary_key=True),
    Column("n", Integer),
    Column("f", Float),
    Column("t", Text),
    Column("u", Text),
    Column("b", Boolean),
    Column("blob", LargeBinary),
)
COLUMNS = {name: TABLE.c[name] for name in ("n", "f", "t", "u", "b", "blob")}
Value = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def engine() -> Any:
    """Return a database with the rows."""
    engine = create_engine("sqlite://")
    TABLE.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(TABLE), ROWS)
    yield engine
    engine.dispose()


def _found(engine: Any, text: str) -> list[int]:
    with engine.connect() as connection:
        query = select(TABLE.c.key).where(condition(text, COLUMNS)).order_by(TABLE.c.key)
        return [row[0] for row in connection.execute(query)]


def _in(*members: Any) -> Any:
    return lambda value: None if value is None else value in members


# A condition, and what it is of a row: True, False or None (unknown, which selects nothing, negated neither).
MEANINGS: list[tuple[str, Callable[[dict[str, Any]], bool | None]]] = [
    ("n = 2", lambda row: row["n"] == 2),
    ("n != 2", lambda row: row["n"] is not None and row["n"] != 2),
    ("2.5 > f and n <= 1", lambda row: None not in (row["f"], row["n"]) and row["f"] < 2.5 and row["n"] <= 1),
    ("n < f or t = 'a'", lambda row: row["t"] == "a" or (None not in (row["n"], row["f"]) and row["n"] < row["f"])),
    ("t = u", lambda row: row["t"] is not None and row["t"] == row["u"]),
    ("t in ('it''s', 'B', '')", lambda row: _in("it's", "B", "")(row["t"])),
    ("not (t in ('a')) and t not in ('B')", lambda row: row["t"] not in (None, "a", "B")),
    ("t like 'A_'", lambda row: row["t"] == "ab"),
    ("u not like '%b'", lambda row: row["u"] is not None and not row["u"].lower().endswith("b")),
    ("t like '100%' or t like 'X_y'", lambda row: row["t"] in ("100%", "x_y")),
    ("n is null or b", lambda row: row["n"] is None or row["b"]),
    ("not (f is not null) and not b", lambda row: row["f"] is None and row["b"] is False),
    ("n = -3 or n = 0 and b = true", lambda row: row["n"] == -3 or (row["n"] == 0 and row["b"])),
    ("not (n > 0 or b)", lambda row: row["n"] is not None and row["n"] <= 0 and row["b"] is False),
]


@pytest.mark.parametrize(("text", "meant"), MEANINGS, ids=[text for text, _ in MEANINGS])
def test_conditions_mean_what_python_says(
    engine: Any, text: str, meant: Callable[[dict[str, Any]], bool | None]
) -> None:
    """The rows that a condition selects are those for which its evaluation in Python is true."""
    expected = [row["key"] for row in ROWS if meant(row) is True]

    assert expected
    assert expected == _found(engine, text)


@given(st.text("ntbf=<>!()'\" 1.-,_%andorilkesu", max_size=40))
def test_any_text_is_read_or_refused(engine: Any, text: str) -> None:
    """Whatever is typed is a condition that the database understands, or a UsageError."""
    try:
        condition(text, COLUMNS)
    except UsageError:
        return
    _found(engine, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: expected a column or a literal, found the end"),
        ("m = 1", "no column `m`"),
        ("blob = 1", "holds many and knows only `is null`"),
        ("n = blob", "holds many"),
        ("n = 'a'", "expected a number to compare with n, found `'a'`"),
        ("t like 3", "expected text in quotes after `like`"),
        ("n like 'a'", "expected text before `like`"),
        ("n in ()", "expected a column or a literal, found `\\)`"),
        ("t in (u)", "expected a literal"),
        ("n not 3", "expected `in` or `like` after `not`"),
        ("n is 3", "expected `null`"),
        ("n = null", "expected a column or a literal, found `null`"),
        ("n", "expected a comparison"),
        ("n = 1 t = 'a'", "expected `and`, `or` or the end"),
        ("t = demo-1", "text stands in quotes: 'demo'"),
        ("n ~ 3", "character 3"),
        ("t = 'open", "character 5"),
        ("n = 99999999999999999999", "64 bits"),
        ("(" * 100 + "b" + ")" * 100, "at most 64 nested"),
        ("b" + " and b" * 1000, "at most 1500 words and signs"),
        ("n in (1" + ", 1" * 1000 + ")", "at most 1500 words and signs"),
        ("1" * 100_000 + "x", "character 1"),  # read once, not once for each way to cut it
    ],
)
def test_faults_have_a_place(text: str, message: str) -> None:
    """A condition that cannot be read is refused with what was expected, what was found, and where."""
    with pytest.raises(UsageError, match=message):
        condition(text, COLUMNS)
