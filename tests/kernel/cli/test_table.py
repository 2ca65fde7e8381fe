from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.table import FORMATS, cell, json_text, opened, write
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


def test_parquet_names_what_it_needs() -> None:
    """The format that is not there says which extra it needs."""
    assert "parquet" in FORMATS
    with pytest.raises(UsageError, match="extra `parquet` of ganglion-store"):
        _written("parquet")


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
