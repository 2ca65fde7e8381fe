"""A process started by a launcher, as the supervisor sees it: its output, its end, its signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Self

from ganglion.limits import LEAVE_KILL_S, LEAVE_TERMINATE_S
from ganglion.sdk.launcher import Launched, Launcher, LaunchSpec
from ganglion.supervisor.life import end_text
from ganglion.supervisor.output import Output

_KILL = signal.SIGKILL


class Process:
    """Watch one process until it has ended; a launcher reports its output and its end.

    The output is written to the file `log`. `on_exit` is called once with this object when the process has ended.
    `code` is then the exit status or the negative signal number, None if not known; `why` is the reason of a kill, if
    known.
    """

    def __init__(self, name: str, log: Path | None, on_exit: Callable[[Process], None]) -> None:
        self.name = name
        self.output = Output(log)
        self.launcher: Launcher  # set by `start`
        self.launched: Launched | None = None
        self.code: int | None = None
        self.why = ""
        self.ended = asyncio.Event()
        self._on_exit = on_exit
        self._exit: tuple[int | None, str] | None = None  # an end that was reported before `start` returned

    async def start(self, launcher: Launcher, spec: LaunchSpec) -> Self:
        """Start the process with a launcher; LaunchError if that fails."""
        self.launcher = launcher
        self.launched = await launcher.start(spec, self)
        if self._exit is not None:
            asyncio.get_running_loop().call_soon(self.exited, *self._exit)
        return self

    @property
    def pid(self) -> int | None:
        """Return the pid on its machine, None if not known."""
        return None if self.launched is None else self.launched.pid

    @property
    def host(self) -> str:
        """Return the machine of the process, empty for this machine."""
        return "" if self.launched is None else self.launched.host

    @property
    def node(self) -> str:
        """Return the node whose relay the process joins; empty if it joins no relay."""
        return "" if self.launched is None else self.launched.node

    def usage(self) -> tuple[float, int]:
        """Return seconds of processor time and bytes of memory; zeros where they are not known."""
        return (0.0, 0) if self.launched is None else self.launched.usage()

    @property
    def end_text(self) -> str:
        """Return how the process ended, with the reason if that is known."""
        return end_text(self.code, self.why)

    def signal(self, signum: int) -> None:
        """Send a signal to the process and its descendants, if it has not ended.

        An exception of the launcher is printed with its traceback; later signals of the escalation are still sent.
        """
        if self.launched is None or self.ended.is_set():
            return
        try:
            self.launched.signal(signum)
        except Exception:  # noqa: BLE001 - a plugin's code in a timer callback: the error would be lost
            what = f"launcher {type(self.launcher).__name__}: {signal.Signals(signum).name} was not sent to {self.name}"
            sys.stderr.write(f"{what}\n{traceback.format_exc()}")

    def kill(self, why: str, signum: int = _KILL) -> None:
        """Kill the process and record the reason."""
        self.why = why
        self.signal(signum)

    def printed(self, data: bytes) -> None:
        """Take in output of the process."""
        self.output.feed(data)

    def exited(self, code: int | None, why: str = "") -> None:
        """Take in the end of the process."""
        if self.launched is None:
            self._exit = code, why
        elif not self.ended.is_set():
            self.code, self.why = code, self.why or why
            self.output.close()
            self.ended.set()
            self._on_exit(self)


async def within(event: asyncio.Event, span_s: float | None) -> bool:
    """Wait for an event for at most `span_s` seconds; return True if it is set."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), span_s)
    return event.is_set()


_LOOK_S = 0.5
_LATE_S = 0.5  # a supervisor that wakes up this late was suspended itself, and kills no process for silence


async def look_on(look: Callable[[float | None], None]) -> None:
    """Call `look` twice a second with the loop's time, or with None after this process itself was suspended."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        due_s += _LOOK_S
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        late = loop.time() - due_s > _LATE_S
        due_s = loop.time() if late else due_s
        look(None if late else loop.time())


async def end(process: Process) -> None:
    """End a process that has been asked to leave already: wait, SIGTERM, wait, SIGKILL."""
    if not await within(process.ended, LEAVE_TERMINATE_S):
        process.signal(signal.SIGTERM)
        if not await within(process.ended, LEAVE_KILL_S):
            process.signal(signal.SIGKILL)
            await within(process.ended, LEAVE_KILL_S)
