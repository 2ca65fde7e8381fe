"""A process that carries out commands: it has imported them already, and forks for each.

Starting Python and importing takes a quarter of a second of a processor, reading some rows a tenth of that. Every
command still has a process, a folder and variables of its own, and ends with its own exit status.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

GANGLION = str(Path(sys.executable).with_name("ganglion"))
READING = ("results", "runs", "show", "verify", "ps", "pause", "continue", "signal", "stop")
RUNNING = ("run", "resume", "check", "submit", "sweep")

# What the commands import only when they are called. What runs must not import what only reading needs.
_IMPORTED = {
    READING: (
        "ganglion.cli.extension",
        "ganglion.registry",
        "ganglion_store.reader",
        "ganglion_store.store",
        "ganglion_store.verify",
        "sqlalchemy.dialects.sqlite",
        "sqlite3",
    ),
    RUNNING: (
        "ganglion.document",
        "ganglion.registry",
        "ganglion.supervisor.connection",
        "ganglion.supervisor.service",
        "ganglion.supervisor.supervisor",
    ),
}


class Reader:
    """Hold the process that carries out some commands, which several threads may ask for at once."""

    def __init__(self, commands: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, *commands], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def carry_out(
        self, words: Sequence[str], folder: Path, variables: Mapping[str, str], span_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Carry out a command in a folder; TimeoutExpired if it takes longer than `span_s`."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            read, write = os.pipe()
            with os.fdopen(read) as answer:
                files = (*(file.fileno() for file in (out, err)), write)
                self._ask(
                    {
                        "words": list(words),
                        "folder": str(folder),
                        "variables": dict(variables),
                        "files": [f"/proc/{os.getpid()}/fd/{file}" for file in files],
                        "span_s": span_s,
                    }
                )
                os.close(write)
                status = int(answer.readline())
            if status == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(list(words), span_s)
            return subprocess.CompletedProcess(list(words), status, *(_text(file) for file in (out, err)))

    def _ask(self, order: Mapping[str, Any]) -> None:
        """Hand an order over, and wait until its files are open there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            taken = self._process.stdout.readline()
        assert "taken\n" == taken

    def close(self) -> None:
        self._process.communicate()


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read())


@cache
def reader(commands: tuple[str, ...]) -> Reader:
    """Return the one of this session for some commands; it ends with it."""
    made = Reader(commands)
    atexit.register(made.close)
    return made


def _serve(commands: tuple[str, ...]) -> None:
    """Take an order from each line; the exit status, negative for a signal, is written where the order says."""
    if os.environ.get("GANGLION_AUDIT"):  # what our processes may not do, these may not either
        audit = importlib.import_module("sitecustomize")
        audit.install(audit._append)
    from ganglion import registry
    from ganglion.cli.main import COMMANDS, main

    places = {name: place for name, (place, _) in COMMANDS.items()}
    places |= {entry.name: entry.value for entry in registry.entries("command")}

    for module in (*(places[name].partition(":")[0] for name in commands), *_IMPORTED[commands]):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        *output, answer = (os.open(path, os.O_WRONLY | os.O_APPEND) for path in order["files"])
        waiting = os.fork()
        if waiting == 0:
            _wait(order, output, answer, main)
        for file in (*output, answer):
            os.close(file)
        sys.stdout.write("taken\n")
        sys.stdout.flush()
        _reap(os.WNOHANG)
    _reap(0)


def _reap(options: int) -> None:
    """Take leave of those who have waited."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _wait(order: Mapping[str, Any], output: Sequence[int], answer: int, main: Any) -> NoReturn:
    """Be who waits for the process of one command."""
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        _carry_out(order, output, main)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(answer, f"{status}\n".encode())
    os._exit(0)


def _carry_out(order: Mapping[str, Any], output: Sequence[int], main: Any) -> NoReturn:
    """Be the process of one command."""
    signal.alarm(int(order["span_s"]) + 1)
    os.environ.clear()
    os.environ.update(order["variables"])
    os.chdir(order["folder"])
    random.seed()
    tempfile.tempdir = None  # TMPDIR may be another one
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *output)):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
    sys.argv = [GANGLION, *order["words"]]
    sys.orig_argv = [sys.executable, *sys.argv]  # by these it is known, and begins again
    status = 1  # of who ends by an exception
    try:
        status = main()
    except BaseException:  # noqa: BLE001 - Python itself would print it
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(tuple(sys.argv[1:]))
