"""Moments: the lengths of all tapes of a run at one moment, kept so that a run can go on in mid-episode.

Every process writes down what it hears before it says what follows from it. What all tapes hold at one moment is
therefore what a run needs to be there again, as after the sudden end of all processes at this moment. A moment keeps
the tapes themselves by links: a process that begins a new tape leaves the old file to us.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ganglion.errors import StoreError
from ganglion.run.cut import FOLDER, cut_text, read_cut
from ganglion.supervisor.standstill import standstill
from ganglion.synced import sync, write_synced

__all__ = ["Moment", "Moments"]

_TAPES = ("tapes/*.tape", "users/*/*.tape")  # where the tapes of a run are, below its folder
_FACTS = "moment.json"
_KEPT = 2
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment that was kept: its folder, what was noted, and the length of each tape (by path below the run's folder).

    `stop` says that the run was interrupted then: what it did afterwards was to end.
    """

    folder: Path
    facts: Mapping[str, Any]
    tapes: Mapping[str, int]
    stop: bool

    @property
    def number(self) -> int:
        """Return the place among the moments of the run."""
        return int(self.folder.name.rpartition("-")[2])


class Moments:
    """Note and find the moments of the run in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cuts = folder / FOLDER

    # -- noting -------------------------------------------------------------------------------------------------------
    def note(self, pids: Sequence[int], tapes: Sequence[Path], stop: bool = False) -> Moment | None:
        """Note how long these tapes, of different names, are while these processes stand; it counts when it was kept.

        Returns None if they could not be made to stand at once, or if a tape is not there.

        Raises:
            StoreError: The files cannot be made.
        """
        path = self._fresh(stop)
        try:
            self._cuts.mkdir(mode=0o700, exist_ok=True)
            path.mkdir(mode=0o700)
            with standstill(pids) as stand:
                lengths = self._link(tapes, path) if stand else None
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise StoreError(f"cut {path}: cannot be written: {error}") from error
        if lengths is None:
            shutil.rmtree(path, ignore_errors=True)
            return None
        return Moment(path, {}, lengths, stop)

    def _fresh(self, stop: bool) -> Path:
        numbers = [int(path.name.rpartition("-")[2]) for path in self._folders()]
        return self._cuts / f"{'stop' if stop else 'moment'}-{max(numbers, default=0) + 1:09}"

    def _link(self, tapes: Sequence[Path], path: Path) -> dict[str, int] | None:
        lengths = {}
        for tape in tapes:
            try:
                os.link(tape, path / tape.name, follow_symlinks=False)
            except FileNotFoundError:
                return None
            lengths[tape.relative_to(self._folder).as_posix()] = (path / tape.name).stat().st_size
        return lengths

    def keep(self, moment: Moment, facts: Mapping[str, Any]) -> None:
        """Make a moment durable, with what else is to be known of it; older ones are forgotten.

        Raises:
            StoreError: The files cannot be written.
        """
        try:
            for name in moment.tapes:
                sync(moment.folder / Path(name).name)
            text = cut_text({**facts, "tapes": dict(moment.tapes)})
            write_synced(moment.folder / _FACTS, text.encode(), 0o600)
            sync(self._cuts)
        except OSError as error:
            shutil.rmtree(moment.folder, ignore_errors=True)
            raise StoreError(f"cut {moment.folder}: cannot be written: {error}") from error
        for path in self._folders()[:-_KEPT]:
            shutil.rmtree(path, ignore_errors=True)

    # -- finding ------------------------------------------------------------------------------------------------------
    def newest(self) -> tuple[Moment | None, list[str]]:
        """Return the newest moment that is whole, None if there is none, and what is wrong with those after it."""
        wrong: list[str] = []
        for path in reversed(self._folders()):
            if not (path / _FACTS).exists():
                continue  # all ended while it was being kept
            try:
                return self._read(path), wrong
            except StoreError as error:
                wrong.append(str(error))
        return None, wrong

    def _read(self, path: Path) -> Moment:
        file = path / _FACTS
        try:
            facts = read_cut(file.read_bytes(), str(file))
            tapes = {str(name): int(length) for name, length in facts["tapes"].items()}
            for name, length in tapes.items():
                if not _is_tape(name) or length < 0:
                    raise ValueError(f"{name!r:.80} of {length} bytes is no tape of a run")
                found = (path / Path(name).name).stat().st_size
                if found < length:
                    text = f"expected at least {length} bytes, found {found}"
                    raise StoreError(f"cut {path / Path(name).name}: the file is damaged: {text}")
        except (OSError, KeyError, AttributeError, TypeError, ValueError) as error:
            raise StoreError(f"cut {path}: cannot be read: {type(error).__name__}: {error}") from error
        return Moment(path, facts, tapes, path.name.startswith("stop-"))

    def _folders(self) -> list[Path]:
        """Return the folders of all moments, the oldest first."""
        try:
            found = [path for path in self._cuts.iterdir() if path.name.startswith(("moment-", "stop-"))]
        except OSError:
            return []
        plain = [path for path in found if path.name.rpartition("-")[2].isdigit()]
        return sorted(plain, key=lambda path: int(path.name.rpartition("-")[2]))

    # -- going back ---------------------------------------------------------------------------------------------------
    def restore(self, moment: Moment) -> None:
        """Put the tapes of a moment in the place of those that are there; all others are gone then.

        Raises:
            StoreError: The files cannot be read or written; it can be done again.
        """
        try:
            fresh = {name: self._beside(moment, name) for name in moment.tapes}
            for path in self._tapes():
                path.unlink()
            for name, path in fresh.items():
                path.rename(self._folder / name)
        except OSError as error:
            raise StoreError(f"cut {moment.folder}: the tapes cannot be put back: {error}") from error

    def _beside(self, moment: Moment, name: str) -> Path:
        """Write the beginning of a tape beside its place, with its owner; return where."""
        source, path = moment.folder / Path(name).name, self._folder / f"{name}.back"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        _copy(source, path, moment.tapes[name])
        whose = source.stat()
        if whose.st_uid != os.getuid():
            os.chown(path, whose.st_uid, whose.st_gid, follow_symlinks=False)
        return path

    def _tapes(self) -> list[Path]:
        return [path for pattern in _TAPES for path in self._folder.glob(pattern)]

    def went_on(self, moment: Moment) -> None:
        """Note that a run which was interrupted at a moment goes on from there: what comes later is newer."""
        if moment.stop:
            moment.folder.rename(moment.folder.with_name(f"moment-{moment.number:09}"))
            sync(self._cuts)

    def forget(self) -> None:
        """Remove all moments and all tapes: a run is begun again from a phase."""
        for path in self._folders():
            shutil.rmtree(path, ignore_errors=True)
        for path in self._tapes():
            path.unlink(missing_ok=True)


def _is_tape(name: str) -> bool:
    """Say whether a name leads to a tape below the folder of a run, and nowhere else."""
    path = PurePosixPath(name)
    return ".." not in path.parts and any(
        path.match(pattern) and len(path.parts) == len(PurePosixPath(pattern).parts) for pattern in _TAPES
    )


def _copy(source: Path, target: Path, length: int) -> None:
    """Copy the first `length` bytes; the source may be another user's, and is followed nowhere."""
    fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as given, target.open("xb") as taken:
        target.chmod(0o600)
        for piece in _pieces(given, length):
            taken.write(piece)


def _pieces(file: Any, length: int) -> Iterator[bytes]:
    while length:
        piece = file.read(min(length, _PIECE_BYTES))
        if not piece:
            raise OSError(f"{length} bytes are missing")
        length -= len(piece)
        yield piece
