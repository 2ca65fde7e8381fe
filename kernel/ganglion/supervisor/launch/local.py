"""The local launcher: forks participants from the warm parent, starts programs under a reaper, watches all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgpack

from ganglion.errors import LaunchError, PeerLost
from ganglion.limits import DEADLINES_S, LEAVE_KILL_S
from ganglion.sdk.launcher import CREDENTIALS, Launched, Launcher, LaunchSpec, LaunchWatch
from ganglion.supervisor.launch import system
from ganglion.supervisor.launch.process import Process, look_on, within
from ganglion.supervisor.launch.warm import IMPORT, ORDER_BYTES
from ganglion.supervisor.life import Restarts, exit_text

CHECK = "ganglion.peer.check"
ENTRIES = {"ganglion.peer": "ganglion.peer.main:main", CHECK: f"{CHECK}:main"}
PRELOAD = (  # modules that participants need and that start no thread
    "numpy",
    "msgpack",
    "ganglion.sdk",
    "ganglion.transport.blocking",
    "ganglion.peer.agent.brain",
    "ganglion.peer.worker.controller",
    "ganglion.peer.environment.host",
    "ganglion.peer.governor",
    "ganglion.peer.agent.muscle",
    "ganglion.peer.results.store",
    "structlog",
)
_PLACE = tuple(  # variables that give a participant its place
    f"GANGLION_{word}"
    for word in ("ENDPOINT", "NAME", "TOKEN", "ROLE", "INCARNATION", "SERVER_KEY", "PUBLIC_KEY", "SECRET_KEY")
)
_PYTHON = (sys.executable, "-P")  # -P: a module in the working folder cannot shadow another one
_START_S = DEADLINES_S["join"] or 30.0
_ORDER_MAX_BYTES = ORDER_BYTES - 16  # without its number
_LAST_BREATH_S = 0.5  # between the end of a program's output and its own end
_CHUNK_BYTES = 64 * 1024
_CHUNKS_MAX = 16  # of output per turn; then the loop serves other tasks
_POLL_S = 0.05  # polling interval where the system has no pidfd
_STOPPED_S = 0.9  # two checks apart: a debugger or a shell may stop a process briefly


class _Child(Launched):
    """Watch one child of this process; a pidfd (Linux) or polling detects its end.

    After the end the rest of its group is killed, its output is read completely, and `watch` is notified.
    """

    pid: int

    def __init__(self, name: str, pid: int, output: int, watch: LaunchWatch, over: Callable[[int], object]) -> None:
        self.name, self.pid = name, pid
        self.why = ""  # the reason of a kill
        self.stopped_s: float | None = None  # when it was first seen stopped
        self._output, self._watch, self._over = output, watch, over
        self._family = system.Family()
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
        if self._pidfd >= 0:
            self._loop.add_reader(self._pidfd, self.look)
        else:
            self._loop.call_later(_POLL_S, self._poll)
        os.set_blocking(output, False)
        self._loop.add_reader(output, self._read)

    def signal(self, signum: int) -> None:
        """Send a signal to the process and its group."""
        try:
            os.killpg(self.pid, signum)
        except (ProcessLookupError, PermissionError):  # no process group yet (or macOS: a zombie)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def usage(self) -> tuple[float, int]:
        """Return processor time and memory."""
        return system.usage(self.pid)

    def keep(self, processor: int | None) -> None:
        """Pin the process and its descendants to a processor, or unpin them (None)."""
        self._family.place(self.pid, processor)

    def look(self) -> None:
        """Check whether the process has ended, without waiting for the loop."""
        if self._output < 0:
            return
        code = None
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
            # The pid stays reserved until the process is reaped; until then a signal reaches its group and no other.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._read()
        self._loop.remove_reader(self._output)
        os.close(self._output)
        self._output = -1
        self._over(self.pid)
        self._watch.exited(code, self.why)

    def _poll(self) -> None:
        self.look()
        if self._output >= 0:
            self._loop.call_later(_POLL_S, self._poll)

    def _read(self) -> None:
        for _ in range(_CHUNKS_MAX):
            try:
                data = os.read(self._output, _CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._loop.remove_reader(self._output)
                return
            self._watch.printed(data)


class _Warm:
    """Run one warm parent, started with `arguments`; it executes one order at a time."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [*_PYTHON, "-m", "ganglion.supervisor.launch.warm", str(theirs.fileno()), str(os.getpid()), *arguments]
        try:
            self.pid, self.output = _popen(argv, {**_clean(os.environ), **system.SINGLE_THREAD}, keep=[theirs.fileno()])
        except LaunchError:
            self.channel.close()
            raise
        finally:
            theirs.close()
        self.channel.setblocking(False)
        self.process: Process | None = None  # watched as soon as there is a loop
        self.came_up = False
        self._number = 0  # of the order in progress
        self._answer: asyncio.Future[list[Any] | None] | None = None

    async def order(self, words: Sequence[Any], fds: Sequence[int]) -> int | None:
        """Order the start of a process; return its pid, None if the warm parent ends; LaunchError if it refuses.

        A warm parent that is silent for half the time of a start is killed.
        """
        assert self.process is not None
        self._number += 1
        self._answer = answer = asyncio.get_running_loop().create_future()
        with contextlib.suppress(OSError):  # it has just ended
            socket.send_fds(self.channel, [msgpack.packb([self._number, *words])], fds)
        for _ in range(2):
            if (await asyncio.wait([answer], timeout=_START_S / 2))[0]:
                break
            if system.liveness():
                self.process.kill(f"it did not answer within {_START_S / 2} s")
        if not answer.done():
            raise LaunchError(f"no answer within {_START_S} s")
        if answer.result() is None:
            return None
        number, *reason = answer.result() or []
        if not number:
            raise LaunchError(str(reason[0]))
        return int(number)

    def hear(self) -> None:
        """Take in a message; the first one reports that the imports are complete."""
        try:
            data = self.channel.recv(ORDER_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it ended with an order unread; its earlier messages follow
            self.hear()
            return
        except OSError:
            data = b""
        if not data:
            self.lost()
            return
        self.came_up = True
        number, *answer = msgpack.unpackb(data)
        if number == self._number and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def lost(self) -> None:
        """Close the channel after its end; a caller that waits for an answer gets None."""
        if self.channel.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.channel.fileno())
            self.channel.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)


class Local(Launcher):
    """Start processes on this machine, each in its own session, and watch them.

    `entries` maps modules to `module:function`, which the warm parent calls instead. `preload` are the modules that it
    imports. `logs` is the folder for its output. `on_warm_lost` is called with the way it ended.
    """

    shares_files = changes_users = True

    def __init__(
        self, entries: Mapping[str, str] = ENTRIES, preload: Sequence[str] = PRELOAD, logs: Path | None = None
    ) -> None:
        self.logs = logs
        self.on_warm_lost: Callable[[str], None] = lambda how: None
        self.children: dict[int, _Child] = {}
        if hasattr(os, "sched_getaffinity"):
            self.processors = frozenset(os.sched_getaffinity(0))
        self._arguments = [*preload, *(f"{module}={place}" for module, place in entries.items())]
        self._forks = system.LINUX and system.adopt_orphans()
        self._warm: _Warm | None = None
        self._imported: set[str] = set()  # in addition to its arguments
        self._restarts = Restarts()
        self._ordering = asyncio.Lock()
        self._lifeline: tuple[int, int] | None = None
        self._spared: set[int] = set()
        self._strangers: set[int] = set()
        self._alone = asyncio.Event()  # set while there is no child
        self._looking: asyncio.Task[None] | None = None

    # -- opening and closing ------------------------------------------------------------------------------------------
    def warm_up(self) -> None:
        """Start the warm parent before there is a loop, so that its imports run meanwhile; `open` takes it over."""
        if self._forks and self._warm is None:
            self._warm = _Warm(self._arguments)

    def abandon(self) -> None:
        """End an unneeded warm parent before `open`."""
        if self._warm is not None and self._warm.process is None:
            self._warm.channel.close()
            os.close(self._warm.output)
            os.kill(self._warm.pid, signal.SIGKILL)
            os.waitpid(self._warm.pid, 0)
            self._warm = None

    async def open(self) -> None:
        """Start the launcher in the running loop."""
        # Existing children do not belong to this launcher: `close` does not check them.
        self._spared = set(system.children_of(os.getpid())) - ({self._warm.pid} if self._warm is not None else set())
        self._lifeline = os.pipe()
        self._take_warm()
        self._looking = asyncio.create_task(look_on(self._look))

    async def close(self) -> list[str]:
        """End the warm parent and all other processes, adopted ones too; return those that should have ended before."""
        if self._looking is not None:
            self._looking.cancel()
        warm, self._warm = self._warm, None
        left = [child for child in self.children.values() if warm is None or child.pid != warm.pid]
        for child in left:
            child.signal(signal.SIGKILL)
        if warm is not None and warm.channel.fileno() >= 0:
            with contextlib.suppress(OSError):
                warm.channel.shutdown(socket.SHUT_RDWR)  # end of file: it leaves
        if self.children and not await within(self._alone, 2 * LEAVE_KILL_S):
            for child in list(self.children.values()):
                child.signal(signal.SIGKILL)
            await within(self._alone, 2 * LEAVE_KILL_S)
        if self._lifeline is not None:
            _close_all(self._lifeline)
            self._lifeline = None
        return [f"{child.name} (process {child.pid})" for child in left] + system.end_adopted(self._spared)

    # -- starting -----------------------------------------------------------------------------------------------------
    def prepare(self, modules: Sequence[str]) -> None:
        """Have the warm parent import modules for future processes; a successor does not import them again."""
        if self._imported.issuperset(modules):
            return
        self._imported.update(modules)
        self.warm_up()
        if self._warm is not None:
            with contextlib.suppress(OSError):  # it has just ended
                self._warm.channel.send(msgpack.packb([IMPORT, modules]))

    async def start(self, spec: LaunchSpec, watch: LaunchWatch) -> Launched:
        """Start a participant from the warm parent, a program under a reaper; LaunchError if that fails."""
        user = None if spec.user is None else system.user_of(spec.user)
        if spec.argv is None and self._forks:
            become = None if user is None else [user.uid, user.gid, user.groups, user.name, user.home]
            return await self._fork(spec, [spec.module, dict(spec.variables), spec.name, become, spec.mask], watch)
        return self._execute(spec, user, watch)

    def _execute(self, spec: LaunchSpec, user: system.User | None, watch: LaunchWatch) -> Launched:
        assert self._lifeline is not None, "open() comes first"
        if spec.cwd is not None and not Path(spec.cwd).is_dir():
            raise LaunchError(f"cannot start {' '.join(spec.command)}: there is no folder {spec.cwd}")
        numbers, known = [self._lifeline[0]], _clean(os.environ)
        if user is not None:
            numbers += [user.uid, user.gid, *user.groups]
            known |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        unbuffered = {"PYTHONUNBUFFERED": "1"}  # output is visible as soon as the program prints it
        known |= {**(system.SINGLE_THREAD if spec.argv is None else unbuffered), **spec.variables}
        # The reaper kills the whole process tree when the program or the supervisor ends.
        reaper = [*_PYTHON, "-m", "ganglion.supervisor.launch.reaper", *map(str, numbers), "--", *spec.command]
        pid, read = _popen(reaper, known, cwd=spec.cwd, keep=numbers[:1])
        return self._watch(spec.name, pid, read, watch)

    async def _fork(self, spec: LaunchSpec, words: Sequence[Any], watch: LaunchWatch) -> Launched:
        size = len(msgpack.packb(words))
        if size > _ORDER_MAX_BYTES:
            raise LaunchError(f"{spec.name}: expected at most {_ORDER_MAX_BYTES} bytes of variables, found {size}")
        read, write = os.pipe()
        feed = os.open(os.devnull, os.O_RDONLY)
        try:
            pid = await self._order(words, [feed, write])
        except LaunchError as error:
            os.close(read)
            raise LaunchError(f"cannot start {spec.name}: {error}") from error
        finally:
            _close_all([feed, write])
        return self._watch(spec.name, pid, read, watch)

    async def serve(
        self, process: Process, argv: Sequence[str], first: bytes, keep: Sequence[int] = ()
    ) -> tuple[bytes, int]:
        """Start a program of the kernel that reads one line and answers with one; return the answer and the lifeline.

        The lifeline is the write end of the program's standard input: the program ends when the caller closes it.
        `keep` are descriptors that the program inherits under the same numbers. LaunchError, with the last output, if
        the program ends or stays silent instead of answering; PeerLost if it was killed.
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
        process.launched = self._watch(process.name, pid, read, process)
        # In a thread: a write beyond the capacity of the pipe blocks until the program reads.
        talk = asyncio.ensure_future(asyncio.to_thread(_talk, lifeline, first + b"\n", answer_fd))
        await asyncio.wait([talk], timeout=_START_S)
        if talk.done() and talk.result():
            return talk.result(), lifeline
        ended = await within(process.ended, _LAST_BREATH_S)
        if not ended:
            process.signal(signal.SIGKILL)
            await process.ended.wait()
        await talk
        os.close(lifeline)
        how = exit_text(process.code) if ended else f"said nothing within {_START_S} s"
        text = f"did not come up: {how}{process.output.quoted()}"
        if ended and (process.code or 0) < 0:
            raise PeerLost(process.name, f"it {text}")
        raise LaunchError(f"{process.name} {text}")

    def _watch(self, name: str, pid: int, output: int, watch: LaunchWatch) -> _Child:
        self._alone.clear()
        child = self.children[pid] = _Child(name, pid, output, watch, self._over)
        return child

    def _over(self, pid: int) -> None:
        del self.children[pid]
        if not self.children:
            self._alone.set()

    # -- the warm parent ----------------------------------------------------------------------------------------------
    def _take_warm(self) -> _Warm | None:
        """Return the warm parent, or start its successor; None where participants are not forked."""
        self.warm_up()
        warm = self._warm
        if warm is not None and warm.process is None:
            log = None if self.logs is None else self.logs / "warm.out"
            warm.process = Process("warm", log, self._warm_ended)
            warm.process.launched = self._watch("warm", warm.pid, warm.output, warm.process)
            asyncio.get_running_loop().add_reader(warm.channel.fileno(), warm.hear)
        return warm

    def _warm_ended(self, process: Process) -> None:
        warm, self._warm = self._warm, None
        if warm is None:
            return  # closing
        warm.hear()  # its first message may not have been read yet
        warm.lost()
        if warm.came_up:
            self.on_warm_lost(process.end_text)

    async def _order(self, words: Sequence[Any], fds: Sequence[int]) -> int:
        """Order a process from the warm parent, or from its successor after a loss; return the process's pid."""
        async with self._ordering:
            while True:
                warm = self._take_warm()
                assert warm is not None
                assert warm.process is not None
                pid = await warm.order(words, fds)
                if pid is not None:
                    return pid
                await warm.process.ended.wait()
                # A process started for this order has not begun: the order can be repeated to a successor.
                again = warm.came_up and self._lifeline is not None
                delay_s = self._restarts.next_s("warm", asyncio.get_running_loop().time()) if again else None
                if delay_s is None:
                    how, words_left = exit_text(warm.process.code), warm.process.output.quoted()
                    raise LaunchError(f"the warm parent has ended ({how}){words_left}")
                await asyncio.sleep(delay_s)

    # -- checking processes -------------------------------------------------------------------------------------------
    def quiesced(self, processes: Sequence[Launched]) -> AbstractContextManager[bool]:
        """Stop processes temporarily."""
        return system.quiesced([process.pid for process in processes if process.pid is not None])

    def _look(self, now_s: float | None) -> None:
        """Kill processes that have been stopped for too long; with `now_s` None, all waits begin again."""
        for child in list(self.children.values()):
            if now_s is None or not system.stopped(child.pid):
                child.stopped_s = None
            elif child.stopped_s is None:
                child.stopped_s = now_s
            elif now_s - child.stopped_s > _STOPPED_S and system.liveness():
                child.why = f"it was stopped for {now_s - child.stopped_s:.1f} s"
                child.signal(signal.SIGKILL)
        # Reap adopted processes that have ended; a new one may be a participant that is not registered yet.
        strangers = set(system.children_of(os.getpid())) - set(self.children) - self._spared
        for pid in strangers & self._strangers:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._strangers = strangers


def _popen(
    argv: Sequence[str],
    variables: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    cwd: str | None = None,
    keep: Sequence[int] = (),
) -> tuple[int, int]:
    """Start a program in its own session; return its pid and the read end of its output, or LaunchError."""
    read, write = os.pipe()
    out = write if stdout is None else stdout
    more: dict[str, Any] = {"pass_fds": keep, "start_new_session": True, "cwd": cwd, "env": dict(variables)}
    try:
        started = subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=write, **more)
    except (OSError, ValueError) as error:
        os.close(read)
        raise LaunchError(f"cannot start {' '.join(argv)} in {cwd or '.'}: {error}") from error
    finally:
        os.close(write)
    started.returncode = 0  # its `_Child` reaps it
    return started.pid, read


def _talk(feed: int, order: bytes, answer: int) -> bytes:
    """Write an order to a program and return the line of its answer; empty if it ends first or the line is too long."""
    with contextlib.suppress(BrokenPipeError), open(feed, "wb", closefd=False) as file:
        file.write(order)
    with open(answer, "rb") as pipe:
        line = pipe.readline(ORDER_BYTES)
    return line.rstrip(b"\n") if line.endswith(b"\n") else b""


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables without credentials and without those of another run, which a program would use."""
    return {name: value for name, value in environment.items() if name not in (*_PLACE, *CREDENTIALS)}


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
