"""Results in Python: tables of a store as lazy queries, and models as arrays; read-only, also beside a writer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import MANIFEST, Settings, UsageError, store_class
from ganglion.cli.stores import default_uri, store_uri

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

BATCH_ROWS = 10_000
"""How many rows come together, unless something else is said."""

_MISSING = "expected {name} for this, which cannot be imported ({error}): pip install {name}"


def results(where: str | Path | None = None) -> Results:
    """Return the results of a folder, of a store by its URI, or of one run by its id, uid, or folder; None: as set.

    Nothing is read before a table is asked for. UsageError if there is no such place.
    """
    settings = Settings.load()
    if where is None:
        return Results(store_uri(settings), settings.results)
    text, path = str(where), Path(where)
    if "://" in text:
        return Results(text, settings.results)
    if path.is_file():
        return Results(f"sqlite:///{path.absolute()}", path.parent)
    if (path / MANIFEST).is_file():
        return Results(default_uri(path.parent), path.parent, (path.name,))
    if path.is_dir():
        return Results(default_uri(path), path)
    try:
        found = Results(store_uri(settings), settings.results, (text,))
        found.resolve(text)
    except UsageError as error:
        raise UsageError(
            f"expected a folder, a store URI, or a run of {settings.results}, found {text!r}: {error}"
        ) from None
    return found


class Results:
    """The tables of a store, each a method: `results.actions("demo-1", agent="scout", wide=True).to_pandas()`.

    Tables are those that `ganglion results` lists. Runs are ids, uids (the newest run), beginnings of either or `last`;
    none means all, or the run that this object is of. The store is opened anew for each question, so that what was
    stored meanwhile is seen, and an object may be used by several threads.
    """

    def __init__(self, uri: str, folder: Path, runs: tuple[str, ...] = ()) -> None:
        self.uri, self.folder, self._runs = uri, folder, runs

    def __repr__(self) -> str:
        of = f", run {self._runs[0]}" if self._runs else ""
        return f"<results of {self.folder}{of}: {', '.join(self.tables())}>"

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.tables()]

    def __getattr__(self, name: str) -> Callable[..., Query]:
        if name.startswith("_"):
            raise AttributeError(name)
        tables = self.tables()
        if name not in tables:
            raise AttributeError(f"there is no table {name!r} in results; there are: {', '.join(tables)}")
        return lambda *runs, **narrowing: self.table(name, *runs, **narrowing)

    def open(self) -> StoreReader:
        """Open the store; the reader is to be closed."""
        return store_class(self.uri).reader(self.uri)

    def tables(self) -> dict[str, list[str]]:
        """Return the tables and their columns."""
        with self.open() as reader:
            return reader.tables()

    def resolve(self, run: str) -> str:
        """Return the id of a run that is meant by an id, a uid, a beginning of either, or `last`."""
        with self.open() as reader:
            return reader.resolve(run)

    def table(
        self,
        table: str,
        *runs: str,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        limit: int | None = None,
        wide: bool = False,
        **equal: Any,
    ) -> Query:
        """Return a query of a table; nothing is read yet.

        Args:
            table: One of `tables`.
            runs: Which runs; none means all, or that of this object.
            where: A condition as of `ganglion results --where`.
            columns: Which columns, in this order.
            order: Columns to sort by, a leading `-` sorts downwards.
            limit: At most so many rows.
            wide: A column for each sensor, setpoint and reward (`sensors.grid.bus_1.voltage`).
            equal: Columns and the value that each has to have; a list means one of its values.
        """
        parts = [f"({where})"] if where else []
        parts += [_equal(column, value) for column, value in equal.items()]
        return Query(self, table, runs or self._runs, " and ".join(parts) or None, columns, order, limit, wide)

    def sql(self, query: str) -> Query:
        """Return a query in the store's own language, on a connection that cannot write."""
        return Query(self, query, sql=True)

    def brain(
        self, run: str | None = None, agent: str | None = None, tag: str | None = None, phase: int | None = None
    ) -> dict[str, Any]:
        """Return the newest stored model of an agent as a map name -> numpy array; reading executes nothing.

        Args:
            run: Whose; None means that of this object, or the newest.
            agent: Whose; None where there is only one.
            tag: Such as `last` or `best`; None: the newest of any.
            phase: Of which phase; None: of the last that stored one.

        Raises:
            UsageError: There is no such model, or agents are to choose from.
            StoreError: Its file is not the one that was stored.
        """
        from ganglion.sdk.models import load_arrays

        run = run if run is not None else next(iter(self._runs), "last")
        given: dict[str, Any] = {"agent": agent, "tag": tag, "phase": phase}
        equal = {name: value for name, value in given.items() if value is not None}
        found = list(self.table("brains", run, **equal).rows())
        if not found:
            asked = "".join(f", {name} {value!r}" for name, value in equal.items())
            raise UsageError(f"{self.folder}: expected a model of {run}{asked}, found none")
        agents = sorted({row["agent"] for row in found})
        if len(agents) > 1:
            raise UsageError(f"expected one of the agents {', '.join(agents)}, found none named")
        row = found[-1]
        if row["path"] is None:
            raise UsageError(f"run {run}: the model of {row['agent']} rests in no file")
        return load_arrays(self._file(str(row["run"]), str(row["path"])), row["sha256"])

    def _file(self, run: str, path: str) -> Path:
        """Return the file of a model, which lies below the folder of its run."""
        for base in (self.folder, self.folder / run):
            if (base / path).is_file():
                return base / path
        raise UsageError(f"{self.folder / run / path}: expected the file of a model, found none")


def _equal(column: str, value: Any) -> str:
    if value is None:
        return f"{column} is null"
    if isinstance(value, list | tuple | set | frozenset | range):
        return f"{column} in ({', '.join(map(_literal, value))})"
    return f"{column} = {_literal(value)}"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise UsageError(f"expected a number, a text or a boolean to compare with, found {type(value).__name__}")


@dataclass(frozen=True, repr=False)
class Query:
    """A question that is asked when its rows are: `rows`, `batches`, `count`, `to_arrow`, `to_pandas`, `to_polars`.

    Value lists are maps full id -> value, with `wide` a column of each. Each call asks anew. UsageError: a table, run,
    column or condition that there is not, with the nearest right name.
    """

    results: Results
    table: str
    runs: tuple[str, ...] = ()
    where: str | None = None
    columns: Sequence[str] | None = None
    order: Sequence[str] | None = None
    limit: int | None = None
    wide: bool = False
    sql: bool = field(default=False)

    def __repr__(self) -> str:
        told = {"runs": self.runs, "where": self.where, "columns": self.columns, "limit": self.limit}
        more = "".join(f", {key} {value}" for key, value in told.items() if value)
        return f"<query of {self.table}{more}: rows, batches, count, to_arrow, to_pandas, to_polars>"

    def _repr_html_(self) -> str:
        from ganglion_python.drawing import table_html

        first = list(itertools.islice(self.rows(), 11))
        return table_html(self.table, first)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, as maps column -> plain value; the store is open until the last is read."""
        return itertools.chain.from_iterable(rows for _, rows in self._batches(BATCH_ROWS))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def count(self) -> int:
        """Return how many rows there are."""
        with self.results.open() as reader:
            if not self.sql and self.where is None and self.limit is None:
                return reader.count(self.table, [reader.resolve(run) for run in self.runs])
        return sum(len(rows) for _, rows in self._batches(BATCH_ROWS))

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Any]:
        """Yield the rows as record batches of pyarrow, of so many rows each."""
        arrow = _imported("pyarrow")
        for names, rows in self._batches(size):
            yield from _arrow_table(arrow, names, rows).combine_chunks().to_batches()

    def to_arrow(self) -> Any:
        """Return a table of pyarrow."""
        arrow = _imported("pyarrow")
        tables = [_arrow_table(arrow, names, rows) for names, rows in self._batches(BATCH_ROWS)]
        try:
            return arrow.concat_tables(tables, promote_options="permissive")
        except arrow.ArrowException as error:
            raise UsageError(f"{self.table}: expected columns of one kind: {error}; choose other columns") from error

    def to_pandas(self) -> Any:
        """Return a data frame of pandas."""
        pandas = _imported("pandas")
        names: Sequence[str] = ()
        columns: dict[str, list[Any]] = {}
        for names, rows in self._batches(BATCH_ROWS):
            for name in names:
                columns.setdefault(name, []).extend(row[name] for row in rows)
        return pandas.DataFrame(columns, columns=list(names))

    def to_polars(self) -> Any:
        """Return a data frame of polars."""
        return _imported("polars").from_arrow(self.to_arrow())

    def _batches(self, size: int) -> Iterator[tuple[Sequence[str], list[dict[str, Any]]]]:
        """Yield columns and rows, at least once."""
        with self.results.open() as reader:
            names, rows = self._asked(reader)
            batch = list(itertools.islice(rows, size))
            yield names, batch
            while len(batch) == size and (batch := list(itertools.islice(rows, size))):
                yield names, batch

    def _asked(self, reader: StoreReader) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
        if self.sql:
            names, lines = reader.query(self.table)
            return names, (dict(zip(names, line, strict=True)) for line in lines)
        runs = [reader.resolve(run) for run in self.runs]
        names = reader.columns(self.table, runs, self.columns, self.wide)
        rows = reader.rows(self.table, runs, self.where, self.columns, self.order, self.limit, self.wide)
        return names, iter(rows)


def _arrow_table(arrow: Any, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Any:
    arrays = []
    for name in names:
        try:
            arrays.append(arrow.array([row[name] for row in rows]))
        except (arrow.ArrowException, OverflowError) as error:
            raise UsageError(f"column {name!r}: expected values of one kind: {error}; choose other columns") from error
    return arrow.table(arrays, list(names))


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(_MISSING.format(name=name, error=error)) from error
