"""Look: the contents of the page, from the store, the folders of runs and their kernels."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import (
    MANIFEST,
    GanglionError,
    Plan,
    UsageError,
    is_name,
    open_reader,
    read_manifest,
    read_origin,
)
from ganglion.cli.settings import Settings
from ganglion.sdk.store import StoreAbsent
from ganglion_watch import Logs
from ganglion_web.curves import POINTS_MAX, Bin, Curve, binned, over_runs, thinned
from ganglion_web.distance import conditions
from ganglion_web.kernels import OPEN, Kernels

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

MADE_KEPT, PLANS_KEPT = 2_000, 200
"""The most curves, counts and plans of runs in memory."""

SHARE = 0.05
"""The greatest share of a processor for an answer about a run, for any number of pages."""

OLD_S = 20.0
"""The greatest age of an answer that took long but cost this process little, as while others are busy."""

LOG_LINES_MAX = 2_000
"""The most lines of logs in one answer."""

LOG_BYTES_MAX = 4 * 1024 * 1024
"""The bytes to read from the end of each log file."""

ROWS_MAX = 100_000
"""The most rows of a table in one answer."""

_LEVELS = ("debug", "info", "warning", "error", "critical")
_STATUS_OF_FOLDER = {"status": None, "reason": None, "ended": None}


class NotThere(Exception):
    """There is no such run, table or document."""


class Look:
    """Answer the page's questions about a results folder by plain values. Methods may run in any thread."""

    def __init__(self, settings: Settings, kernels: Kernels) -> None:
        self._settings, self._kernels = settings, kernels
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._made: dict[tuple[str, str], tuple[object, float, Any]] = {}
        self._plans: dict[str, tuple[object, Plan]] = {}

    def warm_up(self) -> None:
        """Import the modules for the first question."""
        with contextlib.suppress(GanglionError), self._reader():
            pass

    # -- runs --------------------------------------------------------------------------------------------------------
    def runs(
        self, status: str | None = None, uid: str | None = None, limit: int = 500, offset: int = 0
    ) -> dict[str, Any]:
        """Return runs, the newest first, and the number of runs of this status and uid.

        Running ones have `episodes`, sealed so far, and `limit`, the most of their plan (None: open).
        """
        with self._reader() as reader:
            rows = {} if reader is None else {row["run"]: row for row in reader.rows("runs")}
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
            shown = chosen[offset : offset + limit]
            for row in shown:
                if row["status"] in OPEN:
                    row["limit"] = self._limit(row["run"])
                    row["episodes"] = 0 if reader is None else self._sealed(reader, row["run"])[0]
        return {"total": len(chosen), "runs": shown}

    def run(self, run: str) -> dict[str, Any]:
        """Return one run with its phases: plan, progress, distances of conditions.

        Raises:
            NotThere: No store, folder or kernel knows the run.
        """
        folder = self._folder(run)
        with self._of(run) as (row, reader):
            manifest = read_manifest(folder)[0]
            phases: list[dict[str, Any]] = [] if reader is None else list(reader.rows("phases", [run]))
            done = {} if reader is None else self._counts(reader, row)
            plan = self._plan(run, manifest)
            for planned in () if plan is None else plan.phases:
                own = [p for p in phases if p["phase"] == planned.index and p["mode"] == planned.mode]
                if not own:
                    named = {"run": run, "phase": planned.index, "name": planned.name, "mode": planned.mode}
                    own = [{**named, "status": None, "reason": None}]
                    phases += own
                limit = None if planned.episodes is None else planned.episodes * planned.workers
                own[0] |= {"workers": planned.workers, "limit": limit}
                own[0]["conditions"] = conditions(planned, reader, run, self._kernels.steps(run), own[0]["status"])
        for phase in phases:
            phase["episodes"], phase["steps"] = done.get((phase["phase"], phase["mode"]), (0, 0))
        phases.sort(key=lambda phase: (phase["phase"], phase["mode"] == "evaluate"))
        versions = {key: manifest.get(key) for key in ("ganglion", "python", "packages", "git")}
        return {**row, "folder": str(folder), "versions": versions, "phases": phases}

    def document(self, run: str) -> dict[str, Any]:
        """Return the document of a run as given and as carried out; None for a missing file."""
        with self._of(run):
            pass
        found: dict[str, Any] = {"run": run}
        for key, name in (("document", "document.yml"), ("resolved", "resolved.yml")):
            path = self._folder(run) / name
            found[key] = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        return found

    def processes(self, run: str) -> list[dict[str, Any]]:
        """Return the processes of a live run; empty for an ended run."""
        if run not in self._live():
            with self._of(run):
                pass
        return self._kernels.processes(run)

    def topology(self, run: str) -> dict[str, Any]:
        """Return the graph of messages: nodes, and edges with the number so far and per second."""
        processes = self.processes(run)
        nodes = [{key: row.get(key) for key in ("name", "role", "worker", "uid", "state")} for row in processes]
        rates = self._kernels.rates(run)
        edges = [
            {
                "from": row["name"],
                "to": to,
                "messages": count,
                "per_second": rates.get((row["name"], to), 0.0),
                "waits": to in row.get("waiting_for", ()),
            }
            for row in processes
            for to, count in row.get("sent", {}).items()
        ]
        return {"run": run, "nodes": nodes, "edges": edges}

    # -- curves ------------------------------------------------------------------------------------------------------
    def curves(self, run: str, points: int = 500) -> dict[str, Any]:
        """Return the returns of a run by phase, mode and agent, over all workers and bodies, thinned.

        A point is for neighbouring episodes: `episode` (the middle one), `step` (steps of a worker so far, the mean
        over workers), `count`, `mean`, `low` and `high` of the returns, `objective` (mean).
        """
        points = max(1, min(points, POINTS_MAX))
        with self._of(run) as (row, reader):
            bins = {} if reader is None else self._bins(reader, row)
        return {"run": run, "curves": thinned(bins, points)}

    def _bins(self, reader: StoreReader, row: Mapping[str, Any]) -> Mapping[Curve, list[Bin]]:
        """Return the bins of a run; for a live run they are made again as often as its cost allows."""
        found: Mapping[Curve, list[Bin]] = self._kept("bins", reader, row, lambda run: binned(reader, run))
        return found

    def _kept(self, what: str, reader: StoreReader, row: Mapping[str, Any], make: Callable[[str], Any]) -> Any:
        """Return a cached result of a run's episodes, made again for new episodes when its cost allows."""
        run, live = row["run"], row["status"] in OPEN
        sealed: object = self._sealed(reader, run) if live else row["ended"]
        with self._making:  # one of several callers makes it
            known = self._made.get((what, run))
            now_s, before_s = time.monotonic(), time.thread_time()
            if known is None or (known[0] != (live, sealed) and not (live and now_s < known[1])):
                made = make(run)
                end_s, cost_s = time.monotonic(), time.thread_time() - before_s
                known = (live, sealed), end_s + max(cost_s / SHARE, min((end_s - now_s) / SHARE, OLD_S)), made
                if len(self._made) >= MADE_KEPT:
                    self._made.clear()
                self._made[what, run] = known
        return known[2]

    def _sealed(self, reader: StoreReader, run: str) -> tuple[int, int]:
        """Return the number of sealed episodes of a run, and the sum of their numbers: an index has both."""
        text = f"SELECT COUNT(*), SUM(episode) FROM episodes WHERE run = {_quoted(run)}"  # noqa: S608 - quoted
        count, numbers = next(iter(reader.query(text)[1]))
        return count, numbers or 0

    def _counts(self, reader: StoreReader, row: Mapping[str, Any]) -> dict[tuple[int, str], tuple[int, int]]:
        """Return (phase, mode) -> numbers of sealed episodes and of their steps."""

        def counted(run: str) -> dict[tuple[int, str], tuple[int, int]]:
            _, counts = reader.query(
                "SELECT phase, mode, COUNT(*), SUM(steps) FROM episodes "  # noqa: S608 - quoted
                f"WHERE run = {_quoted(run)} GROUP BY phase, mode"
            )
            return {(phase, mode): (count, steps) for phase, mode, count, steps in counts}

        found: dict[tuple[int, str], tuple[int, int]] = self._kept("counts", reader, row, counted)
        return found

    # -- sweeps ------------------------------------------------------------------------------------------------------
    def sweeps(self) -> list[dict[str, Any]]:
        """Return the experiments of the store with their numbers of points, in all and by state."""
        found: dict[str, dict[str, Any]] = {}
        with self._reader() as reader:
            for point in () if reader is None else reader.rows("points"):
                row = found.setdefault(point["experiment"], {"experiment": point["experiment"], "points": 0})
                row["points"] += 1
                row[point["state"]] = row.get(point["state"], 0) + 1
        return list(found.values())

    def sweep(self, experiment: str, points: int = 200) -> dict[str, Any]:
        """Return an experiment: its points, and the curves of each row of its design, over all of its runs.

        In a curve `mean` is that of the runs' means, `low` and `high` are the least and the greatest of them.
        """
        points = max(1, min(points, POINTS_MAX))
        with self._reader() as reader:
            rows = [] if reader is None else [row for row in reader.rows("points") if row["experiment"] == experiment]
            if reader is None or not rows:
                raise NotThere(f"there is no experiment {experiment[:80]!r}")
            known = {row["run"]: row for row in reader.rows("runs", columns=["run", "status", "ended"])}
            made = [row for row in rows if row["run"] in known]
            bins = {row["run"]: self._bins(reader, known[row["run"]]) for row in made}
        curves = [
            {"row": number, "factors": next(row["factors"] for row in rows if row["row"] == number), **curve}
            for number in sorted({row["row"] for row in made})
            for curve in over_runs([bins[row["run"]] for row in made if row["row"] == number], points)
        ]
        return {"experiment": experiment, "points": rows, "curves": curves}

    # -- tables and logs ---------------------------------------------------------------------------------------------
    def results(
        self, run: str, table: str, where: str | None, columns: list[str] | None, limit: int
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """Return columns and rows of a table of a run; UsageError names the fault of the question."""
        with self._of(run) as (_, reader):
            if reader is None:
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
        """Return the newest lines of the logs of a run, the oldest first; `offset` skips so many newer ones."""
        with self._of(run):
            pass
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

    # -- places ------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _reader(self) -> Iterator[StoreReader | None]:
        """Open the store; None if it does not exist yet, or for `--store none`."""
        if self._settings.store == "none":
            yield None
            return
        try:
            reader = open_reader(self._settings)
        except StoreAbsent:
            yield None
            return
        with reader:
            yield reader

    @contextlib.contextmanager
    def _of(self, run: str) -> Iterator[tuple[dict[str, Any], StoreReader | None]]:
        """Open the store for a question about a run: yield its row, and a reader if the store knows the run.

        Raises:
            NotThere: The run is unknown, or the text is no name of a run.
        """
        if not _is_run(run):
            raise NotThere(f"there is no run {run[:80]!r}")
        with self._reader() as reader:
            stored: list[dict[str, Any]] = []
            with contextlib.suppress(UsageError):  # the store does not know the run
                stored = [] if reader is None else list(reader.rows("runs", [run]))
            live = self._live().get(run)
            if stored:
                yield self._told(stored[0], live), reader
            elif live is not None or (self._folder(run) / MANIFEST).is_file():
                manifest = read_manifest(self._folder(run))[0]
                row = {key: manifest.get(key) for key in ("uid", "experiment", "seed", "started")}
                yield self._told({"run": run, **row, **_STATUS_OF_FOLDER}, live), None
            else:
                raise NotThere(f"there is no run {run!r}")

    def _plan(self, run: str, manifest: Mapping[str, Any]) -> Plan | None:
        """Return the plan of a run, read once; None if its folder has no complete plan."""
        digest = manifest.get("plan")
        with self._lock:
            known = self._plans.get(run)
        if known is None or known[0] != digest:
            try:
                known = digest, read_origin(self._folder(run), digest)[0]
            except UsageError:
                return None
            with self._lock:
                if len(self._plans) >= PLANS_KEPT:
                    self._plans.clear()
                self._plans[run] = known
        return known[1]

    def _limit(self, run: str) -> int | None:
        """Return the most episodes of a run; None if a phase has no bound, or the plan is unknown."""
        plan = self._plan(run, read_manifest(self._folder(run))[0])
        counts = (
            [None] if plan is None else [phase.episodes and phase.episodes * phase.workers for phase in plan.phases]
        )
        return None if None in counts else sum(filter(None, counts))

    def _told(self, row: dict[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the row of a run with its kernel's data; a stored end precedes the kernel's."""
        if row["status"] is None or row["status"] in OPEN:
            if live is not None:
                return row | {key: live[key] for key in ("status", "reason", "age_s")}
            if row["status"] is not None:
                return row | {"status": "lost"}
        return row

    def _live(self) -> dict[str, dict[str, Any]]:
        """Return the runs of kernels, without ended runs that were removed."""
        known = self._kernels.runs()
        return {run: row for run, row in known.items() if row["status"] in OPEN or self._folder(run).is_dir()}

    def _folder(self, run: str) -> Path:
        return self._settings.results / run

    def _folders(self) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._settings.results) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and _is_run(entry.name):
                    yield Path(entry.path)


def _is_run(text: str) -> bool:
    """Return whether a text may be the id of a run, and so the name of a folder in the results folder."""
    return is_name(text) and not text.startswith(".") and "\\" not in text


def _quoted(run: str) -> str:
    return "'" + run.replace("'", "''") + "'"
