"""Fetch: files of models that lie nowhere on this machine, written anew from the bytes that a store has kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ganglion import registry
from ganglion.errors import LimitExceeded, StoreError
from ganglion.sdk.models import digest_of
from ganglion.sdk.store import model_file_bytes

__all__ = ["fetch"]

_DIGEST = re.compile(r"[0-9a-f]{64}")


def fetch(uri: str, files: Mapping[str, str], folder: Path) -> str | None:
    """Write the files of a model from a store; return why that cannot be, None if they are there now.

    Args:
        uri: Of the store.
        files: Name of each file in the folder -> its SHA-256; names are ours, never those of a database.
        folder: Made if it is not there. Each file is written beside its place and renamed when its digest is right.

    Raises:
        PluginInvalid: There is no store of that kind.
        StoreError: It cannot be read, what it has is damaged, or the folder cannot be written.
        LimitExceeded: What it has is too large.
    """
    strange = [sha256 for sha256 in files.values() if not _DIGEST.fullmatch(sha256)]
    if strange:
        return f"{strange[0]!r:.80} is no SHA-256"
    with registry.load("store", uri.partition(":")[0]).reader(uri) as reader:
        for name, sha256 in files.items():
            if _lies_there(folder / name, sha256):
                continue  # fetched before, by who was lost since
            pieces = reader.model(sha256)
            if pieces is None:
                return f"the bytes {sha256[:12]}... of {name} are not there either"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _write(folder, name, pieces, sha256)
            except OSError as error:
                raise StoreError(f"model {folder / name}: cannot be written: {error}") from error
    return None


def _lies_there(path: Path, sha256: str) -> bool:
    return path.is_file() and not path.is_symlink() and digest_of(path) == sha256


def _write(folder: Path, name: str, pieces: Iterable[bytes], sha256: str) -> None:
    """Write a file below the descriptor of its folder, so that no link that was planted there leads anywhere else."""
    beside = f".{name}.{os.getpid()}.part"
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=descriptor)  # of a process that died and had our number
        with os.fdopen(os.open(beside, flags, 0o644, dir_fd=descriptor), "wb") as file:
            digest, size, most = hashlib.sha256(), 0, model_file_bytes()
            for piece in pieces:
                size += len(piece)
                if size > most:
                    raise LimitExceeded(
                        f"model {sha256}: expected at most {most} bytes (model_bytes), found more"
                    )
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != sha256:
            raise StoreError(f"model {sha256}: the store gave bytes with the digest {digest.hexdigest()}")
        os.replace(beside, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=descriptor)
        raise
    finally:
        os.close(descriptor)
