"""Metrics: what Prometheus is told of the runs of a results folder; asked for as it asks."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from ganglion.cli.extension import GanglionError, Operator, RunEvent, RunRequest, find_connections, open_reader
from ganglion.cli.settings import Settings
from ganglion_observers.counting import FOLDER, WAITS
from ganglion_observers.scalars import tool

PEERS_MAX = 1_000
"""The most peers with numbers: a label has no more values."""

AGENTS_MAX = 200
KEPT_S = 2.0
"""For so long what was read of the store is told again."""

TOLD_MAX = 100_000
"""The most episodes that were told and are not seen in the store yet."""

OPEN = ("queued", "running", "paused")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Collector:
    """Answer Prometheus: kernels are asked, the store is read for runs that are or were live, and calls added up.

    Args:
        settings: Where results and store are.
    """

    def __init__(self, settings: Settings) -> None:
        self._library = tool("prometheus_client", "metrics")
        self._core = tool("prometheus_client.core", "metrics")
        self._settings = settings
        self._seen: dict[str, None] = {}
        self._stored: tuple[float, list[Any]] = (0.0, [])
        self._told: dict[str, list[float]] = {}  # run -> when its episodes ended, the oldest first
        self._before: dict[str, int] = {}  # run -> episodes that were there before we listened
        self._followed: set[str] = set()
        self._lock = threading.Lock()

    def text(self) -> bytes:
        """Return everything as Prometheus reads it."""
        registry = self._library.CollectorRegistry()
        registry.register(self)
        found: bytes = self._library.generate_latest(registry)
        return found

    def collect(self) -> Iterator[Any]:
        """Yield the families of numbers."""
        with self._lock:
            rows = self._processes()
            yield from self._calls({str(row["name"]) for row in rows})
            yield from self._peers(rows)
            with contextlib.suppress(GanglionError):
                yield from self._results()

    # -- kernels ------------------------------------------------------------------------------------------------------
    def _processes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _, connection in find_connections(self._settings.results):
            with contextlib.suppress(GanglionError, OSError), Operator(connection) as operator:
                for row in operator.ask("kernel.runs", RunRequest()).rows:
                    if row["status"] in OPEN:
                        self._seen[str(row["run"])] = None
                        self._follow(connection, str(row["run"]))
                found += operator.ask("kernel.processes", RunRequest()).rows
        return found[:PEERS_MAX]

    def _follow(self, connection: Any, run: str) -> None:
        """Listen to a run, to know which of its episodes the store has not shown yet."""
        if run in self._followed:
            return
        self._followed.add(run)
        over = threading.Event()

        def take(news: RunEvent) -> None:
            if news.event == "episode.ended":
                told = self._told.setdefault(run, [])
                told.append(news.time_s)
                del told[:-TOLD_MAX]
            elif news.event == "run.ended":
                over.set()

        def follow() -> None:
            with contextlib.suppress(GanglionError, OSError), Operator(connection) as operator:
                operator.follow(run, take, over.is_set)
            self._told.pop(run, None)

        threading.Thread(target=follow, name=f"metrics {run}", daemon=True).start()

    def _peers(self, rows: list[dict[str, Any]]) -> Iterator[Any]:
        gauge, counter = self._core.GaugeMetricFamily, self._core.CounterMetricFamily
        table = (
            (gauge, "last_heard_seconds", "since a peer was heard last", "heard_ms", 0.001),
            (gauge, "queue_bytes", "that wait at the broker for a peer", "queued_bytes", 1.0),
            (counter, "restarts", "of a process that was lost", "restarts", 1.0),
            (counter, "cpu_seconds", "processor time of a process", "cpu_s", 1.0),
            (gauge, "memory_bytes", "of a process", "memory_bytes", 1.0),
        )
        for kind, name, text, key, factor in table:
            family = kind(f"ganglion_{name}", text, labels=["peer"])
            for row in rows:
                if row.get(key) is not None:
                    family.add_metric([str(row["name"])], float(row[key]) * factor)
            yield family

    # -- calls --------------------------------------------------------------------------------------------------------
    def _calls(self, there: set[str]) -> Iterator[Any]:
        """Yield what processes have counted, if they do, and since when those that are there wait."""
        folder = os.environ.get(FOLDER, "")
        if not os.path.isdir(folder):  # noqa: PTH112 - a text that may be empty
            return
        multiprocess = tool("prometheus_client.multiprocess", "metrics")
        now_s = time.time()
        for family in multiprocess.MultiProcessCollector(None, path=folder).collect():
            if family.name != WAITS:
                yield family
                continue
            waits = self._core.GaugeMetricFamily(
                "ganglion_waiting_seconds", "since a peer asked what is not answered", labels=["peer", "call"]
            )
            for sample in family.samples:
                if sample.value and sample.labels["peer"] in there:
                    labels = [sample.labels["peer"], sample.labels["call"]]
                    waits.add_metric(labels, max(0.0, now_s - sample.value))
            yield waits

    # -- the store ----------------------------------------------------------------------------------------------------
    def _results(self) -> list[Any]:
        made_s, found = self._stored
        if not self._seen or time.monotonic() - made_s < KEPT_S:
            return found
        core, runs = self._core, list(self._seen)
        steps = core.CounterMetricFamily("ganglion_steps", "of sealed episodes")
        episodes = core.CounterMetricFamily("ganglion_episodes", "that are sealed", labels=["mode"])
        returns = core.GaugeMetricFamily("ganglion_return", "of the newest episode of an agent", labels=["agent"])
        rows = core.CounterMetricFamily("ganglion_store_rows", "that can be read")
        lag = core.GaugeMetricFamily("ganglion_store_lag_seconds", "since the oldest episode that cannot be read ended")
        with open_reader(self._settings) as reader:
            names = ", ".join("'" + run.replace("'", "''") + "'" for run in runs)
            of_runs = f"FROM episodes WHERE run IN ({names}) GROUP BY mode ORDER BY mode"
            _, counts = reader.query(f"SELECT mode, COUNT(*), SUM(steps) {of_runs}")
            modes = [(str(mode), int(count), int(taken or 0)) for mode, count, taken in counts]
            steps.add_metric([], float(sum(taken for _, _, taken in modes)))
            for mode, count, _ in modes:
                episodes.add_metric([mode], float(count))
            newest: dict[str, float] = {}
            oldest_s: float | None = None
            for run in runs:
                chosen: dict[str, Any] = {"columns": ["agent", "return"], "order": ["-phase", "-episode"], "limit": 50}
                for row in reader.rows("returns", [run], **chosen):
                    if row["return"] is not None and len(newest) < AGENTS_MAX:
                        newest.setdefault(str(row["agent"]), float(row["return"]))
                told = self._told.get(run)
                if told:
                    behind = self._first_missing(reader, run, told)
                    if behind < len(told):
                        oldest_s = min(told[behind], oldest_s or told[behind])
            for agent, value in newest.items():
                returns.add_metric([agent], value)
            rows.add_metric([], float(sum(reader.count(table, runs) for table in ("steps", "actions"))))
            lag.add_metric([], 0.0 if oldest_s is None else max(0.0, time.time() - oldest_s))
        found = [steps, episodes, returns, rows, lag]
        self._stored = time.monotonic(), found
        return found

    def _first_missing(self, reader: Any, run: str, told: list[float]) -> int:
        """Return how many of the episodes that were told can be read: those told before we listened are read, too."""
        stored = reader.count("episodes", [run])
        before = self._before.setdefault(run, max(0, stored - len(told)))
        return max(0, int(stored - before))
