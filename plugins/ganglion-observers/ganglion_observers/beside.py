"""Beside a command: `--observe` and `--metrics` of `run`, `resume`, `kernel`: programs that hear events by a pipe."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import click

from ganglion.cli.extension import COMMAND, RunEvent, UsageError, json_text
from ganglion.cli.settings import Settings

READY_S = 60.0
"""The longest time that a program is given to say that it is ready: some tools take seconds to import."""

END_S = 30.0
"""The longest time that it is given to read what is left, and to end."""

UNREAD_BYTES = 1024 * 1024
"""So much waits for a program that reads slowly; of what comes then it is told how much it was."""

FOLDER, TRACER = "GANGLION_METRICS", "GANGLION_TRACER"
"""The variables with the folder in which calls are counted, and with what notes the calls of each process."""

Tell = Callable[[str, RunEvent], None]


class Program:
    """Start a command of ours, and tell it events as lines of JSON; it ends with its standard input.

    UsageError: it has ended before it was ready; why, it has said on standard error.
    """

    def __init__(self, settings: Settings, words: Sequence[str]) -> None:
        place = ["--results", str(settings.results), *([] if settings.store is None else ["--store", settings.store])]
        self._name = " ".join(words)
        self._unread, self._missed = b"", 0
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", COMMAND, *place, *words, "--attached"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is not for it
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)
        there = select.select([self._process.stdout], [], [], READY_S)[0]
        line = self._process.stdout.readline() if there else b""
        if not line:
            self._process.kill()
            self._process.communicate()
            late = "it ended before it was ready" if there else f"it was not ready within {READY_S:g} s"
            raise UsageError(f"{self._name}: {late}: nothing was started")
        click.echo(line.decode(errors="replace").rstrip(), err=True)

    def tell(self, run: str, news: RunEvent) -> None:
        """Tell an event; a run waits for no program that is slow, or gone."""
        fields = {"event": news.event, "time_s": round(news.time_s, 3), **news.fields, "run": run}
        if len(self._unread) > UNREAD_BYTES:
            self._missed += 1
        else:
            self._unread += self._gap() + json_text(fields, default=str).encode() + b"\n"
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            self._unread = self._unread[os.write(self._pipe, self._unread) :]

    def _gap(self) -> bytes:
        """Return the line that stands for those that were left out."""
        count, self._missed = self._missed, 0
        return b'{"event": "missed", "count": %d}\n' % count if count else b""

    def close(self) -> None:
        """Let it read what is left, and wait for its end; how it ended is said if that was not well."""
        left = self._unread + self._gap()
        try:
            os.set_blocking(self._pipe, True)
            self._process.communicate(left, END_S)
        except subprocess.TimeoutExpired:
            click.echo(f"{self._name}: it did not end within {END_S:g} s, and is killed", err=True)
            self._process.kill()
            self._process.communicate()
        if self._process.returncode:
            status = self._process.returncode
            click.echo(f"{self._name} ended with status {status}; the results of runs are whole without it", err=True)


class Observers:
    """Observers of all runs of a command, as `--observe NAME[,KEY=VALUE...]` names them."""

    def __init__(self, settings: Settings, named: Sequence[str]) -> None:
        self._settings, self._named = settings, named
        self._programs: list[Program] = []

    def __enter__(self) -> Tell:
        try:
            for name in self._named:
                self._programs.append(Program(self._settings, ["observe", *name.split(",")]))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self._tell

    def _tell(self, run: str, news: RunEvent) -> None:
        for program in self._programs:
            program.tell(run, news)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._programs:
            program.close()


class Metrics:
    """Numbers for Prometheus about the runs of a command, at a port of 127.0.0.1.

    Each of its processes counts its calls in files of one folder, which is there while the command runs.
    """

    def __init__(self, settings: Settings, port: int) -> None:
        if importlib.util.find_spec("prometheus_client") is None:
            text = "expected the package prometheus_client, found none: pip install 'ganglion-observers[metrics]'"
            raise UsageError(f"--metrics: {text}")
        self._settings, self._port = settings, port
        folder = tempfile.mkdtemp(prefix="ganglion-metrics-")
        self._end = weakref.finalize(self, shutil.rmtree, folder, True)  # also where the command never begins
        os.environ[FOLDER] = folder  # before anything is started: processes inherit it
        os.environ[TRACER] = ",".join(filter(None, (os.environ.get(TRACER), "metrics")))

    @staticmethod
    def collector(settings: Settings) -> Any:
        """Return what answers Prometheus by `text()`, for a page; UsageError without the library."""
        from ganglion_observers.metrics import Collector

        return Collector(settings)

    def __enter__(self) -> Tell:
        self._program = Program(self._settings, ["metrics", "--port", str(self._port)])
        return lambda run, news: None  # it asks kernels and store when it is asked

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.close()
        self._end()
