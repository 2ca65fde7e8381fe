"""The folder of an experiment below the results: run documents, the design, a lock; nothing is overwritten."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ganglion.cli.extension import UsageError
from ganglion_sweep.experiment import COLUMNS
from ganglion_sweep.point import Point


def cell(value: Any) -> str:
    """Return a value as it stands in a table: text as it is, all else as JSON, nothing for null."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def table(points: Sequence[Point]) -> str:
    """Return the design as CSV, a line per run."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*COLUMNS, *(points[0].factors if points else ())])
    for point in points:
        values = (cell(value) for value in point.factors.values())
        writer.writerow([point.number, point.row, point.repetition, point.seed, *values])
    return stream.getvalue()


class Folder:
    """The folder of one experiment, `<results>/sweeps/<uid>`."""

    def __init__(self, results: Path, uid: str) -> None:
        if uid in (".", ".."):
            raise UsageError(f"expected a uid that can name a folder, found {uid!r}")
        self.uid = uid
        self.path = results / "sweeps" / uid

    def document(self, point: Point) -> Path:
        """Return where the run document of a point is."""
        return self.path / f"{self.uid}_run-{point.number}.yml"

    @property
    def logs(self) -> Path:
        """Return the folder of the broker's own output."""
        return self.path / "logs"

    def files(self, points: Sequence[Point]) -> dict[Path, bytes]:
        """Return what belongs into the folder."""
        files = {self.document(point): point.text.encode() for point in points}
        return {**files, self._table: table(points).encode()}

    def check(self, files: Mapping[Path, bytes]) -> None:
        """Refuse files that are there with another content; UsageError names the first.

        The table of the design may have grown by rows at its end: more repetitions leave all runs as they are.
        """
        try:
            others = [path for path, data in files.items() if path.exists() and not self._fits(path, data)]
        except OSError as error:
            raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error
        if others:
            more = f" (and {len(others) - 1} more files)" if len(others) > 1 else ""
            raise UsageError(
                f"{others[0]} is there with another content{more}; nothing is overwritten: give the experiment another "
                f"uid, or remove {self.path}"
            )

    def _fits(self, path: Path, data: bytes) -> bool:
        there = path.read_bytes()
        return there == data or (path == self._table and data.startswith(there))

    @property
    def _table(self) -> Path:
        return self.path / f"{self.uid}_design.csv"

    def write(self, files: Mapping[Path, bytes]) -> None:
        """Write what is not there yet, each file whole or not at all; UsageError if it cannot be written."""
        beside = self.path / f".{os.getpid()}.new"
        try:
            for path, data in files.items():
                if path.exists() and not (path == self._table and self._fits(path, data)):
                    continue
                beside.unlink(missing_ok=True)  # of a process that died; `x` follows no link
                with beside.open("xb") as file:
                    file.write(data)
                if path.exists():
                    beside.replace(path)  # the table with the rows that it had, and further ones
                    continue
                os.link(beside, path)  # never over a file that somebody else has just made
                beside.unlink()
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands away from this experiment; UsageError if one is at work on it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UsageError(f"experiment {self.uid}: another command is carrying it out ({self.path})") from error
        try:
            yield
        finally:
            os.close(lock)
