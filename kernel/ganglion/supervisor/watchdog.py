"""The watchdog: kills processes that are stopped or silent, reports waits, reaps adopted processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from ganglion.limits import BEAT_AFTER_SILENCE_S, BEAT_ANSWER_S
from ganglion.supervisor.child import exit_text
from ganglion.supervisor.launcher import Process
from ganglion.supervisor.linux import children_of, stopped

if TYPE_CHECKING:
    from ganglion.supervisor.supervisor import Supervisor

_LOOK_S = 0.5
_STOPPED_S = 0.9  # two looks apart: a debugger or a shell stops a process for a moment, too
_LATE_S = 0.5  # a supervisor that wakes so late has slept itself, and blames no process


class Watchdog:
    """Look after processes between events; with `GANGLION_LIVENESS=off` none is killed, as a debugger needs it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._task: asyncio.Task[None] | None = None
        self._stopped_s: dict[int, float] = {}
        self._strangers: set[int] = set()
        self._reasons: dict[int, str] = {}  # why we killed a broker
        self.kills = os.environ.get("GANGLION_LIVENESS", "") != "off"

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    def end_text(self, process: Process) -> str:
        """Return how a process ended, with the reason if we killed it."""
        why = self._reasons.get(process.pid)
        return exit_text(process.code) + (f" ({why})" if why else "")

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            due_s += _LOOK_S
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            now_s = loop.time()
            if now_s - due_s > _LATE_S:
                self._stopped_s.clear()
                self._supervisor.bus.heard_s = now_s
                due_s = now_s
            self.look(now_s)

    def look(self, now_s: float) -> None:
        """Look once."""
        supervisor = self._supervisor
        for run in supervisor.runs.values():
            if run.over.is_set():
                continue
            for member, length_s in run.waits_due(now_s):
                supervisor.tell_wait(run, member, length_s)
            for member in run.members.values():
                if member.process is None or member.child.gone:
                    continue
                why = self._stopped(member.process.pid, now_s)
                if why:
                    member.kill_lost(why)
                elif self.kills and member.due_s is not None and now_s > member.due_s:
                    if not member.here.is_set():
                        member.kill_hung("it did not come back in time")
                    member.due_s = None  # its own successor has as long again
        self._look_at_broker(now_s)
        self._reap()

    def _stopped(self, pid: int, now_s: float) -> str:
        """Return why a process is to be killed, if it has been stopped for too long."""
        if not self.kills or not stopped(pid):
            self._stopped_s.pop(pid, None)
            return ""
        since_s = self._stopped_s.setdefault(pid, now_s)
        return f"it was stopped for {now_s - since_s:.1f} s" if now_s - since_s > _STOPPED_S else ""

    def _look_at_broker(self, now_s: float) -> None:
        broker, bus = self._supervisor.broker, self._supervisor.bus
        if broker is None or broker.ended.is_set():
            return
        why = self._stopped(broker.pid, now_s)
        silent_s = now_s - bus.heard_s
        if self.kills and silent_s > BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S:
            why = why or f"it was silent for {silent_s:.1f} s"
        elif silent_s > _LOOK_S / 2:
            bus.beat()
        if why:
            self._reasons[broker.pid] = why
            broker.signal(signal.SIGKILL)

    def _reap(self) -> None:
        """Reap adopted processes that have ended; a new one may be a participant that is not known yet."""
        strangers = set(children_of(os.getpid())) - self._supervisor.known
        for pid in strangers & self._strangers:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._strangers = strangers
