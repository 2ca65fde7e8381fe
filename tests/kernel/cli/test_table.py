from __future__ import annotations

import io
import json
import math
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


def test_values_are_shown_on_a_screen_as_they_are() -> None:
    """On a terminal brackets in values are no markup, control sequences are shown, not obeyed."""
    text = _written("table", [{**ROWS[0], "run": "[red]\x1b[31m"}], terminal=True)

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


def _drawn(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of a table with long values on a terminal so wide."""
    monkeypatch.setenv("COLUMNS", str(width))
    values = json.dumps({f"grid.sensor_{number}": number for number in range(40)})
    row = {"run": "a-1", "body": None, "started": "2030-01-01T00:00:00.123+00:00", "sensors": values}
    stream = io.StringIO()
    write(stream, "table", list(row), [row, row], terminal=True)
    return stream.getvalue().splitlines()


def test_a_screen_gets_one_line_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long cells are cut and said to be, short ones and times stay whole, columns without a value are left out."""
    head, *rows, end = _drawn(60, monkeypatch)

    assert ["run", "started", "sensors"] == head.split()
    assert 2 == len(rows)
    assert all("2030-01-01T00:00:00Z" in row and row.endswith("…") and len(row) <= 60 for row in rows)
    assert "--plain" in end


def test_a_narrow_screen_gets_a_block_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even the short cells of a row fit in a line, each value has a line, and none is cut."""
    text = "".join(line[9:].rstrip() for line in _drawn(30, monkeypatch))

    assert 2 == text.count('"grid.sensor_39":')
    assert 2 == text.count("2030-01-01T00:00:00.123+00:00")


def test_files_are_never_overwritten(tmp_path: Path) -> None:
    """A file that exists is refused and kept; one that could not be finished is removed."""
    path = tmp_path / "out.csv"
    with opened(path) as stream:
        stream.write("mine")
    with pytest.raises(UsageError, match="nothing is overwritten"), opened(path):
        pass
    with pytest.raises(UsageError, match="No such file"), opened(tmp_path / "none" / "out.csv"):
        pass
    with pytest.raises(KeyError), opened(tmp_path / "other.csv") as stream:
        raise KeyError

    assert "mine" == path.read_text()
    assert [path] == list(tmp_path.iterdir())
