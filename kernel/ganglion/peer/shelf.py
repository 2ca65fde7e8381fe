"""Shelf: the models of one run in a folder, with an index that says whose they are."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ganglion.errors import StoreError
from ganglion.limits import MODEL_INDEX_BYTES
from ganglion.sdk.models import load_meta
from ganglion.synced import write_synced

__all__ = [
    "INDEX",
    "Index",
    "Kept",
    "Shelf",
    "copy_model",
    "files_of",
    "give_back",
    "hand_over",
    "read_shelf",
    "reserve",
    "shelves",
]

INDEX = "models.json"
_BRAINS = "brains"  # the folder of a run that is its shelf
_NUMBERS_MAX = 10_000
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of a model: whose it is, after which phase, under which tag, and its digest."""

    phase: int
    agent: str
    tag: str
    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """What the index of a folder says: the run, the names of its phases, and its models."""

    folder: Path
    run: str
    uid: str
    status: str
    started: str
    phases: Mapping[int, str]
    models: Sequence[Kept]


class Index:
    """Write the index of a shelf: it takes the records that go to the store, and keeps what it needs of them."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder
        self._head: dict[str, Any] = {"format": 1, "run": run, "uid": "", "started": "", "status": "running"}
        self._phases: dict[str, str] = {}
        self._models: dict[tuple[int, str, str], dict[str, Any]] = {}
        self._stale = False

    def take(self, record: Sequence[Any]) -> None:
        """Take a record; those of no use here are skipped."""
        kind, *fields = record
        if kind == "run":
            self._head |= {key: str(fields[0][key]) for key in ("uid", "experiment", "started")}
        elif kind == "phase":
            self._phases[str(fields[0])] = fields[1]
        elif kind == "end":
            self._head["status"] = fields[0]
            self._stale = True
        elif kind == "brain":
            phase, agent, tag, _, updates, _, size, sha256, path = fields
            row = {"phase": phase, "agent": agent, "tag": tag, "updates": updates, "bytes": size}
            # <phase>/<agent>/<file>: the shelf may be moved as a whole.
            place = "/".join(Path(path).parts[-3:])
            self._models[phase, agent, tag] = {**row, "sha256": sha256, "path": place}
            self._stale = True

    def flush(self) -> None:
        """Write the index if there is news; StoreError if it cannot be written."""
        if not self._stale:
            return
        tree = {**self._head, "phases": self._phases, "models": list(self._models.values())}
        path = self.folder / INDEX
        beside = path.with_name(f".{INDEX}.{os.getpid()}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)  # of a process that died; `x` follows no link
            with beside.open("x", encoding="utf-8") as file:
                json.dump(tree, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise StoreError(f"index of models {path}: cannot be written: {error}") from error
        self._stale = False

    @property
    def is_empty(self) -> bool:
        """Say whether there is no model on the shelf."""
        return not self._models


def files_of(folder: Path) -> list[Path]:
    """Return the files of the model in a folder, one per tag, that without a tag first; none if there is no model."""
    return sorted(folder.glob("model*.npz"), key=lambda path: (path.name != "model.npz", path.name))


def copy_model(files: Sequence[Path], folder: Path) -> list[dict[str, Any]]:
    """Copy files of a model into a folder; return maps of tag, path, sha256 and bytes.

    Each is written beside its place, synced, and renamed. StoreError: one is damaged, or cannot be read or written.
    """
    rows = []
    for path in files:
        tag = str((load_meta(path) or {}).get("tag", ""))
        target = folder / path.name
        beside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)
            digest = _copy(path, beside)
            beside.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise StoreError(f"model {target}: cannot be written: {error}") from error
        size = target.stat().st_size
        rows.append({"tag": tag, "path": str(target), "sha256": digest, "bytes": size})
    return rows


def _copy(path: Path, target: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source, target.open("xb") as file:
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def reserve(folder: Path, run: str, noted: Path) -> Path:
    """Return the folder of a run in a directory of models: made new, its id, or that and the first free number.

    Nothing that lies there is overwritten, also where a run of other results had the same id. Which one it is stands in
    the file `noted`, in the run's own folder: a process that takes over from one that was lost gets the same.

    Raises:
        OSError: The folder cannot be made.
        StoreError: The note cannot be read or written.
    """
    known = _noted(noted)
    if str(folder) in known:
        path = Path(known[str(folder)])
        path.mkdir(parents=True, exist_ok=True)
        return path
    path = _fresh(folder, run)
    _note(noted, {**known, str(folder): str(path)})
    return path


def give_back(folder: Path, noted: Path) -> None:
    """Remove a folder that was reserved in vain, with its note; what others have put there stays, and it as well.

    Raises:
        StoreError: The note cannot be read or written.
    """
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass  # somebody has tidied up
    except OSError:
        return
    known = _noted(noted)
    kept = {place: path for place, path in known.items() if path != str(folder)}
    if kept != known:
        _note(noted, kept)


def _noted(path: Path) -> dict[str, str]:
    """Return which folder a run has in each directory of models."""
    try:
        if path.stat().st_size > MODEL_INDEX_BYTES:
            raise ValueError(f"expected at most {MODEL_INDEX_BYTES} bytes")
        tree = json.loads(path.read_bytes())
        return {_text(place): _text(folder) for place, folder in tree.items()}
    except FileNotFoundError:
        return {}
    except (OSError, AttributeError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error


def _note(path: Path, known: Mapping[str, str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(path, json.dumps(known, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error}") from error


def _fresh(folder: Path, run: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, _NUMBERS_MAX):
        path = folder / (run if number == 1 else f"{run}+{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise FileExistsError(f"{_NUMBERS_MAX} folders for run {run}")


def hand_over(shelf: Path, place: str, user: str) -> None:
    """Make a folder on a shelf in which one user writes and nobody else reads; others may pass by. OSError if not."""
    entry = pwd.getpwnam(user)
    *between, last = [
        shelf.joinpath(*Path(place).parts[:count]) for count in range(len(Path(place).parts) + 1)
    ]
    for folder in between:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)
    last.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(last, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(fd, entry.pw_uid, entry.pw_gid)
    finally:
        os.close(fd)


def shelves(folder: Path, run: str | None = None) -> tuple[list[Shelf], bool]:
    """Return the shelves of a directory, the oldest first, and whether it is that of one run only.

    A directory is a shelf, the folder of a run (whose shelf is `brains`), or holds any number of these. With `run`
    the folder of that name is looked at first, and no other if it has a shelf of that run.

    Raises:
        StoreError: An index is damaged or cannot be read.
    """
    for one in (folder, folder / _BRAINS):
        shelf = read_shelf(one)
        if shelf is not None:
            return [shelf], True
    if run is not None and _is_folder_name(run):
        shelf = _below(folder / run)
        if shelf is not None and shelf.run == run and not (folder / f"{run}+2").exists():
            return [shelf], False
    found = [shelf for path in sorted(_folders(folder)) if (shelf := _below(path)) is not None]
    return sorted(found, key=lambda shelf: shelf.started), False


def _is_folder_name(run: str) -> bool:
    """Say whether a run's name can be that of a folder of ours: documents name runs as they like."""
    return PurePosixPath(run).name == run and run != ".." and "\0" not in run


def _folders(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir())
    except OSError:
        return


def _below(folder: Path) -> Shelf | None:
    return read_shelf(folder) or read_shelf(folder / _BRAINS)


def read_shelf(folder: Path) -> Shelf | None:
    """Return the shelf in a folder, None if it has no index; StoreError if the index is damaged."""
    path = folder / INDEX
    try:
        if path.stat().st_size > MODEL_INDEX_BYTES:
            raise StoreError(f"index of models {path}: expected at most {MODEL_INDEX_BYTES} bytes")
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"index of models {path}: cannot be read: {error.strerror}") from error
    try:
        return _shelf(folder, json.loads(data))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"index of models {path}: the file is damaged: {error}") from error


def _shelf(folder: Path, tree: Any) -> Shelf:
    if tree["format"] != 1:
        raise ValueError(f"format {tree['format']!r:.20} is not read")
    words = {key: _text(tree[key]) for key in ("run", "uid", "status", "started")}
    phases = {int(index): _text(name) for index, name in tree["phases"].items()}
    return Shelf(folder, phases=phases, models=[_kept(folder, row) for row in tree["models"]], **words)


def _kept(folder: Path, row: Mapping[str, Any]) -> Kept:
    place = PurePosixPath(_text(row["path"]))
    if place.is_absolute() or ".." in place.parts:
        raise ValueError(f"path {str(place)!r:.100} leaves the folder")
    phase = row["phase"]
    if type(phase) is not int:
        raise TypeError(f"phase {phase!r:.20} is no index")
    return Kept(phase, _text(row["agent"]), _text(row["tag"]), folder / place, _text(row["sha256"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.40}")
    return value
