"""The reader: rows of all runs in their documented order, with value lists made readable; Parquet."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

from sqlalchemy import ColumnElement, LargeBinary, Select, func, null, select
from sqlalchemy.types import Boolean

from ganglion.sdk.store import Damage, StoreError, StoreReader, UsageError
from ganglion_store import schema
from ganglion_store import statements as sql
from ganglion_store.bodies import read
from ganglion_store.engine import Cursor, engine_of
from ganglion_store.schema import SHOWN, Shown
from ganglion_store.values import Declared, Key, declared_lists, named, unpack_plain
from ganglion_store.verify import Verification, heads_of
from ganglion_store.where import condition, nearest_of

_FETCH = 500  # rows per call of the driver

Decode = Callable[[Any], Any]


class SqlReader(StoreReader):
    """Read a store on a connection that cannot write; see `StoreReader`."""

    def __init__(self, uri: str) -> None:
        self._engine = engine_of(uri)
        self._path = self._engine.place
        self._connection = self._engine.connect_reading()
        # Of a run, read when the first of its lists is: what was declared, and its bodies.
        self._declared: dict[int, dict[Key, list[Declared]]] = {}
        self._tables: dict[int, list[Any]] = {}
        # Those of an environment in a phase of a run: name by seat, and by position.
        self._seats: dict[tuple[int, int, str], tuple[dict[int, str], dict[int, str]]] = {}
        self._file_verified = False

    def close(self) -> None:
        """Let go of the store; what is left of a table is not read."""
        self._connection.close()

    # -- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, list[str]]:
        """Return the tables and their columns."""
        return {name: list(shown.columns) for name, shown in SHOWN.items()}

    def columns(
        self, table: str, runs: Sequence[str] = (), columns: Sequence[str] | None = None, wide: bool = False
    ) -> list[str]:
        """Return the keys of the rows; see `StoreReader.columns`."""
        return list(self._keys(_shown(table), table, runs, columns, wide))

    def count(self, table: str, runs: Sequence[str] = ()) -> int:
        """Return how many rows a table has."""
        shown = _shown(table)
        query = self._of_runs(shown.select(func.count()), shown, runs)
        return int(next(self._execute(query))[0])

    def rows(
        self,
        table: str,
        runs: Sequence[str] = (),
        where: str | None = None,
        columns: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        limit: int | None = None,
        wide: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table; see `StoreReader.rows`. Faults of the arguments are raised at once."""
        shown = _shown(table)
        keys = self._keys(shown, table, runs, columns, wide)
        names = list(dict.fromkeys(source for source, _ in keys.values()))
        query = shown.select(*_hidden(shown), *(shown.columns[name] for name in names))
        query = self._of_runs(query, shown, runs)
        if where is not None:
            query = query.where(condition(where, shown.columns))
        query = query.order_by(*_order(shown, table, order), *shown.order)
        if limit is not None:
            if limit < 0:
                raise UsageError(f"expected a limit of 0 or more, found {limit}")
            query = query.limit(limit)
        return self._decoded(shown, query, names, keys)

    def _decoded(
        self, shown: Shown, query: Select[Any], names: Sequence[str], keys: Mapping[str, tuple[str, str | None]]
    ) -> Iterator[dict[str, Any]]:
        decoders = {name: _decoder(shown, name) for name in names if name not in shown.decoded}
        plain = all(part is None for _, part in keys.values())
        for run, phase, member, bodies, within, *values in self._execute(query):
            row = {}
            for name, value in zip(names, values, strict=True):
                decode = decoders.get(name)
                if decode is not None:
                    row[name] = value if value is None else self._decode(decode, name, value)
                elif value is not None and name in shown.decoded:
                    row[name] = self._values(shown, run, phase, (member, within), name, value, bodies)
                else:
                    row[name] = value
            if not plain:
                parts = ((key, row[name], part) for key, (name, part) in keys.items())
                row = {key: value if part is None or value is None else value.get(part) for key, value, part in parts}
            yield row

    def _decode(self, decode: Decode, name: str, value: Any) -> Any:
        try:
            return decode(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{self._path}: {name}: {value!r:.60} cannot be read: {error}") from error

    def _values(
        self, shown: Shown, run: int, phase: int, owner: tuple[str, str | None], name: str, blob: bytes, bodies: Any
    ) -> dict[str, Any]:
        kind, (member, within) = shown.decoded[name], owner
        owners = [(member, "")] if shown.member_kind == "environment" else [(within or "", member), ("", member)]
        keys = [(phase, *one, kind) for one in owners]
        if not any(key in self._declared.get(run, ()) for key in keys):  # not read yet, or declared since
            self._read_declared(run)
        known = self._declared[run]
        declared = next((known[key] for key in keys if key in known), None)
        if declared is None:
            declared = known[keys[-1]] = []
        if bodies is not None:
            declared = self._of_bodies(declared, run, phase, member, bodies)
        try:
            return named(declared, blob, given_only=kind == "actuator")
        except StoreError as error:
            raise StoreError(f"{self._path}: {name} of {shown.member_kind} {member}, phase {phase}: {error}") from error

    def _read_declared(self, run: int) -> None:
        with self._readable():
            self._tables[run] = self._connection.execute(sql.SELECT_BODIES, (run,)).fetchall()
            self._declared[run] = declared_lists(
                self._connection.execute(sql.SELECT_DECLARATIONS, (run,)), self._tables[run]
            )

    def _of_bodies(
        self, declared: list[Declared], run: int, phase: int, environment: str, bodies: bytes
    ) -> list[Declared]:
        """Return what is declared of each of these bodies, under ids that name the body."""
        if (run, phase, environment) not in self._seats:
            mine = [row for row in self._tables[run] if row[0] == phase and row[2] == environment]
            names = {row[9]: f"{row[1]}/{row[3]}" for row in mine}
            seats = [names[row[9]] for row in mine if not row[10]]
            self._seats[run, phase, environment] = dict(enumerate(seats)), names
        numbers, positions = read(bodies)
        known = self._seats[run, phase, environment][positions]
        if any(number not in known for number in numbers):
            raise StoreError(f"{self._path}: steps of environment {environment}, phase {phase}: unknown bodies")
        return [one._replace(id=f"{one.id}[{known[number]}]") for number in numbers for one in declared]

    def _keys(
        self, shown: Shown, table: str, runs: Sequence[str], columns: Sequence[str] | None, wide: bool
    ) -> dict[str, tuple[str, str | None]]:
        """Return the keys of the rows: the column that each comes from, and which of its values it is if only one."""
        asked = list(shown.columns) if columns is None else list(columns)
        narrow = [name for name in asked if name in shown.columns]
        parts: dict[str, list[str]] = {}
        if shown.decoded and (wide or len(narrow) < len(asked)):
            parts = self._ids(shown, self.run_numbers(runs))
        known = dict.fromkeys(shown.columns) | {f"{name}.{part}": None for name in parts for part in parts[name]}
        keys: dict[str, tuple[str, str | None]] = {}
        for name in asked:
            if name not in known:
                raise UsageError(f"there is no column `{name}` in {table}{nearest_of(name, known)}")
            if name not in shown.columns:
                column = next(c for c in parts if name.startswith(f"{c}.") and name[len(c) + 1 :] in parts[c])
                keys[name] = (column, name[len(column) + 1 :])
            elif wide and name in parts:
                keys |= {f"{name}.{part}": (name, part) for part in parts[name]}
            else:
                keys[name] = (name, None)
        return keys

    def _ids(self, shown: Shown, runs: Sequence[int]) -> dict[str, list[str]]:
        """Return the ids in each column of value lists, of some runs or of all: in declared order, each once."""
        found: dict[str, dict[str, None]] = {}
        for run in runs or [number for (number,) in self._execute(select(schema.runs.c.number).order_by("number"))]:
            self._read_declared(run)
            seats: dict[tuple[int, str], list[str]] = {}
            for phase, agent, environment, body, *_ in self._tables[run] if shown.bodies is not None else ():
                seats.setdefault((phase, environment), []).append(f"[{agent}/{body}]")
            for (phase, environment, agent, kind), declared in self._declared[run].items():
                if bool(agent) == (shown.member_kind == "agent"):
                    ids = (f"{one.id}{seat}" for one in declared for seat in seats.get((phase, environment), [""]))
                    found.setdefault(kind, {}).update(dict.fromkeys(ids))
        return {column: list(found.get(kind, ())) for column, kind in shown.decoded.items()}

    # -- runs ---------------------------------------------------------------------------------------------------------

    def run_numbers(self, runs: Sequence[str]) -> list[int]:
        """Return the numbers of runs by their ids; none means all, and gives none."""
        r = schema.runs.c
        known = dict(self._execute(select(r.run, r.number).order_by(r.number))) if runs else {}
        for run in runs:
            if run not in known:
                raise UsageError(f"{self._path}: there is no run `{run}`{nearest_of(run, known)}")
        return [known[run] for run in runs]

    def _of_runs(self, query: Select[Any], shown: Shown, runs: Sequence[str]) -> Select[Any]:
        numbers = self.run_numbers(runs)
        return query.where(shown.number.in_(numbers)) if numbers else query

    def resolve(self, run: str) -> str:
        """Return the id of the run that is meant; see `StoreReader.resolve`."""
        r = schema.runs.c
        known: list[tuple[str, str]] = [
            (row[0], row[1]) for row in self._execute(select(r.run, r.uid).order_by(r.number))
        ]
        ids = [row[0] for row in known]
        newest = {uid: row for row, uid in known}  # the last one wins
        if run in ids:
            return run
        if run in newest:
            return newest[run]
        if run == "last" and ids:
            return ids[-1]
        uids = [uid for uid in newest if uid.startswith(run)]
        begun = [name for name in ids if name.startswith(run)]
        if run and len(begun) == 1:
            return begun[0]
        if run and len(uids) == 1:
            return newest[uids[0]]
        if run and begun:
            raise UsageError(f"{self._path}: `{run}` may be any of the runs {', '.join(begun[:10])}")
        if not ids:
            raise UsageError(f"{self._path}: expected the run `{run}`, found no run at all")
        raise UsageError(f"{self._path}: there is no run `{run}`{nearest_of(run, [*ids, *newest])}")

    # -- integrity ----------------------------------------------------------------------------------------------------

    def verify(self, run: str) -> Iterator[Damage]:
        """Yield what is damaged of a run; see `StoreReader.verify`."""
        [number] = self.run_numbers([run])
        first, self._file_verified = not self._file_verified, True
        return Verification(self._engine, self._connection, number, run, whole_file=first).damages()

    def heads(self, run: str) -> Mapping[str, Any] | None:
        """Return the digests that protect a run that has ended; see `StoreReader.heads`."""
        [number] = self.run_numbers([run])
        with self._engine.told("be read"):
            return heads_of(self._connection, number)

    # -- queries ------------------------------------------------------------------------------------------------------

    def write_parquet(self, stream: BinaryIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows as Parquet, by pyarrow."""
        write_parquet(stream, columns, rows)

    def query(self, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return columns and rows of one query in SQL; it can change nothing."""
        cursor = self._engine.query(self._connection, sql)
        return [column[0] for column in cursor.description or ()], self._fetched(cursor)

    def _fetched(self, cursor: Cursor) -> Iterator[tuple[Any, ...]]:
        with self._engine.asked(), closing(cursor):
            while rows := cursor.fetchmany(_FETCH):
                yield from rows

    def _execute(self, query: Select[Any]) -> Iterator[Any]:
        compiled = query.compile(dialect=self._engine.dialect, compile_kwargs={"render_postcompile": True})
        parameters = [compiled.params[name] for name in compiled.positiontup or ()]
        with self._readable(), closing(self._engine.stream(self._connection, str(compiled), parameters)) as cursor:
            while rows := cursor.fetchmany(_FETCH):
                yield from rows

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn what the database says, and values that make no sense, into a StoreError with its place."""
        try:
            with self._engine.told("be read"):
                yield
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{self._path}: cannot be read: {error}") from error


def _shown(table: str) -> Shown:
    found = SHOWN.get(table)
    if found is None:
        raise UsageError(f"there is no table `{table}`{nearest_of(table, SHOWN)}")
    return found


def _hidden(shown: Shown) -> tuple[ColumnElement[Any], ...]:
    if shown.member is None:
        return (shown.number,) * 5
    bodies = null() if shown.bodies is None else shown.bodies
    within = shown.columns["environment"] if shown.member_kind == "agent" else null()
    return (shown.number, schema.episodes.c.phase, shown.member, bodies, within)


def _order(shown: Shown, table: str, order: Sequence[str] | None) -> Iterator[ColumnElement[Any]]:
    for name in order or ():
        named = name.removeprefix("-")
        column = shown.columns.get(named)
        if column is None:
            raise UsageError(f"there is no column `{named}` in {table}{nearest_of(named, shown.columns)}")
        if isinstance(column.type, LargeBinary):
            raise UsageError(f"expected a column with one value to sort by, found `{name}`, which holds many")
        yield column.desc().nulls_last() if name.startswith("-") else column.nulls_first()


def _decoder(shown: Shown, name: str) -> Decode | None:
    if name in shown.json:
        return json.loads
    if name in shown.packed:
        return unpack_plain
    return bool if isinstance(shown.columns[name].type, Boolean) else None


_BATCH_ROWS = 10_000
_PROMOTE = "permissive"  # integer columns with a float in them become float columns, and maps get the keys of all


def write_parquet(stream: BinaryIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as Parquet, compressed by zstd; value lists are structs with a field per full id.

    The types of the columns are known after the last row, so the rows wait in a temporary file. UsageError if pyarrow
    is missing, or if a column has values of different kinds.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(f"Parquet needs pyarrow, which cannot be imported ({error}): pip install pyarrow") from error
    schema = _table(pa, columns, []).schema
    source, count = iter(rows), 0
    with tempfile.TemporaryFile() as spool:
        while batch := list(itertools.islice(source, _BATCH_ROWS)):
            table = _table(pa, columns, batch)
            schema = _unified(pa, schema, table.schema)
            with pa.ipc.new_stream(spool, table.schema) as writer:
                writer.write_table(table)
            count += 1
        spool.seek(0)
        with parquet.ParquetWriter(stream, schema, compression="zstd") as file:
            for _ in range(count):
                table = pa.ipc.open_stream(spool).read_all()
                file.write_table(pa.concat_tables([schema.empty_table(), table], promote_options=_PROMOTE))


def _table(pa: Any, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Any:
    arrays = []
    for name in columns:
        try:
            # A struct without fields has no form in Parquet: an empty map is null.
            arrays.append(pa.array([None if row[name] == {} else row[name] for row in rows]))
        except (pa.ArrowException, OverflowError) as error:
            raise _mixed(name, error) from error
    return pa.table(arrays, list(columns))


def _unified(pa: Any, one: Any, other: Any) -> Any:
    fields = []
    for field in one:
        try:
            pair = [pa.schema([field]), pa.schema([other.field(field.name)])]
            fields.append(pa.unify_schemas(pair, promote_options=_PROMOTE).field(0))
        except pa.ArrowException as error:
            raise _mixed(field.name, error) from error
    return pa.schema(fields)


def _mixed(name: str, error: Exception) -> UsageError:
    return UsageError(
        f"column {name!r}: expected values of one kind, as Parquet has them: {error}; "
        "choose other --columns, or --format jsonl"
    )
