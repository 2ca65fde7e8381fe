"""`ganglion verify`: recompute what protects results; digests; the first difference of two runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import open_reader
from ganglion.cli.table import cell, json_text
from ganglion.errors import StoreError, UsageError
from ganglion.supervisor.folder import MANIFEST, Files, read_manifest
from ganglion.supervisor.output import printable

if TYPE_CHECKING:
    from ganglion.sdk.store import StoreReader

# What counts as a result, in the order in which it is digested, and the columns that do not count: wall-clock times
# and places of files; the run's id never does. Of a model the digest of its arrays stands in place of the file.
DIGESTED: dict[str, frozenset[str]] = {
    "phases": frozenset({"run"}),
    "episodes": frozenset({"run"}),
    "steps": frozenset({"run"}),
    "actions": frozenset({"run"}),
    "signals": frozenset({"run"}),
    "evaluations": frozenset({"run", "completed", "brain"}),
    "brains": frozenset({"run", "created", "path", "bytes"}),
    "bodies": frozenset({"run"}),
    "opponents": frozenset({"run"}),
    "ratings": frozenset({"run"}),
}


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


def digested_tables(reader: StoreReader) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the tables of a store that count as results, and the columns of each that do not."""
    known = reader.tables()
    for table, ignored in DIGESTED.items():
        if table in known:
            yield table, ignored


def results_digest(reader: StoreReader, run: str) -> str:
    """Return the SHA-256 of the results of a run as 64 hexadecimal digits.

    It covers the rows in the order of the tables, without the run's id and without wall-clock columns. Rows are read
    one after another: memory does not grow with the run.
    """
    digest = hashlib.sha256()
    for table, ignored in digested_tables(reader):
        digest.update(canonical({"table": table}) + b"\n")
        for row in reader.rows(table, [run]):
            digest.update(canonical(_counted(row, ignored)) + b"\n")
    return digest.hexdigest()


def _counted(row: Mapping[str, Any], ignored: frozenset[str]) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column not in ignored}


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
        found = f"{_shown(self.first)} against {_shown(self.second)}"
        return f"{where}: {found}" if self.column is None else f"{where}: {self.column} {found}"

    def to_map(self) -> dict[str, Any]:
        """Return the difference as plain values."""
        return asdict(self)


def _shown(value: Any) -> str:
    return "null" if value is None else cell(value)


def first_difference(reader: StoreReader, first: str, second: str) -> Difference | None:
    """Return the first difference between the results of two runs, None if they are equal."""
    for table, ignored in digested_tables(reader):
        pairs = zip_longest(reader.rows(table, [first]), reader.rows(table, [second]))
        for number, (a, b) in enumerate(pairs):
            found = _differ(table, number, a, b, ignored)
            if found:
                return found
    return None


def _differ(
    table: str, number: int, a: Mapping[str, Any] | None, b: Mapping[str, Any] | None, ignored: frozenset[str]
) -> Difference | None:
    row = a or b or {}
    at = {key: row[key] for key in _KEYS if row.get(key) is not None}
    if a is None or b is None:
        words = ("no row", "a row") if a is None else ("a row", "no row")
        return Difference(table, number, at, None, *words)
    for column in row:
        if column not in ignored and canonical(a[column]) != canonical(b[column]):
            return Difference(table, number, at, *_narrowed(column, a[column], b[column]))
    return None


def _narrowed(column: str, a: Any, b: Any) -> Sequence[Any]:
    """Return the one value of a value list that differs, with its name."""
    if isinstance(a, dict) and isinstance(b, dict) and list(a) == list(b):
        for name, value in a.items():
            if canonical(value) != canonical(b[name]):
                return f"{column}.{name}", value, b[name]
    return column, a, b


_TOLD_MAX = 20  # damages of one run that are printed; one is enough to distrust it


@dataclass(slots=True)
class _Verified:
    """Hold what was found of one run: damages as maps of kind, where, text, and how many more there are."""

    run: str
    damages: list[dict[str, str]] = field(default_factory=list)
    more: int = 0
    digest: str | None = None

    def add(self, kind: str, where: str, text: str) -> None:
        """Note a damage."""
        if len(self.damages) < _TOLD_MAX:
            self.damages.append({"kind": kind, "where": where, "text": text})
        else:
            self.more += 1

    def to_map(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"run": self.run, "digest": self.digest, "damages": self.damages, "more": self.more}


@click.command("verify")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--digest", is_flag=True, help="Print the digest of the results; equal results have equal ones.")
@click.pass_context
def command(context: click.Context, runs: tuple[str, ...], digest: bool) -> None:
    """Recompute rows, chains of episodes and files of runs, or of all runs; exit status 1 if anything is damaged.

    This finds accidents and careless edits; against who rewrites everything, keep the printed digest elsewhere.
    """
    settings: Settings = context.obj
    found = []
    for verified in _verify(settings, runs, digest):
        found.append(verified)
        if not settings.json:
            _print(verified, digest, alone=len(runs) == 1)
    if settings.json:
        click.echo(json_text({"runs": [verified.to_map() for verified in found]}))
    context.exit(1 if any(verified.damages for verified in found) else 0)


def _print(verified: _Verified, digest: bool, alone: bool) -> None:
    for damage in verified.damages:
        text = f"{verified.run}: {damage['kind']} {damage['where']}: {damage['text']}"
        click.echo(printable(text), err=digest)  # rows and files are damaged: there may be anything in them
    run = printable(verified.run)
    if verified.more:
        click.echo(f"{run}: and {verified.more} more", err=digest)
    if verified.damages:
        return
    if digest:
        click.echo(verified.digest if alone else f"{verified.digest}  {run}")
    else:
        click.echo(f"{run}: whole")


def _verify(settings: Settings, names: tuple[str, ...], digest: bool) -> Iterator[_Verified]:
    """Yield what is found of each run: those that are named, else all."""
    try:
        if settings.store == "none":
            raise StoreError("there is no store to look into: none was asked for")
        reader = open_reader(settings)
    except StoreError as error:
        if digest or not names:
            raise
        for name in names:
            yield _of_folder(settings.results, name, error)
        return
    with reader:
        ids = dict.fromkeys(map(reader.resolve, names)) if names else _all(reader)
        for run in ids:
            yield _stored(reader, settings.results, run, digest)


def _all(reader: StoreReader) -> list[str]:
    return [row["run"] for row in reader.rows("runs", columns=["run"])]


def _stored(reader: StoreReader, results: Path, run: str, digest: bool) -> _Verified:
    verified = _Verified(run)
    for damage in reader.verify(run):
        verified.add(*damage)
    _check_folder(verified, results / run, reader)
    if digest and not verified.damages:
        verified.digest = results_digest(reader, run)
    return verified


def _check_folder(verified: _Verified, folder: Path, reader: StoreReader) -> None:
    """Check the folder of a run that is stored, if there is one."""
    if Path(verified.run).name != verified.run or verified.run.startswith("."):
        verified.add("row", "runs", f"its id {verified.run!r:.60} is no name of a folder")
    elif not folder.is_dir():
        verified.add("file", str(folder), "expected the folder of the run, found none")
    else:
        _check_files(verified, folder, reader)


def _check_files(verified: _Verified, folder: Path, reader: StoreReader) -> None:
    """Check the manifest against the store, and all files that either names."""
    manifest, wrong = read_manifest(folder)
    try:
        heads = reader.heads(verified.run)
    except StoreError:
        heads = None  # the rows are damaged, and that is told already
    if wrong:
        verified.add("file", MANIFEST, wrong)
    elif heads is not None and "sha256" not in manifest:
        verified.add("file", MANIFEST, "the run has ended, but it is not sealed")
    elif heads is not None and _holds_rows(reader, verified.run):
        _compare(verified, manifest.get("chain"), heads)
    files = Files(folder)
    if heads is not None:
        for where, text in files.sealed(manifest):
            verified.add("file", where, text)
    for path, sha256 in _models(verified, reader):
        for where, text in files.model(path, sha256):
            verified.add("file", where, text)


def _holds_rows(reader: StoreReader, run: str) -> bool:
    """Say whether a store has more of a run than its models: every run declares something before its first row."""
    return reader.count("declarations", [run]) > 0 or reader.count("episodes", [run]) > 0


def _compare(verified: _Verified, sealed: Any, heads: Any) -> None:
    """Compare the heads that the manifest has kept with those of the store."""
    if sealed is None:
        return  # the run ended without its governor: nobody was left to hand them over
    same_run = isinstance(sealed, dict) and sealed.get("run") == heads["run"]
    phases = sealed.get("phases") if isinstance(sealed, dict) else None
    if not same_run or not all(row in heads["phases"] for row in phases or ()):
        verified.add("chain", verified.run, f"{MANIFEST} has kept other heads than the store")


def _models(verified: _Verified, reader: StoreReader) -> list[tuple[str, Any]]:
    """Return path and digest of the newest row of each file of a model."""
    try:
        rows = reader.rows("brains", [verified.run], columns=["path", "sha256"])
        return list({str(row["path"]): row["sha256"] for row in rows if row["path"] is not None}.items())
    except StoreError as error:
        verified.add("store", "brains", str(error))
        return []


def _of_folder(results: Path, name: str, why: StoreError) -> _Verified:
    """Check the folder of a run whose store cannot be read; that is damage, unless it was not to be stored at all."""
    if Path(name).name != name or not (results / name / MANIFEST).is_file():
        raise UsageError(f"{why}; in {results} there is no folder of a run {name!r:.60} either")
    verified = _Verified(name)
    manifest, wrong = read_manifest(results / name)
    if manifest.get("store") is not None:
        verified.add("store", str(manifest["store"]), f"its rows cannot be read: {why}")
    if wrong or "sha256" not in manifest:
        verified.add("file", MANIFEST, wrong or "it is not sealed: the run goes on, or has not ended in order")
    for where, text in Files(results / name).sealed(manifest):
        verified.add("file", where, text)
    return verified
