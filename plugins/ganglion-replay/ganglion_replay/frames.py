"""Frames: datasets as tables with a row for each observation, in Parquet or in Arrow's own format."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.limits import REPLAY_CHUNK_BYTES
from ganglion.sdk.session import Session
from ganglion_replay.files import (
    EPISODE_BYTES_MAX,
    Columns,
    Dataset,
    Form,
    Layout,
    RecordingInvalid,
    Writer,
    about_of,
    assembled,
    form_of,
    head_of,
    key_of,
    library,
    parse_space,
    split,
)
from ganglion_replay.minari import values_of

__all__ = ["LAYOUTS"]

Array = NDArray[Any]

_HEAD = b"ganglion"  # the key of what a file says of itself
_WHOSE = ("run", "phase", "worker", "agent", "environment", "body", "episode")
_MORE = ("mode", "phase_name", "seed")
_ROWS = 65_536  # of a batch, where rows are small
_DECODED_BYTES = 12  # of a value of Parquet, however small, while it is read: a word, and how it is nested
_PARTS = (("sensors", "sensors"), ("setpoints", "actuators"), ("rewards", "rewards"))  # of a column's name, of a form


# -- writing ----------------------------------------------------------------------------------------------------------
class _TableWriter(Writer):
    """Write a dataset in parts, each a whole table; sessions wait for one another up to 8 MiB."""

    suffix: str
    extra: str

    def __init__(self, folder: Path, name: str, form: Form, about: Mapping[str, Any]) -> None:
        super().__init__(folder, name, form, about)
        self._arrow = library("pyarrow", "parquet")
        self._schema = self._schema_of(json.dumps(head_of(form, about)))
        self._waiting: list[Any] = []
        self._bytes = self._parts = 0
        self._file: Any = None

    def _schema_of(self, head: str) -> Any:
        pa = self._arrow
        text, number = pa.dictionary(pa.int32(), pa.string()), pa.int64()
        whose = [(name, text if name in ("run", "agent", "environment") else number) for name in _WHOSE]
        fields = [*whose, ("mode", pa.string()), ("phase_name", pa.string())]
        fields += [(name, number) for name in ("seed", "step", "tick")]
        for title, kind in _PARTS:
            for uid, space in getattr(self.form, kind):
                fields.append((f"{title}.{uid}", self._type(parse_space(space))))
        fields += [("objective", pa.float64()), ("terminated", pa.bool_()), ("truncated", pa.bool_())]
        return pa.schema([*fields, ("policy", pa.string()), ("policy_version", number)], metadata={_HEAD: head})

    def _type(self, space: Any) -> Any:
        kind = self._arrow.from_numpy_dtype(space.dtype)
        shape = space.shape
        return self._arrow.list_(kind, int(np.prod(shape))) if shape else kind

    def add(self, session: Session) -> None:
        if self._waiting and self._bytes >= REPLAY_CHUNK_BYTES:
            self._flush()
        batch = self._batch(session)
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        self.sessions += 1
        self.steps += len(session)

    def _batch(self, session: Session) -> Any:
        pa, rows = self._arrow, len(session.observations)
        key = key_of(session) | {name: getattr(self.form, name) for name in ("run", "agent", "environment", "body")}
        columns: dict[str, Any] = {name: key.get(name) for name in (*_WHOSE, *_MORE)}
        columns |= {"step": np.arange(rows, dtype=np.int64), "tick": session.ticks, "objective": session.objectives}
        columns |= {"terminated": session.terminated, "truncated": session.truncated}
        columns["policy_version"] = session.policy_version
        columns["policy"] = None if session.policy is None else [*map(str, session.policy), None][:rows]
        for (title, kind), arrays in zip(_PARTS, split(session, self.form), strict=True):
            pairs = getattr(self.form, kind)
            columns |= {f"{title}.{uid}": array for (uid, _), array in zip(pairs, arrays, strict=True)}
        fields = [self._column(field, columns[field.name], rows) for field in self._schema]
        return pa.record_batch(fields, schema=self._schema)

    def _column(self, field: Any, given: Any, rows: int) -> Any:
        """Return a column; where an array ends before the rows do, null stands, as for NaN in it."""
        pa = self._arrow
        if given is None:
            return pa.nulls(rows, field.type)
        if isinstance(given, list):
            return pa.array(given, field.type)
        if not isinstance(given, np.ndarray):
            if pa.types.is_dictionary(field.type):
                return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([given], pa.string()))
            return pa.array([given] * rows, field.type)
        missing = np.zeros(rows, bool)
        missing[len(given) :] = True
        if given.dtype.kind == "f" and field.name.startswith(("rewards.", "objective")):
            missing[: len(given)] = np.isnan(given).reshape(len(given), -1).any(axis=1)
        array = np.concatenate([given, np.zeros((rows - len(given), *given.shape[1:]), given.dtype)])
        mask = missing if missing.any() else None
        if array.ndim == 1:
            return pa.array(array, field.type, mask=mask)
        values = pa.array(np.ascontiguousarray(array).reshape(-1))
        mask = None if mask is None else pa.array(mask)
        return pa.FixedSizeListArray.from_arrays(values, type=field.type, mask=mask)

    def _flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        if self._file is None:
            self._file = self._opened(self.folder / f"part-{self._parts:05}.{self.suffix}", self._schema)
            self._parts += 1
        # One batch, or group of rows, for all: dictionaries of texts are the same in each.
        table = self._arrow.Table.from_batches(waiting, self._schema).unify_dictionaries().combine_chunks()
        self._file.write_table(table)

    @abstractmethod
    def _opened(self, path: Path, schema: Any) -> Any: ...

    def suspend(self) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()
            self._file = None


class _ParquetWriter(_TableWriter):
    suffix = "parquet"

    def _opened(self, path: Path, schema: Any) -> Any:
        return library("pyarrow.parquet", "parquet").ParquetWriter(path, schema, compression="zstd")


class _ArrowWriter(_TableWriter):
    suffix = "arrow"

    def _opened(self, path: Path, schema: Any) -> Any:
        return self._arrow.ipc.new_file(str(path), schema)


# -- reading ----------------------------------------------------------------------------------------------------------
class _TableDataset(Dataset):
    """Read a dataset; the parts are one table."""

    suffix: str

    def __init__(self, folder: Path) -> None:
        self._arrow = library("pyarrow", "parquet")
        self._files = [folder] if folder.is_file() else sorted(folder.glob(f"*.{self.suffix}"))
        head = None
        self.count = self.steps = 0
        for path in self._files:
            with self._told(path):
                schema, counts = self._look(path)
            found = self._head(path, schema)
            if head is not None and form_of(found, str(path)) != self.form:
                raise RecordingInvalid(f"{path}: expected the dataset of {self._files[0].name}, found another one")
            head = found
            self.form, self.about = form_of(found, str(path)), about_of(found)
            self._expect(path, schema)
            self.count += counts[0]
            self.steps += counts[1]

    def _head(self, path: Path, schema: Any) -> Any:
        data = (schema.metadata or {}).get(_HEAD)
        if data is None:
            text = "expected a table of sessions that Ganglion wrote, found one without its head"
            raise RecordingInvalid(f"{path}: {text}")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RecordingInvalid(f"{path}: its head cannot be read as JSON: {error!s:.200}") from error

    def _expect(self, path: Path, schema: Any) -> None:
        """Compare the columns with those that the head says."""
        pa = self._arrow
        plain = {name: pa.string() if name in ("run", "agent", "environment") else pa.int64() for name in _WHOSE}
        plain |= {name: pa.string() for name in ("mode", "phase_name", "policy")}
        plain |= {name: pa.int64() for name in ("seed", "step", "tick")}
        plain |= {"objective": pa.float64(), "terminated": pa.bool_(), "truncated": pa.bool_()}
        plain["policy_version"] = pa.int64()
        for title, kind in _PARTS:
            for uid, text in getattr(self.form, kind):
                space = parse_space(text)
                element, shape = pa.from_numpy_dtype(space.dtype), space.shape
                plain[f"{title}.{uid}"] = pa.list_(element, int(np.prod(shape))) if shape else element
        for name, kind in plain.items():
            places = schema.get_all_field_indices(name)
            if len(places) != 1:
                raise RecordingInvalid(f"{path}: expected one column `{name}`, found {len(places)}")
            found = schema.field(places[0]).type
            found = found.value_type if pa.types.is_dictionary(found) else found
            if found != kind and not self._same_list(found, kind):
                raise RecordingInvalid(f"{path}: column `{name}`: expected {kind}, found {found}")

    def _same_list(self, found: Any, kind: Any) -> bool:
        fixed = self._arrow.types.is_fixed_size_list
        return fixed(found) and fixed(kind) and (found.value_type, found.list_size) == (kind.value_type, kind.list_size)

    @abstractmethod
    def _look(self, path: Path) -> tuple[Any, tuple[int, int]]:
        """Return the schema of a file, and how many sessions and steps are in it."""

    @abstractmethod
    def _batches(self, path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows of a file, some at a time."""

    @contextmanager
    def _told(self, path: Path) -> Iterator[None]:
        """Turn what Arrow says into a sentence with the file."""
        try:
            yield
        except (self._arrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
            if isinstance(error, RecordingInvalid):
                raise
            raise RecordingInvalid(f"{path}: cannot be read as {self.suffix}: {error!s:.200}") from error

    def _counted(self, path: Path) -> tuple[int, int]:
        sessions = rows = closing = 0
        for batch in self._batches(path, ["step", "terminated"]):
            sessions += int(np.count_nonzero(batch["step"].to_numpy(zero_copy_only=False) == 0))
            rows += batch.num_rows
            closing += batch["terminated"].null_count
        return sessions, rows - closing

    def __iter__(self) -> Iterator[Session]:
        for path in self._files:
            held: list[Any] = []  # the batches of the session that has not ended yet
            first = size = 0
            row = 0
            with self._told(path):
                batches = self._batches(path)
            while True:
                with self._told(path):
                    batch = next(batches, None)
                if batch is None:
                    break
                step = batch["step"].to_numpy(zero_copy_only=False)
                begins = np.flatnonzero(step == 0).tolist()
                for begin, end in zip([0, *begins], [*begins, len(step)], strict=True):
                    if begin == end:
                        continue
                    if begin in begins and held:
                        yield self._session(path, first, held)
                        held, size = [], 0
                    if not held:
                        first = row + begin
                    held.append(batch.slice(begin, end - begin))
                    size += held[-1].nbytes
                    if size > EPISODE_BYTES_MAX:
                        text = f"expected at most {EPISODE_BYTES_MAX} bytes of one session, found more"
                        raise RecordingInvalid(f"{path}: row {first}: {text}")
                row += len(step)
            if held:
                yield self._session(path, first, held)

    def _session(self, path: Path, first: int, held: Sequence[Any]) -> Session:
        table = self._arrow.Table.from_batches(held)
        at = f"{path}: row {first}"
        rows = table.num_rows

        def column(name: str, begin: int = 0, end: int = rows) -> Any:
            return table[name].slice(begin, end - begin).combine_chunks()

        def values(name: str, end: int) -> Array:
            return values_of(self._arrow, _one(column(name, 0, end)), f"{at}: {name}")

        whose = {name: self._same(at, name, column(name)) for name in (*_WHOSE, *_MORE)}
        for name in ("run", "agent", "environment", "body"):
            own = getattr(self.form, name)
            if whose[name] != own:
                raise RecordingInvalid(f"{at}: {name}: expected {own!r}, found {whose[name]!r:.60}")
        at += f", phase {whose['phase']}, worker {whose['worker']}, episode {whose['episode']}"
        counted = values("step", rows)
        if not np.array_equal(counted, np.arange(rows)):
            wrong = int(np.argmax(counted != np.arange(rows)))
            raise RecordingInvalid(f"{at}: expected step {wrong} in row {first + wrong}, found {counted[wrong]}")
        final = bool(_one(column("terminated", rows - 1)).null_count)
        steps = rows - final
        arrays: dict[str, list[Array]] = {}
        for title, kind in _PARTS:
            arrays[title] = []
            for uid, text in getattr(self.form, kind):
                name, space = f"{title}.{uid}", parse_space(text)
                end = rows if title == "sensors" else steps
                missing = title == "rewards"
                found = self._known(at, name, column(name, 0, end)) if missing else values(name, end)
                arrays[title].append(found.reshape(end, *space.shape))
        version = _one(column("policy_version", 0, steps))
        policy = _one(column("policy", 0, steps)).to_pylist()
        return assembled(
            self.form,
            Columns(
                at,
                whose,
                arrays["sensors"],
                arrays["setpoints"],
                arrays["rewards"],
                values("terminated", steps),
                values("truncated", steps),
                values("tick", steps),
                self._known(at, "objective", column("objective", 0, steps)),
                None if version.null_count == len(version) else values("policy_version", steps),
                None if None in policy else policy,
                final,
            ),
        )

    def _same(self, at: str, name: str, column: Any) -> Any:
        """Return the value that is the same in all rows of a session."""
        found = _one(column).unique().to_pylist()
        if len(found) != 1:
            raise RecordingInvalid(f"{at}: {name}: expected one value in all rows of a session, found {found[:3]}")
        return found[0]

    def _known(self, at: str, name: str, column: Any) -> Array:
        """Return numbers with NaN where there are none; a NaN in the file is refused."""
        array = _one(column)
        missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
        found = values_of(self._arrow, array.drop_null(), f"{at}: {name}")
        if missing.any() and found.dtype.kind != "f":
            what = "a value in each row, or floats, of which some may be missing"
            raise RecordingInvalid(f"{at}: {name}: expected {what}, found {array.null_count} without")
        if found.dtype.kind == "f" and np.isnan(found).any():
            tick = int(np.argwhere(np.isnan(found))[0, 0])
            raise RecordingInvalid(f"{at}, tick {tick}: {name}: expected a number, found nan")
        if not missing.any():
            return found
        whole = np.full((len(missing), *found.shape[1:]), np.nan, found.dtype)
        whole[~missing] = found
        return whole


def _one(column: Any) -> Any:
    """Return a column as one array, without a dictionary."""
    array = column
    if hasattr(array, "num_chunks"):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return array.dictionary_decode() if hasattr(array, "dictionary_decode") else array


class _ParquetDataset(_TableDataset):
    suffix = "parquet"

    def _look(self, path: Path) -> tuple[Any, tuple[int, int]]:
        with library("pyarrow.parquet", "parquet").ParquetFile(path, pre_buffer=False) as file:
            schema = file.schema_arrow
        if _HEAD not in (schema.metadata or {}) or "step" not in schema.names or "terminated" not in schema.names:
            return schema, (0, 0)
        return schema, self._counted(path)

    def _batches(self, path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
        with library("pyarrow.parquet", "parquet").ParquetFile(path, pre_buffer=False) as file:
            groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
            values = max(
                (sum(group.column(i).num_values for i in range(group.num_columns)) for group in groups), default=0
            )
            rows = max((group.num_rows for group in groups), default=1)
            per_row = max(1, values // max(rows, 1)) * _DECODED_BYTES
            size = max(1, min(_ROWS, REPLAY_CHUNK_BYTES // per_row))
            for number in range(file.num_row_groups):  # of all at once the reader keeps what it has read of each
                yield from file.iter_batches(size, row_groups=[number], columns=columns, use_threads=False)


class _ArrowDataset(_TableDataset):
    suffix = "arrow"

    def _look(self, path: Path) -> tuple[Any, tuple[int, int]]:
        with self._arrow.memory_map(str(path)) as source, self._arrow.ipc.open_file(source) as file:
            schema = file.schema
        if _HEAD not in (schema.metadata or {}) or "step" not in schema.names or "terminated" not in schema.names:
            return schema, (0, 0)
        return schema, self._counted(path)

    def _batches(self, path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
        with self._arrow.OSFile(str(path)) as source, self._arrow.ipc.open_file(source) as file:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch = batch if columns is None else batch.select(columns)
                batch.validate(full=True)  # offsets into nowhere would be followed
                yield batch


def _is_of(suffix: str) -> Any:
    def is_one(place: Path) -> bool:
        if place.is_file():
            return place.suffix == f".{suffix}"
        return place.is_dir() and any(place.glob(f"*.{suffix}"))

    return is_one


LAYOUTS = {
    "parquet": Layout(_ParquetWriter, _is_of("parquet"), _ParquetDataset),
    "arrow": Layout(_ArrowWriter, _is_of("arrow"), _ArrowDataset),
}
