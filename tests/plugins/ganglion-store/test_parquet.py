from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from ganglion.sdk.store import UsageError
from ganglion_store import reader as module
from ganglion_store.reader import write_parquet


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
