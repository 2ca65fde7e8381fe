"""Fetch: files of models that lie nowhere on this machine, written anew from the bytes that a store has kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ganglion.errors import LimitExceeded, StoreError
from ganglion.peer.address import store_class
from ganglion.sdk.models import digest_of, written_beside
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
    with store_class(uri).reader(uri) as reader:
        for name, sha256 in files.items():
            if _lies_there(folder / name, sha256):
                continue  # fetched before, by who was lost since
            pieces = reader.model(sha256)
            if pieces is None:
                return f"the bytes {sha256[:12]}... of {name} are not there either"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _write(folder / name, pieces, sha256)
            except OSError as error:
                raise StoreError(f"model {folder / name}: cannot be written: {error}") from error
    return None


def _lies_there(path: Path, sha256: str) -> bool:
    return path.is_file() and not path.is_symlink() and digest_of(path) == sha256


def _write(path: Path, pieces: Iterable[bytes], sha256: str) -> None:
    digest, size, most = hashlib.sha256(), 0, model_file_bytes()
    with written_beside(path) as file:
        for piece in pieces:
            size += len(piece)
            if size > most:
                raise LimitExceeded(
                    f"model {sha256}: expected at most {most} bytes (model_bytes), found more"
                )
            digest.update(piece)
            file.write(piece)
        if digest.hexdigest() != sha256:
            raise StoreError(f"model {sha256}: the store gave bytes with the digest {digest.hexdigest()}")
