"""A process that carries out commands which read or say something: it has imported them already, and forks for each.

Starting Python and importing takes four tenths of a second of a processor, reading some rows a twentieth of that. Every
command still has a process, a folder and variables of its own, and ends with its own exit status.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["READING", "Reader", "reader"]

READING = ("results", "runs", "show", "verify", "ps", "pause", "continue", "signal", "stop")

_IMPORTED = (  # what the commands import only when they are called
    "ganglion.document",
    "ganglion.registry",
    "ganglion.run.outline",
    "ganglion_store.reader",
    "ganglion_store.store",
    "ganglion_store.verify",
    "sqlalchemy.dialects.sqlite",
    "sqlite3",
)


class Reader:
    """Hold the process; whoever asks while it is at work waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def carry_out(
        self, words: Sequence[str], folder: Path, variables: Mapping[str, str], span_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Carry out a command in a folder; TimeoutExpired if it takes longer than `span_s`."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with self._lock:
                status = self._ask(
                    {
                        "words": list(words),
                        "folder": str(folder),
                        "variables": dict(variables),
                        "output": [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err)],
                        "span_s": span_s,
                    }
                )
            if status == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(list(words), span_s)
            return subprocess.CompletedProcess(list(words), status, *(_text(file) for file in (out, err)))

    def _ask(self, order: Mapping[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read())


@cache
def reader() -> Reader:
    """Return the one of this session; it ends with it."""
    made = Reader()
    atexit.register(made.close)
    return made


def _serve() -> None:
    """Take an order from each line, and answer with an exit status, negative for a signal."""
    if os.environ.get("GANGLION_AUDIT"):  # what our processes may not do, these may not either
        audit = importlib.import_module("sitecustomize")
        audit.install(audit._append)
    from ganglion.cli.main import COMMANDS, main

    for module in (*(COMMANDS[name][0].partition(":")[0] for name in READING), *_IMPORTED):
        importlib.import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _carry_out(order, main)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()


def _carry_out(order: Mapping[str, Any], main: Any) -> None:
    """Be the process of one command."""
    signal.alarm(int(order["span_s"]) + 1)
    os.environ.clear()
    os.environ.update(order["variables"])
    os.chdir(order["folder"])
    tempfile.tempdir = None  # TMPDIR may be another one
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(order["output"], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
    sys.argv = ["ganglion", *order["words"]]
    status = 1  # of who ends by an exception
    try:
        status = main(order["words"])
    except BaseException:  # noqa: BLE001 - Python itself would print it
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
