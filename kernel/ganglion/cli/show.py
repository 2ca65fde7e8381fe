"""`ganglion show`: one run: who it is, how it ended, its phases, brains and files; the documents it was made from."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import DOCUMENT, RESOLVED, StoredRun, find_stored
from ganglion.cli.table import json_text, write
from ganglion.errors import UsageError
from ganglion.supervisor.output import printable

_PHASES = ("phase", "name", "mode", "status", "reason", "workers", "episodes")
_BRAINS = ("phase", "agent", "tag", "episode", "updates", "bytes", "sha256", "path")
_FILES = ("bytes", "path")


@click.command("show")
@click.argument("run", metavar="RUN")
@click.option("--document", is_flag=True, help="print the document as it was given")
@click.option("--plan", is_flag=True, help="print the document as it was carried out: after cascade and defaults")
@click.pass_obj
def command(settings: Settings, run: str, document: bool, plan: bool) -> None:
    """Show a run: identity, status and reason, phases, brains and files.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`.
    """
    if document and plan:
        raise UsageError("expected one of --document and --plan, found both")
    found = find_stored(settings, run)
    if document or plan:
        text = found.text(DOCUMENT if document else RESOLVED)
        name = "document" if document else "plan"
        click.echo(json.dumps({"run": found.run, name: text}) if settings.json else text, nl=settings.json)
    elif settings.json:
        click.echo(json_text(_value(found)))
    else:
        _print(found, sys.stdout.isatty() and not settings.plain)


def _value(found: StoredRun) -> dict[str, Any]:
    """Return all that is shown as one plain value."""
    versions = {key: found.manifest.get(key) for key in ("ganglion", "python", "packages", "git")}
    return {
        **found.row,
        "folder": str(found.folder),
        "versions": versions,
        "phases": [{key: value for key, value in row.items() if key != "run"} for row in found.phases],
        "brains": [{key: value for key, value in row.items() if key != "run"} for row in found.brains],
        "files": found.files(),
    }


def _print(found: StoredRun, terminal: bool) -> None:
    row = found.row
    status = row["status"] or "unknown: nothing was stored"
    reason = f" ({row['reason']})" if row["reason"] else ""
    lines = {
        "run": found.run,
        "uid": row["uid"],
        "experiment": row["experiment"],
        "seed": row["seed"],
        "status": f"{status}{reason}",
        "started": row["started"],
        "ended": row["ended"],
        "ganglion": found.manifest.get("ganglion"),
        "folder": found.folder,
    }
    for name, value in lines.items():
        if value is not None:
            click.echo(f"{name:<11}{printable(str(value))}")
    phases = [{**phase, "episodes": _progress(phase)} for phase in found.phases]
    tables: Sequence[tuple[str, Sequence[str], list[dict[str, Any]]]] = (
        ("phases", _PHASES, phases),
        ("brains", _BRAINS, found.brains),
        ("files", _FILES, found.files()),
    )
    for title, columns, rows in tables:
        if rows:
            click.echo(f"\n{title}")
            write(sys.stdout, "table", columns, rows, terminal)


def _progress(phase: dict[str, Any]) -> str:
    done = "?" if phase["episodes"] is None else str(phase["episodes"])
    return done if phase["limit"] is None else f"{done} of {phase['limit']}"
