"""The logs of a run, read together: what its processes have logged and printed, in order of time."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LINE = re.compile(r"(?:(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) )?(?P<text>.*)", re.DOTALL)
_NAMED = ("time", "level", "process", "event")
_WITHOUT_WORKER = ("brain", "table")
FILES = 10
"""The most files of one process that are looked for, with those that were put aside."""


class Logs:
    """Read what the processes of a run have logged and printed, in order of time; each reading gives what is new.

    `last_bytes` is how much of the end of each file is read at first; None: all, also of those that were put aside.
    """

    def __init__(self, run: str, folder: Path, last_bytes: int | None = None) -> None:
        self._run, self._folder, self._last_bytes = run, folder, last_bytes
        self._places: dict[Path, tuple[int, int]] = {}  # file -> its number, and up to where it was read

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield lines as maps: `time` (UTC, or empty), `level`, `process`, `event`, `fields`.

        What is no entry of a log was printed: its level is `output`, and `event` is the text.
        """
        with contextlib.suppress(FileNotFoundError):
            paths = sorted(path for path in self._folder.iterdir() if path.suffix in (".jsonl", ".out"))
            yield from heapq.merge(*map(self._of_file, paths), key=lambda line: str(line["time"]))

    def _of_file(self, path: Path) -> Iterator[dict[str, Any]]:
        process, stamp = self._process(path.stem), ""
        for text in self._lines(path):
            found = _LINE.match(text)
            assert found is not None
            stamp = found["time"] or stamp
            fields = _fields(found["text"])
            values: tuple[str, ...]
            if fields is None:
                values = (stamp, "output", process, found["text"])
            else:
                values = tuple(str(fields.pop(key, "")) for key in _NAMED)
                stamp = values[0]
            yield {**dict(zip(_NAMED, values, strict=True)), "fields": fields or {}}

    def _process(self, stem: str) -> str:
        role, _, rest = stem.partition(".")
        uid, _, worker = (rest, "", "") if role in _WITHOUT_WORKER else rest.rpartition(".")
        return "/".join(filter(None, (self._run, role, uid, worker)))

    def _lines(self, path: Path) -> Iterator[str]:
        """Yield the whole lines of a file that are new; of one that was put aside meanwhile, its rest before."""
        number, place = self._places.get(path, (0, 0))
        newer = not number and self._last_bytes is None
        aside = reversed(range(1, FILES)) if path.suffix == ".out" else ()
        for name in (*(path.with_name(f"{path.name}.{n}") for n in aside), path):
            with contextlib.suppress(OSError), open(name, "rb", opener=_opened) as file:
                status = os.fstat(file.fileno())
                if status.st_ino == number:
                    newer = True
                elif not newer and name != path:
                    continue  # older than what was read
                else:
                    last = None if number else self._last_bytes
                    number, place = status.st_ino, 0 if last is None else max(0, status.st_size - last)
                    file.seek(place)
                    place += len(file.readline()) if place else 0  # the line that is cut
                file.seek(place)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # it is being written
                    place += len(line)
                    self._places[path] = number, place
                    yield line.decode(errors="replace").rstrip("\n")


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _fields(line: str) -> dict[str, Any] | None:
    """Return the fields of an entry of a log; None of another line."""
    try:
        fields = json.loads(line) if line.startswith("{") else None
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and {"event", "process"} <= fields.keys() else None
