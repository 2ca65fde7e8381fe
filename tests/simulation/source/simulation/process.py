"""Processes of the simulation: each is a greenlet that runs the real program of a participant."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from greenlet import GreenletExit, getcurrent, greenlet

from ganglion.errors import GanglionError

if TYPE_CHECKING:
    from simulation.link import Wire
    from simulation.schedule import Schedule

__all__ = ["Process"]

FAILED = 1
KILLED = -9


class Process:
    """Be one process: it runs until it waits for its link, and goes on when the schedule says so.

    `status` is its exit status, None while it lives. What its program must not raise stands in `crash`.
    """

    def __init__(self, name: str, schedule: Schedule, program: Callable[[], int]) -> None:
        self.name = name
        self.queued = False
        self.wake_s = float("inf")
        self.waiting = False
        self.status: int | None = None
        self.words = ""
        self.crash: BaseException | None = None
        self.wire: Wire
        self.variables: Mapping[str, str] = {}
        self._schedule = schedule
        self._program = program
        self._greenlet = greenlet(self._live)

    @property
    def lives(self) -> bool:
        """Say whether it has not ended."""
        return self.status is None

    def act(self) -> None:
        """Run until it waits or ends."""
        self._schedule.forget(self)
        if self.lives:
            self._greenlet.switch()

    def wait(self, timeout_s: float | None) -> None:
        """Let others run until a message has come or the time is over; called by the process itself."""
        assert getcurrent() is self._greenlet, f"{self.name} waits on a link that is not its own"
        self.waiting = True
        self._schedule.sleep(self, float("inf") if timeout_s is None else self._schedule.now_s + timeout_s)
        loop, hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        asyncio._set_running_loop(None)  # a process of its own would not see ours
        sys.set_asyncgen_hooks(None, None)
        try:
            self._greenlet.parent.switch()
        finally:
            asyncio._set_running_loop(loop)
            sys.set_asyncgen_hooks(*hooks)
            self.waiting = False

    def kill(self) -> None:
        """End it without a word, and its connection with it: what it has sent is lost on the way."""
        if not self.lives:
            return
        self.status = KILLED
        self._schedule.forget(self)
        if self._greenlet:
            self._greenlet.throw()
        self.wire.cut()

    def _live(self) -> None:
        try:
            status = self._program()
        except GreenletExit:
            return
        except GanglionError as error:
            self.words = str(error)
            status = error.exit_status or FAILED
            self.wire.close()
        except BaseException as error:  # noqa: BLE001 - the schedule raises it
            self.crash = error
            status = FAILED
            self.wire.close()
        if self.status is None:
            self.status = status
