"""`ganglion results`: the tables of all runs."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import open_reader
from ganglion.cli.table import FORMATS, opened, write
from ganglion.errors import UsageError

if TYPE_CHECKING:
    from ganglion.sdk.store import StoreReader


@click.command("results")
@click.argument("names", nargs=-1, metavar="[TABLE] [RUN...]")
@click.option("--table", help="The table; then all arguments are runs.")
@click.option("--where", metavar="EXPR", help="Which rows, as in: episode >= 10 and reason like 'agent%'.")
@click.option("--columns", multiple=True, metavar="NAME,...", help="Which columns, in this order.")
@click.option("--order", multiple=True, metavar="NAME,...", help="Sort by these columns; -NAME sorts downwards.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N rows.")
@click.option("--wide", is_flag=True, help="A column for each sensor, setpoint and reward.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: by the name of --out, else table.")
@click.option("--out", type=click.Path(path_type=Path), help="A new file; - is standard output.")
@click.option("--sql", metavar="QUERY", help="A query in SQL, on a connection that cannot write.")
@click.pass_obj
def command(
    settings: Settings,
    names: tuple[str, ...],
    table: str | None,
    where: str | None,
    columns: tuple[str, ...],
    order: tuple[str, ...],
    limit: int | None,
    wide: bool,
    form: str | None,
    out: Path | None,
    sql: str | None,
) -> None:
    """Show a table of results, of the named runs or of all; without TABLE the tables there are.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`.
    """
    form = form or _form(out, settings.json)
    runs = list(names)
    if table is None and runs and sql is None:
        table = runs.pop(0)
    chosen = _split(columns)
    narrowing: dict[str, Any] = {"where": where, "columns": chosen, "order": _split(order), "limit": limit}
    narrowing["wide"] = wide
    with open_reader(settings) as reader:
        if sql is not None:
            _refuse("--sql", [*runs, *([table] if table else [])], narrowing)
            shown, rows = _queried(reader, sql)
        elif table is None:
            _refuse("the list of tables", [], narrowing)
            shown, rows = ["table", "rows", "columns"], _tables(reader, form)
        else:
            _refuse_turned_round(table, runs, reader.tables())
            ids = [reader.resolve(run) for run in runs]
            shown = reader.columns(table, ids, chosen, wide)
            rows = reader.rows(table, ids, **narrowing)
        terminal = sys.stdout.isatty() and not settings.plain
        if form == "parquet" and terminal and str(out or "-") == "-":
            raise UsageError("expected --out FILE, or a pipe, for --format parquet")
        with opened(out or Path("-")) as stream:
            if form == "parquet":
                reader.write_parquet(stream.buffer, shown, rows)
            else:
                write(stream, form, shown, rows, terminal and out is None)


def _form(out: Path | None, as_json: bool) -> str:
    suffix = out.suffix.removeprefix(".") if out else ""
    return suffix if suffix in FORMATS else "json" if as_json else "table"


def _split(lists: Sequence[str]) -> list[str] | None:
    names = [name.strip() for text in lists for name in text.split(",") if name.strip()]
    return names or None


def _refuse_turned_round(table: str, runs: Sequence[str], tables: Container[str]) -> None:
    """Raise if a run stands where the table belongs: the usual slip."""
    named = [run for run in runs if run in tables]
    if table not in tables and named:
        raise UsageError(f"expected the table first: ganglion results {named[0]} {table}")


def _refuse(what: str, names: Sequence[str], narrowing: Mapping[str, Any]) -> None:
    given = [*names, *(f"--{name}" for name, value in narrowing.items() if value not in (None, False))]
    if given:
        raise UsageError(f"{what} cannot be combined with {', '.join(given)}")


def _tables(reader: StoreReader, form: str) -> Iterable[Mapping[str, Any]]:
    for name, columns in reader.tables().items():
        shown = " ".join(columns) if form == "table" else columns
        yield {"table": name, "rows": reader.count(name), "columns": shown}


def _queried(reader: StoreReader, sql: str) -> tuple[list[str], Iterable[Mapping[str, Any]]]:
    columns, lines = reader.query(sql)
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise UsageError(f"expected a name for each column of the query, found {', '.join(twice)} twice; use AS")
    return columns, (dict(zip(columns, line, strict=True)) for line in lines)
