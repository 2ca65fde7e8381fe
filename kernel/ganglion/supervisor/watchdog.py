"""The watchdog: who is stopped, who is silent, who is awaited, and what nobody has reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ganglion.limits import BEAT_AFTER_SILENCE_S, BEAT_ANSWER_S
from ganglion.supervisor.child import exit_text
from ganglion.supervisor.linux import children_of, stopped
from ganglion.supervisor.process import Process

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Member
    from ganglion.supervisor.supervisor import Supervisor

_STILL_LOOK_S = 0.0002


@contextlib.contextmanager
def standstill(pids: Sequence[int], span_s: float = 0.05) -> Iterator[bool]:
    """Stop children of ours, all threads of each, while the block lasts; yields whether all of them stand.

    Nothing else runs in this process meanwhile, so keep it short; `span_s` is how long one that cannot be stopped at
    once (it waits for its disk) may take. Where one has been stopped by somebody else, nobody is touched: it would be
    woken by us.
    """
    touched: list[int] = []
    try:
        if not any(stopped(pid) for pid in pids):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    touched.append(pid)
        yield len(touched) == len(pids) and _stand(touched, time.monotonic() + span_s)
    finally:
        for pid in touched:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stand(pids: Sequence[int], until_s: float) -> bool:
    """Wait until these are stopped as wholes; False if one has ended or takes too long."""
    for pid in pids:
        while (state := _state(pid)) is None:
            if time.monotonic() > until_s:
                return False
            time.sleep(_STILL_LOOK_S)
        if state != os.CLD_STOPPED:
            return False
    return True


def _state(pid: int) -> int | None:
    """Return what the system tells of a child: that it stands, or has ended; None while it runs."""
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return os.CLD_EXITED
    return None if found is None else found.si_code


_LOOK_S = 0.5
_STOPPED_S = 0.9  # two looks apart: a debugger or a shell stops a process for a moment, too
_LATE_S = 0.5  # whoever wakes so late has slept himself, and accuses nobody


class Vigil:
    """Look after the processes of a supervisor between events.

    With `GANGLION_LIVENESS=off` nobody is killed for being stopped or silent, as a debugger needs it.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._task: asyncio.Task[None] | None = None
        self._stopped_s: dict[int, float] = {}
        self._strangers: set[int] = set()
        self._words: dict[int, str] = {}
        self.kills = os.environ.get("GANGLION_LIVENESS", "") != "off"

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    def words_of(self, process: Process) -> str:
        """Return how a process ended, with why we killed it if we did."""
        why = self._words.get(process.pid)
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
                if self._supervisor.bus is not None:
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
                if member.process is not None and not member.child.gone:
                    why = self._stopped(member.process.pid, now_s)
                    if why:
                        member.shoot(why)
                    elif self.kills and member.due_s is not None and now_s > member.due_s:
                        self._hurry(member)
        self._look_at_broker(now_s)
        self._reap()

    @staticmethod
    def _hurry(member: Member) -> None:
        """Kill a successor that has not come back in time; its own successor has as long again."""
        if not member.here.is_set():
            member.dump_and_shoot("it did not come back in time")
        member.due_s = None

    def _stopped(self, pid: int, now_s: float) -> str:
        """Return why a process is to be killed, if it has been stopped for too long."""
        if not self.kills or not stopped(pid):
            self._stopped_s.pop(pid, None)
            return ""
        since_s = self._stopped_s.setdefault(pid, now_s)
        return f"it was stopped for {now_s - since_s:.1f} s" if now_s - since_s > _STOPPED_S else ""

    def _look_at_broker(self, now_s: float) -> None:
        broker, bus = self._supervisor.broker, self._supervisor.bus
        if broker is None or bus is None or broker.ended.is_set():
            return
        why = self._stopped(broker.pid, now_s)
        silent_s = now_s - bus.heard_s
        if self.kills and silent_s > BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S:
            why = why or f"it was silent for {silent_s:.1f} s"
        elif silent_s > _LOOK_S / 2:
            bus.beat()
        if why:
            self._words[broker.pid] = why
            broker.signal(signal.SIGKILL)

    def _reap(self) -> None:
        """Reap adopted processes that have ended; one that is new may be a participant that we do not know yet."""
        strangers = set(children_of(os.getpid())) - self._supervisor.known
        for pid in strangers & self._strangers:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._strangers = strangers
