"""`ganglion results`: the tables of all runs, and rows of open episodes out of the store's journal."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import default_uri, open_reader, store_class
from ganglion.cli.table import FORMATS, opened, write
from ganglion.errors import UsageError
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import decode_head
from ganglion.wire.messages import RecordBatch
from ganglion.wire.name import Role, peer_name
from ganglion.wire.parcel import attach
from ganglion.wire.tape import Kind, frames_of, read_records

if TYPE_CHECKING:
    from ganglion.sdk.store import StoreReader

_BATCH = "record.batch"
_REASON = "open"


@contextmanager
def open_episodes(settings: Settings, runs: Sequence[str]) -> Iterator[StoreReader]:
    """Yield a reader of the open episodes of these runs, or of the last one, as if they ended now.

    A store shows an episode when it is whole; until then its rows are in the journal of the store's process, from which
    a temporary store is made. UsageError if a run has no journal.
    """
    with tempfile.TemporaryDirectory(prefix="ganglion-open-") as folder:
        uri = default_uri(Path(folder))
        with open_reader(settings) as stored:
            for run in dict.fromkeys(stored.resolve(run) for run in runs or ["last"]):
                batches = _batches(_journal(settings.results, run))
                with store_class(uri).writer(uri, run) as writer:
                    writer.apply("", list(_declared(stored, run)))
                    writer.apply("", list(_open(batches)))
        with store_class(uri).reader(uri) as reader:
            yield reader


def _journal(results: Path, run: str) -> bytes:
    from ganglion.run.plan import Process
    from ganglion.supervisor.folder import RunFolder

    path = RunFolder(run, results / run).tape(Process(peer_name(run, Role.STORE), Role.STORE))
    try:
        return path.read_bytes()
    except OSError as error:
        what = "the journal of the store, which a run with `recovery` has until it ends"
        raise UsageError(f"{path}: expected {what}: {error.strerror}") from error


def _batches(journal: bytes) -> Iterator[RecordBatch]:
    """Yield the batches that the store has heard, each once, those of a writer in its order."""
    kept: list[RecordBatch] = []  # from before the journal was begun anew: without a number
    found: dict[tuple[bytes, int], RecordBatch] = {}
    for record in read_records(journal):
        frames = frames_of(record.payload) if record.kind is Kind.HEARD else []
        if len(frames) > 2 and decode_head(frames[1]).call == _BATCH:
            batch = attach(_BATCH, codec_of(RecordBatch).decode(frames[2]), frames[3:])
            if batch.number:
                found[frames[0], batch.number] = batch
            else:
                kept.append(batch)
    yield from kept
    for place in sorted(found):
        yield found[place]


def _open(batches: Iterator[RecordBatch]) -> Iterator[list[Any]]:
    """Yield the rows of episodes that are not sealed, and then their ends."""
    rows: dict[tuple[Any, ...], list[list[Any]]] = {}
    sealed: set[tuple[Any, ...]] = set()
    for kind, *fields in itertools.chain.from_iterable(batch.records for batch in batches):
        phase, mode, worker, _, episode = (*fields, *[None] * 5)[:5]
        if kind in ("steps", "actions"):
            rows.setdefault((phase, mode, worker, episode), []).append([kind, *fields])
        elif kind == "episode":
            sealed.add((phase, mode, worker, episode))
    for place in sorted(rows.keys() - sealed):
        yield from rows[place]
        steps = max((row[0] for kind, *_, found in rows[place] if kind == "steps" for row in found), default=0)
        phase, mode, worker, episode = place
        yield ["episode", phase, mode, worker, None, episode, steps, False, False, _REASON, 0]


def _declared(stored: StoreReader, run: str) -> Iterator[list[Any]]:
    """Yield the records by which the store knows a run and what its rows mean."""
    [row] = stored.rows("runs", [run])
    names = ("uid", "experiment", "seed", "started")
    yield ["run", {name: str(row[name]) for name in names}]
    of = ("phase", "environment", "agent", "kind")
    declared = stored.rows("declarations", [run])
    for key, group in itertools.groupby(declared, lambda row: tuple(row[name] for name in of)):
        yield ["declare", *key, [[row[n] for n in ("id", "space", "unit", "dtype", "shape")] for row in group]]


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
    unsealed: bool,
) -> None:
    """Show a table of results, of the named runs or of all; without TABLE the tables there are.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`.
    """
    form = form or _form(out, settings.json)
    runs = list(names)
    if table is None and runs and sql is None:
        table = runs.pop(0)
    chosen, sorting = _split(columns), _split(order)
    narrowing = {"where": where, "columns": chosen, "order": sorting, "limit": limit, "wide": wide}
    with open_episodes(settings, runs) if unsealed else open_reader(settings) as reader:
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
            rows = reader.rows(table, ids, where, chosen, sorting, limit, wide)
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
