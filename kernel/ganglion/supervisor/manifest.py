"""The manifest of a run: sealed when the run has ended, with the digests of its files and of itself."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ganglion.errors import StoreError
from ganglion.limits import MODEL_INDEX_BYTES
from ganglion.supervisor.origin import ORIGIN
from ganglion.synced import write_synced

__all__ = ["MANIFEST", "Files", "file_digest", "read_manifest", "reopen", "seal", "text_of"]

MANIFEST = "manifest.json"
_INDEX = "brains/models.json"
_SEALED = ("document.yml", "resolved.yml", ORIGIN, _INDEX)
_SEAL = "sha256"
_KEYS = ("status", "reason", "ended", "chain", "files", _SEAL)  # what a seal adds, in this order


def text_of(manifest: Mapping[str, Any]) -> str:
    """Return the one text that a manifest has as a file."""
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a regular file; OSError if it is anything else, a link too, or cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no regular file")
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path, status: str, reason: str, ended: str, chain: Mapping[str, Any] | None) -> None:
    """Complete the manifest of a run that has ended; an earlier seal is replaced.

    Args:
        folder: The run's.
        status: How it ended; `reason` why, `ended` when.
        chain: The heads of its chains as its store gave them, None if nothing was stored.

    Raises:
        StoreError: It cannot be read or written; the old one stays.
    """
    path = folder / MANIFEST
    try:
        manifest = {k: v for k, v in json.loads(_text(path)).items() if k not in _KEYS}
        manifest |= {"status": status, "reason": reason, "ended": ended}
        manifest["chain"] = None if chain is None else dict(chain)
        manifest["files"] = {name: _row(folder / name) for name in _SEALED if (folder / name).exists()}
        manifest[_SEAL] = _own_digest(manifest)
        write_synced(path, text_of(manifest).encode())
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(f"manifest {path}: cannot be sealed: {error}") from error


def reopen(folder: Path, note: Mapping[str, Any]) -> None:
    """Take the seal off the manifest of a run that goes on, and add how that was done to its `resumed`.

    Raises:
        StoreError: It cannot be read or written; the old one stays.
    """
    path = folder / MANIFEST
    try:
        manifest = {k: v for k, v in json.loads(_text(path)).items() if k not in _KEYS}
        manifest["resumed"] = [*manifest.get("resumed", []), dict(note)]
        write_synced(path, text_of(manifest).encode())
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise StoreError(f"manifest {path}: cannot be written: {error}") from error


def _row(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": file_digest(path)}


def _own_digest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's text without its own digest."""
    rest = {key: value for key, value in manifest.items() if key != _SEAL}
    return hashlib.sha256(text_of(rest).encode()).hexdigest()


def _text(path: Path) -> str:
    if path.stat().st_size > MODEL_INDEX_BYTES:
        raise ValueError(f"expected at most {MODEL_INDEX_BYTES} bytes")
    return path.read_bytes().decode()


def read_manifest(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest of a run, and what is wrong with it: empty if nothing is.

    A manifest without a seal is nothing wrong by itself: the run goes on, or was killed with everything. Whatever
    byte of a sealed one is another, it is found.
    """
    path = folder / MANIFEST
    try:
        text = _text(path)
        manifest = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"it cannot be read: {error}"
    if not isinstance(manifest, dict):
        return {}, "expected a map"
    if _SEAL in manifest and (manifest[_SEAL] != _own_digest(manifest) or text != text_of(manifest)):
        return manifest, "it is not what was sealed"
    return manifest, ""


class Files:
    """Check files of a run's folder by their digests; each is read once.

    Yielded are pairs: the file below the folder, and what is wrong with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digests: dict[str, str] = {}

    def sealed(self, manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Check the files that a manifest names, and the models that their index names."""
        files = manifest.get("files")
        for name, row in files.items() if isinstance(files, dict) else ():
            yield from self.file(name, row.get("sha256") if isinstance(row, dict) else None)
        if isinstance(files, dict) and _INDEX in files:
            yield from self._indexed()

    def file(self, name: str, sha256: Any) -> Iterator[tuple[str, str]]:
        """Check one file; `name` leads from the folder down, and nowhere else."""
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or "\0" in name:
            yield name, "its path leaves the folder of the run"
            return
        try:
            if name not in self._digests:
                self._digests[name] = file_digest(self._folder / place)
            if self._digests[name] != sha256:
                yield name, f"expected SHA-256 {sha256!s:.64}, found {self._digests[name]}"
        except OSError as error:
            yield name, f"it cannot be read: {error.strerror or error}"

    def model(self, path: str, sha256: Any) -> Iterator[tuple[str, str]]:
        """Check a file of a model by the path that it was stored under, also if the results were moved since."""
        parts = PurePosixPath(path).parts[-4:]  # brains/<phase>/<agent>/<file>
        if len(parts) < 4 or parts[0] != "brains":
            yield path[:200], "its path leaves the folder of the run"
            return
        yield from self.file("/".join(parts), sha256)

    def _indexed(self) -> Iterator[tuple[str, str]]:
        try:
            tree = json.loads(_text(self._folder / _INDEX))
            rows = [(str(row["path"]), row["sha256"]) for row in tree["models"]]
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            yield _INDEX, f"it cannot be read: {type(error).__name__}: {error}"
            return
        for path, sha256 in rows:
            yield from self.file(f"brains/{path}", sha256)
