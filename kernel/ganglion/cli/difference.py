"""Difference: the first place where the results of two runs are not equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ganglion.cli.digest import canonical, digested_tables
from ganglion.cli.table import cell

if TYPE_CHECKING:
    from ganglion.sdk.store import StoreReader

__all__ = ["Difference", "first_difference"]

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
