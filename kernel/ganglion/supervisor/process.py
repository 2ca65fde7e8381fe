"""One process of the operating system: its number, its end, its output, signals to its group."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from ganglion.limits import LEAVE_KILL_S, LEAVE_TERMINATE_S
from ganglion.supervisor.output import Output

_POLL_S = 0.05  # where the system cannot wake us when a process ends


class Process:
    """Watch one child of this process until it has ended.

    The end is known at once, by a descriptor of the process (Linux), else by looking. When it comes, what the process
    has left in its group is killed, its output is taken to the end, then `on_exit` is called once with this object;
    `code` is then the exit status or the negative number of a signal, None if the system did not tell.
    """

    def __init__(self, name: str, pid: int, output: Output, on_exit: Callable[[Process], None]) -> None:
        self.name = name
        self.pid = pid
        self.output = output
        self.code: int | None = None
        self.ended = asyncio.Event()
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._pidfd = -1
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(pid)
            self._loop.add_reader(self._pidfd, self.look)
        else:
            self._loop.call_later(_POLL_S, self._poll)
        self._loop.add_reader(output.fd, self._read)

    def signal(self, signum: int) -> None:
        """Send a signal to the process and everything in its group; one that has ended hears nothing."""
        if self.ended.is_set():
            return
        try:
            os.killpg(self.pid, signum)
        except (ProcessLookupError, PermissionError):  # it has not made its group yet (or macOS: is a zombie)
            self._signal_alone(signum)

    def _signal_alone(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def _read(self) -> None:
        self.output.read()
        if self.output.ended:
            self._loop.remove_reader(self.output.fd)

    def _poll(self) -> None:
        self.look()
        if not self.ended.is_set():
            self._loop.call_later(_POLL_S, self._poll)

    def look(self) -> None:
        """Find out whether the process has ended; the loop does that by itself as soon as it comes to it."""
        if self.ended.is_set():
            return
        try:
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._end(None)
            return
        if info is None:
            return
        # The number stays taken until the process is reaped: before that, the signal reaches its group and no other.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self._end(os.waitstatus_to_exitcode(status))

    def _end(self, code: int | None) -> None:
        self.code = code
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if not self.output.ended:
            self._loop.remove_reader(self.output.fd)
        self.output.close()
        self.ended.set()
        self._on_exit(self)


async def end(process: Process) -> None:
    """End a process that has been asked already: wait, SIGTERM, wait, SIGKILL."""
    for signum, span_s in ((signal.SIGTERM, LEAVE_TERMINATE_S), (signal.SIGKILL, LEAVE_KILL_S), (None, LEAVE_KILL_S)):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(span_s):
                await process.ended.wait()
            return
        if signum is not None:
            process.signal(signum)
