"""The local launcher: forks participants from the warm parent, starts programs under a reaper, watches all."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack

from ganglion.errors import LaunchError, PeerLost
from ganglion.limits import DEADLINES_S, LEAVE_KILL_S, LEAVE_TERMINATE_S
from ganglion.supervisor.child import Restarts, exit_text
from ganglion.supervisor.linux import LINUX, adopt_orphans, liveness, stopped
from ganglion.supervisor.output import Output
from ganglion.supervisor.warm import ORDER_BYTES

if TYPE_CHECKING:
    from ganglion.supervisor.linux import User

ENTRIES: dict[str, str] = {"peer": "ganglion.peer.main:main", "check": "ganglion.supervisor.check:main"}
PRELOAD = (  # what participants need and what starts no thread
    "numpy",
    "msgpack",
    "ganglion.sdk",
    "ganglion.transport.blocking",
    "ganglion.peer.brain",
    "ganglion.peer.controller",
    "ganglion.peer.environment",
    "ganglion.peer.governor",
    "ganglion.peer.muscle",
    "ganglion.peer.store",
    "structlog",
)
SINGLE_THREAD = {  # numeric libraries start a thread per core on import otherwise, and answer by thread count
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # the order of a set is part of no result
}
CREDENTIALS = (  # ways into a database or a kernel: for processes that keep rows, and for no agent or environment
    "GANGLION_KERNEL",
    "GANGLION_STORE",
    "PGPASSFILE",
    "PGPASSWORD",
    "PGSERVICE",
    "PGSERVICEFILE",
)
_START_S = DEADLINES_S["join"] or 30.0
_ORDER_MAX_BYTES = ORDER_BYTES - 16  # without its number
_LAST_BREATH_S = 0.5  # between the end of its output and that of a process
_PLACE = tuple(  # what tells a participant its place
    f"GANGLION_{word}"
    for word in ("ENDPOINT", "NAME", "TOKEN", "ROLE", "INCARNATION", "SERVER_KEY", "PUBLIC_KEY", "SECRET_KEY")
)
_PYTHON = (sys.executable, "-P")  # -P: a module in the working folder takes no other's place
_ORDER_LOOK_S = 0.5  # two looks apart: a debugger or a shell stops a process for a moment, too
_POLL_S = 0.05  # where the system cannot wake us when a process ends


class Process:
    """Watch one child of this process until it has ended.

    The end is noticed at once by a descriptor of the process (Linux), else by polling. Then the rest of its group is
    killed, its output is read to the end, and `on_exit` is called once with this object; `code` is the exit status or
    the negative number of a signal, None if the system did not tell.
    """

    def __init__(self, name: str, pid: int, output: Output, on_exit: Callable[[Process], None]) -> None:
        self.name = name
        self.pid = pid
        self.output = output
        self.code: int | None = None
        self.why = ""  # why we killed it, where that is known
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

    @property
    def end_text(self) -> str:
        """Return how it ended, with the reason if we killed it."""
        return exit_text(self.code) + (f" ({self.why})" if self.why else "")

    def signal(self, signum: int) -> None:
        """Send a signal to the process and its group; nothing is sent to one that has ended."""
        if self.ended.is_set():
            return
        try:
            os.killpg(self.pid, signum)
        except (ProcessLookupError, PermissionError):  # it has not made its group yet (or macOS: is a zombie)
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
        """Find out whether the process has ended; the loop does that by itself as soon as it is idle."""
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


async def within(event: asyncio.Event, span_s: float | None) -> bool:
    """Wait for an event for a time; say whether it has come."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), span_s)
    return event.is_set()


async def end(process: Process) -> None:
    """End a process that has been asked to leave already: wait, SIGTERM, wait, SIGKILL."""
    if not await within(process.ended, LEAVE_TERMINATE_S):
        process.signal(signal.SIGTERM)
        if not await within(process.ended, LEAVE_KILL_S):
            process.signal(signal.SIGKILL)
            await within(process.ended, LEAVE_KILL_S)


class _Warm:
    """Be one warm parent, started with `arguments`; it takes one order after the other."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [*_PYTHON, "-m", "ganglion.supervisor.warm", str(theirs.fileno()), str(os.getpid()), *arguments]
        try:
            self.pid, self.output = _popen(argv, {**_clean(os.environ), **SINGLE_THREAD}, keep=[theirs.fileno()])
        except LaunchError:
            self.channel.close()
            raise
        finally:
            theirs.close()
        self.channel.settimeout(_ORDER_LOOK_S)
        self.process: Process | None = None  # it is watched as soon as there is a loop
        self.came_up = False
        self._number = 0  # of the order that is being carried out

    def order(self, words: Sequence[Any], fds: Sequence[int], kill: Callable[[], object]) -> int | None:
        """Have it start a process and return the number of that, None if it ends meanwhile; LaunchError if it refuses.

        Blocks, and belongs into a thread. `kill` is called if it is stopped, or silent for half the time of a start.
        """
        self._number += 1
        begun_s, was_stopped = time.monotonic(), False
        with contextlib.suppress(OSError):  # it has just ended
            socket.send_fds(self.channel, [msgpack.packb([self._number, *words])], fds)
        while True:
            try:
                data = self.channel.recv(ORDER_BYTES)
            except TimeoutError:
                waited_s, is_stopped = time.monotonic() - begun_s, stopped(self.pid)
                if liveness() and (waited_s > _START_S / 2 or (is_stopped and was_stopped)):
                    kill()
                elif waited_s > _START_S:
                    raise LaunchError(f"no answer within {_START_S} s") from None
                was_stopped = is_stopped
                continue
            except OSError:
                data = b""
            if not data:
                self.channel.close()
                return None
            self.came_up = True
            number, pid, *reason = msgpack.unpackb(data)
            if number != self._number:
                continue  # its first word, or too late
            if not pid:
                raise LaunchError(str(reason[0]))
            return int(pid)


class Launcher:
    """Start processes of this machine, each in a session of its own, and watch them.

    Call `open` first, in a running loop. `entries` maps the words of orders to `module:function`; `preload` names the
    modules that the warm parent imports. `adopted` says whether the system lets us adopt orphans.
    """

    def __init__(
        self, entries: Mapping[str, str] | None = None, preload: Sequence[str] = PRELOAD, logs: Path | None = None
    ) -> None:
        self._entries = dict(ENTRIES if entries is None else entries)
        self._preload = tuple(preload)
        self._logs = logs
        self._restarts = Restarts()
        self._closing = False
        self._warm: _Warm | None = None
        self._ordering = asyncio.Lock()
        self.on_warm_lost: Callable[[str], None] | None = None  # told how it ended
        self._lifeline: tuple[int, int] | None = None
        self.processes: dict[int, Process] = {}
        self.adopted = adopt_orphans()
        self.mask: int | None = None  # the umask of participants, None where it is that of the warm parent

    # -- the warm parent ----------------------------------------------------------------------------------------------
    def warm_up(self) -> None:
        """Start the warm parent, so that its imports run meanwhile, before there is a loop; `open` takes it over."""
        if LINUX and self.adopted and self._warm is None:
            self._warm = _Warm([*self._preload, *(f"{word}={place}" for word, place in self._entries.items())])

    def abandon(self) -> None:
        """End a warm parent that is not needed after all, before `open`."""
        if self._warm is not None and self._warm.process is None:
            self._warm.channel.close()
            os.close(self._warm.output)
            os.kill(self._warm.pid, signal.SIGKILL)
            os.waitpid(self._warm.pid, 0)
            self._warm = None

    async def open(self) -> None:
        """Take up the work in the running loop."""
        self._closing = False
        if self._lifeline is None:
            self._lifeline = os.pipe()
        self._take_warm()

    def _take_warm(self) -> _Warm | None:
        self.warm_up()
        warm = self._warm
        if warm is not None and warm.process is None:
            output = Output(warm.output, None if self._logs is None else self._logs / "warm.out")
            warm.process = self._watch("warm", warm.pid, output, self._warm_ended)
        return warm

    def _warm_ended(self, process: Process) -> None:
        warm, self._warm = self._warm, None
        assert warm is not None
        if not self._ordering.locked():
            warm.channel.close()  # else the thread that waits for an answer closes it
        if warm.came_up and not self._closing and self.on_warm_lost is not None:
            self.on_warm_lost(exit_text(process.code))

    async def _order(self, words: Sequence[Any], fds: Sequence[int]) -> int:
        """Have the warm parent start a process, or its successor if it is lost; return the process's number."""
        loop = asyncio.get_running_loop()
        async with self._ordering:
            while True:
                warm = self._take_warm()
                assert warm is not None
                assert warm.process is not None
                kill = functools.partial(loop.call_soon_threadsafe, warm.process.signal, signal.SIGKILL)
                pid = await asyncio.to_thread(warm.order, words, fds, kill)
                if pid is not None:
                    return pid
                await warm.process.ended.wait()
                # A process started for it has not begun: its successor may have the order.
                again = warm.came_up and not self._closing
                delay_s = self._restarts.next_s("warm", loop.time()) if again else None
                if delay_s is None:
                    how, words_left = exit_text(warm.process.code), warm.process.output.quoted()
                    raise LaunchError(f"the warm parent has ended ({how}){words_left}")
                await asyncio.sleep(delay_s)

    @property
    def pids(self) -> set[int]:
        """Return the numbers of the processes that were started and have not ended."""
        return set(self.processes) | ({self._warm.pid} if self._warm is not None else set())

    # -- starting -----------------------------------------------------------------------------------------------------
    async def fork(
        self,
        name: str,
        variables: Mapping[str, str],
        on_exit: Callable[[Process], None],
        entry: str = "peer",
        log: Path | None = None,
        user: User | None = None,
    ) -> Process:
        """Start a participant from the warm parent, as `user`; LaunchError if that fails."""
        if not (LINUX and self.adopted):
            module = self._entries[entry].partition(":")[0].removesuffix(".main")  # run as `python -m`
            known = {**SINGLE_THREAD, **variables}
            return self.execute(name, [*_PYTHON, "-m", module], known, on_exit, log, user=user)
        become = None if user is None else [user.uid, user.gid, user.groups, user.name, user.home]
        words = [entry, dict(variables), name, become, self.mask]
        size = len(msgpack.packb(words))
        if size > _ORDER_MAX_BYTES:
            raise LaunchError(f"{name}: expected at most {_ORDER_MAX_BYTES} bytes of variables, found {size}")
        read, write = os.pipe()
        feed = os.open(os.devnull, os.O_RDONLY)
        try:
            pid = await self._order(words, [feed, write])
        except LaunchError as error:
            os.close(read)
            raise LaunchError(f"cannot start {name}: {error}") from error
        finally:
            _close_all([feed, write])
        return self._watch(name, pid, Output(read, log), on_exit)

    def execute(
        self,
        name: str,
        argv: Sequence[str],
        variables: Mapping[str, str],
        on_exit: Callable[[Process], None],
        log: Path | None = None,
        cwd: Path | str | None = None,
        user: User | None = None,
    ) -> Process:
        """Start a program under a reaper, which ends its whole tree when it ends or we do; LaunchError if it cannot."""
        assert self._lifeline is not None, "open() comes first"
        if cwd is not None and not Path(cwd).is_dir():
            raise LaunchError(f"cannot start {' '.join(argv)}: there is no folder {cwd}")
        lifeline = self._lifeline[0]
        numbers, home = [lifeline], {}
        if user is not None:
            numbers += [user.uid, user.gid, *user.groups]
            home = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        reaper = [*_PYTHON, "-m", "ganglion.supervisor.reaper", *map(str, numbers), "--", *argv]
        known = {**_clean(os.environ), **home, **variables}
        pid, read = _popen(reaper, known, cwd=cwd, keep=[lifeline])
        return self._watch(name, pid, Output(read, log), on_exit)

    async def serve(
        self,
        name: str,
        argv: Sequence[str],
        first: bytes,
        on_exit: Callable[[Process], None],
        log: Path | None = None,
        keep: Sequence[int] = (),
    ) -> tuple[Process, bytes, int]:
        """Start a program of our own that reads one line and answers with one; return process, answer and lifeline.

        The lifeline is the write end of its standard input: the program ends when the caller closes it. `keep` are
        descriptors that it inherits under the same numbers. LaunchError, with its last words, if it ends or is silent
        instead of answering; PeerLost if it was killed.
        """
        feed, lifeline = os.pipe()
        answer_fd, answer_write = os.pipe()
        try:
            pid, read = _popen([*_PYTHON, *argv], _clean(os.environ), feed, answer_write, keep=keep)
        except LaunchError:
            _close_all([lifeline, answer_fd])
            raise
        finally:
            _close_all([feed, answer_write])
        process = self._watch(name, pid, Output(read, log), on_exit)
        # A thread: more than a pipe holds waits until it is read, and we are not to wait with it.
        talk = asyncio.ensure_future(asyncio.to_thread(_talk, lifeline, first + b"\n", answer_fd))
        await asyncio.wait([talk], timeout=_START_S)
        if not (talk.done() and talk.result()):
            ended = await within(process.ended, _LAST_BREATH_S)
            if not ended:
                process.signal(signal.SIGKILL)
                await process.ended.wait()
            await talk
            os.close(lifeline)
            how = exit_text(process.code) if ended else f"said nothing within {_START_S} s"
            text = f"did not come up: {how}{process.output.quoted()}"
            if ended and (process.code or 0) < 0:
                raise PeerLost(name, f"it {text}")
            raise LaunchError(f"{name} {text}")
        return process, talk.result(), lifeline

    # -- ending -------------------------------------------------------------------------------------------------------
    async def close(self) -> list[str]:
        """End the warm parent and whatever is left; return what was found that should not have been there."""
        self._closing = True
        warm = self._warm
        left = [process for process in self.processes.values() if warm is None or process is not warm.process]
        for process in left:
            process.signal(signal.SIGKILL)
        if warm is not None:
            with contextlib.suppress(OSError):
                warm.channel.shutdown(socket.SHUT_RDWR)  # end of file: it leaves, and a thread that waits for it ends
        for process in list(self.processes.values()):
            if not await within(process.ended, 1.0):
                process.signal(signal.SIGKILL)
                await within(process.ended, 1.0)
        if self._lifeline is not None:
            _close_all(self._lifeline)
            self._lifeline = None
        return [f"{process.name} (process {process.pid})" for process in left]

    def _watch(self, name: str, pid: int, output: Output, on_exit: Callable[[Process], None]) -> Process:
        def ended(process: Process) -> None:
            self.processes.pop(process.pid, None)
            on_exit(process)

        process = self.processes[pid] = Process(name, pid, output, ended)
        return process


def _popen(
    argv: Sequence[str],
    variables: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    cwd: Path | str | None = None,
    keep: Sequence[int] = (),
) -> tuple[int, int]:
    """Start a program in a session of its own; return its number and the read end of its output, or LaunchError."""
    read, write = os.pipe()
    try:
        started = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=write if stdout is None else stdout,
            stderr=write,
            pass_fds=keep,
            start_new_session=True,
            cwd=cwd,
            env=dict(variables),
        )
    except (OSError, ValueError) as error:
        os.close(read)
        raise LaunchError(f"cannot start {' '.join(argv)} in {cwd or '.'}: {error}") from error
    finally:
        os.close(write)
    started.returncode = 0  # its `Process` reaps it
    return started.pid, read


def _talk(feed: int, order: bytes, answer: int) -> bytes:
    """Write an order to a program and return the line that it answers; empty if it ends before, or says too much."""
    with contextlib.suppress(BrokenPipeError), open(feed, "wb", closefd=False) as file:
        file.write(order)
    with open(answer, "rb") as pipe:
        line = pipe.readline(ORDER_BYTES)
    return line.rstrip(b"\n") if line.endswith(b"\n") else b""


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables without those of another run, which a program would take for its own, and credentials."""
    return {name: value for name, value in environment.items() if name not in (*_PLACE, *CREDENTIALS)}


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
