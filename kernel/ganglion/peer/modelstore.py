"""The model store as seen by a process: folders, or, over the bus, files kept by digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ganglion.errors import RemoteProtocolError, StoreError
from ganglion.limits import DEADLINES_S, MODEL_PIECE_BYTES
from ganglion.peer.journal.write import JournalDiffers
from ganglion.peer.participant import Participant
from ganglion.synced import written_beside
from ganglion.wire.messages import ModelAsked, ModelKept


class LocalModelStore:
    """Give a process the folders of models that a set-up names, which it sees."""

    def read(self, folder: str) -> str:
        """Return a readable folder with the models of a folder."""
        return folder

    def write(self, folder: str) -> str:
        """Return a folder to write files into that belong in a folder."""
        return folder

    def stored(self, rows: Sequence[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
        """Bring written files to a folder; return their rows with the paths there."""
        return list(rows)

    def copied(self, files: Sequence[Path], folder: str) -> list[dict[str, Any]]:
        """Copy files of a model to a folder; return maps of tag, path, sha256, bytes. StoreError: the copy failed."""
        from ganglion.peer.models import copy_model

        return copy_model(files, Path(folder))


class BusModelStore(LocalModelStore):
    """Fetch models over the bus into a folder of this node, and send written ones over the bus.

    A file is kept under its SHA-256, once for all processes of the run on this node, and linked to where it is read. A
    successor that replays its predecessor's journal finds the files that the predecessor fetched.

    Args:
        node: The folder of the run on this node.
        participant: Returns the participant that calls the supervisor.
    """

    def __init__(self, node: Path, participant: Callable[[], Participant]) -> None:
        self._node, self._participant = node, participant

    def read(self, folder: str) -> str:
        """Fetch the missing models of a folder; JournalDiffers: a predecessor had a file that is missing."""
        here = self._node / "models" / _named(folder)
        answer = self._ask("kernel.model", ModelAsked(folder))
        if answer is None:
            if not here.is_dir():
                raise JournalDiffers("the predecessor's models are not on this node")
            return str(here)
        here.mkdir(parents=True, exist_ok=True)
        names = set()
        for name, sha256, size in answer.files:
            if Path(name).name != name:
                raise RemoteProtocolError(f"kernel.model: expected the names of files, found {name!r:.80}")
            names.add(name)
            self._link(self._kept(folder, name, str(sha256), int(size)), here / name)
        for file in here.iterdir():
            if file.name not in names:
                file.unlink(missing_ok=True)
        return str(here)

    def write(self, folder: str) -> str:
        """Return a folder of this node."""
        return str(self._node / "own" / _named(folder))

    def stored(self, rows: Sequence[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
        """Send written files over the bus."""
        return [{**row, "path": self._send(Path(row["path"]), folder, row["sha256"])} for row in rows]

    def copied(self, files: Sequence[Path], folder: str) -> list[dict[str, Any]]:
        """Send files of a model over the bus."""
        from ganglion.sdk.models import digest_of, load_meta

        rows = []
        for file in files:
            tag, size = str((load_meta(file) or {}).get("tag", "")), file.stat().st_size
            rows.append({"tag": tag, "path": str(file), "sha256": digest_of(file), "bytes": size})
        return self.stored(rows, folder)

    def _kept(self, folder: str, name: str, sha256: str, size: int) -> Path:
        """Return a file by its digest; fetch a missing one."""
        path = self._node / "blobs" / sha256
        if path.exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        try:
            with written_beside(path, 0o600, follow=True) as file:
                while file.tell() < size:
                    piece = self._ask("kernel.model", ModelAsked(folder, name, file.tell()))
                    if piece is None or not piece.data:
                        break
                    file.write(piece.data)
                    digest.update(piece.data)
                if digest.hexdigest() != sha256:
                    raise StoreError(f"model {folder}/{name}: expected SHA-256 {sha256}, received another one")
        except OSError as error:
            raise StoreError(f"model {path}: cannot be written: {error}") from error
        return path

    @staticmethod
    def _link(blob: Path, path: Path) -> None:
        """Link a file to its place, replacing what is there."""
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        os.link(blob, fresh)
        fresh.rename(path)

    def _send(self, file: Path, folder: str, sha256: str) -> str:
        for offset, size, data in _pieces(file):
            if self._ask("kernel.keep", ModelKept(folder, file.name, sha256, size, offset, data)) is None:
                break  # a predecessor has sent it
        return f"{folder}/{file.name}"

    def _ask(self, call: str, message: Any) -> Any:
        return self._participant().ask_beside(call, message, DEADLINES_S["store"])


def _pieces(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, size of the whole, and bytes of a file, piece by piece; StoreError if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while data := file.read(MODEL_PIECE_BYTES):
                yield file.tell() - len(data), size, data
    except OSError as error:
        raise StoreError(f"model {path}: cannot be read: {error}") from error


def _named(folder: str) -> str:
    return hashlib.sha256(folder.encode()).hexdigest()[:32]
