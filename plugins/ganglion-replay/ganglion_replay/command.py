"""`ganglion export`, `import`: recorded sessions to files that other tools read, and from files to a store."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import store_uri
from ganglion.cli.table import counted, printable, tell, without_password

if TYPE_CHECKING:
    from ganglion.sdk.session import Session

_FORMATS = ("minari", "minari-hdf5", "minari-parquet", "parquet", "arrow")
_TELL_S = (0.5, 10.0)  # between two reports of progress on a terminal, and in a pipe


class Progress:
    """Report the number of sessions on standard error; on a terminal in one line, which is removed at the end."""

    def __init__(self, settings: Settings, word: str) -> None:
        self._word = word
        self._silent = settings.verbosity < 0 or settings.json
        self._terminal = sys.stderr.isatty() and not settings.plain
        self._span_s = _TELL_S[not self._terminal]
        self._next_s = time.monotonic() + self._span_s
        self.sessions = self.steps = 0

    def __call__(self, session: Session) -> None:
        """Count a session."""
        self.sessions += 1
        self.steps += len(session)
        if self._silent or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self._span_s
        text = f"{self._word} {counted(self.sessions, 'session')}, {counted(self.steps, 'step')}"
        click.echo(f"\r{text}\033[K" if self._terminal else text, err=True, nl=not self._terminal)

    def end(self) -> None:
        """Remove the line."""
        if self._terminal and not self._silent:
            click.echo("\r\033[K", err=True, nl=False)


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option(
    "--to", "folder", required=True, type=click.Path(path_type=Path), help="folder to write to; existing files stay"
)
@click.option("--format", "form", type=click.Choice(_FORMATS), default="minari", help="form of the files [minari]")
@click.option("--phase", metavar="NAME", help="this phase only, by name or index")
@click.option("--agent", metavar="NAME", help="this agent only")
@click.option("--environment", metavar="UID", help="this environment only")
@click.option("--body", type=click.IntRange(min=0), metavar="B", help="bodies of this number only")
@click.option("--worker", type=click.IntRange(min=0), metavar="N", help="this worker only")
@click.option(
    "--mode", type=click.Choice(("train", "test", "evaluate")), help="mode of the sessions [that of the phase]"
)
@click.pass_obj
def export(settings: Settings, /, run: str, folder: Path, form: str, phase: str | None, **only: Any) -> None:
    """Write the recorded sessions of a run into files: a dataset for each body, <run>/<agent>-<environment>-<b>-v0.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`. Either all sessions are
    written or none; `minari` is read by Minari, `parquet` and `arrow` are tables with a row for each observation.
    """
    from ganglion_replay.files import export_sessions
    from ganglion_replay.stored import sessions

    index = int(phase) if phase is not None and phase.isdigit() else phase
    given = sessions(store_uri(settings), run, phase=index, **only)
    progress = Progress(settings, "exported")
    try:
        done = export_sessions(given, folder, form, progress=progress)
    finally:
        progress.end()
    told = {"run": given.run, "format": form, **asdict(done), "datasets": [str(path) for path in done.datasets]}
    lines = [str(path) for path in done.datasets] if settings.verbosity > 0 else []
    datasets = counted(len(done.datasets), "dataset")
    what = f"{counted(done.sessions, 'session')}, {counted(done.steps, 'step')} in {datasets}"
    lines.append(f"exported {what} of run {given.run} to {folder}")
    if done.open:
        lines.append(f"{counted(done.open, 'session')} without an end: truncated in the files")
    if done.without_closing:
        lines.append(f"{counted(done.without_closing, 'session')} without closing readings")
    tell(settings, told, lines)


@click.command("import")
@click.argument("path", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(("auto", *_FORMATS)), default="auto", help="form of the files [auto]"
)
@click.option("--run", metavar="ID", help="id of the run [that of the files]")
@click.pass_obj
def import_(settings: Settings, path: Path, form: str, run: str | None) -> None:
    """Write the sessions of files into the store, as a run with an episode for each session of each body.

    DIR is a dataset, a file of a dataset, or a folder of datasets: of `ganglion export`, or of Minari. All files are
    read and checked before anything is written. A document may name the run in `replay`, or the files: `{path: DIR}`.
    """
    from ganglion_replay.files import import_sessions
    from ganglion_replay.imported import store_sessions

    uri = store_uri(settings)
    if uri.startswith("sqlite:///"):
        with contextlib.suppress(OSError):  # opening the store gives the better error
            Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(settings, "imported")
    try:
        found = store_sessions(import_sessions(path, form), uri, run, str(path), progress)
    finally:
        progress.end()
    counts = f"{counted(progress.sessions, 'session')}, {counted(progress.steps, 'step')}"
    lines = [f"imported {counts} into {without_password(uri)}"]
    lines += [printable(f"run {name}: ganglion results actions {name}") for name in found]
    tell(settings, {"runs": found, "sessions": progress.sessions, "steps": progress.steps}, lines)
