"""Digest: one number for the results of a run; equal results have equal digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ganglion.errors import StoreError

if TYPE_CHECKING:
    from ganglion.sdk.store import StoreReader

__all__ = ["DIGESTED", "canonical", "digested_tables", "results_digest"]

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
