from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def runs(write_run: Callable[..., str]) -> None:
    """Write two runs of one document."""
    write_run("demo-1")
    write_run("demo-2", steps=2)


def test_without_a_table_the_tables_are_listed(ganglion: Command) -> None:
    """Tables, numbers of rows and columns are listed, as JSON too."""
    status, out, _ = ganglion("results")
    assert (0, "steps") == (status, next(line.split()[0] for line in out.splitlines() if " 5 " in line))

    found = {row["table"]: row for row in json.loads(ganglion("results", "--json")[1])}
    assert (2, 5) == (found["runs"]["rows"], found["steps"]["rows"])
    assert "sensors" in found["steps"]["columns"]


def test_rows_are_narrowed(ganglion: Command) -> None:
    """Condition, columns, order, limit and wide reach the store."""
    options = ["--where", "step > 1", "--columns", "run,step", "--columns", "setpoints", "--order", "-step,run"]
    _, out, _ = ganglion("results", "steps", *options, "--limit", "2", "--wide", "--format", "csv")

    assert ["run,step,setpoints.grid.x", "demo-1,3,3", "demo-1,2,2"] == out.splitlines()


def test_a_query_in_sql(ganglion: Command) -> None:
    """SQL is read-only, stands alone, and needs names for its columns."""
    sql = "SELECT run, count(*) AS n FROM steps GROUP BY run ORDER BY run"
    assert [{"run": "demo-1", "n": 3}, {"run": "demo-2", "n": 2}] == json.loads(
        ganglion("results", "--sql", sql, "--json")[1]
    )
    for arguments, message in (
        (("--sql", "DELETE FROM stored_runs"), "may only read"),
        (("steps", "--sql", sql), "cannot be combined with steps"),
        (("--sql", sql, "--limit", "1"), "cannot be combined with --limit"),
        (("--sql", "SELECT 1 AS a, 2 AS a"), "found a twice"),
        (("--where", "step = 1"), "the list of tables cannot be combined with --where"),
    ):
        status, _, err = ganglion("results", *arguments)
        assert (2, True) == (status, message in err), err


class _Full(io.FileIO):
    """A file on a disk that has room for a line."""

    def write(self, data: Any) -> int:
        if b"demo" in bytes(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(data)


def test_output_that_cannot_be_written(ganglion: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command ends between two rows, with the reason alone."""
    with io.TextIOWrapper(_Full(tmp_path / "full", "w"), write_through=True) as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        found = ganglion("results", "steps", "--format", "csv")

    assert (1, "", "ganglion: standard output: No space left on device\n") == found


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("stpes",), 2, "did you mean `steps`"),
        (("last", "episodes"), 2, "expected the table first: ganglion results episodes last"),
        (("steps", "demo-9"), 2, "did you mean `demo-"),
        (("steps", "--order", "-stpe"), 2, "there is no column `stpe` in steps; did you mean `step`?"),
        (("steps", "--columns", "senors"), 2, "did you mean `sensors`"),
        (("steps", "--where", "stpe = 1"), 2, "did you mean `step`"),
        (("steps", "--store", "sqlite:////none/a.db"), 1, "/none/a.db: expected a result store, found nothing"),
    ],
)
def test_faults_are_named(ganglion: Command, arguments: tuple[str, ...], status: int, message: str) -> None:
    """A fault is said on stderr with the nearest right name, nothing on stdout."""
    found, out, err = ganglion("results", *arguments)

    assert (status, "", True) == (found, out, message in err), err


def test_parquet_is_written_by_the_store(ganglion: Command, tmp_path: Path) -> None:
    """A name that ends in `.parquet` makes a Parquet file of the chosen rows."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "rows.parquet"

    assert (0, "", "") == ganglion("results", "steps", "demo-2", "--columns", "step,sensors", "--out", str(path))

    rows = [{"step": 1, "sensors": {"grid.a": 0.5}}, {"step": 2, "sensors": {"grid.a": 0.5}}]
    assert rows == parquet.read_table(path).to_pylist()
