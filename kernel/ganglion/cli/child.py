"""Child processes that may run authors' code, asked once; what they are asked: seeds, parameters."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from ganglion.supervisor.launcher import SINGLE_THREAD

_PYTHON = (sys.executable, "-P")  # -P: nothing in the working folder shadows a module


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what a child left: `status` as subprocess has it, None if it was ended for its silence; `text`."""

    status: int | None
    text: str


class Children:
    """Run children, each in a session of its own; several threads may ask at the same time."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def ask(self, module: str, question: Any, span_s: float) -> Answer:
        """Run a module with a question in JSON as its standard input; return what it wrote to standard output.

        Whatever lives in its session after its end, or after `span_s`, is killed. Files take the place of pipes: a
        simulator that outlives its parent would keep a pipe open for ever.
        """
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
            source.write(json.dumps(question).encode())
            source.seek(0)
            process = subprocess.Popen(
                [*_PYTHON, "-m", module],
                stdin=source,
                stdout=sink,
                start_new_session=True,
                env={**os.environ, **SINGLE_THREAD},
            )
            self._running.add(process)
            if self._ended:
                _kill(process)
            status: int | None = None
            try:
                status = process.wait(span_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                _kill(process)
                process.wait()
                self._running.discard(process)
            sink.seek(0)
            return Answer(status, sink.read().decode(errors="backslashreplace"))

    def end(self) -> None:
        """End all that is running, and all that is begun later: nobody waits for an answer any more."""
        self._ended = True
        for process in tuple(self._running):
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the session of a child; its number is not given to another one while something of it lives."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
