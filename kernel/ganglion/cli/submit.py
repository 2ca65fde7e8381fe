"""`ganglion submit`: hands documents to the daemon."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ganglion.cli.progress import Progress, make_progress
from ganglion.cli.session import document_file
from ganglion.cli.settings import Settings
from ganglion.errors import CallFailed, DocumentError, UsageError
from ganglion.limits import DEADLINES_S
from ganglion.supervisor.operator import Operator, find_kernel
from ganglion.supervisor.output import without_password
from ganglion.supervisor.runs import Outcome
from ganglion.wire.messages import RunRequest, Submit


@click.command("submit")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--wait", is_flag=True, help="show progress and end as the run ends")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="set a value of the documents")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="seed in place of the documents' own")
@click.option("--name", metavar="ID", help="id of the run [UID-NUMBER]")
@click.pass_obj
def command(
    settings: Settings,
    files: tuple[str, ...],
    wait: bool,
    overrides: tuple[str, ...],
    seed: int | None,
    name: str | None,
) -> int:
    """Hand documents to the kernel and print the ids of their runs."""
    if name is not None and len(files) > 1:
        raise UsageError(f"--name: expected one document for one name, found {len(files)}")
    documents = [(file, _text(file)) for file in map(document_file, files)]
    _, connection = find_kernel(settings.results, settings.kernel, daemon=True)
    statuses = []
    with Operator(connection) as operator:
        runs = [_submit(operator, f, t, overrides, seed, name) for f, t in documents]
        if not wait:
            click.echo(json.dumps(runs) if settings.json else "\n".join(runs))
            return 0
        progress = make_progress(settings)
        for run in runs:
            statuses.append(_follow(operator, run, progress))
    return max(statuses, key=(0, 1, 130).index)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error


def _submit(
    operator: Operator, file: str, text: str, overrides: tuple[str, ...], seed: int | None, name: str | None
) -> str:
    folder = str(Path(file).absolute().parent)
    request = Submit(text, file, folder, seed, name, list(overrides) or None)
    try:
        run: str = operator.ask("kernel.submit", request, (DEADLINES_S["setup"] or 60.0) + 5.0).run
    except CallFailed as error:
        if error.remote_kind == DocumentError.kind:
            raise DocumentError(error.remote_message, [error.remote_message]) from error
        if error.remote_kind in (UsageError.kind, "plugin"):
            raise UsageError(error.remote_message) from error
        raise
    return run


def _follow(operator: Operator, run: str, progress: Progress) -> int:
    """Show a run until it has ended; return its exit status."""
    row: dict[str, object] = {}

    def over() -> bool:
        nonlocal row
        progress.refresh()
        rows = operator.ask("kernel.runs", RunRequest()).rows
        found = [r for r in rows if r["run"] == run]
        row = found[0] if found else {}
        return row.get("exit_status") is not None

    progress.begin(run, "of the document", run)
    operator.follow(run, lambda news: progress.event(run, news), over)
    story = row.get("story")
    outcome = Outcome(
        run,
        str(row["status"]),
        str(row["reason"]),
        int(str(row["exit_status"])),
        [str(line) for line in story] if isinstance(story, list) else [],
        float(str(row["age_s"])),
    )
    progress.end(outcome, f" in {without_password(operator.connection.store)}" if operator.connection.store else "")
    progress.close()
    return outcome.exit_status
