"""Kernels: the live kernels of a results folder, watched by threads: their runs, processes and events."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from ganglion.cli.extension import (
    Connection,
    GanglionError,
    Operator,
    RunEvent,
    RunRequest,
    UsageError,
    find_connections,
    find_run,
    read_connection,
)
from ganglion.cli.settings import Settings
from ganglion_web.news import News

LOOK_S = 0.5
"""The time between two questions to a kernel."""

RATE_S = 0.9
"""The least time for counting messages per second."""

END_S = 5.0
"""The longest wait for the threads to end."""

OPEN = frozenset({"queued", "running", "paused"})
Answer = TypeVar("Answer")
Edge: TypeAlias = tuple[str, str]
"""Sender and receiver."""


class Kernels:
    """Know the live runs of all kernels, and pass their events to `news`.

    Each kernel has one connection for questions, and one for the events of each of its live runs. Processes are asked
    for only while a page reads, since each question makes the kernel examine all of them.
    """

    def __init__(self, settings: Settings, news: News) -> None:
        self._settings, self._news = settings, news
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._runs: dict[str, dict[str, Any]] = {}
        self._processes: dict[str, list[dict[str, Any]]] = {}
        self._sent: dict[str, tuple[float, dict[Edge, int], dict[Edge, float]]] = {}
        self._turns: Counter[str] = Counter()
        self._steps: dict[str, dict[int, Mapping[str, Any]]] = {}
        self._threads: dict[str, threading.Thread] = {}

    def start(self) -> None:
        """Begin to watch."""
        self._thread("kernels", self._find)

    def close(self) -> None:
        """End all threads."""
        self._closed.set()
        until_s = time.monotonic() + END_S
        for thread in list(self._threads.values()):
            thread.join(max(0.0, until_s - time.monotonic()))

    def runs(self) -> dict[str, dict[str, Any]]:
        """Return the live runs of all kernels by id, as `kernel.runs` shows them."""
        with self._lock:
            return {run: dict(row) for run, row in self._runs.items()}

    def processes(self, run: str) -> list[dict[str, Any]]:
        """Return the processes of a live run, the broker first; empty for an ended run."""
        with self._lock:
            return list(self._processes.get(run, ()))

    def rates(self, run: str) -> dict[Edge, float]:
        """Return the messages per second between processes of a live run, between the last two answers."""
        with self._lock:
            return dict(self._sent[run][2]) if run in self._sent else {}

    def steps(self, run: str) -> dict[int, Mapping[str, Any]]:
        """Return worker -> its last report: `phase`, `episode`, `steps`, `taken`."""
        with self._lock:
            return dict(self._steps.get(run, {}))

    def turn(self, run: str) -> int:
        """Return the number of changes of a run's status."""
        with self._lock:
            return self._turns[run]

    def ask(self, run: str, question: Callable[[Operator], Answer]) -> Answer:
        """Send a request to the kernel of a run over a new connection; PeerLost: no kernel knows the run."""
        with find_run(self._settings.results, self._settings.kernel, run) as operator:
            return question(operator)

    # -- threads -----------------------------------------------------------------------------------------------------
    def _thread(self, name: str, work: Callable[[], None]) -> None:
        with self._lock:  # several threads begin others
            self._threads = {n: thread for n, thread in self._threads.items() if thread.is_alive()}
            if name not in self._threads:
                self._threads[name] = thread = threading.Thread(target=work, name=name, daemon=True)
                thread.start()

    def _find(self) -> None:
        while not self._closed.wait(LOOK_S):
            for connection in self._connections():
                self._thread(f"kernel {connection.endpoint}", lambda c=connection: self._look(c))  # type: ignore[misc]

    def _connections(self) -> list[Connection]:
        if self._settings.kernel is None:
            return [connection for _, connection in find_connections(self._settings.results)]
        try:
            return [read_connection(self._settings.kernel)]
        except UsageError:
            return []  # not yet there, or ended

    def _look(self, connection: Connection) -> None:
        """Watch one kernel until its end."""
        mine: set[str] = set()
        with contextlib.suppress(GanglionError, OSError), Operator(connection) as operator:
            while not self._closed.is_set():
                rows = {row["run"]: row for row in operator.ask("kernel.runs", RunRequest()).rows}
                processes: dict[str, list[dict[str, Any]]] | None = None
                if self._news.looked_at:
                    processes = {run: [] for run, row in rows.items() if row["status"] in OPEN}
                    for process in operator.ask("kernel.processes", RunRequest()).rows:
                        for run in [process["run"]] if process["run"] else list(processes):
                            processes.setdefault(run, []).append(process)
                mine |= set(rows)
                self._keep(rows, processes)
                for run, row in rows.items():
                    if row["status"] in OPEN - {"queued"}:
                        self._thread(f"run {run}", lambda run=run: self._follow(connection, run))  # type: ignore[misc]
                self._closed.wait(LOOK_S)
        self._forget(mine)

    def _keep(self, rows: Mapping[str, dict[str, Any]], processes: dict[str, list[dict[str, Any]]] | None) -> None:
        """Record a kernel's runs; report changes of status, and all processes."""
        with self._lock:
            before = {run: self._runs.get(run, {}).get("status") for run in rows}
            self._runs |= rows
            self._turns.update(run for run, row in rows.items() if row["status"] != before[run])
            for run in rows:
                self._processes.pop(run, None)
            self._processes |= processes or {}
            for run, found in (processes or {}).items():
                self._count(run, found)
        for run, row in rows.items():
            if row["status"] != before[run]:
                self._news.tell("status", run, {"status": row["status"], "reason": row["reason"]})
        for run, found in (processes or {}).items():
            self._news.tell("processes", run, {"processes": found})

    def _count(self, run: str, processes: list[dict[str, Any]]) -> None:
        """Record the numbers of sent messages; compute rates over about a second."""
        now_s = time.monotonic()
        sent = {(row["name"], to): count for row in processes for to, count in row.get("sent", {}).items()}
        before_s, before, rates = self._sent.get(run, (now_s, sent, {}))
        if now_s - before_s >= RATE_S:  # a successor counts from zero
            rates = {edge: max(0, n - before.get(edge, n)) / (now_s - before_s) for edge, n in sent.items()}
            before_s, before = now_s, sent
        self._sent[run] = before_s, before, rates

    def _forget(self, runs: set[str]) -> None:
        """Forget the runs of an ended kernel; the store has their ends."""
        with self._lock:
            gone = [run for run in runs if self._runs.pop(run, None) is not None]
            self._turns.update(gone)
            for run in gone:
                for known in (self._processes, self._sent, self._steps):
                    known.pop(run, None)
        for run in gone:
            self._news.tell("status", run, {"status": None, "reason": None})

    def _follow(self, connection: Connection, run: str) -> None:
        """Pass on the events of one run until its end."""
        over = threading.Event()

        def show(news: RunEvent) -> None:
            self._news.tell("event", run, {"event": news.event, "time_s": news.time_s, "fields": news.fields})
            if news.event == "steps.taken":
                with self._lock:
                    self._steps.setdefault(run, {})[int(news.fields["worker"])] = news.fields
            if news.event == "run.ended":
                over.set()

        def ended() -> bool:
            with self._lock:
                status = self._runs.get(run, {}).get("status")
            return over.is_set() or self._closed.is_set() or status not in OPEN

        with contextlib.suppress(GanglionError, OSError), Operator(connection) as operator:
            operator.follow(run, show, ended)
