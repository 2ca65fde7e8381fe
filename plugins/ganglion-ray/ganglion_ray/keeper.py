"""The keeper: one small actor beside each process, on the node where Ray has placed it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ganglion.sdk import LaunchSpec

_CHUNK_BYTES = 64 * 1024
_KEPT_BYTES = 1024 * 1024  # of output that nobody has asked for yet; then the process waits
_NEWS_S = 1.0  # the longest that one question for news takes
_OF_RAY = ("RAY_", "GANGLION_")  # variables of a keeper that are no business of the process


def versions() -> dict[str, str]:
    """Return what must be equal on all nodes, by name."""
    return {"Python": ".".join(map(str, sys.version_info[:2])), "ganglion": version("ganglion"), "ray": version("ray")}


class House:
    """Keep the folder of a cluster's user on this node, for as long as this actor of Ray lives.

    Journals and models of processes are there where nodes share no folder. What others have left is removed: whoever
    is still there holds a lock.
    """

    def __init__(self, name: str) -> None:
        base = Path(tempfile.gettempdir()) / f"ganglion-ray-{os.getuid()}"
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{base}: expected a folder that nobody else enters")
        for old in base.iterdir():
            if (lock := _locked(old)) is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(lock)
        self._folder = base / name
        self._folder.mkdir(mode=0o700)
        self._lock = _locked(self._folder)

    async def folder(self) -> str:
        """Return the folder."""
        return str(self._folder)

    async def forget(self, run: str = "") -> None:
        """Remove what is kept of a run, or all."""
        await asyncio.to_thread(shutil.rmtree, self._folder / run, True)


def _locked(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of a folder; None if somebody else has it, or it is none."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return descriptor


class Keeper:
    """Start one process on this node, tell what it prints and how it ends, and end it if nobody keeps us any more.

    An actor of Ray with an event loop; its methods run one at a time between their waits.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes]
        self._lifeline = -1
        self._printed = bytearray()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._code: int | None = None
        self._reading: asyncio.Task[None]

    async def look(self) -> tuple[str, str, str, dict[str, str]]:
        """Return number, name and address of this node, and what `versions` says here."""
        ray: Any = importlib.import_module("ray")  # not before it is needed
        node = ray.get_runtime_context().get_node_id()
        return node, socket.gethostname(), ray.util.get_node_ip_address(), versions()

    async def start(self, spec: Mapping[str, Any], folder: str, inode: int) -> tuple[int, str]:
        """Start a process; return its number, and what prevents it, if anything does.

        `spec` are the fields of a `LaunchSpec`. `folder` must be seen here as on the supervisor's machine, where it has
        the number `inode`: the process finds its journal, models and log below it. Without a folder nothing is shared.
        """
        pid, wrong = await asyncio.to_thread(self._start, LaunchSpec(**spec), folder, inode)
        if pid:
            self._reading = asyncio.ensure_future(self._read())
        return pid, wrong

    def _start(self, launched: LaunchSpec, folder: str, inode: int) -> tuple[int, str]:
        try:
            same = not folder or Path(folder).stat().st_ino == inode
        except OSError:
            same = False
        if not same:
            cure = "share the folder of results with all nodes, or settings, launchers.ray.shared: false"
            return 0, f"it does not see {folder} of the supervisor's machine; {cure}"
        read, self._lifeline = os.pipe()
        known = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY)}
        try:
            self._process = subprocess.Popen(
                launched.kept(read),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=launched.cwd,
                env={**known, **launched.variables},
                pass_fds=[read],
                start_new_session=True,
                umask=-1 if launched.mask is None else launched.mask,
            )
        except OSError as error:
            return 0, f"cannot start {' '.join(launched.command)} in {launched.cwd or '.'}: {error}"
        finally:
            os.close(read)
        return self._process.pid, ""

    async def _read(self) -> None:
        output = self._process.stdout
        assert output is not None
        while data := await asyncio.to_thread(os.read, output.fileno(), _CHUNK_BYTES):
            self._printed += data
            self._news.set()
            while len(self._printed) >= _KEPT_BYTES:
                self._room.clear()
                await self._room.wait()
        self._code = await asyncio.to_thread(self._process.wait)
        os.close(self._lifeline)
        output.close()
        self._news.set()

    async def news(self) -> tuple[bytes, int | None, float, int]:
        """Wait a second for something new; return new output, the exit status, and what the process has used.

        The exit status is None while the process lives, a signal as a negative number; it comes after all output. What
        is used are seconds of processor time and bytes of memory, of the process and all that it has started.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NEWS_S):
                await self._news.wait()
        printed, self._printed = bytes(self._printed), bytearray()
        self._room.set()
        if self._code is None:
            self._news.clear()
        return printed, self._code, *_usage(self._process.pid)

    async def signal(self, signum: int) -> None:
        """Send a signal to the process and to all that it has started."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.Signals(signum))


def _usage(pid: int) -> tuple[float, int]:
    """Return seconds and bytes of a process and its descendants, as Linux tells them; zeros elsewhere."""
    seconds, size = 0.0, 0
    left = [pid]
    while left:
        one = left.pop()
        try:
            words = Path(f"/proc/{one}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            pages = int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1])
            left += map(int, Path(f"/proc/{one}/task/{one}/children").read_text(encoding="ascii").split())
        except (OSError, IndexError, ValueError):
            continue
        seconds += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        size += pages * os.sysconf("SC_PAGE_SIZE")
    return seconds, size
