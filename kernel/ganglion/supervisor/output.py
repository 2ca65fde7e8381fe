"""What a process prints: kept in a file up to a bound, its last lines in memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ganglion.limits import LOG_FILE_BYTES, LOG_FILES, LOG_LINE_BYTES, OUTPUT_BYTES_PER_S, OUTPUT_LINES_KEPT

_CHUNK_BYTES = 64 * 1024
_CHUNKS_MAX = 16  # in one go; then the loop has other things to do
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
    """Read the output of one process: `fd` is the read end of its pipe, `path` the file that keeps it (or None).

    A full file becomes `<path>.1`, that one `<path>.2`; there are LOG_FILES of them. What comes faster than
    OUTPUT_BYTES_PER_S, or in lines longer than LOG_LINE_BYTES, is not kept; the file says how much that was.

    Where a process that hung was ended, its stacks come with the innermost frame first. The last lines then leave out
    what lies below an author's hook, which would push the hook itself out.
    """

    def __init__(self, fd: int, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.fd = fd
        self.lines: deque[str] = deque(maxlen=OUTPUT_LINES_KEPT)
        self.dropped_bytes = 0
        self.ended = False
        self._rest = b""
        self._stack = self._below = False  # whether a line is of a stack, and below the hook
        self._room_bytes = LOG_FILE_BYTES
        self._told_bytes = 0  # of what was dropped
        self._clock = clock
        self._credit_bytes = float(OUTPUT_BYTES_PER_S)
        self._credit_s = clock()
        self._path = path
        self._file: int | None = None
        os.set_blocking(fd, False)

    def read(self, chunks: int = _CHUNKS_MAX) -> None:
        """Take what is there, without waiting; `ended` says that there will be no more."""
        for _ in range(chunks):
            if self.ended:
                return
            try:
                data = os.read(self.fd, _CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.ended = True
                return
            self._feed(data)

    def quoted(self) -> str:
        """Return the last lines as they follow a sentence: each on a line of its own, indented."""
        return "".join(f"\n    {line}" for line in self.lines)

    def close(self) -> None:
        """Take what is left, end the last line, close pipe and file."""
        if self.fd < 0:
            return
        self.read()
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        self._tell_dropped()
        os.close(self.fd)
        self.fd = -1
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _feed(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line)
        if len(self._rest) > LOG_LINE_BYTES:
            self._line(self._rest)
            self._rest = b""

    def _line(self, line: bytes) -> None:
        cut = line[:LOG_LINE_BYTES]
        self.dropped_bytes += len(line) - len(cut)
        text = printable(cut.decode(errors="replace").rstrip("\r"))
        if not self._leaves_out(text):
            self.lines.append(text)
        data = text.encode() + b"\n"
        if not self._may_come(len(data)):
            self.dropped_bytes += len(data)
            return
        if self.dropped_bytes > self._told_bytes + len(line) - len(cut):
            self._tell_dropped()
        self._write(data)

    def _leaves_out(self, text: str) -> bool:
        """Say whether a line is one of a stack that would push out what an author has to see."""
        if not text.startswith('  File "'):
            self._below, self._stack = False, _STACK.match(text) is not None
            return text.startswith("Extension modules: ")
        left_out = self._below
        self._below = left_out or (self._stack and _HOOKS in text)
        return left_out

    def _may_come(self, size: int) -> bool:
        """Take from what may come in a second; a second's worth may come at once."""
        now_s = self._clock()
        self._credit_bytes += (now_s - self._credit_s) * OUTPUT_BYTES_PER_S
        self._credit_bytes = min(self._credit_bytes, float(OUTPUT_BYTES_PER_S))
        self._credit_s = now_s
        if size > self._credit_bytes:
            return False
        self._credit_bytes -= size
        return True

    def _tell_dropped(self) -> None:
        missing = self.dropped_bytes - self._told_bytes
        if missing:
            self._told_bytes = self.dropped_bytes
            self._write(f"... {missing} bytes were not kept\n".encode())

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
