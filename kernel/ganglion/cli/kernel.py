"""`ganglion kernel`, `submit`: the daemon in the foreground, its status, its end, and documents for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.live import place_variables
from ganglion.cli.progress import Progress, make_progress
from ganglion.cli.session import (
    Session,
    Tell,
    beside,
    bind_options,
    check_name,
    checked_bind,
    companion_options,
    companions,
    confine,
    document_file,
)
from ganglion.cli.settings import INTERRUPTED, Settings
from ganglion.cli.stores import store_of
from ganglion.cli.table import tell
from ganglion.errors import CallFailed, DocumentError, PeerLost, UsageError
from ganglion.limits import DEADLINES_S
from ganglion.supervisor import event
from ganglion.supervisor.connection import Operator, find_kernel
from ganglion.supervisor.output import printable
from ganglion.wire.messages import Nothing, RunEvent, RunRequest, Submit

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Outcome


@click.group("kernel", invoke_without_command=True)
@click.option("--parallel", type=click.IntRange(min=1), default=1, metavar="N", help="runs at the same time [1]")
@companion_options
@bind_options
@click.pass_context
def command(context: click.Context, /, parallel: int, bind: str | None, no_curve: bool, **more: Any) -> int:
    """Run the daemon: it carries out submitted documents (`ganglion submit`) until `ganglion kernel stop`."""
    if context.invoked_subcommand is not None:
        return 0
    where = checked_bind(bind, no_curve)
    found = companions(context.obj, more)
    confine(context.obj)
    from ganglion.transport import loop

    with beside(found, _tell) as tell:
        return loop.run(_serve(context.obj, parallel, where, tell))


async def _serve(settings: Settings, parallel: int, where: dict[str, str], tell: Tell) -> int:
    from ganglion.supervisor.service import Daemon

    logs = settings.results / ".kernel"
    logs.mkdir(parents=True, exist_ok=True)
    held = _hold(logs / "lock")
    daemon = Daemon(store_of(settings), parallel, _say)

    def leave(text: str) -> None:
        daemon.leaving.set()
        _say(text)

    words = ("leaving: runs finish their episode", "stopping now")
    session = Session(settings, None, logs, tcp=True, report=tell, note=leave, words=words, where=where, service=daemon)
    try:
        async with session:
            first, *more = session.places()
            os.pwrite(held, f"process {os.getpid()}, {first.partition(' and ')[0]}\n".encode(), 0)
            for line in (first, *more):
                _say(line)
            gone, leaving = session.supervisor.broker_gone, asyncio.ensure_future(daemon.leaving.wait())
            first_of: list[asyncio.Future[Any]] = [gone, leaving]
            await asyncio.wait(first_of, return_when=asyncio.FIRST_COMPLETED)
            if not leaving.done():
                leaving.cancel()
                raise PeerLost("the broker", gone.result())
            await daemon.wait_idle()
    finally:
        os.close(held)
    defects = session.report_defects()
    return INTERRUPTED if session.interrupts else int(defects)


def _hold(path: Path) -> int:
    """Hold the lock of a folder's kernel, and return its descriptor; UsageError names the holder."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = printable(os.pread(held, 300, 0).decode(errors="replace").strip()) or "it is just starting"
        os.close(held)
        raise UsageError(
            f"{path.parent}: a kernel is running here already: {holder}; `ganglion kernel stop` ends it, "
            "`--results` names another folder"
        ) from None
    os.ftruncate(held, 0)
    return held


def _tell(run: str, news: RunEvent) -> None:
    """Print a run's waits and warnings: a daemon has no other view of its runs."""
    if news.event in (event.WAITING, event.WARNING):
        _say(f"run {run}: {printable(str(news.fields.get('text', '')))}")


def _say(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has ended, as in `ganglion kernel | head`: a daemon continues without it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@command.command("status")
@click.pass_obj
def status(settings: Settings) -> None:
    """Print what the daemon is and what it runs."""
    path, connection = find_kernel(settings.results, settings.kernel, daemon=True)
    with Operator(connection) as operator:
        info = operator.ask("kernel.info", Nothing())
        runs = operator.ask("kernel.runs", RunRequest()).rows
    row: dict[str, object] = {"endpoint": connection.endpoint, "tcp": connection.tcp, "connection_file": str(path)}
    row |= {"version": info.version, "pid": connection.pid, "peers": info.peers, "uptime_s": info.uptime_s}
    head = f"kernel {info.version} · process {connection.pid} · up {info.uptime_s:.0f} s · {info.peers} peers"
    lines = [f"{run['run']}  {run['status']}  {run['age_s']:.0f} s  {run['reason'] or ''}".rstrip() for run in runs]
    places = [f"endpoint {connection.endpoint}", f"connection file {path}"]
    tell(settings, {**row, "runs": runs}, [head, *places, *lines])


@command.command("env")
@click.argument("uid")
@click.option(
    "--role",
    type=click.Choice(["environment", "muscle"]),
    default="environment",
    help="role of the program [environment]",
)
@click.pass_obj
def environment(settings: Settings, uid: str, role: str) -> None:
    """Print the variables with which a program takes the place UID of a document that says `attach: true`.

    For a shell: `eval "$(ganglion kernel env UID)"`. They hold a token: a process that reads them may take the place.
    """
    _, connection = find_kernel(settings.results, settings.kernel)
    for name, value in place_variables(connection, role, uid, connection.tcp or connection.endpoint).items():
        click.echo(f"export {name}={shlex.quote(value)}")


@command.command("stop")
@click.option("--now", is_flag=True, help="end the running episodes at once")
@click.pass_obj
def stop(settings: Settings, now: bool) -> None:
    """Let the daemon's runs finish their episode, then end it."""
    _, connection = find_kernel(settings.results, settings.kernel, daemon=True)
    with Operator(connection) as operator:
        operator.ask("kernel.leave", RunRequest(now=now))
    click.echo(f"kernel {connection.pid} is shutting down")


@click.command("submit")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--wait", is_flag=True, help="show progress and end as the run ends")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="set a value of the documents")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="seed in place of the documents' own")
@click.option("--name", metavar="ID", help="id of the run [UID-NUMBER]")
@click.pass_obj
def submit(settings: Settings, /, files: tuple[str, ...], wait: bool, **more: Any) -> int:
    """Hand documents to the kernel and print the ids of their runs."""
    check_name(more["name"], files)
    documents = []
    for file in map(document_file, files):
        try:
            documents.append((file, sys.stdin.read() if file == "-" else Path(file).read_text()))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read: {error}") from error
    _, connection = find_kernel(settings.results, settings.kernel, daemon=True)
    if wait:  # before joining: on a busy machine slow imports after joining would count as silence
        from ganglion.supervisor.runs import Outcome

        if Path(connection.results) != settings.results.resolve():  # the daemon's is the one to look into
            origins = {**settings.origins, "results": "option --results"}
            settings = replace(settings, results=Path(connection.results), origins=origins)
        progress = make_progress(settings)
    with Operator(connection) as operator:
        runs = [_submit(operator, *document, **more) for document in documents]
        if not wait:
            tell(settings, runs, runs)
            return 0
        return max((_follow(operator, run, progress, Outcome) for run in runs), key=(0, 1, INTERRUPTED).index)


def _submit(operator: Operator, file: str, text: str, overrides: tuple[str, ...], **more: Any) -> str:
    folder = str(Path(file).absolute().parent)
    request = Submit(text, file, folder, overrides=list(overrides) or None, **more)
    try:
        run: str = operator.ask("kernel.submit", request, (DEADLINES_S["setup"] or 60.0) + 5.0).run
    except CallFailed as error:
        if error.remote_kind == DocumentError.kind:
            raise DocumentError(error.remote_message, [error.remote_message]) from error
        if error.remote_kind in (UsageError.kind, "plugin"):
            raise UsageError(error.remote_message) from error
        raise
    return run


_TWICE = (event.RUN_STARTED, event.PEER_JOINED, event.PEER_LOST)


def _follow(operator: Operator, run: str, progress: Progress, end: type[Outcome]) -> int:
    """Show a run until it has ended; return its exit status."""
    row: dict[str, Any] = {}

    def over() -> bool:
        progress.refresh()
        row.update(next((r for r in operator.ask("kernel.runs", RunRequest()).rows if r["run"] == run), {}))
        return row.get("exit_status") is not None

    def show(news: RunEvent) -> None:  # without the governor's words for what the supervisor tells, as `run` does
        if news.event not in _TWICE or "label" in news.fields or "processes" in news.fields:
            progress.event(run, news)

    [known] = operator.ask("kernel.runs", RunRequest(run)).rows
    progress.begin(run, str(known["seed"]), str(progress.settings.results / run))
    operator.follow(run, show, over)
    story = [str(line) for line in row.get("story") or ()]
    outcome = end(run, str(row["status"]), str(row["reason"]), int(row["exit_status"]), story, float(row["age_s"]))
    progress.end(outcome, operator.connection.store)
    progress.close()
    return outcome.exit_status
