"""`ganglion results`, `runs`, `store`: tables of results; list, compare and remove runs; migrate an older store."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import carrier_of, open_reader, store_class, store_uri, with_live_status
from ganglion.cli.table import FORMATS, json_text, opened, write
from ganglion.errors import StoreError, UsageError
from ganglion.supervisor.output import printable, without_password

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
@click.option(
    "--open",
    "unsealed",
    is_flag=True,
    help="Rows of open episodes [last run] that the store has heard of: without up to 200 steps of a worker, but all "
    "of a paused one that shares its steps with no other.",
)
@click.pass_obj
def command(
    settings: Settings,
    /,
    names: tuple[str, ...],
    table: str | None,
    form: str | None,
    out: Path | None,
    sql: str | None,
    unsealed: bool,
    **narrowing: Any,
) -> None:
    """Show a table of results, of the named runs or of all; without TABLE the tables there are.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`.
    """
    suffix = out.suffix.removeprefix(".") if out else ""
    form = form or (suffix if suffix in FORMATS else "json" if settings.json else "table")
    runs = list(names)
    if table is None and runs and sql is None:
        table = runs.pop(0)
    narrowing |= {name: _split(narrowing[name]) for name in ("columns", "order")}
    opening: AbstractContextManager[StoreReader] = open_reader(settings)
    if unsealed:
        from ganglion.cli.unsealed import open_episodes

        opening = open_episodes(settings, runs)
    with opening as reader:
        if sql is not None:
            _refuse("--sql", filter(None, [*runs, table]), narrowing)
            shown, rows = _queried(reader, sql)
        elif table is None:
            _refuse("the list of tables", [], narrowing)
            shown, rows = ["table", "rows", "columns"], _tables(reader, form)
        else:
            tables = reader.tables()
            named = [run for run in runs if run in tables]
            if table not in tables and named:
                raise UsageError(f"expected the table first: ganglion results {named[0]} {table}")
            ids = [reader.resolve(run) for run in runs]
            shown = reader.columns(table, ids, narrowing["columns"], narrowing["wide"])
            rows = reader.rows(table, ids, **narrowing)
        terminal = sys.stdout.isatty() and not settings.plain
        if form == "parquet" and terminal and str(out or "-") == "-":
            raise UsageError("expected --out FILE, or a pipe, for --format parquet")
        with opened(out or Path("-")) as stream:
            if form == "parquet":
                reader.write_parquet(stream.buffer, shown, rows)
            else:
                write(stream, form, shown, rows, terminal and out is None)


def _split(lists: Sequence[str]) -> list[str] | None:
    names = [name.strip() for text in lists for name in text.split(",") if name.strip()]
    return names or None


def _refuse(what: str, names: Iterable[str], narrowing: Mapping[str, Any]) -> None:
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


STATUSES = ("queued", "running", "paused", "finished", "failed", "interrupted", "lost")


@click.group("runs", invoke_without_command=True)
@click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
@click.option("--uid", help="Only runs of the document with this uid.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Only the newest N.")
@click.pass_context
def runs(context: click.Context, status: str | None, uid: str | None, limit: int | None) -> None:
    """List the runs of a store in order of start."""
    if context.invoked_subcommand is not None:
        return
    settings: Settings = context.obj
    with open_reader(settings) as reader:
        columns = reader.columns("runs")
        rows = [
            row
            for row in (with_live_status(settings, row) for row in reader.rows("runs"))
            if (status is None or row["status"] == status) and (uid is None or row["uid"] == uid)
        ]
    terminal = sys.stdout.isatty() and not settings.plain and not settings.json
    if terminal:  # a run's id begins with its uid, and 80 columns have room for no more
        columns = [name for name in columns if name not in ("uid", "experiment")]
    newest = rows if limit is None else rows[len(rows) - min(limit, len(rows)) :]
    write(sys.stdout, "json" if settings.json else "table", columns, newest, terminal)


@runs.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.pass_obj
def _diff(settings: Settings, first: str, second: str) -> int:
    """Show the first difference between the results of two runs; exit status 1 if there is one.

    Ids of runs and wall-clock times are no results.
    """
    from ganglion.cli.verify import first_difference

    with open_reader(settings) as reader:
        found = first_difference(reader, reader.resolve(first), reader.resolve(second))
    if settings.json:
        click.echo(json_text({"difference": found and asdict(found)}))
    else:
        click.echo(str(found) if found else "no difference")
    return 1 if found else 0


@runs.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def _remove(settings: Settings, runs: tuple[str, ...], yes: bool) -> None:
    """Remove runs: their rows and their folders."""
    uri = store_uri(settings)
    with open_reader(settings) as reader:
        ids = list(dict.fromkeys(reader.resolve(run) for run in runs))
        rows = {row["run"]: row for row in reader.rows("runs", ids)}
    for run in ids:
        where = carrier_of(settings, rows[run])
        if where:
            raise UsageError(f"run {run} is {rows[run]['status']} ({where}); stop it first")
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"expected --yes to remove {', '.join(ids)} without a terminal to ask at")
    if not yes:
        click.confirm(f"Remove {', '.join(ids)} with all results and models?", abort=True)
    removed = store_class(uri).remove(uri, ids)
    for run in ids:
        _remove_folder(settings.results, run)
    if settings.json:
        click.echo(json_text({"removed": dict(removed)}))
    else:
        for run, episodes in removed.items():
            click.echo(f"removed {run} ({episodes} episodes)")


def _remove_folder(results: Path, run: str) -> None:
    """Remove the folder of a run; a name that leads elsewhere is refused."""
    if Path(run).name != run or run.startswith("."):
        raise UsageError(f"expected a run's id as the name of its folder, found {run!r}; its folder was left alone")
    try:
        shutil.rmtree(results / run)
    except FileNotFoundError:
        return  # a store elsewhere, or the folder was removed by hand
    except OSError as error:
        raise StoreError(f"{results / run}: the rows are removed, but the folder cannot be: {error}") from error


@click.group("store")
def store() -> None:
    """Look after the store of results."""


@store.command("migrate")
@click.pass_obj
def _migrate(settings: Settings) -> None:
    """Bring a store of an older revision to the one that this software writes.

    A copy is made first, beside it: `ganglion.db.revision-1`. An older store can be read as it is.
    """
    uri = store_uri(settings)
    before, after = store_class(uri).migrate(uri)
    if settings.json:
        click.echo(json_text({"before": before, "after": after}))
    elif before == after:
        click.echo(printable(f"{without_password(uri)}: is of revision {after} already"))
    else:
        click.echo(printable(f"{without_password(uri)}: revision {before}, now {after}"))
