"""A session: one supervisor that carries out the runs of a command, at most some at a time, until Ctrl-C or the end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ganglion.cli.settings import Settings
from ganglion.cli.stores import default_uri
from ganglion.supervisor.launcher import Launcher

if TYPE_CHECKING:
    from ganglion.document.fault import Fault
    from ganglion.run.plan import Plan
    from ganglion.supervisor.runs import Outcome
    from ganglion.wire.messages import RunEvent

__all__ = ["Session"]

_INTERRUPTED = (
    "finishing the episode; Ctrl-C again to stop now",
    "stopping now; Ctrl-C again to kill",
    "killing",
)


class Session:
    """Carry out runs with one broker; use as an asynchronous context manager.

    `found` says after the end what was left behind and had to be ended; nothing, as it should be.

    Args:
        settings: Where results and store are; `--store none` keeps nothing.
        name: Names the session beside its runs; plain as a run's id is.
        logs: Folder of the broker's own output, made if it is not there.
        launcher: One that is warm already, else a new one.
        tcp: Whether programs of other languages take part.
        report: Told (run, event) for each event of each run.
        note: Told in words what Ctrl-C does.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        logs: Path,
        launcher: Launcher | None = None,
        tcp: bool = False,
        report: Callable[[str, RunEvent], None] = lambda run, news: None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        from ganglion.supervisor.service import Service
        from ganglion.supervisor.supervisor import Settings as SupervisorSettings
        from ganglion.supervisor.supervisor import Supervisor

        self.interrupts = 0
        self.found: list[str] = []
        self.store = None if settings.store == "none" else settings.store or default_uri(settings.results)
        self._results = settings.results
        self._own = settings.results / name  # where the connection file is, if there is no better place
        self._logs = logs
        self._note = note
        service = Service()
        self._supervisor = service.supervisor = Supervisor(
            SupervisorSettings(
                settings.results, self.store, name, tcp, logs, (), tuple(sys.argv), service.handlers()
            ),
            report,
            launcher,
        )

    async def __aenter__(self) -> Self:
        """Start the broker and listen to Ctrl-C."""
        self._logs.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.interrupt)
        await self._supervisor.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything in order."""
        self.found = await self._supervisor.close()
        with contextlib.suppress(OSError):
            self._own.rmdir()

    @property
    def alive(self) -> bool:
        """Say whether the broker is there: without it every run fails."""
        broker = self._supervisor.broker
        return broker is not None and not broker.ended.is_set()

    def interrupt(self) -> None:
        """Hear Ctrl-C: once finishes the episodes, twice cuts them, three times kills."""
        self._note(_INTERRUPTED[min(self.interrupts, 2)])
        self.interrupts += 1
        for run in self._supervisor.runs.values():
            if run.outcome is None:
                self._supervisor.interrupt(run)

    async def check(self, plan: Plan) -> list[Fault]:
        """Return what is wrong with a plan that only its plugins can tell; one check at a time."""
        from ganglion.document.fault import Fault

        return [Fault(**row) for row in await self._supervisor.check(plan)]

    async def execute(self, plan: Plan, begin: Callable[[str], None] = lambda run: None) -> Outcome:
        """Carry out a run that has been checked, to its end; `begin` is told its id before anything is started."""
        from ganglion.supervisor.folder import reserve

        folder = reserve(self._results, plan.uid)
        try:
            begin(folder.run)
            return await self._supervisor.execute(plan, folder, self.store)
        finally:
            if folder.run not in self._supervisor.runs:
                folder.release()
