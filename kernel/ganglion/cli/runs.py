"""`ganglion runs`, `store`: list, compare and remove the runs of a store; migrate a store of an older revision."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import carried_out, honest, open_reader, store_class, store_uri
from ganglion.cli.table import json_text, write
from ganglion.cli.verify import first_difference
from ganglion.errors import StoreError, UsageError
from ganglion.supervisor.output import printable, without_password

STATUSES = ("queued", "running", "paused", "finished", "failed", "interrupted", "lost")


@click.group("runs", invoke_without_command=True)
@click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
@click.option("--uid", help="Only runs of the document with this uid.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Only the newest N.")
@click.pass_context
def command(context: click.Context, status: str | None, uid: str | None, limit: int | None) -> None:
    """List the runs of a store in order of start."""
    if context.invoked_subcommand is not None:
        return
    settings: Settings = context.obj
    with open_reader(settings) as reader:
        columns = reader.columns("runs")
        rows = [
            row
            for row in (honest(settings, row) for row in reader.rows("runs"))
            if (status is None or row["status"] == status) and (uid is None or row["uid"] == uid)
        ]
    terminal = sys.stdout.isatty() and not settings.plain and not settings.json
    if terminal:  # a run's id begins with its uid, and 80 columns have room for no more
        columns = [name for name in columns if name not in ("uid", "experiment")]
    newest = rows if limit is None else rows[len(rows) - min(limit, len(rows)) :]
    write(sys.stdout, "json" if settings.json else "table", columns, newest, terminal)


@command.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.pass_context
def _diff(context: click.Context, first: str, second: str) -> None:
    """Show the first difference between the results of two runs; exit status 1 if there is one.

    Ids of runs and wall-clock times are no results.
    """
    settings: Settings = context.obj
    with open_reader(settings) as reader:
        found = first_difference(reader, reader.resolve(first), reader.resolve(second))
    if settings.json:
        click.echo(json_text({"difference": found and asdict(found)}))
    else:
        click.echo(str(found) if found else "no difference")
    context.exit(1 if found else 0)


@command.command("rm")
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
        _refuse_live(settings, rows[run])
    _ask(ids, yes)
    removed = store_class(uri).remove(uri, ids)
    for run in ids:
        _remove_folder(settings.results, run)
    if settings.json:
        click.echo(json_text({"removed": dict(removed)}))
    else:
        for run, episodes in removed.items():
            click.echo(f"removed {run} ({episodes} episodes)")


def _ask(runs: list[str], yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"expected --yes to remove {', '.join(runs)} without a terminal to ask at")
    click.confirm(f"Remove {', '.join(runs)} with all results and models?", abort=True)


def _refuse_live(settings: Settings, row: Mapping[str, Any]) -> None:
    """Raise if a run may still be going on: its status is open, and a kernel is alive that may carry it out."""
    where = carried_out(settings, row)
    if where:
        raise UsageError(f"run {row['run']} is {row['status']} ({where}); stop it first")


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
