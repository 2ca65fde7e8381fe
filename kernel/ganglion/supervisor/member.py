"""One participant of a run: its place, its token, its life, its process."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from ganglion.run.plan import Process as Place
from ganglion.supervisor.child import Child, Effect, Event, State
from ganglion.supervisor.process import Process
from ganglion.wire.messages import Admit, Lost

__all__ = ["Member", "definition", "wait_gone"]

_DUMP_S = 0.2  # for the stacks


class Member:
    """Carry out what the life of one participant decides.

    `ask` is called to ask it to leave, `over` once when its process has ended (or could not be started). A member that
    somebody else starts (`place.attached`) has no process of ours: its life is its connection.
    """

    def __init__(
        self,
        place: Place,
        run: str,
        incarnation: int,
        ask: Callable[[Member], None],
        over: Callable[[Member], None],
    ) -> None:
        self.place = place
        self.run = run
        self.incarnation = incarnation
        self.token = secrets.token_urlsafe(32)
        self.child = Child(place.name)
        self.process: Process | None = None
        self.joined = False
        self.here = asyncio.Event()  # it has joined, once
        self.lost_reason = ""  # what the broker said
        self.off = asyncio.Event()  # it has said so
        self.idle = False  # and that nobody awaited an answer of it
        self.heard_out = False  # its process has ended, and the broker had time to say so
        self.asked = False  # to leave
        self.dismissed = False  # its end is wanted
        self.overdue = False
        self.returns = False  # a successor comes if it is lost, and others wait for it
        self.tape: Path | None = None  # where it writes down what it hears
        self.lost_s: float | None = None  # when its predecessor was lost, until it has joined
        self.lost_way = ""  # how
        self.due_s: float | None = None  # when it must have come back
        self.gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.since_s = self._loop.time()
        self._ask = ask
        self._over = over

    @property
    def name(self) -> str:
        """Return the name on the wire."""
        return self.place.name

    @property
    def label(self) -> str:
        """Return how a person is told of it."""
        return self.place.label

    @property
    def definition(self) -> tuple[object, ...]:
        """Return what must be equal for a process to stay when a phase changes."""
        return definition(self.place)

    @property
    def stays(self) -> bool:
        """Say whether it can go on to serve: it is not gone, not leaving, and has not lost its connection."""
        if self.gone.is_set() or (self.lost_reason and not self.returns):
            return False
        return self.place.attached or self.child.state in (State.PLANNED, State.STARTING, State.RUNNING)

    def admission(self, attach_token: str, attach_key: str | None = None) -> Admit:
        """Return what the broker is told about this member; with a key it may come from another machine."""
        token = attach_token if self.place.attached else self.token
        return Admit(
            self.name,
            self.place.role.value,
            self.run,
            hashlib.sha256(token.encode()).digest(),
            self.incarnation,
            self.place.uid,
            self.place.worker,
            self.place.uid if self.place.attached else None,
            evaluation=self.place.evaluation,
            curve_key=attach_key if self.place.attached else None,
            returns=self.returns,
        )

    # -- its connection ----------------------------------------------------------------------------------------------
    def came(self) -> None:
        """Take note that it has joined."""
        self.joined, self.lost_reason = True, ""
        self.off.clear()
        self.here.set()

    def cut_off(self, lost: Lost) -> None:
        """Take note of what the broker says of the end of its connection."""
        self.joined, self.lost_reason, self.idle = False, lost.reason, lost.idle
        self.off.set()

    # -- its life -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Take note that it is being started."""
        self._receive(Event.START)

    def started(self, process: Process) -> None:
        """Take note of its process."""
        self.process = process
        self._receive(Event.STARTED)

    def failed(self, why: str) -> None:
        """Take note that it could not be started."""
        self.child.why = why
        self._receive(Event.FAILED)

    def exited(self, process: Process) -> None:
        """Take note that its process has ended."""
        self._receive(Event.EXITED, code=process.code)

    def leave(self, patience_s: float | None = None) -> None:
        """Begin the ladder: ask it to leave if it can hear us, else end it by signal."""
        self.dismissed = True
        if self.place.attached:
            if self.joined:
                self._ask(self)
            self.gone.set()
            return
        if self.process is not None:
            self.process.look()  # who has ended before we ask has not ended because of it
        if self.child.gone:
            return
        if self.joined or self.child.state is not State.RUNNING:
            self._receive(Event.LEAVE, patience_s=patience_s)
        else:
            self._receive(Event.END)

    def end(self) -> None:
        """Go on to SIGTERM at once."""
        self.dismissed = True
        if not self.place.attached:
            self._receive(Event.END)

    def kill(self) -> None:
        """Go on to SIGKILL at once."""
        self.dismissed = True
        if not self.place.attached:
            self._receive(Event.KILL)

    def shoot(self, why: str) -> None:
        """Kill a process that nobody had asked to leave; its end counts as a loss, for the reason `why`."""
        self.child.why = why
        if self.process is not None:
            self.process.signal(signal.SIGKILL)

    def dump_and_shoot(self, why: str) -> None:
        """Have a process that hangs print the stacks of its threads, then kill it."""
        self.child.why = why
        if self.process is not None:
            self.process.signal(signal.SIGABRT)  # Python peers print their stacks and end
            self._loop.call_later(_DUMP_S, self.shoot, why)

    def _receive(self, event: Event, code: int | None = None, patience_s: float | None = None) -> None:
        now_s = self._loop.time()
        self._carry_out(self.child.receive(event, now_s, code=code, patience_s=patience_s))

    def _tick(self) -> None:
        self._carry_out(self.child.tick(self._loop.time()))

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if effect is Effect.ASK:
                self.asked = True
                self._ask(self)
            elif effect is Effect.OVERDUE:
                self.overdue = True
            elif effect is Effect.REPORT:
                self.gone.set()
                self._over(self)
            elif effect is not Effect.START and self.process is not None:
                self.process.signal(signal.SIGTERM if effect is Effect.TERMINATE else signal.SIGKILL)
        if self.child.deadline_s is not None:
            self._loop.call_at(self.child.deadline_s + 0.001, self._tick)

    # -- words --------------------------------------------------------------------------------------------------------
    @property
    def last_words(self) -> list[str]:
        """Return the last lines that its process printed."""
        return list(self.process.output.lines) if self.process is not None else []

    @property
    def end_text(self) -> str:
        """Return how it ended: `was killed by SIGKILL`, `ended with exit status 3`."""
        if self.place.attached or (not self.child.gone and self.lost_reason):
            return f"is gone: {self.lost_reason}"
        if self.process is None and self.child.code is None:
            return f"could not be started: {self.child.why}"
        if self.child.code is None:
            return f"has {self.child.reason}"
        return f"{'ended with' if self.child.code >= 0 else 'was'} {self.child.reason}"


def definition(place: Place) -> tuple[object, ...]:
    """Return what must be equal of two places for one process to serve both."""
    program = place.program
    if program is None:
        return (place.run_as,)  # its class comes with the set-up of each phase
    return (
        place.run_as,
        place.attached,
        tuple(program.command or ()),
        program.cwd,
        program.speaks,
        tuple(program.variables.items()),
    )


async def wait_gone(members: Sequence[Member], span_s: float) -> None:
    """Wait until all of them are gone, but no longer than so many seconds."""
    waits = [asyncio.ensure_future(member.gone.wait()) for member in members if not member.gone.is_set()]
    if waits:
        _, late = await asyncio.wait(waits, timeout=max(0.0, span_s))
        for wait in late:
            wait.cancel()
