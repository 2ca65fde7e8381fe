"""The operating system: process trees, process states, and the users as which processes run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import re
import resource
import signal
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ganglion
from ganglion.errors import UsageError
from ganglion.limits import LEAVE_KILL_S
from ganglion.run.plan import Plan

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_TO_CHANGE_USER = (0, 5, 6, 7)  # capabilities CHOWN, KILL, SETGID, SETUID
_STOP_LOOK_S = 0.0002
_PASSES_MAX = 4  # over the threads of a process tree, which may start others meanwhile
LINUX = sys.platform == "linux"
SINGLE_THREAD = {  # otherwise numeric libraries start a thread per core, and results depend on the number of threads
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # of pyarrow, which pandas imports
    "PYTHONHASHSEED": "0",  # no result depends on the order of a set
}


def _prctl(option: int, argument: int | bytes) -> bool:
    if not LINUX:
        return False
    value = ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    zero = ctypes.c_ulong(0)
    return bool(ctypes.CDLL(None).prctl(option, value, zero, zero, zero) == 0)


def adopt_orphans() -> bool:
    """Become the parent of all descendants whose own parent ends; return True if the system supports that."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """Have the system kill this process when its present parent ends; return True if the system supports that."""
    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def name_process(name: str) -> bool:
    """Set `name`, cut to 15 bytes, as this process's name in the process table."""
    return _prctl(_PR_SET_NAME, name.encode()[:15])


def proc(name: str) -> str:
    """Return the text of a file below /proc; empty where it does not exist."""
    try:
        return Path("/proc", name).read_text(errors="replace")
    except OSError:
        return ""


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`, zombies included; empty where the system has no /proc."""
    threads = _listed(f"/proc/{pid}/task")  # the file is empty for a thread that has just ended
    return [int(word) for thread in threads for word in proc(f"{pid}/task/{thread}/children").split()]


def _listed(folder: str) -> list[int]:
    """Return the numeric names in a folder; an empty list if the folder does not exist."""
    try:
        return [int(name) for name in os.listdir(folder)]  # noqa: PTH208 - names of threads, not paths
    except OSError:
        return []


def liveness() -> bool:
    """Return True if stopped or hung processes are killed; `GANGLION_LIVENESS=off` disables that for a debugger."""
    return os.environ.get("GANGLION_LIVENESS", "") != "off"


def stopped(pid: int) -> bool:
    """Return True if a process is stopped (SIGSTOP, a debugger); False where the system cannot tell."""
    return proc(f"{pid}/stat").rpartition(")")[2].split()[:1] in (["T"], ["t"])


@contextlib.contextmanager
def quiesced(pids: Sequence[int], span_s: float = 0.05) -> Iterator[bool]:
    """Stop children of this process, with all their threads, during the block; yield True if all are stopped.

    Nothing else runs in this process meanwhile, so keep the block short. `span_s` limits the wait for a child that
    cannot stop at once because it waits for its disk. If a child was already stopped from outside, no child is stopped:
    the end of the block would resume it.
    """
    touched: list[int] = []
    try:
        if not any(stopped(pid) for pid in pids):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    touched.append(pid)
        until_s = time.monotonic() + span_s
        yield len(touched) == len(pids) and all(_stops(pid, until_s) for pid in touched)
    finally:
        for pid in touched:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stops(pid: int, until_s: float) -> bool:
    """Wait until a child is stopped as a whole; False if it has ended or takes too long."""
    while True:
        try:
            found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if found is not None:
            return found.si_code == os.CLD_STOPPED
        if time.monotonic() > until_s:
            return False
        time.sleep(_STOP_LOOK_S)


def usage(pid: int) -> tuple[float, int]:
    """Return seconds of processor time and bytes of memory of a process; zeros where they are not known."""
    fields, pages = proc(f"{pid}/stat").rpartition(")")[2].split(), proc(f"{pid}/statm").split()[1:2]
    if not fields or not pages:
        return 0.0, 0
    ticks = int(fields[11]) + int(fields[12])  # user and system time
    return ticks / os.sysconf("SC_CLK_TCK"), int(pages[0]) * os.sysconf("SC_PAGE_SIZE")


class Family:
    """Pin a process, with its threads and descendants, to one processor, or unpin them.

    Processes of other users are not changed. Threads with an affinity that is neither inherited nor set here are not
    changed either: their author has set it.
    """

    def __init__(self) -> None:
        self.at: int | None = None  # the processor to which they are pinned, None if they are free
        self._inherited: frozenset[int] = frozenset()
        self._theirs: set[int] = set()  # threads pinned by their author
        self._known: set[int] = set()  # processes that were pinned: an orphaned one is no longer found as a descendant

    def place(self, pid: int, processor: int | None) -> None:
        """Pin the family of a process to a processor, including new descendants; None unpins it."""
        if processor is None and self.at is None:
            return
        if self.at is None:
            self._inherited, self._known = _affinity(0), set()
            self._theirs = {thread for thread in self._threads({pid}) if _affinity(thread) != self._inherited}
        to = self._inherited if processor is None else frozenset({processor})
        ours = {self._inherited, to, frozenset({self.at})}
        self.at = processor
        for _ in range(_PASSES_MAX):  # a new thread may have inherited the former affinity
            if not [thread for thread in self._threads({pid, *self._known}) if self._move(thread, ours, to)]:
                break

    def _move(self, thread: int, ours: Collection[object], to: frozenset[int]) -> bool:
        """Move a thread; return True if its affinity changed."""
        now = _affinity(thread)
        if thread in self._theirs or now == to:
            return False
        if now not in ours:
            self._theirs.add(thread)
            return False
        with contextlib.suppress(OSError):  # it has just ended, or the system refuses
            os.sched_setaffinity(thread, to)
            return True
        return False

    def _threads(self, roots: Iterable[int]) -> Iterator[int]:
        """Yield the threads of this user's processes and descendants, except processes that their author placed."""
        left, seen = list(roots), set[int]()
        while left:
            pid = left.pop()
            if pid in seen or pid in self._theirs:
                continue
            seen.add(pid)
            if proc(f"{pid}/status").partition("\nUid:")[2].split()[1:2] != [str(os.geteuid())]:
                continue  # its user may have changed after its start
            self._known.add(pid)
            yield from _listed(f"/proc/{pid}/task")
            left += children_of(pid)


def _affinity(thread: int) -> frozenset[int]:
    """Return the processors on which a thread may run; none for a thread that has ended."""
    try:
        return frozenset(os.sched_getaffinity(thread))
    except OSError:
        return frozenset()


def end_adopted(spared: set[int]) -> list[str]:
    """Kill and reap children of this process and orphans it adopts, except `spared`; return them as text."""
    found: dict[str, None] = {}
    until_s = time.monotonic() + LEAVE_KILL_S
    while time.monotonic() < until_s and (left := set(children_of(os.getpid())) - spared):
        for pid in sorted(left):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    continue  # it had ended by itself and only had to be reaped
            found[f"process {pid}"] = None
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return list(found)


def may_change_user() -> bool:
    """Return True if this process may start others as any user, give them files, and kill them."""
    found = re.search(r"^CapEff:\s*(\w+)", proc("self/status"), re.MULTILINE)
    if found is None:
        return os.geteuid() == 0
    return all(int(found[1], 16) >> number & 1 for number in _TO_CHANGE_USER)


def become(uid: int, gid: int, groups: Sequence[int], name: str, home: str) -> None:
    """Become another user permanently; OSError if that is not allowed. This clears the parent-death signal."""
    if uid != os.geteuid() or gid != os.getegid():
        os.setgroups(list(groups))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    os.environ.update({"HOME": home, "USER": name, "LOGNAME": name})
    if not os.access(".", os.X_OK):
        os.chdir("/")


def dump_nothing() -> None:
    """Write no core file on a crash; children may raise their limit again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


PRIVATE = 0o077
"""The umask of a run with several users: other users cannot read its files."""
_WAY = 0o711  # other users may pass through the folder, but not list it


@dataclass(frozen=True, slots=True)
class User:
    """Hold what a process needs to become a user: numbers, and values of variables."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def own(self, path: Path) -> None:
        """Make a file that only the user can read, or give the user the existing file."""
        self._give(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), 0o600)

    def own_folder(self, path: Path) -> None:
        """Make a folder that only the user can enter, or give the user the existing folder."""
        path.mkdir(mode=0o700, exist_ok=True)
        self._give(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC), 0o700)

    def _give(self, fd: int, mode: int) -> None:
        try:
            os.fchmod(fd, mode)
            os.fchown(fd, self.uid, self.gid)
        finally:
            os.close(fd)

    def passes(self, path: Path) -> bool:
        """Return True if owner, groups and mode let the user pass through a folder."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        group = status.st_gid == self.gid or status.st_gid in self.groups
        return bool(status.st_mode & (stat.S_IXGRP if group else stat.S_IXOTH))


def user_of(name: str) -> User:
    """Return the user of a name; UsageError if this machine has none."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise UsageError(f"run_as: expected the name of a user of this machine, found {name!r}") from None
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    return User(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)


def users_of(plan: Plan) -> list[str]:
    """Return the names of the users as which processes of a plan run, in order of appearance."""
    named = [part.run_as for phase in plan.phases for part in phase.parts()]
    return list(dict.fromkeys(name for name in named if name is not None))


def check_users(plan: Plan, results: Path) -> list[User]:
    """Return the users of a plan; UsageError if a process cannot run as one of them."""
    users = [user_of(name) for name in users_of(plan)]
    others = [user for user in users if user.uid != os.geteuid()]
    if others and not may_change_user():
        raise UsageError(
            f"run_as: expected the right to change to the user {others[0].name!r} (that of root, or the capabilities "
            f"CHOWN, KILL, SETGID and SETUID), found user {os.geteuid()} without it"
        )
    for user in users:
        for place in (results, Path(ganglion.__file__).parent, Path(sys.prefix), Path(sys.base_prefix)):
            wall = _wall(user, place)
            if wall is not None:
                mode = stat.S_IMODE(wall.stat().st_mode)
                raise UsageError(
                    f"run_as: expected that the user {user.name!r} may pass through {wall} (on the way to {place}), "
                    f"found mode {mode:04o}"
                )
    return users


def _wall(user: User, path: Path) -> Path | None:
    """Return the first existing folder of a path that a user may not pass through."""
    path = path.resolve()
    return next((p for p in [*reversed(path.parents), path] if p.is_dir() and not user.passes(p)), None)


def open_ways(folders: Sequence[Path]) -> None:
    """Let users pass through folders of a run without access to the files in them."""
    for folder in folders:
        folder.mkdir(exist_ok=True)
        for entry in folder.iterdir():
            if entry.is_file() and not entry.is_symlink():
                entry.chmod(0o600)
        folder.chmod(_WAY)
