"""Means of the system to keep a family of processes together; where the system lacks one, it says so."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ganglion.limits import LEAVE_KILL_S

__all__ = [
    "adopt_orphans",
    "become",
    "children_of",
    "die_with_parent",
    "dump_nothing",
    "end_adopted",
    "may_change_user",
    "name_process",
    "stopped",
    "usage",
]

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_TO_CHANGE_USER = (0, 5, 6, 7)  # capabilities CHOWN, KILL, SETGID, SETUID
LINUX = sys.platform == "linux"


def _prctl(option: int, argument: int | bytes) -> bool:
    if not LINUX:
        return False
    value = ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    zero = ctypes.c_ulong(0)
    return bool(ctypes.CDLL(None).prctl(option, value, zero, zero, zero) == 0)


def adopt_orphans() -> bool:
    """Become the parent of all descendants whose own parent ends; return whether the system can do that."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signum: int = signal.SIGKILL) -> bool:
    """Have this process sent `signum` when its present parent ends; return whether the system can do that.

    The parent may have ended just before: look at `os.getppid()` afterwards.
    """
    return _prctl(_PR_SET_PDEATHSIG, int(signum))


def name_process(name: str) -> bool:
    """Show `name`, cut to 15 bytes, as this process's name in the system's lists."""
    return _prctl(_PR_SET_NAME, name.encode()[:15])


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`, zombies included; an empty list where the system has no /proc."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names of threads, not paths
    except OSError:
        return found
    for thread in threads:
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text()
        except OSError:
            continue  # the thread has just ended
        found += [int(word) for word in text.split()]
    return found


def stopped(pid: int) -> bool:
    """Say whether a process is stopped (SIGSTOP, a debugger); False where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[:1] in (["T"], ["t"])


def usage(pid: int) -> tuple[float, int]:
    """Return the seconds of processor time and the bytes of memory of a process; zeros where nobody tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0, 0
    ticks = int(fields[11]) + int(fields[12])  # user and system time
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def end_adopted(spared: set[int]) -> list[str]:
    """Kill and reap what has become ours because its parent ended; return it in words; `spared` is not ours."""
    found: list[str] = []
    until_s = time.monotonic() + LEAVE_KILL_S
    while time.monotonic() < until_s:
        left = set(children_of(os.getpid())) - spared
        if not left:
            break
        for pid in sorted(left):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    continue  # it had ended by itself, and only waited to be noticed
            if f"process {pid}" not in found:
                found.append(f"process {pid}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return found


def may_change_user() -> bool:
    """Say whether this process may start others under the name of any user, give them files, and end them."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return os.geteuid() == 0
    held = next((int(line.split()[1], 16) for line in text.splitlines() if line.startswith("CapEff:")), 0)
    return all(held >> number & 1 for number in _TO_CHANGE_USER)


def become(uid: int, gid: int, groups: Sequence[int], name: str, home: str) -> None:
    """Become another user for good; OSError if that is not allowed. What the parent's end does to us is forgotten."""
    if uid != os.geteuid() or gid != os.getegid():
        os.setgroups(list(groups))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    os.environ.update({"HOME": home, "USER": name, "LOGNAME": name})
    if not os.access(".", os.X_OK):
        os.chdir("/")


def dump_nothing() -> None:
    """Leave no core file if we crash; children may raise their limit again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
