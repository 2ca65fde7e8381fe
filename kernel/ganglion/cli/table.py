"""Tables: rows as text for people (a table) and for programs (CSV, JSON, JSON lines)."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ganglion.errors import UsageError

__all__ = ["FORMATS", "cell", "json_text", "opened", "write"]

Row = Mapping[str, Any]

_WHOLE_CHARACTERS, _LEAST_CHARACTERS = 20, 12  # what is no longer is never cut; of what is, so much is left
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+\+00:00")  # shown to the second
_GAP = "  "
_GROUP_ROWS = 10_000
_WIDTH_ROWS = 200  # rows that decide how wide the columns of a plain table are
_INFINITY = "\x00infinity\x00"


def json_text(value: Any) -> str:
    """Return a plain value as JSON; NaN is null and an infinity 1e999, which every reader takes for one."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_marked(value), ensure_ascii=False)
        mark = json.dumps(_INFINITY)
        return text.replace(json.dumps("-" + _INFINITY), "-1e999").replace(mark, "1e999")


def _marked(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else _INFINITY if value > 0 else "-" + _INFINITY
    if isinstance(value, Mapping):
        return {key: _marked(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(element) for element in value]
    return value


def cell(value: Any) -> str:
    """Return a value as the text of one cell: nothing for None, JSON for lists and maps, hexadecimal for bytes."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return json_text(value)


def write(
    stream: TextIO, form: str, columns: Sequence[str], rows: Iterable[Row], terminal: bool = False
) -> None:
    """Write rows in one of `FORMATS`; `terminal` draws the table for a screen."""
    if form == "table" and terminal:
        _write_drawn(stream, columns, rows)
    else:
        _WRITERS[form](stream, columns, rows)


def _write_json(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    separator = "["
    for row in rows:
        stream.write(f"{separator}\n{json_text(_printable(row))}")
        separator = ","
    stream.write("[]\n" if separator == "[" else "\n]\n")


def _write_lines(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    stream.writelines(json_text(_printable(row)) + "\n" for row in rows)


def _printable(row: Row) -> Row:
    return {key: value.hex() if isinstance(value, bytes) else value for key, value in row.items()}


def _write_csv(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(row[name]) for name in columns] for row in rows)


def _cells(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[list[str]]:
    # A line is a row: what would break it is shown, not obeyed; that goes for sequences to the terminal too.
    for row in rows:
        yield [_visible(cell(row[name])) for name in columns]


def _visible(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _write_plain(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write aligned columns; the first rows decide the widths, so that any number of rows streams."""
    lines = _cells(columns, rows)
    head = [list(columns), *itertools.islice(lines, _WIDTH_ROWS)]
    widths = [max(map(len, column)) for column in zip(*head, strict=True)]
    for line in itertools.chain(head, lines):
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        stream.write("  ".join(padded).rstrip() + "\n")


def _write_drawn(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Draw a line for each row, long values cut to the width of the screen; records where that is not enough."""
    lines = ([_TIME.sub(r"\1 \2", text) for text in line] for line in _cells(columns, rows))
    head = list(itertools.islice(lines, _WIDTH_ROWS))
    widths = [max(map(len, column)) for column in zip(columns, *head, strict=True)]
    least = [width if width <= _WHOLE_CHARACTERS else _LEAST_CHARACTERS for width in widths]
    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
    if sum(least) > room:
        _draw_records(stream, columns, itertools.chain(head, lines))
        return
    while sum(widths) > room:  # the widest of those that may be cut gives way to the next one
        _, widest = max((width, n) for n, width in enumerate(widths) if width > least[n])
        widths[widest] -= 1
    more = "…" if (stream.encoding or "utf-8").lower().startswith("utf") else "~"
    rule = ("─" if more == "…" else "-") * (sum(widths) + len(_GAP) * (len(widths) - 1))
    for number, line in enumerate(itertools.chain([columns], head, lines)):
        shown = [t if len(t) <= w else t[: w - 1] + more for t, w in zip(line, widths, strict=True)]
        stream.write(
            _GAP.join(map(str.ljust, shown, widths)).rstrip() + "\n" + (f"{rule}\n" if not number else "")
        )


def _draw_records(stream: TextIO, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Write a block for each row, with a line for each of its values."""
    wide = max(map(len, columns))
    for number, line in enumerate(lines):
        block = [f"{name:<{wide}}{_GAP}{text}".rstrip() for name, text in zip(columns, line, strict=True)]
        stream.write("\n" * bool(number) + "\n".join(block) + "\n")


def _write_parquet(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows as Parquet, in groups of `_GROUP_ROWS`; what is a map, or of several types, is JSON in a text."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            f"--format parquet needs pyarrow (pip install 'ganglion[parquet]'): {error}; csv and jsonl need nothing"
        ) from error
    if stream.isatty():
        raise UsageError("--format parquet is not for a terminal: name a file with --out")
    tables = []
    rest = iter(rows)
    while group := list(itertools.islice(rest, _GROUP_ROWS)):
        tables.append(pa.table({name: _array(pa, [row[name] for row in group]) for name in columns}))
    tables = tables or [pa.table({name: [] for name in columns})]
    try:
        whole = pa.concat_tables(tables, promote_options="permissive")
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
    ):  # a column is of one type here, of another one there
        whole = pa.concat_tables(
            [pa.table({n: pa.array(map(cell, t[n].to_pylist())) for n in columns}) for t in tables]
        )
    parquet.write_table(whole, stream.buffer)


def _array(pa: Any, values: list[Any]) -> Any:
    if not any(isinstance(value, Mapping) for value in values):
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            pass  # of several types
    return pa.array([None if value is None else cell(value) for value in values])


_WRITERS: dict[str, Callable[[TextIO, Sequence[str], Iterable[Row]], None]] = {
    "table": _write_plain,
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_lines,
    "parquet": _write_parquet,
}
FORMATS = tuple(_WRITERS)


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a new file for text; UsageError if it exists. What is left after an error is removed."""
    try:
        stream = path.open("x", encoding="utf-8", newline="")
    except FileExistsError as error:
        raise UsageError(f"{path}: expected a new file, found one that is never overwritten") from error
    except OSError as error:
        raise UsageError(f"{path}: expected a file that can be made: {error.strerror}") from error
    try:
        with stream:
            yield stream
    except BaseException:
        path.unlink(missing_ok=True)
        raise
