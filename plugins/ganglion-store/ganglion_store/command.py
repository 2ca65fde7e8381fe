"""`ganglion results`, `runs`, `store`, `verify`: tables of results; runs compared, removed, checked; older stores."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import open_reader, store_class, store_uri
from ganglion.cli.table import FORMATS, cell, json_text, opened, printable, tell, without_password, write
from ganglion.sdk import StoreError, UsageError
from ganglion.sdk.store import StoreAbsent
from ganglion_store.show import COLUMNS, carrier_of, rows_of_folders, with_live_status

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader


@click.command("results")
@click.argument("names", nargs=-1, metavar="[TABLE] [RUN...]")
@click.option("--table", help="table to show; all arguments are runs then")
@click.option("--where", metavar="EXPR", help="condition on rows: episode >= 10 and reason like 'agent%'")
@click.option("--columns", multiple=True, metavar="NAME,...", help="columns to show, in this order")
@click.option("--order", multiple=True, metavar="NAME,...", help="columns to sort by; -NAME sorts downwards")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="at most N rows")
@click.option("--wide", is_flag=True, help="one column for each sensor, setpoint and reward")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="form of the output [by the name of --out, else table]"
)
@click.option("--out", type=click.Path(path_type=Path), help="write to a new file, - for standard output")
@click.option("--sql", metavar="QUERY", help="query in SQL, on a read-only connection")
@click.option(
    "--open",
    "unsealed",
    is_flag=True,
    help="rows of episodes that have not ended [last run]; up to 200 of the newest steps of a worker may be missing. "
    "No row of a paused worker is missing, unless workers share their steps",
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
        from ganglion_store.unsealed import open_episodes

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
            rows = (row for row in reader.rows(table, ids, **narrowing))
        terminal = sys.stdout.isatty() and not settings.plain
        if form == "parquet" and terminal and str(out or "-") == "-":
            raise UsageError("expected --out FILE, or a pipe, for --format parquet")
        with closing(rows), opened(out or Path("-")) as stream:  # before the reader: whoever reads may leave early
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


def _tables(reader: StoreReader, form: str) -> Generator[Mapping[str, Any]]:
    for name, columns in reader.tables().items():
        shown = " ".join(columns) if form == "table" else columns
        yield {"table": name, "rows": reader.count(name), "columns": shown}


def _queried(reader: StoreReader, sql: str) -> tuple[list[str], Generator[Mapping[str, Any]]]:
    columns, lines = reader.query(sql)
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise UsageError(f"expected a name for each column of the query, found {', '.join(twice)} twice; use AS")
    return columns, (dict(zip(columns, line, strict=True)) for line in lines)


STATUSES = ("queued", "running", "paused", "finished", "failed", "interrupted", "lost")


@click.group("runs", invoke_without_command=True)
@click.option("--status", type=click.Choice(STATUSES), help="runs of this status only")
@click.option("--uid", help="runs of documents with this uid only")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="the newest N only")
@click.pass_context
def runs(context: click.Context, status: str | None, uid: str | None, limit: int | None) -> None:
    """List the runs of a store in order of start, also those that ended before anything was stored."""
    if context.invoked_subcommand is not None:
        return
    settings: Settings = context.obj
    absent: StoreAbsent | None = None
    try:
        with open_reader(settings) as reader:
            columns, known = reader.columns("runs"), list(reader.rows("runs"))
    except StoreAbsent as error:
        columns, known, absent = list(COLUMNS), [], error
    more = rows_of_folders(settings, {row["run"] for row in known})
    if absent is not None and not more:
        raise absent
    known = sorted([*known, *more], key=lambda row: str(row["started"])) if more else known
    rows = [
        row
        for row in (with_live_status(settings, row) for row in known)
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
    with open_reader(settings) as reader:
        found = first_difference(reader, reader.resolve(first), reader.resolve(second))
    tell(settings, {"difference": found and asdict(found)}, [str(found or "no difference")])
    return 1 if found else 0


@runs.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="do not ask")
@click.pass_obj
def _remove(settings: Settings, runs: tuple[str, ...], yes: bool) -> None:
    """Remove runs: their rows and their folders."""
    uri = store_uri(settings)
    with open_reader(settings) as reader:
        stored = {row["run"]: row for row in reader.rows("runs")}
        bare = {row["run"]: row for row in rows_of_folders(settings, stored)}
        ids = list(dict.fromkeys(run if run in bare else reader.resolve(run) for run in runs))
        rows = bare | stored
    for run in ids:
        where = carrier_of(settings, rows[run])
        if where:
            raise UsageError(f"run {run} is {rows[run]['status']} ({where}); stop it first")
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"expected --yes to remove {', '.join(ids)} without a terminal to ask at")
    if not yes:
        click.confirm(f"Remove {', '.join(ids)} with all results and models?", abort=True)
    removed = dict.fromkeys(ids, 0) | dict(store_class(uri).remove(uri, [run for run in ids if run not in bare]))
    for run in ids:
        _remove_folder(settings.results, run)
    tell(settings, {"removed": dict(removed)}, [f"removed {run} ({n} episodes)" for run, n in removed.items()])


def _remove_folder(results: Path, run: str) -> None:
    """Remove the folder of a run; a name that leads elsewhere is refused."""
    if not _is_name(run):
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
    said = f"is of revision {after} already" if before == after else f"revision {before}, now {after}"
    tell(settings, {"before": before, "after": after}, [f"{without_password(uri)}: {said}"])


# -- verify ------------------------------------------------------------------------------------------------------------
# What counts as a result, in the order in which it is digested, and the columns that do not count: wall-clock times
# and places of files; the run's id never does. Of a model the digest of its arrays stands in place of the file.
_TABLES = ("phases", "episodes", "steps", "actions", "signals", "evaluations", "brains", "bodies", "opponents",
           "ratings", "topics")  # fmt: skip
# A run without rows of these has the digest from before there were any.
_LATER = ("bodies", "opponents", "ratings", "topics")
_IGNORED = {"evaluations": {"run", "completed", "brain"}, "brains": {"run", "created", "path", "bytes"}}


def canonical(value: Any) -> bytes:
    """Return a plain value as bytes: equal values have equal ones, whatever order the keys of inner maps are in."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except TypeError:  # bytes, or a map whose keys are not all text
        text = json.dumps(_shaped(value), separators=(",", ":"), ensure_ascii=True)
    return text.encode()


def _shaped(value: Any) -> Any:
    """Return what JSON does not have as lists that name it."""
    if isinstance(value, bytes | bytearray):
        return ["bytes", bytes(value).hex()]
    if isinstance(value, Mapping):
        pairs = [(canonical(key).decode(), _shaped(inner)) for key, inner in value.items()]
        return ["map", *sorted(pairs, key=lambda pair: pair[0])]
    if isinstance(value, list | tuple):
        return [_shaped(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise StoreError(f"expected a plain value in a row, found {type(value).__name__}")


def _digested(reader: StoreReader) -> list[tuple[str, set[str]]]:
    """Return the tables of a store that count as results, and the columns of each that do not."""
    known = reader.tables()
    return [(table, _IGNORED.get(table, {"run"})) for table in _TABLES if table in known]


def results_digest(reader: StoreReader, run: str) -> str:
    """Return the SHA-256 of the results of a run as 64 hexadecimal digits.

    It covers the rows in the order of the tables, without the run's id and without wall-clock columns. Rows are read
    one after another: memory does not grow with the run.
    """
    digest = hashlib.sha256()
    for table, ignored in _digested(reader):
        if table not in _LATER or reader.count(table, [run]):
            digest.update(canonical({"table": table}) + b"\n")
        for row in reader.rows(table, [run]):
            counted = {column: value for column, value in row.items() if column not in ignored}
            digest.update(canonical(counted) + b"\n")
    return digest.hexdigest()


# What names a row in a message.
_KEYS = ("phase", "mode", "worker", "environment", "agent", "tag", "body", "episode", "step", "issuer")


@dataclass(frozen=True, slots=True)
class Difference:
    """Name the first difference: table, number of the row from 0, what names the row, column and both values.

    A column of None means that one run has no such row; `first` or `second` then says `no row`.
    """

    table: str
    row: int
    at: dict[str, Any]
    column: str | None
    first: Any
    second: Any

    def __str__(self) -> str:
        named = ", ".join(f"{key} {value}" for key, value in self.at.items())
        where = f"{self.table}, row {self.row}" + (f" ({named})" if named else "")
        first, second = ("null" if value is None else cell(value) for value in (self.first, self.second))
        return f"{where}: {'' if self.column is None else f'{self.column} '}{first} against {second}"


def first_difference(reader: StoreReader, first: str, second: str) -> Difference | None:
    """Return the first difference between the results of two runs, None if they are equal."""
    for table, ignored in _digested(reader):
        pairs = itertools.zip_longest(reader.rows(table, [first]), reader.rows(table, [second]))
        for number, (a, b) in enumerate(pairs):
            if a is None or b is None:
                words = ("no row", "a row") if a is None else ("a row", "no row")
                return Difference(table, number, _named(a or b), None, *words)
            for column in a:
                if column not in ignored and canonical(a[column]) != canonical(b[column]):
                    return Difference(table, number, _named(a), *_narrowed(column, a[column], b[column]))
    return None


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in _KEYS if row.get(key) is not None}


def _narrowed(column: str, first: Any, second: Any) -> tuple[str, Any, Any]:
    """Return column and values, of maps with the same keys those of the first key that differs."""
    if isinstance(first, dict) and isinstance(second, dict) and list(first) == list(second):
        name = next(name for name in first if canonical(first[name]) != canonical(second[name]))
        return f"{column}.{name}", first[name], second[name]
    return column, first, second


_TOLD_MAX = 20  # damages of one run that are printed; one is enough to distrust it

_Damages = Iterator[tuple[str, str, str]]  # kind, where, text, as `ganglion.sdk.store.Damage`


@click.command("verify")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--digest", is_flag=True, help="print the digest of the results; equal results have equal digests")
@click.pass_obj
def verify(settings: Settings, runs: tuple[str, ...], digest: bool) -> int:
    """Recompute rows, chains of episodes and files of runs, or of all runs; exit status 1 if anything is damaged.

    This finds accidents and careless edits; against deliberate rewriting, keep the printed digest elsewhere.
    """
    found = []
    for run, damages, reader in _verified(settings, runs, digest):
        told = [dict(zip(("kind", "where", "text"), it, strict=True)) for it in itertools.islice(damages, _TOLD_MAX)]
        row = {"run": run, "digest": None, "damages": told, "more": sum(1 for _ in damages)}
        if digest and not told and reader is not None:
            row["digest"] = results_digest(reader, run)
        found.append(row)
        if not settings.json:
            _print_verified(row, digest, alone=len(runs) == 1)
    if settings.json:
        click.echo(json_text({"runs": found}))
    return 1 if any(row["damages"] for row in found) else 0


def _print_verified(row: Mapping[str, Any], digest: bool, alone: bool) -> None:
    run = printable(row["run"])
    for damage in row["damages"]:  # rows and files are damaged: there may be anything in them
        click.echo(printable(f"{run}: {damage['kind']} {damage['where']}: {damage['text']}"), err=digest)
    if row["more"]:
        click.echo(f"{run}: and {row['more']} more", err=digest)
    if not row["damages"]:
        whole = row["digest"] if alone else f"{row['digest']}  {run}"
        click.echo(whole if digest else f"{run}: whole")


def _verified(
    settings: Settings, names: tuple[str, ...], digest: bool
) -> Iterator[tuple[str, _Damages, StoreReader | None]]:
    """Yield each run, those that are named or all, with its damages and the store that it was read from."""
    try:
        if settings.store == "none":
            raise StoreError("there is no store to look into: none was asked for")
        reader = open_reader(settings)
    except StoreError as error:
        if digest or not names:
            raise
        yield from ((name, _of_folder(settings.results, name, error), None) for name in names)
        return
    with reader:
        runs = list(map(reader.resolve, names)) if names else _ours(settings, reader)
        for run in dict.fromkeys(runs):
            yield run, itertools.chain(reader.verify(run), _of_files(settings.results, run, reader)), reader


def _ours(settings: Settings, reader: StoreReader) -> list[str]:
    """Return the runs of a store; of one outside of our results folder those alone that have a folder there."""
    runs = [str(row["run"]) for row in reader.rows("runs", columns=["run"])]
    scheme, _, path = store_uri(settings).partition(":///")
    if scheme == "sqlite" and Path(path).resolve().parent == settings.results.resolve():
        return runs
    ours = [run for run in runs if _is_name(run) and (settings.results / run).is_dir()]
    if len(ours) < len(runs):
        text = f"{len(runs) - len(ours)} of {len(runs)} runs have no folder in {settings.results}: others have them, "
        click.echo(f"{text}and they are looked at by their names", err=True)
    return ours


def _of_files(results: Path, run: str, reader: StoreReader) -> _Damages:
    """Check the manifest of a run against the store, and all files that either names."""
    from ganglion.cli.extension import MANIFEST, Files, read_manifest  # late: pydantic, which tables need not

    folder = results / run
    if not _is_name(run):
        yield "row", "runs", f"its id {run!r:.60} is no name of a folder"
        return
    if not folder.is_dir():
        yield "file", str(folder), "expected the folder of the run, found none"
        return
    files, (manifest, wrong) = Files(folder), read_manifest(folder)
    try:
        heads = reader.heads(run)
    except StoreError:
        heads = None  # the rows are damaged, which is noted already
    # Every run declares something before its first row: without rows a store has no more of it than its models.
    sealed = manifest.get("chain")
    if wrong:
        yield "file", MANIFEST, wrong
    elif heads is not None and "sha256" not in manifest:
        yield "file", MANIFEST, "the run has ended, but it is not sealed"
    elif heads is not None and (reader.count("declarations", [run]) or reader.count("episodes", [run])):
        # None: the run ended without its governor, and nothing was left to hand the heads over.
        if sealed is not None and not _agree(sealed, heads):
            yield "chain", run, f"{MANIFEST} has kept other heads than the store"
    if heads is not None:
        yield from (("file", *damage) for damage in files.sealed(manifest))
    try:
        rows = reader.rows("brains", [run], columns=["path", "sha256"])
        newest = {str(row["path"]): row["sha256"] for row in rows if row["path"] is not None}
    except StoreError as error:
        newest = {}
        yield "store", "brains", str(error)
    for path, sha256 in newest.items():
        yield from (("file", *damage) for damage in files.model(path, sha256))


def _agree(sealed: Any, heads: Any) -> bool:
    """Say whether the heads that a manifest has kept are those of the store."""
    same = isinstance(sealed, dict) and sealed.get("run") == heads["run"]
    return same and all(row in heads["phases"] for row in sealed.get("phases") or ())


def _of_folder(results: Path, name: str, why: StoreError) -> _Damages:
    """Check the folder of a run whose store cannot be read; that is damage, unless it was not to be stored at all."""
    from ganglion.cli.extension import MANIFEST, Files, read_manifest

    if not _is_name(name) or not (results / name / MANIFEST).is_file():
        raise UsageError(f"{why}; in {results} there is no folder of a run {name!r:.60} either")
    manifest, wrong = read_manifest(results / name)
    if manifest.get("store") is not None:
        yield "store", str(manifest["store"]), f"its rows cannot be read: {why}"
    if wrong or "sha256" not in manifest:
        yield "file", MANIFEST, wrong or "it is not sealed: the run goes on, or has not ended in order"
    yield from (("file", *damage) for damage in Files(results / name).sealed(manifest))


def _is_name(run: str) -> bool:
    """Say whether a run's id is the name of a folder; another one would lead elsewhere."""
    return Path(run).name == run and not run.startswith(".")
