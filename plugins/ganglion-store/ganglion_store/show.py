"""`ganglion show`: what is known of a run, of its store, of its folder, and of the kernel that carries it out."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import newest_folder, open_reader, store_uri
from ganglion.cli.table import json_text, printable, without_password, write
from ganglion.sdk import StoreError, UsageError

if TYPE_CHECKING:
    from ganglion.cli.extension import PhasePlan
    from ganglion.sdk import StoreReader


def find_stored(settings: Settings, run: str) -> dict[str, Any]:
    """Return what is known of a run: of the store, or of one that nothing was stored of, by its folder.

    The value has the columns of table `runs` (`status` and `reason` None where no store knows the run), `elapsed_s`
    and `eta_s` (of the phase that goes on; None where that is not known), `folder`, `versions`, `phases`, `brains`,
    `files`. A phase also has `workers`, `episodes` (how many are stored) and `limit` (how many the document allows),
    None where that is not known. UsageError if there is no such run.
    """
    try:
        if settings.store == "none":
            raise StoreError("none was asked for")
        reader = open_reader(settings)
    except StoreError as error:
        return _of_folder(settings.results, run, f"there is no store to look into: {error}")
    with reader:
        try:
            identity = reader.resolve(run)
        except UsageError as error:
            return _of_folder(settings.results, run, str(error))
        [row] = reader.rows("runs", [identity])
        return _known(settings.results / identity, with_live_status(settings, row), reader)


def _of_folder(results: Path, run: str, why: str) -> dict[str, Any]:
    """Return a run of which there is a folder only; `why` says why it is not stored."""
    from ganglion.cli.extension import read_manifest

    folder = newest_folder(results, run)
    manifest = {} if folder is None else read_manifest(folder)[0]
    if folder is None or manifest.get("run") != folder.name:
        raise UsageError(f"{why}; in {results} there is no folder of such a run either")
    keys = ("run", "uid", "experiment", "seed", "started")
    row = {key: manifest.get(key) for key in keys} | {"status": None, "reason": None, "ended": None}
    return _known(folder, row, None)


def _known(folder: Path, row: Mapping[str, Any], reader: StoreReader | None) -> dict[str, Any]:
    from ganglion.cli.extension import read_manifest

    def rows(table: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        found = () if reader is None else reader.rows(table, [row["run"]], columns=columns)
        return [{key: value for key, value in line.items() if key != "run"} for line in found]

    manifest = read_manifest(folder)[0]
    done = None if reader is None else Counter((it["phase"], it["mode"]) for it in rows("episodes", ["phase", "mode"]))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        **row,
        "elapsed_s": _elapsed_s(row),
        "eta_s": row.get("eta_s"),
        "folder": str(folder),
        "versions": {key: manifest.get(key) for key in ("ganglion", "python", "packages", "git")},
        "phases": _phases(rows("phases"), done, folder, manifest.get("plan")),
        "brains": rows("brains"),
        "files": [{"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size} for path in files],
    }


def _phases(
    rows: list[dict[str, Any]], done: Mapping[tuple[Any, Any], int] | None, folder: Path, sha256: object
) -> list[dict[str, Any]]:
    """Return the phases that have begun, and behind them those that have not."""
    from ganglion.cli.extension import read_origin

    planned: dict[int, PhasePlan] = {}
    with contextlib.suppress(UsageError):  # not every run has a plan
        planned = {phase.index: phase for phase in read_origin(folder, sha256)[0].phases}
    for phase in planned.values():
        if phase.index not in {row["phase"] for row in rows}:
            named = {"phase": phase.index, "name": phase.name, "mode": phase.mode}
            rows.append({**named, "status": None, "reason": None})
    for row in rows:
        plan = planned.get(row["phase"])
        row["workers"] = plan and plan.workers
        row["episodes"] = None if done is None else done[row["phase"], row["mode"]]
        # Of evaluations within a phase there are as many as fall due.
        own = plan is not None and row["mode"] == plan.mode
        row["limit"] = plan.episodes * plan.workers if plan and own and plan.episodes is not None else None
    return rows


def rows_of_folders(settings: Settings, stored: Container[str]) -> list[dict[str, Any]]:
    """Return the rows of runs of a store that ended, or were lost, before their first row was stored.

    Their folders are in the folder of the results, with a manifest that names the store; `stored` has all others.
    """
    from ganglion.cli.extension import MANIFEST, read_manifest

    uri, found = without_password(store_uri(settings)), []
    for path in sorted(settings.results.glob(f"*/{MANIFEST}")):
        if path.parent.name not in stored:
            row = {"status": "running", "reason": None, "ended": None, **read_manifest(path.parent)[0]}
            if row.get("run") == path.parent.name and row.get("store") == uri:
                found.append({key: row.get(key) for key in COLUMNS})
    return found


COLUMNS = ("run", "uid", "experiment", "seed", "status", "reason", "started", "ended")
_OPEN = frozenset({"queued", "running", "paused"})


def carrier_of(settings: Settings, row: Mapping[str, Any]) -> str:
    """Return the process that may carry out a run whose status is open; empty if there is none."""
    if row["status"] not in _OPEN:
        return ""
    from ganglion.cli.extension import find_connections  # late: most runs have ended

    for path, connection in find_connections(settings.results):
        if connection.run in (row["run"], None):
            return f"process {connection.pid}, {path}"
    return ""


def with_live_status(settings: Settings, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a run with the status that its kernel tells; lost, where no kernel carries it out."""
    if row["status"] not in _OPEN:
        return row
    from ganglion.cli.extension import (  # late: most runs have ended
        CallFailed,
        DeadlineExceeded,
        PeerLost,
        RunRequest,
        find_run,
    )

    if not carrier_of(settings, row):
        return {**row, "status": "lost"}
    try:
        with find_run(settings.results, None, row["run"]) as operator:
            [live] = operator.ask("kernel.runs", RunRequest(row["run"])).rows
    except (PeerLost, CallFailed, DeadlineExceeded):
        return row  # it begins or ends at this moment
    if live["status"] not in _OPEN:
        return row
    left_s = (live.get("progress") or {}).get("left_s")
    return {**row, "status": live["status"], "elapsed_s": live.get("age_s"), "eta_s": left_s}


def _elapsed_s(row: Mapping[str, Any]) -> float | None:
    """Return how long a run has lasted, or has lasted so far; None where that is not known."""
    if row.get("elapsed_s") is not None or not (row["started"] and row["ended"]):
        return row.get("elapsed_s")
    try:
        begin, end = (dt.datetime.fromisoformat(row[key]) for key in ("started", "ended"))
        return (end - begin).total_seconds()
    except (TypeError, ValueError):  # of another program
        return None


_PHASES = ("phase", "name", "mode", "status", "reason", "workers", "episodes")
_BRAINS = ("phase", "agent", "tag", "episode", "updates", "bytes", "sha256", "path")
_FILES = ("bytes", "path")


@click.command("show")
@click.argument("run", metavar="RUN")
@click.option("--document", is_flag=True, help="print the document as it was given")
@click.option("--plan", is_flag=True, help="print the document as it was carried out: after cascade and defaults")
@click.pass_obj
def show(settings: Settings, run: str, document: bool, plan: bool) -> None:
    """Show a run: identity, status and reason, phases, brains and files.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`.
    """
    if document and plan:
        raise UsageError("expected one of --document and --plan, found both")
    found = find_stored(settings, run)
    if document or plan:
        path = Path(found["folder"], "document.yml" if document else "resolved.yml")
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        name = "document" if document else "plan"
        click.echo(json_text({"run": found["run"], name: text}) if settings.json else text, nl=settings.json)
    elif settings.json:
        click.echo(json_text(found))
    else:
        _print(found, sys.stdout.isatty() and not settings.plain)


def _print(found: dict[str, Any], terminal: bool) -> None:
    from ganglion.cli.extension import span

    status = found["status"] or "unknown: nothing was stored"
    reason = f" ({found['reason']})" if found["reason"] else ""
    shown = {**found, "status": f"{status}{reason}", "ganglion": found["versions"]["ganglion"]}
    shown |= {name: found[key] and span(found[key]) for name, key in (("elapsed", "elapsed_s"), ("eta", "eta_s"))}
    names = ("run", "uid", "experiment", "seed", "status", "started", "ended", "elapsed", "eta", "ganglion", "folder")
    for name in names:
        if shown[name] is not None:
            click.echo(f"{name:<11}{printable(str(shown[name]))}")
    shown["phases"] = [{**phase, "episodes": _progress(phase)} for phase in found["phases"]]
    for title, columns in (("phases", _PHASES), ("brains", _BRAINS), ("files", _FILES)):
        if shown[title]:
            click.echo(f"\n{title}")
            write(sys.stdout, "table", columns, shown[title], terminal)


def _progress(phase: dict[str, Any]) -> str:
    done = "?" if phase["episodes"] is None else str(phase["episodes"])
    return done if phase["limit"] is None else f"{done} of {phase['limit']}"
