"""Processes of a run as the system shows them: whose they are, which role they have, what they hold."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

MARKER = "GANGLION_TESTS_MARKER"
ROLES = ("environment", "muscle", "brain", "controller", "governor", "store", "broker", "warm")
_PROC = Path("/proc")
_ENTRY = {b"ganglion.transport.server": "broker", b"ganglion.supervisor.launch.warm": "warm"}
_KEEPER, _KEEPS = "keeper", b"ganglion.supervisor.launch.reaper"
_SHARED = "/dev/shm/"


@dataclass(frozen=True, slots=True)
class Seen:
    """Name a process: `name` is that which it shows (`muscle.ada.0`), `since` when it was started, in ticks."""

    pid: int
    role: str
    name: str
    since: int

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _stat(pid: int) -> tuple[str, int, int]:
    """Return state, parent and start of a process; OSError if it is gone."""
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def below(supervisor: int) -> list[Seen]:
    """Return the processes that a supervisor has started and that have a role, oldest first; no zombies."""
    found = []
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, parent, since = _stat(int(entry.name))
            if parent != supervisor or state == "Z":
                continue
            name = (entry / "comm").read_text().strip()
            role = name.partition(".")[0]
            if role not in ROLES:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                role = next((role for module, role in _ENTRY.items() if module in words), "")
                name = role or (_KEEPER if _KEEPS in words else "")
            if role:
                found.append(Seen(int(entry.name), role, name, since))
            if name == _KEEPER:  # a program of the documents here is an environment
                children = (entry / "task" / entry.name / "children").read_text().split()
                found += [Seen(int(pid), "environment", "program", since) for pid in (entry.name, *children)]
    found.sort(key=lambda seen: (seen.since, seen.pid))
    # A participant that has not named itself yet looks like the warm parent, which is older.
    warm = next((seen for seen in found if seen.role == "warm"), None)
    return [seen for seen in found if seen.role != "warm" or seen is warm]


def marked(value: str) -> dict[int, str]:
    """Return the processes that bear the marker with this value, and what they show; no zombies."""
    word, found = f"{MARKER}={value}".encode(), {}
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            if word in (entry / "environ").read_bytes().split(b"\0"):
                found[pid] = (entry / "comm").read_text().strip()
    return found


def left_of(value: str, span_s: float = 2.0) -> dict[int, str]:
    """Return which processes with a marker are still there after `span_s` at most; empty as soon as all have gone."""
    until_s = time.monotonic() + span_s
    while (found := marked(value)) and time.monotonic() < until_s:
        time.sleep(0.02)
    return found


def shared_memory(pids: list[int]) -> set[str]:
    """Return the files of shared memory that processes have mapped."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = (_PROC / str(pid) / "maps").read_text().splitlines()
            found |= {line[line.index(_SHARED) :] for line in lines if _SHARED in line}
    return found


def memory_kib(pid: int) -> int:
    """Return the resident memory of a process in KiB, 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open, 0 if it is gone."""
    try:
        return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return 0
