"""Logs: structlog, set up once per process; event names are constants of the modules that log them."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, TextIO

from ganglion.limits import LOG_LINE_BYTES

_LEVELS = ("debug", "info", "warning", "error")


class Log:
    """Write events of one process as JSON lines: `time`, `level`, `event`, then the fields.

    Control characters are escaped by JSON, and a line longer than LOG_LINE_BYTES is cut and says so: what a peer says
    can neither draw on a terminal nor fill a disk at one go.
    """

    def __init__(self, logger: Any, file: TextIO | None) -> None:
        self._logger = logger
        self._file = file

    def say(self, level: str, event: str, **fields: Any) -> None:
        """Write one event; an unknown level is written as a warning."""
        getattr(self._logger, level if level in _LEVELS else "warning")(event, **fields)

    def close(self) -> None:
        """Close the file, if it is one."""
        if self._file is not None:
            self._file.close()


def set_up(process: str, path: str | None = None, stream: TextIO | None = None) -> Log:
    """Return the log of this process; lines go to the file at `path`, else to `stream` or standard error.

    Call it once, before anything is logged. The file is appended to and flushed line by line. structlog is imported
    here and not before: it costs a tenth of a second, and most commands log nothing.
    """
    import structlog

    file: TextIO | None = None
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.fdopen(os.open(path, flags, 0o644), "a", buffering=1)  # open as long as the process lives
    target: TextIO = file or stream or sys.stderr
    logger = structlog.wrap_logger(
        structlog.PrintLogger(target),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.JSONRenderer(ensure_ascii=True, default=str),
            _cut,
        ],
        process=process,
    )
    return Log(logger, file)


def _cut(logger: Any, method: str, event: MutableMapping[str, Any] | str) -> str:
    line = str(event)
    if len(line) <= LOG_LINE_BYTES:
        return line
    return line[: LOG_LINE_BYTES - 40] + f"... cut, {len(line)} characters"
