"""Sessions: one broker and one supervisor for the runs of a command; documents by name; placement."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import store_of
from ganglion.errors import LaunchError, PluginInvalid, UsageError
from ganglion.sdk.launcher import Launcher
from ganglion.supervisor.launch.local import Local
from ganglion.supervisor.placement import AUTO, FREE

if TYPE_CHECKING:
    from ganglion.document.fault import Fault
    from ganglion.run.plan import Plan
    from ganglion.supervisor.folder import RunFolder
    from ganglion.supervisor.resume import RecoveryPlan
    from ganglion.supervisor.runs import Outcome
    from ganglion.supervisor.service import Service
    from ganglion.wire.messages import RunEvent

_NAME = re.compile(r"[\w-]+", re.ASCII)
_PROCESSORS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*\Z")


def document_file(word: str) -> str:
    """Return the file named by a word of the command line; PluginInvalid for a plain name that is unknown.

    Such a word names a plugin's document. The module that locates the document imports nothing heavy.
    """
    if word == "-" or Path(word).exists():
        return word
    from ganglion import registry  # reads the metadata of all distributions, which an existing file does not need

    found = [entry for entry in registry.entries("document") if entry.name == word]
    return str(registry.load("document", word)) if found or _NAME.fullmatch(word) else word


def check_name(name: str | None, files: Sequence[str]) -> None:
    """Raise UsageError for one id with several documents."""
    if name is not None and len(files) > 1:
        raise UsageError(f"--name: expected one document for one name, found {len(files)}")


COMMAND = "from ganglion.cli.main import main; raise SystemExit(main())"
"""The command line, for another interpreter: `python -P -c COMMAND WORD...`."""

Tell = Callable[[str, "RunEvent"], None]
_BESIDE = {"serve": "ganglion-web", "metrics": "ganglion-observers", "observe": "ganglion-observers"}


def companions(settings: Settings, options: dict[str, Any]) -> list[contextlib.AbstractContextManager[Tell]]:
    """Remove `companion_options` from options; return the plugins' objects for them, none of which is started.

    UsageError: no plugin offers the option, or the plugin lacks a requirement.
    """
    from ganglion import registry

    for name in filter(None, os.environ.get("GANGLION_TRACER", "").split(",")):
        registry.find("tracer", name)
    found = []
    for option, distribution in _BESIDE.items():
        value = options.pop(option)
        if value is None or value is False or value == ():
            continue
        if not any(entry.name == option for entry in registry.entries("companion")):
            raise UsageError(f"--{option}: expected a plugin for it, found none; it comes with {distribution}")
        found.append(registry.load("companion", option)(settings, value))
    return found


@contextlib.contextmanager
def beside(found: Sequence[contextlib.AbstractContextManager[Tell]], own: Tell) -> Iterator[Tell]:
    """Run companions during the block; yield the function that sends an event to `own` and to all companions."""
    with contextlib.ExitStack() as stack:
        told = [own, *map(stack.enter_context, found)]

        def tell(run: str, news: RunEvent) -> None:
            for one in told:
                one(run, news)

        yield tell if found else own


Command = TypeVar("Command", bound=Callable[..., Any])


def companion_options(command: Command) -> Command:
    """Give a command `--serve`, `--metrics` and `--observe`, as its arguments of these names."""
    what = "hand events to this observer: csv, tensorboard, wandb, mlflow (ganglion-observers)"
    command = click.option("--observe", multiple=True, metavar="NAME[,KEY=VALUE]", help=what)(command)
    where = "serve numbers for Prometheus at 127.0.0.1:PORT/metrics (ganglion-observers)"
    command = click.option("--metrics", type=click.IntRange(0, 65_535), metavar="PORT", help=where)(command)
    return click.option("--serve", is_flag=True, help="show the page of the results as well (ganglion-web)")(command)


def bind_options(command: Command) -> Command:
    """Give a command `--bind` and `--no-curve`, as its arguments `bind` and `no_curve`."""
    others = "listen for programs on other machines too, encrypted: tcp://0.0.0.0:5555"
    here = "without encryption; for ipc:// and loopback addresses alone"
    bind = click.option("--bind", metavar="ENDPOINT", envvar="GANGLION_BIND", help=others)
    return bind(click.option("--no-curve", is_flag=True, help=here)(command))


def checked_bind(bind: str | None, no_curve: bool) -> dict[str, str]:
    """Return the settings of a supervisor for `--bind`; UsageError if it would be open to other machines unencrypted.

    The result has `remote` for encrypted connections, or `bind` if the system keeps other machines away, or nothing:
    there is an endpoint for this machine in any case.
    """
    if bind is None:
        if no_curve:
            raise UsageError("--no-curve: expected --bind with a loopback address beside it, found none")
        return {}
    from ganglion.transport.endpoint import parse_endpoint

    try:
        endpoint = parse_endpoint(bind)
    except LaunchError as error:
        raise UsageError(f"--bind: {error}") from error
    if no_curve and not endpoint.local:
        raise UsageError(
            f"--bind {bind} --no-curve: expected ipc:// or a loopback address; others are always encrypted"
        )
    return {"bind": bind} if no_curve or endpoint.path else {"remote": bind}


def processors(text: str, there: set[int]) -> set[int]:
    """Return the processors of a list like `0`, `0,2` or `1-3`; UsageError if invalid, or if one is not in `there`."""
    if _PROCESSORS.match(text) is None:
        wanted = "auto, free or a list of processors, as in `0`, `0,2` or `1-3`"
        raise UsageError(f"cpus: expected {wanted}, found {text[:80]!r}")
    found: set[int] = set()
    for first, _, last in (part.partition("-") for part in text.split(",")):
        if int(last or first) > max(there):  # before a range of any length is created
            raise UsageError(f"cpus: expected processors up to {max(there)}, found {last or first}")
        found |= set(range(int(first), int(last or first) + 1))
    missing = sorted(found - there)
    if missing or not found:
        raise UsageError(f"cpus: expected some of {sorted(there)}, found {missing[0] if missing else text!r}")
    return found


def confine(settings: Settings) -> None:
    """Restrict this process and its children to the processors and the file permissions of the settings."""
    os.umask(settings.mask)
    if settings.cpus in (AUTO, FREE):
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("cpus: this system cannot keep a process on chosen processors")
    os.sched_setaffinity(0, processors(settings.cpus, os.sched_getaffinity(0)))


@contextlib.contextmanager
def warmed(settings: Settings) -> Iterator[Local]:
    """Yield a launcher whose imports run during the block; the launcher is ended if the block raises."""
    confine(settings)
    launcher = Local()
    launcher.warm_up()
    try:
        launcher_of(settings)
        yield launcher
    except BaseException:
        launcher.abandon()
        raise


def launcher_of(settings: Settings) -> Launcher | None:
    """Return the launcher of a run's processes, None: this machine's; UsageError if there is no such launcher."""
    if settings.launcher is None:
        return None
    from ganglion import registry  # as above

    try:
        made = registry.load("launcher", settings.launcher)
    except PluginInvalid as error:
        raise UsageError(f"launcher: {error}") from error
    if made is Local:
        return None
    try:
        return made(**settings.launchers.get(settings.launcher, {}))  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise UsageError(f"launcher {settings.launcher}: settings, launchers.{settings.launcher}: {error}") from error


_WORDS = ("finishing the episode; Ctrl-C again to stop now", "stopping now; Ctrl-C again to kill", "killing")


class Session:
    """Carry out runs with one supervisor and its broker; use as an asynchronous context manager.

    UsageError if the broker cannot be started; nothing else was started then. After the end `found` lists orphaned
    processes that had to be ended; it is normally empty.

    Args:
        settings: Of the command; `--store none` stores nothing.
        name: The session's name, plain like a run's id; None for a daemon.
        logs: Folder of the broker's own output, created if missing.
        launcher: That of this machine, if it is warm already; the setting `launcher` may name another for participants.
        tcp: Whether programs of other languages take part.
        report: Called with (run, event) for each event of each run.
        note: Called with the sentence of `words` for each Ctrl-C.
        words: The sentences for the first Ctrl-C, the second, and the third and all later ones.
        allow: Packages that import paths may name.
        where: The result of `checked_bind`.
        first: The plan that is checked first, while the broker starts.
        service: Answers operators; default: the service of a kernel that carries out its own runs.
    """

    def __init__(
        self,
        settings: Settings,
        name: str | None,
        logs: Path,
        launcher: Local | None = None,
        tcp: bool = False,
        report: Callable[[str, RunEvent], None] = lambda run, news: None,
        note: Callable[[str], None] = lambda text: None,
        *,
        words: Sequence[str] = _WORDS,
        allow: tuple[str, ...] = (),
        where: Mapping[str, str] = MappingProxyType({}),
        service: Service | None = None,
        first: Plan | None = None,
    ) -> None:
        from ganglion.supervisor.service import Service
        from ganglion.supervisor.supervisor import Settings as SupervisorSettings
        from ganglion.supervisor.supervisor import Supervisor

        self.interrupts = 0
        self.found: list[str] = []
        self.store = store_of(settings)
        self._results = settings.results
        self._own = None if name is None else settings.results / name  # for the connection file, if need be
        self._logs = logs
        self._note = note
        self._first = first
        self._words = words
        service = service or Service()
        argv = tuple(sys.argv)
        self.supervisor = service.supervisor = Supervisor(
            SupervisorSettings(
                settings.results, self.store, name, tcp, logs, allow, argv, service.handlers(), settings.cpus, **where
            ),
            report,
            launcher,
            launcher_of(settings),
        )

    async def __aenter__(self) -> Self:
        """Start the broker and listen to Ctrl-C."""
        self._logs.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.interrupt)
        try:
            await self.supervisor.open(self._first)
        except LaunchError as error:
            raise UsageError(str(error)) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything in order."""
        self.found = await self.supervisor.close()
        if self._own is not None:
            with contextlib.suppress(OSError):
                self._own.rmdir()

    @property
    def alive(self) -> bool:
        """Say whether the broker runs: without it every run fails."""
        broker = self.supervisor.broker
        return broker is not None and not broker.ended.is_set()

    def places(self) -> list[str]:
        """Return as text the endpoints of the session, and the connection files."""
        connection, remote = self.supervisor.connection, self.supervisor.remote_file
        assert connection is not None
        return [
            f"endpoint {connection.endpoint}" + (f" and {connection.tcp}" if connection.tcp else ""),
            f"connection file {self.supervisor.connection_file}",
            *([] if remote is None else [f"connection file for other machines {remote}"]),
        ]

    def report_defects(self) -> bool:
        """Report orphaned processes on standard error; return whether there were any."""
        for text in self.found:
            click.echo(f"defect: {text} was left behind and has been ended", err=True)
        return bool(self.found)

    def interrupt(self) -> None:
        """Handle a Ctrl-C: the first ends runs after their episodes, the second cuts the episodes, the third kills."""
        self.interrupts += 1
        for run in self.supervisor.runs.values():
            if run.outcome is None:
                self.supervisor.interrupt(run)
        self._note(self._words[min(self.interrupts, len(self._words)) - 1])

    async def check(self, plan: Plan) -> list[Fault]:
        """Return the faults of a plan that only its plugins can detect; one check at a time."""
        from ganglion.document.fault import Fault
        from ganglion.document.marks import pointed

        found = [Fault(**row) for row in await self.supervisor.check(plan)]
        return pointed(found, plan.source, plan.document)

    async def execute(
        self,
        plan: Plan,
        begin: Callable[[str], None] = lambda run: None,
        folder: RunFolder | None = None,
        recovery: RecoveryPlan | None = None,
    ) -> Outcome:
        """Carry out a checked run to its end.

        `begin` is called with the id before the start, `folder` was reserved for the run, `recovery` says how a resumed
        run continues.
        """
        from ganglion.supervisor.folder import reserve

        folder = folder or reserve(self._results, plan.uid)
        try:
            begin(folder.run)
            return await self.supervisor.execute(plan, folder, self.store, recovery)
        finally:
            if folder.run not in self.supervisor.runs:
                folder.release()
