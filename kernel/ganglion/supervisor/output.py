"""Output of a process: kept in a file of bounded size, the last lines in memory."""

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
_HOOKS = '/ganglion/peer/hooks.py"'  # the frame that called an author's hook; the frames below do not help the author


def printable(text: str) -> str:
    """Return untrusted text without control characters, so that it cannot control a terminal."""
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in text)


def without_password(text: str) -> str:
    """Return a text without the passwords of its URIs: `postgresql://user:***@host/db?password=***`."""
    hidden = re.sub(r"(://[^:/@\s]*):\S*@", r"\1:***@", text)
    return re.sub(r"([?&]\w*pass\w*=)[^&\s]*", r"\1***", hidden)


class Output:
    """Write the output of one process to the file `path` (None: no file); `lines` holds the last lines.

    Each line begins with its time, as in the log files. A full file is renamed to `<path>.1`, and that one to
    `<path>.2`, up to LOG_FILES files. Output beyond OUTPUT_BYTES_PER_S, or beyond LOG_LINE_BYTES in a line, is dropped;
    the file records how many bytes. A process that is killed because it hangs prints its stacks with the innermost
    frame first. `lines` omits the frames below an author's hook; otherwise they would displace the hook itself.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self.lines: deque[str] = deque(maxlen=OUTPUT_LINES_KEPT)
        self.dropped_bytes = 0
        self._told_bytes = 0  # dropped bytes that the file already records
        self._rest = b""
        self._stack = self._below = False  # whether the line belongs to a stack, and to a frame below the hook
        self._clock, self._now = clock, now
        self._credit_bytes, self._credit_s = float(OUTPUT_BYTES_PER_S), clock()
        self._path = path
        self._file: int | None = None
        self._room_bytes = LOG_FILE_BYTES

    def feed(self, data: bytes) -> None:
        """Take in output; it may end within a line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LOG_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._line(line)

    def quoted(self) -> str:
        """Return the last lines, each indented on a line of its own, to follow a sentence."""
        return "".join(f"\n    {line}" for line in self.lines)

    def close(self) -> None:
        """Complete the last line and close the file."""
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
        size_bytes = len(text.encode()) + 1  # the timestamp is not counted
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
        """Return True if a line belongs to a stack and would displace what an author needs to see."""
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
            self.dropped_bytes += len(data)  # the disk is full; the last lines stay in memory
            self._path = None

    def _turn(self, path: Path) -> None:
        """Rename the file and its predecessors; a symbolic link at a target is replaced, not followed."""
        assert self._file is not None
        os.close(self._file)
        self._file = None
        names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, LOG_FILES))]
        for older, newer in reversed(list(itertools.pairwise(names))):
            with contextlib.suppress(FileNotFoundError):
                older.replace(newer)
