from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.table import cell, json_text, opened, write
from ganglion.errors import UsageError

ROWS = [
    {"run": "a-1", "n": 1, "flag": True, "values": {"g.x": [1.5, None]}, "gone": None},
    {"run": 'b, "2"', "n": -2.5, "flag": False, "values": {}, "gone": None},
]
COLUMNS = list(ROWS[0])


def _written(form: str, rows: Any = ROWS, terminal: bool = False) -> str:
    stream = io.StringIO()
    write(stream, form, COLUMNS, rows, terminal)
    return stream.getvalue()


def test_json_is_one_list_of_objects() -> None:
    """`json` is one list, `[]` if there is no row; `jsonl` one object per line; both give the rows back."""
    assert ROWS == json.loads(_written("json"))
    assert [] == json.loads(_written("json", []))
    assert ROWS == [json.loads(line) for line in _written("jsonl").splitlines()]
    assert not _written("jsonl", [])


def test_csv_quotes_lists_as_json() -> None:
    """`csv` has a header, nothing for null, and JSON for lists and maps."""
    lines = list(csv.reader(io.StringIO(_written("csv"))))

    assert COLUMNS == lines[0]
    assert ["a-1", "1", "true", '{"g.x": [1.5, null]}', ""] == lines[1]
    assert ['b, "2"', "-2.5", "false", "{}", ""] == lines[2]


def test_plain_tables_are_aligned() -> None:
    """A plain table has one line per row and columns that begin at the same place."""
    lines = _written("table").splitlines()

    assert 3 == len(lines)
    assert 1 == len({line.index(text) for line, text in zip(lines, ("flag", "true", "false"), strict=True)})


def test_a_screen_gets_a_drawn_table() -> None:
    """On a terminal the table is drawn; brackets in values are no markup, control sequences are shown, not obeyed."""
    text = _written("table", [{**ROWS[0], "run": "[red]\x1b[31m"}], terminal=True)

    assert "─" in text
    assert "[red]\\x1b[31m" in text


def test_numbers_that_json_has_not() -> None:
    """NaN is null, an infinity a number that readers take for one, and text that looks like either stays text."""
    text = json_text({"a": math.nan, "b": [math.inf, -math.inf], "c": "Infinity NaN"})

    assert {"a": None, "b": [math.inf, -math.inf], "c": "Infinity NaN"} == json.loads(text)
    assert "NaN," not in text
    assert "1e999" in text


def test_cells() -> None:
    """A cell is text: nothing for None, hexadecimal for bytes, JSON words for booleans."""
    assert ["", "x", "0aff", "true", "[1]"] == [cell(value) for value in (None, "x", b"\x0a\xff", True, [1])]


@pytest.mark.parametrize(("columns", "lines"), [(200, 4), (90, 4), (60, 13)])
def test_a_row_is_a_line_or_a_record(monkeypatch: pytest.MonkeyPatch, columns: int, lines: int) -> None:
    """Long values are cut to the width of the screen, times and numbers never; where that is not enough a record comes.

    A record has a line for each value.
    """
    monkeypatch.setenv("COLUMNS", str(columns))
    time = "2026-11-23T14:58:31.578+00:00"
    row = {
        "run": "tank-1",
        "started": time,
        "ended": time,
        "status": "x" * 30,
        "sensors": "y" * 90,
        "step": 7,
    }
    stream = io.StringIO()
    write(stream, "table", list(row), [row, row], terminal=True)
    shown = stream.getvalue().splitlines()

    assert lines == len(shown)
    assert all(len(line) <= columns for line in shown) or columns == 60
    assert 4 == stream.getvalue().count("2026-11-23 14:58:31")


def test_a_screen_without_utf8_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules and signs of omission are those that the screen can show."""
    monkeypatch.setenv("COLUMNS", "40")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write(stream, "table", ["run", "text"], [{"run": "a", "text": "y" * 90}], terminal=True)
    stream.flush()

    assert ["run  text", "-" * 40, "a    " + "y" * 34 + "~"] == raw.getvalue().decode().splitlines()


PARQUET = """
import sys
from pathlib import Path
from ganglion.cli import table
table._GROUP_ROWS = 2
rows = [
    {"n": n, "late": None if n < 3 else 1.5, "odd": 1 if n < 2 else "x", "map": {"g.x": [n, None]}, "list": [1.0]}
    for n in range(5)
]
for name, some in (("all", rows), ("none", [])):
    with table.opened(Path(name)) as stream:
        table.write(stream, "parquet", list(rows[0]), some)
from pyarrow import parquet
found = parquet.read_table("all").to_pydict()
assert (["n", "late", "odd", "map", "list"], 5) == (list(found), len(found["n"])), found
assert ['{"g.x": [4, null]}', "x", "1"] == [found["map"][4], found["odd"][4], found["odd"][0]], found
assert 0 == parquet.read_table("none").num_rows
"""


def test_parquet_can_be_read_again(tmp_path: Path) -> None:
    """Rows come back from a file, maps as JSON; also where groups of rows differ in type, and where there are none."""
    done = subprocess.run([sys.executable, "-c", PARQUET], cwd=tmp_path, capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)


def test_parquet_names_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without pyarrow the format says what is to be installed, and leaves no file."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        pytest.raises(UsageError, match=r"pip install 'ganglion\[parquet\]'"),
        opened(tmp_path / "a") as stream,
    ):
        write(stream, "parquet", COLUMNS, ROWS)

    assert [] == list(tmp_path.iterdir())


def test_files_are_never_overwritten(tmp_path: Path) -> None:
    """A file that exists is refused and kept; one that could not be finished is removed."""
    path = tmp_path / "out.csv"
    with opened(path) as stream:
        stream.write("mine")
    with pytest.raises(UsageError, match="never overwritten"), opened(path):
        pass
    with pytest.raises(UsageError, match="No such file"), opened(tmp_path / "none" / "out.csv"):
        pass
    with pytest.raises(KeyError), opened(tmp_path / "other.csv") as stream:
        raise KeyError

    assert "mine" == path.read_text()
    assert [path] == list(tmp_path.iterdir())
