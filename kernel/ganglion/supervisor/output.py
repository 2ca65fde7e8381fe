"""What a process prints: kept in a file up to a bound, its last lines in memory."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

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
