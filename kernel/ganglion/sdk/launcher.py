"""Launcher: starts the processes of a run where they are to live."""

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
    """Say what is to be started."""

    name: str  # the name of the process in lists of processes
    variables: Mapping[str, str]  # what it needs to find its place, token included; to be shown in no list of processes
    argv: Sequence[str] | None = None  # a program of the document; None is a participant in Python
    module: str = "ganglion.peer"  # the module of a participant, run as `python -m MODULE`
    cwd: str | None = None  # where the program starts; None is where the run was started
    role: str = ""  # its role on the bus: environment, muscle, brain, controller; empty for a helper of the supervisor
    worker: int | None = None  # the worker it belongs to; None for one that serves all
    # The name of the user as which it runs, None for that of the supervisor; see `changes_users`.
    user: str | None = None
    mask: int | None = None  # the mask of the files that it makes; None is that of the supervisor
    # Variables that take the place of others where the process comes to live on the supervisor's machine.
    near: Mapping[str, str] = field(default_factory=dict)
    # Variables that are paths below a folder of the process's node; see `keeps_files`.
    node: Mapping[str, str] = field(default_factory=dict)
    place: str = ""  # the node on which it is to live, as the launcher itself names it; empty where that is its choice

    def on_node(self, folder: str) -> dict[str, str]:
        """Return the variables with what is below a private folder of the node, which is made by the process."""
        return {**self.variables, **{name: f"{folder}/{place}" for name, place in self.node.items()}}

    @property
    def command(self) -> list[str]:
        """Return program and arguments, for a participant those of this Python."""
        return [sys.executable, "-P", "-m", self.module] if self.argv is None else list(self.argv)

    def kept(self, lifeline: int) -> list[str]:
        """Return the command under a reaper, which ends its whole tree with it, or when a pipe's other end is closed.

        `lifeline` is the number of the read end of that pipe, to be inherited.
        """
        return [sys.executable, "-P", "-m", "ganglion.supervisor.launch.reaper", str(lifeline), "--", *self.command]


class LaunchWatch(Protocol):
    """Take from a launcher, in the running loop, what becomes of a process."""

    def printed(self, data: bytes) -> None:
        """Take what the process has printed, standard output and errors alike; the supervisor bounds and keeps it."""

    def exited(self, code: int | None, why: str = "") -> None:
        """Take in the end, once, after the last output.

        `code` is the exit status or the negative number of a signal, None if it is not known; `why` is what the
        launcher knows of the reason: that a node was lost, or that the process was stopped and has been killed for it.
        """


class Launched(ABC):
    """A process that was started."""

    host: str = ""  # where it lives; empty for this machine
    node: str = ""  # what the launcher asked `Launcher.relay` for on its behalf
    pid: int | None = None  # its number there; None if that is not known

    @abstractmethod
    def signal(self, signum: int) -> None:
        """Send a signal to the process and to all that it has started; one that has ended gets none."""

    def look(self) -> None:
        """Report an end at once; a launcher that gets ends reported does nothing."""
        return

    def usage(self) -> tuple[float, int]:
        """Return its seconds of processor time and its bytes of memory; zeros where they are not known."""
        return 0.0, 0

    def keep(self, processor: int | None) -> None:
        """Keep it, and all that it has started since, on one of the launcher's `processors`; None gives it back."""
        return


class Launcher(ABC):
    """Place the processes of a run; messages go over the bus, not through here.

    A process connects to the endpoint in its variables. After `close`, and two seconds after an unforeseen end of the
    supervisor, no process is left. A launcher that can see that a process is stopped (SIGSTOP) for longer than a second
    kills it. A document that needs what a launcher has not is refused before anything is started. The constructor takes
    the settings under `launchers`, by keyword.
    """

    # Whether its processes see the folder of the run, and the document's, under the paths of this machine: only then
    # they keep journals, and can be restored.
    shares_files: bool = False
    keeps_files: bool = False
    changes_users: ClassVar[bool] = False  # whether it starts processes as other users of this machine
    processors: frozenset[int] = frozenset()  # on which `Launched.keep` can keep a process
    # Of this machine as the processes reach it, known once `open` has returned; empty where they live on it. With an
    # address they join over an encrypted endpoint, each by keys of its own.
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
        """Return what `ganglion doctor` shows: of each thing `ok`, `warn` or `fail`, a text, its cure."""
        return [("ok", type(self).__name__, "")]

    @abstractmethod
    async def start(self, spec: LaunchSpec, watch: LaunchWatch) -> Launched:
        """Start a process and report to `watch`; LaunchError, without a call of `exited`, if it cannot be started."""

    @abstractmethod
    async def close(self) -> list[str]:
        """End what still lives, release everything; return in words what should not have been there any more."""

    def quiesced(self, processes: Sequence[Launched]) -> AbstractContextManager[bool]:
        """Stop processes for a short time, all at once; the context says whether all of them are stopped.

        Without that there are no checkpoints between the begins of phases.
        """
        return nullcontext(False)
