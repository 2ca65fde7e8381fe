"""What a process prints: kept in a file up to a bound, its last lines in memory; the logs of a run, read together."""

from __future__ import annotations

import contextlib
import datetime as dt
import heapq
import itertools
import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ganglion.limits import LOG_FILE_BYTES, LOG_FILES, LOG_LINE_BYTES, OUTPUT_BYTES_PER_S, OUTPUT_LINES_KEPT

_STACK = re.compile(r"(Current t|T)hread 0x[0-9a-f]+.*\(most recent call first\):")
_HOOKS = '/ganglion/peer/hooks.py"'  # the frame that called an author's hook; those below it say nothing of it


def printable(text: str) -> str:
    """Return text of a stranger without control characters, so that a terminal that shows it does nothing else."""
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in text)


def without_password(text: str) -> str:
    """Return a text without the passwords of the URIs in it: `postgresql://user:***@host/db?password=***`."""
    hidden = re.sub(r"(://[^:/@\s]*):\S*@", r"\1:***@", text)
    return re.sub(r"([?&]\w*pass\w*=)[^&\s]*", r"\1***", hidden)


class Output:
    """Take the output of one process and keep it in the file `path` (None: nowhere); `lines` are the last ones.

    Each line begins with its time, as in the log files. A full file becomes `<path>.1`, that one `<path>.2`; there are
    LOG_FILES of them. What comes faster than OUTPUT_BYTES_PER_S, or in lines longer than LOG_LINE_BYTES, is not kept;
    the file says how much that was. Where a process that hung was ended, its stacks come with the innermost frame
    first: the last lines leave out what lies below an author's hook, which would push the hook itself out.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self.lines: deque[str] = deque(maxlen=OUTPUT_LINES_KEPT)
        self.dropped_bytes = 0
        self._told_bytes = 0  # of what was dropped
        self._rest = b""
        self._stack = self._below = False  # whether a line is of a stack, and below the hook
        self._clock, self._now = clock, now
        self._credit_bytes, self._credit_s = float(OUTPUT_BYTES_PER_S), clock()
        self._path = path
        self._file: int | None = None
        self._room_bytes = LOG_FILE_BYTES

    def feed(self, data: bytes) -> None:
        """Take what was printed; the rest of a line may follow."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LOG_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._line(line)

    def quoted(self) -> str:
        """Return the last lines as they follow a sentence: each on a line of its own, indented."""
        return "".join(f"\n    {line}" for line in self.lines)

    def close(self) -> None:
        """End the last line, close the file."""
        if self._rest:
            self.feed(b"\n")
        self._tell_dropped()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _line(self, line: bytes) -> None:
        cut = line[:LOG_LINE_BYTES]
        text = printable(cut.decode(errors="replace").rstrip("\r"))
        if not self._leaves_out(text):
            self.lines.append(text)
        size_bytes = len(text.encode()) + 1  # its time costs it nothing
        now_s = self._clock()
        earned_bytes = (now_s - self._credit_s) * OUTPUT_BYTES_PER_S
        self._credit_bytes, self._credit_s = min(self._credit_bytes + earned_bytes, float(OUTPUT_BYTES_PER_S)), now_s
        if size_bytes > self._credit_bytes:
            self.dropped_bytes += len(line) - len(cut) + size_bytes
            return
        self._credit_bytes -= size_bytes
        self._tell_dropped()
        self.dropped_bytes += len(line) - len(cut)
        self._write(self._timed(text))

    def _leaves_out(self, text: str) -> bool:
        """Say whether a line is one of a stack that would push out what an author has to see."""
        if not text.startswith('  File "'):
            self._below, self._stack = False, _STACK.match(text) is not None
            return text.startswith("Extension modules: ")
        left_out = self._below
        self._below = left_out or (self._stack and _HOOKS in text)
        return left_out

    def _tell_dropped(self) -> None:
        missing, self._told_bytes = self.dropped_bytes - self._told_bytes, self.dropped_bytes
        if missing:
            self._write(self._timed(f"... {missing} bytes were not kept"))

    def _timed(self, text: str) -> bytes:
        return f"{self._now():%Y-%m-%dT%H:%M:%S.%fZ} {text}\n".encode()

    def _write(self, data: bytes) -> None:
        if self._path is None:
            return
        try:
            if self._file is not None and len(data) > self._room_bytes:
                self._turn(self._path)
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o644)
                self._room_bytes = LOG_FILE_BYTES - os.fstat(self._file).st_size
            self._room_bytes -= os.write(self._file, data)
        except OSError:
            self.dropped_bytes += len(data)  # the disk is full: the last lines are still in memory
            self._path = None

    def _turn(self, path: Path) -> None:
        """Put the file aside, and those before it; a link in the place of one is replaced, never followed."""
        assert self._file is not None
        os.close(self._file)
        self._file = None
        names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, LOG_FILES))]
        for older, newer in reversed(list(itertools.pairwise(names))):
            with contextlib.suppress(FileNotFoundError):
                older.replace(newer)


_LINE = re.compile(r"(?:(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) )?(?P<text>.*)", re.DOTALL)
_NAMED = ("time", "level", "process", "event")
_WITHOUT_WORKER = ("brain", "table")


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
        aside = reversed(range(1, LOG_FILES)) if path.suffix == ".out" else ()
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
