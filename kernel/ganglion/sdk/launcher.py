"""Launcher: starts the processes of a run where they are to live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["LaunchSpec", "Launched", "Launcher"]


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Say what is to be started.

    Args:
        name: The process's name on the bus.
        role: Its role there: environment, muscle, brain, controller ...
        variables: What it needs to find its place, token included; never shown in a list of processes.
        argv: The program; None is a participant in Python, `python -m ganglion.peer`.
        cwd: Where the program starts; None is where the run was started.
        resources: What it needs, by name (cpu, gpu, ...), in the launcher's own units.
    """

    name: str
    role: str
    variables: Mapping[str, str]
    argv: Sequence[str] | None = None
    cwd: str | None = None
    resources: Mapping[str, float] = field(default_factory=dict)


class Launched(Protocol):
    """Be a process that was started."""

    @property
    def host(self) -> str:
        """Where it lives; empty is this machine."""

    @property
    def pid(self) -> int | None:
        """Its number there; None if that is not known."""

    @property
    def code(self) -> int | None:
        """Its exit status, or the negative number of the signal that ended it; None while it runs."""

    @property
    def lines(self) -> Sequence[str]:
        """Its last lines of output, oldest first."""

    def signal(self, signum: int) -> None:
        """Send a signal to it and to all that it has started; one that has ended hears nothing."""


class Launcher(ABC):
    """Place the processes of a run; messages go over the bus, not through here.

    What it starts connects to the endpoint in `variables`. It must leave nothing behind: after `close` no process of
    it lives, whatever happened before.
    """

    async def open(self) -> None:  # noqa: B027 - a launcher that needs no preparation is complete
        """Prepare; called once, in a running loop, before the first start.

        Raises:
            LaunchError: It cannot work here.
        """

    @abstractmethod
    async def start(self, spec: LaunchSpec, on_exit: Callable[[Launched], None]) -> Launched:
        """Start a process; `on_exit` is called once with it, in the loop, when it has ended and its output is read.

        Raises:
            LaunchError: It could not be started; nothing is left of it, and `on_exit` is not called.
        """

    @abstractmethod
    async def close(self) -> None:
        """End what still lives, and let go of everything; called once, also after an error."""
