"""`ganglion logs`: what all processes of a run have logged and printed, in order of time."""

from __future__ import annotations

import datetime as dt
import fnmatch
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import newest_folder
from ganglion.cli.table import json_text, visible
from ganglion.sdk import UsageError
from ganglion_watch.reader import Logs

LEVELS = ("debug", "info", "output", "warning", "error", "critical")
"""Levels of lines in ascending order; `output` is what a process prints."""

LOOK_S = 0.25
"""How often new lines are looked for."""

_ENDED_S = 2.0  # how often it is asked whether the run goes on
_OPEN = ("queued", "starting", "running", "paused")
_AGO = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_COLOURS = {"debug": "bright_black", "warning": "yellow", "error": "red", "critical": "red"}

Line = Mapping[str, Any]


@click.command("logs")
@click.argument("run", required=False, default="last", metavar="[RUN]")
@click.option("-f", "--follow", is_flag=True, help="go on with what comes, until the run has ended")
@click.option(
    "--process", "processes", multiple=True, metavar="NAME", help="only these: a name, a part of it, or with *"
)
@click.option(
    "--level", type=click.Choice(LEVELS), help="only lines of this level and above; output is what is printed"
)
@click.option("--since", metavar="TIME", help="only lines from then on: 10:31, 2026-01-31T10:31, or so long ago: 5m")
@click.option("--grep", metavar="REGEX", help="only lines in which this is found")
@click.pass_obj
def command(
    settings: Settings,
    run: str,
    follow: bool,
    processes: tuple[str, ...],
    level: str | None,
    since: str | None,
    grep: str | None,
) -> int:
    """Print the logs of all processes of RUN in order of time, with what they print: author's code, other programs.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`. Times are those of this
    machine's clock.
    """
    wanted = filters(processes, level, since, grep)
    folder = folder_of(settings, run)
    logs, shown = Logs(folder.name, folder / "logs"), _shower(settings)
    heard: set[str] = set()

    def passes(line: Line) -> bool:
        heard.add(line["process"])
        return all(one(line) for one in wanted)

    while True:
        lasts = follow and goes_on(settings, folder.name)  # before it is read: nothing is lost at the end
        until_s = time.monotonic() + _ENDED_S
        while True:
            shown(line for line in logs.read() if passes(line))
            if not lasts:
                _refuse_strangers(processes, heard)
                return 0
            if time.monotonic() >= until_s:
                break
            time.sleep(LOOK_S)


def _refuse_strangers(names: Iterable[str], heard: Iterable[str]) -> None:
    """Raise UsageError for a name of which no process has a line."""
    for name in names:
        if not any(_is_of(process, name) for process in heard):
            raise UsageError(f"--process: no line is of `{name}`; there are: {', '.join(sorted(heard)) or 'none'}")


def folder_of(settings: Settings, run: str) -> Path:
    """Return the folder of a run, by its id, uid, a beginning of either or `last`; UsageError if there is none."""
    from ganglion.cli.extension import CallFailed, DeadlineExceeded, PeerLost, RunRequest, find_run

    found = newest_folder(settings.results, run)
    if found is None:
        begun = sorted(path.parent for path in settings.results.glob("*/logs") if path.parent.name.startswith(run))
        if len(begun) > 1:
            names = ", ".join(path.name for path in begun[:10])
            raise UsageError(f"{settings.results}: `{run}` may be any of the runs {names}")
        found = begun[0] if begun and run else None
    if found is None:
        try:
            with find_run(settings.results, settings.kernel, run) as operator:
                [row] = operator.ask("kernel.runs", RunRequest(run)).rows
        except (PeerLost, CallFailed, DeadlineExceeded) as error:
            raise UsageError(f"expected a run in {settings.results}, found no {run!r}; {error}") from error
        found = Path(row["folder"])
    return found


def goes_on(settings: Settings, run: str) -> bool:
    """Say whether a kernel carries out a run."""
    from ganglion.cli.extension import CallFailed, DeadlineExceeded, PeerLost, RunRequest, find_run

    try:
        with find_run(settings.results, settings.kernel, run) as operator:
            return any(row["status"] in _OPEN for row in operator.ask("kernel.runs", RunRequest(run)).rows)
    except (PeerLost, CallFailed, DeadlineExceeded):
        return False


def filters(
    processes: Iterable[str], level: str | None, since: str | None, grep: str | None
) -> list[Callable[[Line], bool]]:
    """Return what a line has to fulfil; UsageError for what cannot be read."""
    wanted: list[Callable[[Line], bool]] = []
    names = tuple(processes)
    if names:
        wanted.append(lambda line: any(_is_of(line["process"], name) for name in names))
    if level is not None:
        least = LEVELS.index(level)
        wanted.append(lambda line: line["level"] not in LEVELS or LEVELS.index(line["level"]) >= least)
    if since is not None:
        begin = _moment(since)
        wanted.append(lambda line: line["time"] >= begin)
    if grep is not None:
        try:
            sought = re.compile(grep)
        except re.error as error:
            raise UsageError(f"--grep: expected a regular expression, found {grep!r}: {error}") from error
        wanted.append(lambda line: sought.search(said(line)) is not None)
    return wanted


def _is_of(process: str, name: str) -> bool:
    """Say whether a name means a process: all of it, parts of it, or a pattern for it."""
    within = process.partition("/")[2]
    return f"/{name}/" in f"/{process}/" or any(fnmatch.fnmatchcase(one, name) for one in (process, within))


def _moment(text: str) -> str:
    """Return a moment as it stands in logs; UsageError if it is none."""
    now = dt.datetime.now().astimezone()
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            found = now - dt.timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
        elif re.fullmatch(r"\d\d?:\d\d(:\d\d(\.\d+)?)?", text):
            found = dt.datetime.combine(now.date(), dt.time.fromisoformat(text.zfill(5)), now.tzinfo)
        else:
            found = dt.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since: expected a time as 10:31, 2026-01-31T10:31 or 5m, found {text!r}") from error
    return f"{found.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def said(line: Line) -> str:
    """Return what a line says: its text, or its event and fields."""
    if line["level"] == "output":
        return str(line["event"])
    fields = (
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in line["fields"].items()
    )
    return " ".join([line["event"], *fields])


def _read(text: str) -> dt.datetime | None:
    """Return a moment of a log in this machine's time; None where there is none."""
    try:
        return dt.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def _shower(settings: Settings) -> Callable[[Iterator[Line]], None]:
    """Return what prints lines: one each for people, with --json an object each."""
    day = dt.datetime.now().astimezone().date()
    coloured = sys.stdout.isatty() and not settings.plain and not os.environ.get("NO_COLOR")

    def show(lines: Iterator[Line]) -> None:
        nonlocal day
        for line in lines:
            if settings.json:
                click.echo(json_text(dict(line), ensure_ascii=True))
                continue
            moment = _read(line["time"])
            if moment is not None and moment.date() != day:
                day = moment.date()
                click.echo(f"-- {day}")
            stamp = "-" if moment is None else f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
            text = f"{stamp:<12} {line['process']:<28} {line['level']:<7} {visible(said(line), kept=chr(9))}"
            colour = _COLOURS.get(line["level"]) if coloured else None
            click.echo(click.style(text, fg=colour) if colour else text)
        sys.stdout.flush()

    return show
