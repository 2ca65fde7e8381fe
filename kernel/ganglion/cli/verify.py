"""`ganglion verify`: recompute what protects results; digests; the first difference of two runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
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
_TABLES = ("phases", "episodes", "steps", "actions", "signals", "evaluations", "brains", "bodies", "opponents",
           "ratings")  # fmt: skip
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
        pairs = zip_longest(reader.rows(table, [first]), reader.rows(table, [second]))
        for number, (a, b) in enumerate(pairs):
            found = _differ(table, number, a, b, ignored)
            if found:
                return found
    return None


def _differ(
    table: str, number: int, a: Mapping[str, Any] | None, b: Mapping[str, Any] | None, ignored: set[str]
) -> Difference | None:
    row = a or b or {}
    at = {key: row[key] for key in _KEYS if row.get(key) is not None}
    if a is None or b is None:
        words = ("no row", "a row") if a is None else ("a row", "no row")
        return Difference(table, number, at, None, *words)
    for column in row:
        if column not in ignored and canonical(a[column]) != canonical(b[column]):
            first, second = a[column], b[column]
            if isinstance(first, dict) and isinstance(second, dict) and list(first) == list(second):
                name = next(name for name in first if canonical(first[name]) != canonical(second[name]))
                return Difference(table, number, at, f"{column}.{name}", first[name], second[name])
            return Difference(table, number, at, column, first, second)
    return None


_TOLD_MAX = 20  # damages of one run that are printed; one is enough to distrust it


@dataclass(slots=True)
class _Verified:
    """Hold what was found of one run: damages as maps of kind, where, text, and how many more there are."""

    run: str
    digest: str | None = None
    damages: list[dict[str, str]] = field(default_factory=list)
    more: int = 0

    def add(self, kind: str, *damages: tuple[str, str]) -> None:
        """Note damages of a kind as pairs of where and text."""
        for where, text in damages:
            if len(self.damages) < _TOLD_MAX:
                self.damages.append({"kind": kind, "where": where, "text": text})
            else:
                self.more += 1


@click.command("verify")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--digest", is_flag=True, help="Print the digest of the results; equal results have equal ones.")
@click.pass_obj
def command(settings: Settings, runs: tuple[str, ...], digest: bool) -> int:
    """Recompute rows, chains of episodes and files of runs, or of all runs; exit status 1 if anything is damaged.

    This finds accidents and careless edits; against who rewrites everything, keep the printed digest elsewhere.
    """
    found = []
    for verified in _verify(settings, runs, digest):
        found.append(verified)
        if not settings.json:
            _print(verified, digest, alone=len(runs) == 1)
    if settings.json:
        click.echo(json_text({"runs": [asdict(verified) for verified in found]}))
    return 1 if any(verified.damages for verified in found) else 0


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
        yield from (_of_folder(settings.results, name, error) for name in names)
        return
    with reader:
        runs = map(reader.resolve, names) if names else [row["run"] for row in reader.rows("runs", columns=["run"])]
        for run in dict.fromkeys(runs):
            verified = _Verified(run)
            for kind, *damage in reader.verify(run):
                verified.add(kind, (damage[0], damage[1]))
            folder = settings.results / run
            if Path(run).name != run or run.startswith("."):
                verified.add("row", ("runs", f"its id {run!r:.60} is no name of a folder"))
            elif not folder.is_dir():
                verified.add("file", (str(folder), "expected the folder of the run, found none"))
            else:
                _check_files(verified, folder, reader)
            if digest and not verified.damages:
                verified.digest = results_digest(reader, run)
            yield verified


def _check_files(verified: _Verified, folder: Path, reader: StoreReader) -> None:
    """Check the manifest of a run against the store, and all files that either names."""
    run, files = verified.run, Files(folder)
    manifest, wrong = read_manifest(folder)
    try:
        heads = reader.heads(run)
    except StoreError:
        heads = None  # the rows are damaged, which is noted already
    # Every run declares something before its first row: without rows a store has no more of it than its models.
    sealed = manifest.get("chain")
    if wrong:
        verified.add("file", (MANIFEST, wrong))
    elif heads is not None and "sha256" not in manifest:
        verified.add("file", (MANIFEST, "the run has ended, but it is not sealed"))
    elif heads is not None and (reader.count("declarations", [run]) or reader.count("episodes", [run])):
        # None: the run ended without its governor, and nothing was left to hand the heads over.
        if sealed is not None and not _agree(sealed, heads):
            verified.add("chain", (run, f"{MANIFEST} has kept other heads than the store"))
    if heads is not None:
        verified.add("file", *files.sealed(manifest))
    try:
        rows = reader.rows("brains", [run], columns=["path", "sha256"])
        newest = {str(row["path"]): row["sha256"] for row in rows if row["path"] is not None}
    except StoreError as error:
        newest = {}
        verified.add("store", ("brains", str(error)))
    for path, sha256 in newest.items():
        verified.add("file", *files.model(path, sha256))


def _agree(sealed: Any, heads: Any) -> bool:
    """Say whether the heads that a manifest has kept are those of the store."""
    if not isinstance(sealed, dict) or sealed.get("run") != heads["run"]:
        return False
    return all(row in heads["phases"] for row in sealed.get("phases") or ())


def _of_folder(results: Path, name: str, why: StoreError) -> _Verified:
    """Check the folder of a run whose store cannot be read; that is damage, unless it was not to be stored at all."""
    if Path(name).name != name or not (results / name / MANIFEST).is_file():
        raise UsageError(f"{why}; in {results} there is no folder of a run {name!r:.60} either")
    verified = _Verified(name)
    manifest, wrong = read_manifest(results / name)
    if manifest.get("store") is not None:
        verified.add("store", (str(manifest["store"]), f"its rows cannot be read: {why}"))
    if wrong or "sha256" not in manifest:
        verified.add("file", (MANIFEST, wrong or "it is not sealed: the run goes on, or has not ended in order"))
    verified.add("file", *Files(results / name).sealed(manifest))
    return verified
