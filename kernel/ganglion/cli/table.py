"""Tables: rows as text for people (a table) and for programs (CSV, JSON, JSON lines)."""

from __future__ import annotations

import csv
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ganglion.errors import UsageError
from ganglion.supervisor.output import printable as printable
from ganglion.supervisor.output import without_password as without_password

if TYPE_CHECKING:
    from ganglion.cli.settings import Settings

Row = Mapping[str, Any]

_WHOLE, _LEAST = 24, 10  # on a screen a column up to the first width is never cut, a wider one not below the second
_UTC = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)$")  # a screen omits fractions of a second
_WIDTH_ROWS = 200  # rows that decide how wide the columns of a plain table are
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
_FINITE = {"NaN": "null", "Infinity": "1e999", "-Infinity": "-1e999"}


def json_text(value: Any, **form: Any) -> str:
    """Return a plain value as JSON; NaN is null and an infinity 1e999, which every reader parses as infinity."""
    text = json.dumps(value, **{"ensure_ascii": False, **form})
    if "NaN" not in text and "Infinity" not in text:
        return text
    return _TOKEN.sub(lambda found: _FINITE.get(found[0], found[0]), text)


def tell(settings: Settings, value: Any, lines: Iterable[str]) -> None:
    """Print a value with `--json`, else lines, with terminal control sequences made visible."""
    if settings.json:
        click.echo(json_text(value, ensure_ascii=True, indent=2))
        return
    for line in lines:
        for part in line.split("\n"):
            click.echo(printable(part))


def cell(value: Any) -> str:
    """Return a value as the text of one cell: nothing for None, JSON for lists and maps, hexadecimal for bytes."""
    if value is None or isinstance(value, str):
        return value or ""
    return value.hex() if isinstance(value, bytes) else json_text(value)


def counted(number: int, word: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def write(stream: TextIO, form: str, columns: Sequence[str], rows: Iterable[Row], terminal: bool = False) -> None:
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
    for row in rows:
        yield [visible(cell(row[name])) for name in columns]


def visible(text: str, kept: str = "") -> str:
    """Return text with escapes for all characters that are not printable, except those of `kept`."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


def aligned(lines: Iterable[Sequence[str]], first: int | None = None) -> Iterator[str]:
    """Yield lines of cells in columns; the `first` lines decide the widths, so that any number of lines streams."""
    rest = iter(lines)
    head = list(itertools.islice(rest, first))
    widths = [max(map(len, column)) for column in zip(*head, strict=True)]
    for line in itertools.chain(head, rest):
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def _write_plain(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    lines = itertools.chain([columns], _cells(columns, rows))
    stream.writelines(line + "\n" for line in aligned(lines, 1 + _WIDTH_ROWS))


def _write_drawn(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Draw a line per row with long cells cut; if even the short cells do not fit, a block of lines per row."""
    from rich.console import Console  # late: a pipe does not need rich
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream)
    lines = list(_cells(columns, rows))
    filled = [n for n in range(len(columns)) if any(line[n] for line in lines)]  # empty columns only take up room
    shown = filled or list(range(len(columns)))
    short = [[_UTC.sub(r"\1Z", line[n]) for n in shown] for line in lines]
    head = [columns[n] for n in shown]
    widths = [max(map(len, column)) for column in zip(head, *short, strict=True)]
    least = sum(width if width <= _WHOLE else _LEAST for width in widths) + 2 * (len(widths) - 1)
    if least > console.width:
        for line in lines:
            block = Table.grid(padding=(0, 2))
            for name, text in zip(columns, line, strict=True):
                if text:
                    block.add_row(Text(name, style="bold"), Text(text, overflow="fold"))
            console.print(block, "")
        return
    table = Table(box=None, pad_edge=False)
    for name, width in zip(head, widths, strict=True):
        table.add_column(name, no_wrap=width <= _WHOLE)
    for line in short:
        # Text: brackets in a value are no markup. It is cut, never wrapped, if its column is too narrow.
        table.add_row(*(Text(text, no_wrap=True, overflow="ellipsis") for text in line))
    console.print(table)
    if sum(widths) + 2 * (len(widths) - 1) > console.width:
        console.print("cells are cut to fit; --plain shows them whole", style="dim")


_WRITERS: dict[str, Callable[[TextIO, Sequence[str], Iterable[Row]], None]] = {
    "table": _write_plain,
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_lines,
}
FORMATS = (*_WRITERS, "parquet")  # the store writes the last one


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a new file for text; UsageError if it exists. A partial file is removed after an error.

    `-` is standard output, as in other programs that write a file.
    """
    if str(path) == "-":
        yield sys.stdout
        return
    try:
        stream = path.open("x", encoding="utf-8", newline="")
    except FileExistsError as error:
        raise UsageError(f"{path}: expected a new file, found one, and nothing is overwritten") from error
    except OSError as error:
        raise UsageError(f"{path}: expected a file that can be made: {error.strerror}") from error
    try:
        with stream:
            yield stream
    except BaseException:
        path.unlink(missing_ok=True)
        raise
