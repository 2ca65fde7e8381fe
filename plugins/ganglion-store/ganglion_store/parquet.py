"""Parquet: rows of a table as a columnar file, by pyarrow (the extra `parquet`)."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from ganglion.sdk.store import UsageError

_BATCH_ROWS = 10_000
_PROMOTE = "permissive"  # integer columns with a float in them become float columns, and maps get the keys of all


def write_parquet(stream: BinaryIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as Parquet, compressed by zstd; value lists are structs with a field per full id.

    The types of the columns are known after the last row, so the rows wait in a temporary file.

    Raises:
        UsageError: pyarrow is missing, or a column has values of different kinds.
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
