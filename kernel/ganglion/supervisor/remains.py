"""Remains: processes of a run whose supervisor is gone; they are ended before the run goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from ganglion.errors import LaunchError, UsageError
from ganglion.limits import LEAVE_KILL_S
from ganglion.supervisor.census import Census, lives
from ganglion.supervisor.connection import CONNECTION, REMOTE, places, read_connection

__all__ = ["end_remains", "remove_connection"]

_LOOK_S = 0.005
_OURS = (CONNECTION, REMOTE)  # what may lie beside a socket


def end_remains(run: str, census: Census) -> list[str]:
    """Kill what is left of a run, each process with its group, and wait until it is gone; return the names.

    A process is known by its number and by when it was started, in the present life of the machine.

    Raises:
        UsageError: The supervisor of the run lives: it goes on already.
        LaunchError: One cannot be ended.
    """
    if lives(census.supervisor):
        raise UsageError(f"run {run} goes on already (process {census.supervisor.pid})")
    left = {name: life for name, life in census.lives.items() if lives(life)}
    for life in left.values():
        assert life.pid is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(life.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(life.pid, signal.SIGKILL)
    until_s = time.monotonic() + 2 * LEAVE_KILL_S
    while still := [name for name, life in left.items() if lives(life)]:
        if time.monotonic() > until_s:
            pid = census.lives[still[0]].pid
            raise LaunchError(f"run {run}: {still[0]} (process {pid}) is left over and cannot be ended")
        time.sleep(_LOOK_S)
    return list(left)


def remove_connection(results: Path, run: str) -> None:
    """Remove the connection file of a run whose supervisor is gone, and the folder with its socket.

    The file may have come with the results from elsewhere: of the folder that it names goes what we put into one.
    """
    for place in places(results):
        path = place / run / CONNECTION
        try:
            connection = read_connection(path)
        except UsageError:
            continue  # there is none, or it is not ours
        socket = Path(connection.endpoint.removeprefix("ipc://"))
        path.unlink(missing_ok=True)
        if connection.run == run and socket.is_absolute() and _is_ours(socket.parent, run):
            _empty(socket.parent)


def _empty(folder: Path) -> None:
    """Remove sockets, connection files, and the folder if there is nothing else in it."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_socket() or path.name in _OURS:
                path.unlink()
        folder.rmdir()


def _is_ours(folder: Path, run: str) -> bool:
    """Say whether a folder is one that a supervisor makes for its socket."""
    try:
        mine = folder.stat().st_uid == os.getuid()
    except OSError:
        return False
    return mine and (folder.name.startswith("ganglion-") or folder.parts[-2:] == ("ganglion", run))
