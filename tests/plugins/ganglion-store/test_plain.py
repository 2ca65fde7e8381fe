from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from databases import Server, change, fresh

from ganglion_store.reader import SqlReader
from ganglion_store.store import SqlStore
from ganglion_store.writer import SqlWriter

pack = msgpack.packb
DRAW = random.Random(7)
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3, math.pi * 1e300, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308]
FLOATS += [struct.unpack("<d", DRAW.randbytes(8))[0] for _ in range(60)]
INTEGERS = [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**62]
INTEGERS += [-1, -32, -33, -128, -129, -(2**15), -(2**31), -(2**63)]
# A value of a list, by the database.
PART = {"s": "sensors ->> '$.\"grid.a\"'", "p": "CAST(sensors ->> 'grid.a' AS float8)"}
ARRAYS = {
    "<f4": np.array([0.1, -2.5, 1e-45, 3.4e38, 0.0], "<f4"),
    "<f8": np.array([0.1, -2.5, 5e-324, 1e308, 1 / 3], "<f8"),
    "|u1": np.arange(251, 256, dtype="|u1"),
    "<i8": np.array([0, -1, 2**62, -(2**63), 7], "<i8"),
    "<i2": np.array([0, -1, 2**14, -(2**15), 7], "<i2"),
    "|b1": np.array([True, False, True, True, False]),
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty place for a store in each of the two databases."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ganglion.db'}"
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'ganglion-store[postgres]'")
    return fresh(request.getfixturevalue("server"))


def _written(uri: str, kinds: dict[str, tuple[str, list[int]]], rows: list[list[Any]]) -> None:
    """Write a run in which an environment has these sensors (id -> dtype, shape), and one row of values each."""
    declared = [[name, "Box", None, dtype, shape] for name, (dtype, shape) in kinds.items()]
    records: list[Any] = [["run", {"uid": "demo", "experiment": "e", "seed": "1", "started": "2030-01-01T00:00:00Z"}]]
    records.append(["declare", 0, "grid", None, "sensor", declared])
    both = [[name, "Box", None, "<f8", []] for name in ("grid.x", "grid.y")]
    records.append(["declare", 0, "grid", None, "actuator", both])
    records.append(["declare", 0, "grid", None, "reward", [["grid.r", "Box", None, "<f8", []]]])
    records.append(["phase", 0, "first", "train", "finished", None])
    steps = [
        [n, n, n, None, pack(row), pack([0.5, None]), pack([float(n)]), False, False] for n, row in enumerate(rows, 1)
    ]
    records.append(["steps", 0, "train", 0, "grid", 0, steps])
    records.append(["episode", 0, "train", 0, None, 0, len(rows), True, False, "environment", 0])
    with SqlWriter(uri, "demo-1") as writer:
        writer.apply("governor", records)


def _read(value: Any) -> Any:
    return json.loads(value) if type(value) is str else value  # psycopg has read it already


def test_numbers_are_those_that_were_stored(uri: str) -> None:
    """Each double and each integer comes back as it was, to the last bit; what is unknown is null, infinities 1e999."""
    values = [it for it in FLOATS if not math.isnan(it) and not math.isinf(it)]
    rows: list[list[Any]] = [[a, b] for a, b in zip(values, (INTEGERS * 9)[: len(values)], strict=True)]
    rows += [[math.nan, None], [math.inf, 3], [None, -math.inf]]
    _written(uri, {"grid.a": ("<f8", []), "grid.b": ("<f8", [])}, rows)
    found = [_read(value) for (value,) in change(uri, "SELECT sensors FROM steps_json ORDER BY step")]

    unknown = [
        {"grid.a": None, "grid.b": None},
        {"grid.a": math.inf, "grid.b": 3},
        {"grid.a": None, "grid.b": -math.inf},
    ]
    assert [{"grid.a": a, "grid.b": b} for a, b in rows[:-3]] + unknown == found


@pytest.mark.parametrize("dtype", ARRAYS)
def test_arrays_are_lists(uri: str, dtype: str) -> None:
    """The bytes of an array are a list of its elements, whatever stands beside it."""
    array = ARRAYS[dtype]
    _written(uri, {"grid.a": (dtype, [5]), "grid.b": ("|b1", [])}, [[array.tobytes(), 1]])
    [(value,)] = change(uri, "SELECT sensors FROM steps_json")

    assert {"grid.a": array.tolist(), "grid.b": True} == _read(value)


def test_views_are_the_tables_that_readers_show(uri: str) -> None:
    """Places and values of a row are those that readers show; a setpoint that was not given is not there."""
    _written(uri, {"grid.a": ("<f8", [])}, [[0.5], [1.5]])
    columns = ["run", "phase", "mode", "worker", "environment", "episode", "step", "sensors", "setpoints", "rewards"]
    found = change(uri, f"SELECT {', '.join(columns)} FROM steps_json ORDER BY step")
    [(mean,)] = change(uri, f"SELECT avg({PART[uri[0]]}) FROM steps_json")
    with SqlReader(uri) as reader:
        rows = list(reader.rows("steps", ["demo-1"], columns=columns))

    named = [dict(zip(columns, row, strict=True)) for row in found]
    assert rows == [{k: _read(v) if k in columns[-3:] else v for k, v in row.items()} for row in named]
    assert [{"grid.x": 0.5}] * 2 == [row["setpoints"] for row in rows]
    assert 1.0 == mean


def test_an_older_store_gets_them_by_migration(tmp_path: Path, age: Callable[[Path, int], None]) -> None:
    """A store without the views is whole; `migrate` makes them, of an older revision and of this one."""
    path = tmp_path / "ganglion.db"
    uri = f"sqlite:///{path}"
    _written(uri, {"grid.a": ("<f8", [])}, [[0.5]])
    for before in (lambda: age(path, 3), lambda: change(uri, *DROP)):
        before()
        SqlStore.migrate(uri)
        assert [('{"grid.a":0.5}',)] == change(uri, "SELECT sensors FROM steps_json")


@pytest.mark.long
def test_a_database_gets_them_by_migration(server: Server) -> None:
    """One of PostgreSQL, too."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'ganglion-store[postgres]'")
    uri = fresh(server)
    _written(uri, {"grid.a": ("<f8", [])}, [[0.5]])
    change(uri, *DROP, "DROP FUNCTION stored_plain")
    SqlStore.migrate(uri)

    assert [({"grid.a": 0.5},)] == change(uri, "SELECT sensors FROM steps_json")


DROP = [f"DROP VIEW {name}_json" for name in ("steps", "actions", "resets")]
