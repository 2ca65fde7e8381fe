"""Look: what the page shows of runs, from the store, their folders and the kernels that carry them out."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import MANIFEST, UsageError, is_name, open_reader, read_manifest, read_origin
from ganglion.cli.settings import Settings
from ganglion.sdk import StoreError
from ganglion_watch import Logs
from ganglion_web.kernels import OPEN, Kernels

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

POINTS_MAX = 2_000
"""The most points of one curve."""

LOG_LINES_MAX = 2_000
"""The most lines of logs in one answer."""

LOG_BYTES_MAX = 4 * 1024 * 1024
"""Of each log file the end is read, so much of it."""

ROWS_MAX = 100_000
"""The most rows of a table in one answer."""

_LEVELS = ("debug", "info", "warning", "error", "critical")
_STATUS_OF_FOLDER = {"status": None, "reason": None, "ended": None}


class NotThere(Exception):
    """There is no such run, table or document."""


class Look:
    """Answer what the page asks of a results folder; each answer is a plain value. Methods may run in any thread."""

    def __init__(self, settings: Settings, kernels: Kernels) -> None:
        self._settings, self._kernels = settings, kernels
        self._lock = threading.Lock()
        self._curves: dict[tuple[str, int], tuple[object, list[dict[str, Any]]]] = {}

    # -- runs ---------------------------------------------------------------------------------------------------------
    def runs(
        self, status: str | None = None, uid: str | None = None, limit: int = 500, offset: int = 0
    ) -> dict[str, Any]:
        """Return runs, the newest first, and how many there are of this status and uid."""
        rows = {row["run"]: row for row in self._stored_runs()}
        for folder in self._folders():
            if folder.name not in rows:
                manifest = read_manifest(folder)[0]
                if manifest.get("run") == folder.name:
                    keys = ("run", "uid", "experiment", "seed", "started")
                    rows[folder.name] = {key: manifest.get(key) for key in keys} | _STATUS_OF_FOLDER
        live = self._live()
        for run, row in live.items():
            named = {"run": run, "uid": row["uid"], "experiment": None, "seed": row["seed"], "started": None}
            rows.setdefault(run, named | _STATUS_OF_FOLDER)
        told = [self._told(row, live.get(run)) for run, row in rows.items()]
        chosen = [row for row in told if status in (None, row["status"]) and uid in (None, row["uid"])]
        chosen.sort(key=lambda row: str(row["started"] or "9"), reverse=True)
        return {"total": len(chosen), "runs": chosen[offset : offset + limit]}

    def run(self, run: str) -> dict[str, Any]:
        """Return one run with its phases: what was planned, and how far each is.

        Raises:
            NotThere: No store, folder or kernel knows it.
        """
        row = self._row(run)
        folder = self._folder(run)
        phases: list[dict[str, Any]] = []
        done: dict[tuple[Any, Any], tuple[int, int]] = {}
        with self._reader() as reader:
            if reader is not None and self._known(reader, run):
                phases = list(reader.rows("phases", [run]))
                _, counts = reader.query(
                    "SELECT phase, mode, COUNT(*), SUM(steps) FROM episodes "  # noqa: S608 - quoted
                    f"WHERE run = {_quoted(run)} GROUP BY phase, mode"
                )
                done = {(phase, mode): (count, steps) for phase, mode, count, steps in counts}
        manifest = read_manifest(folder)[0]
        with contextlib.suppress(UsageError):
            for plan in read_origin(folder, manifest.get("plan"))[0].phases:
                own = [p for p in phases if p["phase"] == plan.index and p["mode"] == plan.mode]
                if not own:
                    named = {"run": run, "phase": plan.index, "name": plan.name, "mode": plan.mode}
                    own = [{**named, "status": None, "reason": None}]
                    phases += own
                limit = None if plan.episodes is None else plan.episodes * plan.workers
                conditions = [_condition(one) for one in (*plan.episode_conditions, *plan.phase_conditions)]
                own[0] |= {"workers": plan.workers, "limit": limit, "conditions": conditions}
        for phase in phases:
            phase["episodes"], phase["steps"] = done.get((phase["phase"], phase["mode"]), (0, 0))
        phases.sort(key=lambda phase: (phase["phase"], phase["mode"] == "evaluate"))
        versions = {key: manifest.get(key) for key in ("ganglion", "python", "packages", "git")}
        return {**row, "folder": str(folder), "versions": versions, "phases": phases}

    def document(self, run: str) -> dict[str, Any]:
        """Return the document of a run as it was given and as it was carried out; None where a file is not there."""
        self._row(run)
        found: dict[str, Any] = {"run": run}
        for key, name in (("document", "document.yml"), ("resolved", "resolved.yml")):
            path = self._folder(run) / name
            found[key] = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        return found

    def processes(self, run: str) -> list[dict[str, Any]]:
        """Return the processes of a live run; none of one that has ended."""
        self._row(run)
        return self._kernels.processes(run)

    def topology(self, run: str) -> dict[str, Any]:
        """Return who has sent how many messages to whom: nodes, and edges with the number so far."""
        processes = self.processes(run)
        nodes = [{key: row.get(key) for key in ("name", "role", "worker", "uid", "state")} for row in processes]
        edges = [
            {"from": row["name"], "to": to, "messages": count, "waits": to in row.get("waiting_for", ())}
            for row in processes
            for to, count in row.get("sent", {}).items()
        ]
        return {"run": run, "nodes": nodes, "edges": edges}

    # -- curves -------------------------------------------------------------------------------------------------------
    def curves(self, run: str, points: int = 500) -> dict[str, Any]:
        """Return the returns of a run by phase, mode and agent, over all workers and bodies, thinned.

        A point stands for neighbouring episodes: `episode` (the middle one), `step` (steps of a worker so far, the mean
        over workers), `count`, `mean`, `low` and `high` of the returns, `objective` (mean).
        """
        self._row(run)
        points = max(1, min(points, POINTS_MAX))
        with self._reader() as reader:
            if reader is None or not self._known(reader, run):
                return {"run": run, "curves": []}
            sealed = self._sealed(reader, run)
            with self._lock:
                known = self._curves.get((run, points))
            if known is None or known[0] != sealed:
                known = sealed, _thinned(reader, run, points)
                with self._lock:
                    if len(self._curves) > 1_000:
                        self._curves.clear()
                    self._curves[run, points] = known
        return {"run": run, "curves": known[1]}

    def _sealed(self, reader: StoreReader, run: str) -> object:
        """Return something that changes with each episode that is stored of a run."""
        text = f"SELECT COUNT(*), SUM(steps) FROM episodes WHERE run = {_quoted(run)}"  # noqa: S608 - quoted
        return next(iter(reader.query(text)[1]))

    # -- tables and logs ----------------------------------------------------------------------------------------------
    def results(
        self, run: str, table: str, where: str | None, columns: list[str] | None, limit: int
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """Return columns and rows of a table of a run; UsageError says what is wrong with the question."""
        self._row(run)
        with self._reader() as reader:
            if reader is None or not self._known(reader, run):
                raise NotThere(f"nothing is stored of run {run}")
            if table not in reader.tables():
                raise NotThere(f"there is no table {table!r}; there are {', '.join(reader.tables())}")
            shown = reader.columns(table, [run], columns)
            rows = reader.rows(table, [run], where=where, columns=columns, limit=min(limit, ROWS_MAX))
            return shown, list(rows)

    def logs(
        self,
        run: str,
        level: str | None = None,
        process: str | None = None,
        since: str | None = None,
        limit: int = 500,
        offset: int = 0,
    ) -> dict[str, Any]:
        """Return the newest lines of the logs of a run, the oldest first; `offset` passes over so many newer ones."""
        self._row(run)
        if level is not None and level not in _LEVELS:
            raise UsageError(f"level: expected one of {', '.join(_LEVELS)}, found {level[:80]!r}")
        least = _LEVELS.index(level) if level else 0
        lines = [
            line
            for line in Logs(run, self._folder(run) / "logs", LOG_BYTES_MAX).read()
            if (line["level"] not in _LEVELS or _LEVELS.index(line["level"]) >= least)
            and (process is None or line["process"] == process)
            and (since is None or line["time"] >= since)
        ]
        end = max(0, len(lines) - offset)
        begin = max(0, end - min(limit, LOG_LINES_MAX))
        processes = sorted({line["process"] for line in lines})
        return {"run": run, "total": len(lines), "processes": processes, "lines": lines[begin:end]}

    # -- places -------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _reader(self) -> Iterator[StoreReader | None]:
        """Open the store; None where there is none yet."""
        try:
            reader = open_reader(self._settings)
        except StoreError:
            if not _is_missing(self._settings):
                raise
            yield None
            return
        with reader:
            yield reader

    def _stored_runs(self) -> list[dict[str, Any]]:
        with self._reader() as reader:
            return [] if reader is None else list(reader.rows("runs"))

    def _known(self, reader: StoreReader, run: str) -> bool:
        try:
            return reader.resolve(run) == run
        except UsageError:
            return False

    def _row(self, run: str) -> dict[str, Any]:
        """Return the row of a run; NotThere if nobody knows it, or if that is no name of one."""
        if not _is_run(run):
            raise NotThere(f"there is no run {run[:80]!r}")
        with self._reader() as reader:
            stored = list(reader.rows("runs", [run])) if reader is not None and self._known(reader, run) else []
        live = self._live().get(run)
        if stored:
            row = stored[0]
        elif live is not None or (self._folder(run) / MANIFEST).is_file():
            manifest = read_manifest(self._folder(run))[0]
            row = {key: manifest.get(key) for key in ("uid", "experiment", "seed", "started")}
            row = {"run": run, **row, **_STATUS_OF_FOLDER}
        else:
            raise NotThere(f"there is no run {run!r}")
        return self._told(row, live)

    def _told(self, row: dict[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the row of a run with what its kernel says; an end that is stored is known before the kernel's."""
        if row["status"] is None or row["status"] in OPEN:
            if live is not None:
                return row | {key: live[key] for key in ("status", "reason", "age_s")}
            if row["status"] is not None:
                return row | {"status": "lost"}
        return row

    def _live(self) -> dict[str, dict[str, Any]]:
        """Return what kernels say of their runs; a run that has ended and was removed since is none."""
        known = self._kernels.runs()
        return {run: row for run, row in known.items() if row["status"] in OPEN or self._folder(run).is_dir()}

    def _folder(self, run: str) -> Path:
        return self._settings.results / run

    def _folders(self) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._settings.results) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and _is_run(entry.name):
                    yield Path(entry.path)


def _is_missing(settings: Settings) -> bool:
    """Say whether the store is a file that is not there yet, or none was wished for."""
    return settings.store in (None, "none") and not any(settings.results.glob("*.db"))


def _is_run(text: str) -> bool:
    """Say whether a text may be the id of a run, and so the name of a folder right below that of the results."""
    return is_name(text) and not text.startswith(".") and "\\" not in text


def _quoted(run: str) -> str:
    return "'" + run.replace("'", "''") + "'"


def _condition(plugin: Any) -> dict[str, Any]:
    return {"name": plugin.name, "params": dict(plugin.params)}


def _thinned(reader: StoreReader, run: str, points: int) -> list[dict[str, Any]]:
    """Return the curves of a run, in which a point stands for as many episodes as are needed."""
    of_run = f"FROM returns WHERE run = {_quoted(run)}"
    _, rows = reader.query(f"SELECT phase, mode, agent, MAX(episode), COUNT(DISTINCT worker) {of_run} GROUP BY 1, 2, 3")
    groups = [tuple(row) for row in rows]
    width = max((-(-(int(last) + 1) // points) for *_, last, _ in groups), default=1)
    _, rows = reader.query(
        f"SELECT phase, mode, agent, episode / {width}, MIN(episode), MAX(episode), COUNT(*), SUM(steps), "
        f'AVG("return"), MIN("return"), MAX("return"), AVG(objective) {of_run} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4'
    )
    found: Mapping[tuple[Any, ...], list[Any]] = defaultdict(list)
    steps: dict[tuple[Any, ...], float] = defaultdict(float)
    workers = {(phase, mode, agent): count for phase, mode, agent, _, count in groups}
    for phase, mode, agent, _, first, last, count, taken, mean, low, high, objective in rows:
        key = (phase, mode, agent)
        steps[key] += float(taken) / workers[key]
        found[key].append([(first + last) / 2, steps[key], count, mean, low, high, objective])
    names = ("episode", "step", "count", "mean", "low", "high", "objective")
    return [
        {"phase": phase, "mode": mode, "agent": agent, "episodes_per_point": width}
        | dict(zip(names, map(list, zip(*values, strict=True)), strict=True))
        for (phase, mode, agent), values in found.items()
    ]
