"""Models: named arrays in files that execute nothing when they are read."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ganglion.errors import AuthorError, LimitExceeded, StoreError
from ganglion.limits import ARRAY_RANK, MODEL_BYTES, MODEL_HEADER_BYTES, MODEL_MEMBERS
from ganglion.sdk.naming import file_name, percent_encoded
from ganglion.synced import written_beside

Array = NDArray[Any]
_NPY_HEADER_BYTES = 1024  # of an array of rank 16, thrice
KINDS = "biufcS"  # booleans, numbers, bytes; no objects, whose reading would execute code, and no text

META = ".meta.npy"  # an encoded name has no dot: no array has this name
SUFFIX = ".npz"


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- writing --------------------------------------------------------------------------------------------------------


def save_arrays(path: Path, arrays: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> str:
    """Write named arrays to an `.npz` file and return its SHA-256.

    The file is replaced atomically and synced. Equal arrays and meta, in equal order, make equal bytes. `meta` is a
    small JSON object.

    Raises:
        AuthorError: An array has other values than numbers, booleans or bytes, a name is no text, `meta` is no object.
        LimitExceeded: Too many arrays, too many bytes.
        StoreError: The file cannot be written.
    """
    checked = {name: _checked(name, array) for name, array in arrays.items()}
    header = _meta_bytes(meta)
    size = sum(array.nbytes for array in checked.values())
    if len(checked) > MODEL_MEMBERS or size > MODEL_BYTES:
        raise LimitExceeded(
            f"model {path.name}: expected at most {MODEL_MEMBERS} arrays (model_members) of {MODEL_BYTES} bytes "
            f"(model_bytes), found {len(checked)} of {size} bytes"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_beside(path) as file:
            _write(file, checked, header)
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"model {path}: cannot be written: {error}") from error


def _checked(name: Any, value: Any) -> Array:
    if not isinstance(name, str):
        raise AuthorError(f"model: the names of arrays are texts, found {name!r}")
    if len(percent_encoded(name)) > MODEL_HEADER_BYTES // 2:
        raise AuthorError(f"model: the name {name[:40]!r}... is too long")
    wanted = f"model: {name}: expected an array of numbers, booleans or bytes, found"
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths, as a rule
        raise AuthorError(f"{wanted} {type(value).__name__}: {error}") from error
    if array.dtype.kind not in KINDS:
        own = array.dtype.kind == "O" and not isinstance(value, np.ndarray)
        raise AuthorError(f"{wanted} {type(value).__name__ if own else f'dtype {array.dtype}'}")
    if array.ndim > ARRAY_RANK:
        raise AuthorError(f"model: {name}: expected at most {ARRAY_RANK} axes (array_rank), found {array.ndim}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _meta_bytes(meta: Mapping[str, Any] | None) -> bytes | None:
    if meta is None:
        return None
    try:
        text = json.dumps(dict(meta), allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise AuthorError(f"model: meta: expected a JSON object: {error}") from error
    if len(text) > MODEL_HEADER_BYTES:
        raise AuthorError(f"model: meta: expected at most {MODEL_HEADER_BYTES} bytes, found {len(text)}")
    return text


def _write(file: BinaryIO, arrays: Mapping[str, Array], meta: bytes | None) -> None:
    members = {} if meta is None else {META: np.frombuffer(meta, dtype=np.uint8)}
    members |= {f"{percent_encoded(name)}.npy": array for name, array in arrays.items()}
    # Not numpy.savez: names are encoded, and entries have a fixed date, so that equal models are equal bytes.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in members.items():
            with archive.open(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


# -- reading --------------------------------------------------------------------------------------------------------


def load_arrays(path: Path, sha256: str | None = None) -> dict[str, Array]:
    """Return the named arrays of an `.npz` file, in the order in which they were given.

    Raises:
        FileNotFoundError: There is no such file.
        StoreError: The file is damaged, has other values than arrays of numbers, booleans or bytes, or another digest
            than `sha256`. Nothing in it is executed.
        LimitExceeded: The file is too large; nothing was read.
    """
    return _load(path, sha256)[0]


def load_meta(path: Path) -> dict[str, Any] | None:
    """Return the JSON object beside the arrays of a file, None without one; raises as `load_arrays`."""
    return _load(path, None, arrays=False)[1]


def _load(path: Path, sha256: str | None, arrays: bool = True) -> tuple[dict[str, Array], dict[str, Any] | None]:
    size = path.stat().st_size
    if size > MODEL_BYTES + MODEL_MEMBERS * MODEL_HEADER_BYTES:
        raise LimitExceeded(f"model {path}: expected at most {MODEL_BYTES} bytes (model_bytes), found {size}")
    if sha256 is not None and digest_of(path) != sha256:
        raise StoreError(f"model {path}: expected SHA-256 {sha256}, found another one: the file is damaged")
    try:
        with path.open("rb") as file:
            return _read(file, arrays)
    except MemoryError:  # a shortage of this process; the file may be sound
        raise
    except Exception as error:
        raise StoreError(f"model {path}: the file is damaged or no model: {error}") from error


def _read(file: BinaryIO, arrays: bool) -> tuple[dict[str, Array], dict[str, Any] | None]:
    """Return arrays and meta of an archive, whose members together are at most as large as the file."""
    found: dict[str, Array] = {}
    meta: dict[str, Any] | None = None
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if len(entries) > MODEL_MEMBERS + 1:  # the JSON object beside the arrays
            raise ValueError(f"expected at most {MODEL_MEMBERS} arrays (model_members), found {len(entries)}")
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("expected all entries stored, without compression")
        if sum(entry.file_size for entry in entries) > file.seek(0, os.SEEK_END):
            raise ValueError("the entries are larger than the file")
        for entry in entries:
            if entry.filename == META:
                meta = json.loads(_array(archive, entry).tobytes())
                if not isinstance(meta, dict):
                    raise ValueError("the JSON beside the arrays is no object")
            elif arrays:
                name = unquote_to_bytes(entry.filename.removesuffix(".npy")).decode()
                if not entry.filename.endswith(".npy") or name in found:
                    raise ValueError(f"entry {name!r:.100}: expected an array (.npy) that does not come twice")
                found[name] = _array(archive, entry)
    return found, meta


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    """Return the array of an entry; dtype, shape and size are checked before memory is taken."""
    data = bytearray(archive.read(entry))  # with its checksum
    if len(data) != entry.file_size:
        raise ValueError(f"entry {entry.filename!r:.100}: the file ends within it")
    stream = io.BytesIO(data[: 2 * _NPY_HEADER_BYTES])
    version = npy.read_magic(stream)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
    shape, fortran, dtype = read_header(stream, max_header_size=_NPY_HEADER_BYTES)
    size = math.prod(shape) * dtype.itemsize
    if dtype.kind not in KINDS or dtype.hasobject or len(shape) > ARRAY_RANK or min(shape, default=0) < 0:
        raise ValueError(f"entry {entry.filename!r:.100}: dtype {dtype} or shape {shape} is not read")
    if size != len(data) - stream.tell() or max(shape, default=0) > MODEL_BYTES:
        raise ValueError(f"entry {entry.filename!r:.100}: {len(data)} bytes do not hold {shape} of {dtype}")
    if size == 0:
        return np.zeros(shape, dtype=dtype)
    flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


# -- a folder of models ---------------------------------------------------------------------------------------------


class Models:
    """Keep the models of one agent in a folder, one file per tag; the empty tag is the model itself.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> models = Models(folder.name)
    >>> digest = models.save({"weights": np.ones(2)}, meta={"steps": 7})
    >>> models.load()["weights"], models.meta(), load_meta(Path(folder.name, "model.npz"))["meta"]
    (array([1., 1.]), {'steps': 7}, {'steps': 7})
    >>> models.save({str(number): 0 for number in range(5000)})
    Traceback (most recent call last):
    ganglion.errors.LimitExceeded: model model.npz: expected at most 4096 arrays (model_members) ...
    >>> folder.cleanup()

    Args:
        folder: Made by the first `save`.
        read_from: The folder that `load` reads; None is the same folder.
    """

    def __init__(self, folder: str | os.PathLike[str], read_from: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder)
        self.read_from = Path(read_from) if read_from is not None else self.folder
        self._written: dict[str, dict[str, Any]] = {}

    def save(self, arrays: Mapping[str, Any], tag: str = "", meta: Mapping[str, Any] | None = None) -> str:
        """Save named arrays under a tag like `save_arrays`, replacing earlier ones; return the SHA-256 of the file."""
        if meta is not None and not isinstance(meta, Mapping):
            raise AuthorError(f"model: meta: expected a JSON object, found {type(meta).__name__}")
        return self._save(tag, arrays, meta=None if meta is None else dict(meta))

    def written(self) -> list[dict[str, Any]]:
        """Return the files saved since the last call, as maps of tag, path, sha256 and bytes; for the bus."""
        found, self._written = self._written, {}
        return list(found.values())

    def _save(self, tag: str, arrays: Mapping[str, Any], **head: Any) -> str:
        path = self.folder / tag_file(tag)
        digest = save_arrays(path, arrays, {"tag": tag, **head})
        self._written[tag] = {"tag": tag, "path": str(path), "sha256": digest, "bytes": path.stat().st_size}
        return digest

    def load(self, tag: str = "") -> Any:
        """Return the arrays of a tag, or the value of `save_value`; None without a file.

        Raises as `load_arrays`.
        """
        path = self.read_from / tag_file(tag)
        if not path.is_file():
            return None
        arrays, head = _load(path, None)
        if head is None or "tree" not in head:
            return arrays
        try:
            return _value(head["tree"], arrays)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise StoreError(f"model {path}: the file is damaged: {error}") from error

    def save_value(self, value: Any, tag: str) -> str:
        """Save a value (None, numbers, text, bytes, lists, maps, arrays) under a tag.

        AuthorError has the path of a value of another type.
        """
        arrays: dict[str, Array] = {}
        tree = _tree(value, arrays, "value")
        return self._save(tag, arrays, tree=tree)

    def meta(self, tag: str = "") -> dict[str, Any] | None:
        """Return the JSON object saved beside a tag, None without one."""
        path = self.read_from / tag_file(tag)
        found = (load_meta(path) or {}).get("meta") if path.is_file() else None
        return found if isinstance(found, dict) else None

    def tags(self) -> list[str]:
        """Return the tags that can be loaded, sorted; StoreError: a file is damaged."""
        if not self.read_from.is_dir():
            return []
        heads = [load_meta(path) or {} for path in sorted(self.read_from.glob(f"model*{SUFFIX}"))]
        return sorted(str(head["tag"]) for head in heads if "tag" in head)


def tag_file(tag: str) -> str:
    """Return the name of the file of a tag in a folder of models."""
    return f"model-{file_name(tag)}{SUFFIX}" if tag else f"model{SUFFIX}"


# -- values as arrays -----------------------------------------------------------------------------------------------


def _tree(value: Any, arrays: dict[str, Array], path: str) -> Any:
    """Return a value as JSON; arrays, bytes and numbers without a JSON form go into `arrays` by number."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, list | tuple):
        return [_tree(part, arrays, f"{path}[{i}]") for i, part in enumerate(value)]
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise AuthorError(f"{path}: the keys of a map are texts, found {name!r}")
        return {"map": {name: _tree(part, arrays, f"{path}.{name}") for name, part in value.items()}}
    name = str(len(arrays))
    if isinstance(value, bytes | bytearray | memoryview):
        arrays[name] = np.frombuffer(bytes(value), dtype=np.uint8)
        return {"bytes": name}
    if isinstance(value, int):
        return {"number": str(int(value))}
    if isinstance(value, float):
        return {"number": value.hex() if math.isfinite(value) else repr(value)}
    array = np.asarray(value)
    if array.dtype.kind not in KINDS:
        raise AuthorError(f"{path}: a {type(value).__name__} cannot be kept")
    arrays[name] = array
    return {"array": name}


def _value(tree: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(tree, list):
        return [_value(part, arrays) for part in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "map":
        return {name: _value(part, arrays) for name, part in content.items()}
    if kind == "number":
        return float.fromhex(content) if "x" in content or content in ("nan", "inf", "-inf") else int(content)
    if kind == "bytes":
        return arrays[content].tobytes()
    if kind == "array":
        return arrays[content]
    raise ValueError(f"unknown kind {kind!r:.20} of value")
