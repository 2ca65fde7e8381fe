"""Processes of the simulation: each is a greenlet that runs the real program of a participant."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit, getcurrent, greenlet

from ganglion.errors import GanglionError
from ganglion.peer.journal.write import JournalDiffers

if TYPE_CHECKING:
    from ganglion.peer.participant import Participant
    from simulation.link import Wire
    from simulation.schedule import Schedule

FAILED = 1
KILLED = -9


class Process:
    """Be one process: it runs until it waits for its link, and goes on when the schedule says so.

    `status` is its exit status, None while it lives. What its program must not raise stands in `crash`. `wires` are
    its connections; the last one is the one it has. `ended` is called when it has ended. `mine` counts the moments,
    between two system calls, after which it is killed.
    """

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        program: Callable[[], int],
        incarnation: int = 1,
        ended: Callable[[Process], None] = lambda process: None,
    ) -> None:
        self.name, self.incarnation = name, incarnation
        self.born_s = schedule.now_s
        self.queued = False
        self.wake_s = float("inf")
        self.waiting = False
        self.frozen = self.hung = False
        self.excused = False  # it may be too slow to leave in order: something has befallen it
        self.mute = False  # it could not answer for a while: whoever calls it silent is right
        self.immortal = False  # nobody can end it while it is stopped
        self.zombie = False  # it was stopped, and its successor is there
        self.status: int | None = None
        self.words = ""
        self.crash: BaseException | None = None
        self.wires: list[Wire] = []
        self.mine: int | None = None
        self.host: Any = None
        self.held: list[Callable[[], None]] = []  # what the system takes from it when it is killed
        self._due = False  # it would run if it were not frozen
        self._schedule = schedule
        self._program, self._ended = program, ended
        self._greenlet = greenlet(self._live)

    @property
    def lives(self) -> bool:
        """Say whether it has not ended."""
        return self.status is None

    @property
    def participant(self) -> Participant | None:
        """Return what stands between its host and the bus, once it is there."""
        found: Participant | None = getattr(self.host, "participant", None)
        return found

    @property
    def running(self) -> bool:
        """Say whether this is who runs at the moment."""
        return getcurrent() is self._greenlet

    def act(self) -> None:
        """Run until it waits or ends."""
        if self.frozen:
            self._due = True
            return
        self._schedule.forget(self)
        if self.lives:
            self._greenlet.switch()

    def wait(self, timeout_s: float | None) -> None:
        """Let others run until a message has come or the time is over; called by the process itself."""
        self._yield(timeout_s, True)

    def sleep(self, span_s: float) -> None:
        """Let others run for some seconds, whatever comes."""
        self._yield(span_s, False)

    def _yield(self, timeout_s: float | None, waiting: bool) -> None:
        assert self.running, f"{self.name} waits on a link that is not its own"
        self.waiting = waiting
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

    # -- what happens to it -------------------------------------------------------------------------------------------
    def freeze(self, hung: bool = False) -> None:
        """Let it run no further: it is stopped, or hangs in a hook while its pulse still answers."""
        self.frozen, self.hung = True, hung
        self.mute |= not hung
        for wire in self.wires if hung else ():
            wire.look_aside()

    def thaw(self) -> None:
        self.frozen = self.hung = False
        if self._due:
            self._due = False
            self._schedule.ready(self)

    def step(self) -> None:
        """Pass one of the moments at which a process can be killed although it does not wait."""
        if self.mine is not None and self.running:
            self.mine -= 1
            if self.mine < 0:
                self.mine = None
                self.die()

    def die(self) -> None:
        """End here and now; called by the process itself."""
        self._die()
        raise GreenletExit

    def kill(self) -> None:
        """End it without a word, and its connection with it."""
        if self.lives:
            self._die()
            if self._greenlet:
                self._greenlet.throw()

    def _die(self) -> None:
        self.status = KILLED
        self._schedule.forget(self)
        for wire in self.wires:
            wire.end()
        self._ended(self)

    def _live(self) -> None:
        try:
            status = self._program()
        except GreenletExit:
            for release in self.held:
                release()
            return
        except JournalDiffers as error:
            self.words, status = str(error), int(error.code or 0)
        except GanglionError as error:
            self.words, status = str(error), error.exit_status or FAILED
        except BaseException as error:  # noqa: BLE001 - the schedule raises it
            self.crash, status = error, FAILED
        if self.status is None:
            self.status = status
            for wire in self.wires:
                wire.close()
            self._ended(self)
