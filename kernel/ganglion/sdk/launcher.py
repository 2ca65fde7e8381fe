"""Launcher: starts the processes of a run on their machines."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from ganglion.errors import LaunchError

__all__ = ["CREDENTIALS", "LaunchError", "LaunchSpec", "LaunchWatch", "Launched", "Launcher"]

CREDENTIALS = ("GANGLION_KERNEL", "GANGLION_STORE", "PGPASSFILE", "PGPASSWORD", "PGSERVICE", "PGSERVICEFILE")
"""Variables that lead into a database or a kernel: for processes that keep rows, for no agent or environment."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Describe a process to start."""

    name: str  # the name of the process in lists of processes
    variables: Mapping[str, str]  # its environment variables, with its token: to be shown in no list of processes
    argv: Sequence[str] | None = None  # a program of the document; None is a participant in Python
    module: str = "ganglion.peer"  # the module of a participant, run as `python -m MODULE`
    cwd: str | None = None  # the working folder; None is that of the run
    role: str = ""  # its role on the bus: environment, muscle, brain, controller; empty for a helper of the supervisor
    worker: int | None = None  # its worker; None for a process that serves all
    # The user of the process, None for that of the supervisor; see `changes_users`.
    user: str | None = None
    mask: int | None = None  # the mask of the files that it makes; None is that of the supervisor
    # Variables that replace others if the process runs on the supervisor's machine.
    near: Mapping[str, str] = field(default_factory=dict)
    # Variables that are paths below a folder of the process's node; see `keeps_files`.
    node: Mapping[str, str] = field(default_factory=dict)
    place: str = ""  # the node to run on, in the launcher's own words; empty: the launcher chooses

    def on_node(self, folder: str) -> dict[str, str]:
        """Return the variables, with paths below a private folder of the node, which the process makes."""
        return {**self.variables, **{name: f"{folder}/{place}" for name, place in self.node.items()}}

    @property
    def command(self) -> list[str]:
        """Return program and arguments, for a participant with this Python."""
        return [sys.executable, "-P", "-m", self.module] if self.argv is None else list(self.argv)

    def kept(self, lifeline: int) -> list[str]:
        """Return the command under a reaper, which ends the command's whole tree with it, or when the pipe closes.

        `lifeline` is the number of the read end of that pipe, to be inherited.
        """
        return [sys.executable, "-P", "-m", "ganglion.supervisor.launch.reaper", str(lifeline), "--", *self.command]


class LaunchWatch(Protocol):
    """Receive the output and the end of a process from a launcher, in the running loop."""

    def printed(self, data: bytes) -> None:
        """Take output of the process, standard output and errors alike; the supervisor bounds and keeps it."""

    def exited(self, code: int | None, why: str = "") -> None:
        """Take the end of the process, once, after the last output.

        `code` is the exit status or the negative number of a signal, None if unknown; `why` is the reason as far as the
        launcher knows it: the loss of a node, or that the process was stopped and therefore killed.
        """


class Launched(ABC):
    """A process that was started."""

    host: str = ""  # its machine; empty for this one
    node: str = ""  # the node passed to `Launcher.relay` for it
    pid: int | None = None  # its process id there; None if unknown

    @abstractmethod
    def signal(self, signum: int) -> None:
        """Send a signal to the process and all its descendants; an ended process gets none."""

    def look(self) -> None:
        """Report an end at once, if the launcher has to look for ends."""
        return

    def usage(self) -> tuple[float, int]:
        """Return its processor time, seconds, and its memory, bytes; zeros if unknown."""
        return 0.0, 0

    def keep(self, processor: int | None) -> None:
        """Keep the process and its descendants on one of the launcher's `processors`; None: on any."""
        return


class Launcher(ABC):
    """Start the processes of a run, which then talk over the bus.

    A process connects to the endpoint in its variables. After `close`, and two seconds after an unforeseen end of the
    supervisor, no process is left. A launcher that sees a process stopped (SIGSTOP) for longer than a second kills it.
    A document that needs a feature that a launcher lacks is refused before anything starts. The constructor takes the
    settings under `launchers`, by keyword.
    """

    # Whether its processes see the folder of the run, and the document's, under the paths of this machine: only then
    # they keep journals, and can be restored.
    shares_files: bool = False
    keeps_files: bool = False
    changes_users: ClassVar[bool] = False  # whether it starts processes as other users of this machine
    processors: frozenset[int] = frozenset()  # on which `Launched.keep` can keep a process
    # Of this machine as seen by the processes, known once `open` has returned; empty if they run on it. With an address
    # they join over an encrypted endpoint, each with keys of its own.
    address: str = ""
    relay: Callable[[str], Awaitable[str]]
    """Return where the relay of a node listens there: the broker of its processes, which take it for the kernel's.

    It is set before the first start where there is an `address`. The node is named by a word of the launcher's own; on
    the first call for it `start` is asked to start the relay there (`LaunchSpec.place`). A process joins it with the
    variables `near` of its specification and GANGLION_ENDPOINT. LaunchError says why it did not come up.
    """

    async def open(self) -> None:  # noqa: B027 - a launcher that needs no preparation is complete
        """Prepare; called once, in a running loop, before the first start. LaunchError: it cannot work here."""

    def examine(self) -> Sequence[tuple[str, str, str]]:
        """Return rows for `ganglion doctor`: `ok`, `warn` or `fail`, a text, a remedy."""
        return [("ok", type(self).__name__, "")]

    @abstractmethod
    async def start(self, spec: LaunchSpec, watch: LaunchWatch) -> Launched:
        """Start a process and report to `watch`; LaunchError: it was not started, and `exited` is not called."""

    @abstractmethod
    async def close(self) -> list[str]:
        """End all living processes and release everything; return a text for each process that should have ended."""

    def quiesced(self, processes: Sequence[Launched]) -> AbstractContextManager[bool]:
        """Stop all these processes for a short time; the context yields whether all are stopped.

        Without this there are no checkpoints between the begins of phases.
        """
        return nullcontext(False)
