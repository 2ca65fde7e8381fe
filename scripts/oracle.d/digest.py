"""The digest of a table of a run: frozen, so that what any two versions of Ganglion compute can be compared.

A digest is the SHA-256, as 64 hexadecimal digits, of one line of JSON per row of the run: a list of the columns named
in `TABLES`, with the rows in ascending order of the first group of columns (the key). A value is written by
`json.dumps` with sorted keys: a float by the shortest text that reads back as the same float (or `NaN`, `Infinity`,
`-Infinity`), an integer without a point, so that 1 and 1.0 differ; bytes as the list `["bytes", hexadecimal digits]`.
A column that the store does not have counts as None. A table without rows of the run has no digest.

Three parts of the results have digests of their own, so that a change of one of them is told apart: `reasons` holds
the texts of why episodes and phases ended; `models` holds the named arrays of each model (name, dtype, shape, bytes;
not the bytes of the file); `objectives` holds the objective of each action.

Rows are read by `ganglion.sdk.store.StoreReader`, which every store has; nothing here depends on how a store keeps
rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_EPISODE = ("phase", "mode", "worker", "environment", "episode")
_ACTION = ("phase", "mode", "worker", "agent", "environment", "body", "episode", "step")
_AGENT = ("phase", "agent")
TABLES: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    # name of the digest, table, key, other columns
    ("phases", "phases", ("phase", "mode"), ("name", "status")),
    ("episodes", "episodes", _EPISODE, ("steps", "terminated", "truncated")),
    ("reasons", "episodes", _EPISODE, ("reason",)),
    (
        "steps",
        "steps",
        (*_EPISODE, "step"),
        (
            *("tick", "simtime_ticks", "simtime_timestamp", "sensors", "setpoints", "rewards"),
            *("terminated", "truncated", "world_state"),
        ),
    ),
    (
        "actions",
        "actions",
        _ACTION,
        ("tick", "sensors", "setpoints", "proposed", "rewards", "terminated", "truncated", "statistics"),
    ),
    ("objectives", "actions", _ACTION, ("objective",)),
    ("signals", "signals", ("phase", "worker", "episode", "step", "signal", "issuer"), ("data",)),
    ("evaluations", "evaluations", (*_AGENT, "number"), ("episode", "metrics")),
    ("returns", "returns", (*_ACTION[:-1],), ("steps", "return", "objective")),
    (
        "declarations",
        "declarations",
        ("phase", "kind", "environment", "agent", "position"),
        ("id", "space", "unit", "dtype", "shape"),
    ),
    ("models", "brains", (*_AGENT, "tag", "episode"), ("updates", "path")),
)


def digests(reader: Any, run: str) -> dict[str, str]:
    """Return the digest of each table of a run that has rows."""
    known = reader.tables()
    found: dict[str, str] = {}
    for name, table, key, others in TABLES:
        if table in known and (lines := list(_lines(reader, run, name, table, key, others, known[table]))):
            found[name] = hashlib.sha256(b"".join(lines)).hexdigest()
    return found


def _lines(
    reader: Any, run: str, name: str, table: str, key: tuple[str, ...], others: tuple[str, ...], known: list[str]
) -> Iterator[bytes]:
    columns = [column for column in (*key, *others) if column in known]
    order = [column for column in key if column in known]
    for row in reader.rows(table, [run], columns=columns, order=order):
        if name == "models":
            row = {**row, "path": _arrays(Path(row["path"]))}
        values = [_plain(row.get(column)) for column in (*key, *others)]
        yield json.dumps(values, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _arrays(path: Path) -> list[Any]:
    """Return the named arrays of a model: name, dtype, shape, digest of the bytes, by name."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: np.ascontiguousarray(archive[name]) for name in sorted(archive.files)}
    return [
        [name, array.dtype.str, list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in arrays.items()
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
