"""The reaper of a program of any language: kills its whole process tree when it or the supervisor ends.

`python -m ganglion.supervisor.launch.reaper LIFELINE [USER GROUP...] -- PROGRAM ARGUMENT...`: LIFELINE is the
descriptor of the read end of a pipe. Only the supervisor has the write end; end of file means that the supervisor has
ended. With the numbers of a user and its groups, the program runs as that user. The reaper does not, so that the
program cannot kill it. The reaper ends as the program did: with its exit status, or killed by its signal.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from ganglion.limits import LEAVE_KILL_S
from ganglion.supervisor.launch.system import adopt_orphans, die_with_parent, end_adopted, name_process

_LOOK_S = 0.05  # polling interval where the system has no pidfd


def main(arguments: Sequence[str]) -> NoReturn:
    """Start the program, wait until it or the supervisor ends, kill the rest of its tree."""
    end = list(arguments).index("--")
    lifeline, *user = (int(word) for word in arguments[:end])
    uid, gid = user[:2] if user else (None, None)
    argv = list(arguments[end + 1 :])
    adopt_orphans()
    name_process("ganglion-reaper")
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: None)  # sent to the whole group: the program gets the signal too
    try:
        # There is one thread, so code before exec cannot deadlock. A kill of the reaper is meant for the program.
        more = user[2:] or None
        program = subprocess.Popen(
            argv,
            close_fds=True,
            user=uid,
            group=gid,
            extra_groups=more,
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]}: {error.strerror or error}\n")
        end_as(127)
    code = _wait(program, lifeline)
    end_adopted(set())
    end_as(-signal.SIGKILL if code is None else code)


def _wait(program: subprocess.Popen[bytes], lifeline: int) -> int | None:
    """Return how the program ended, None if the supervisor ended first."""
    wake = os.pidfd_open(program.pid) if hasattr(os, "pidfd_open") else None
    fds = [lifeline] if wake is None else [lifeline, wake]
    while program.poll() is None:
        ready, _, _ = select.select(fds, [], [], _LOOK_S if wake is None else None)
        if lifeline in ready:
            return None
    return program.returncode


def end_as(code: int) -> NoReturn:
    """End this process like another one: with an exit status, or by a signal given as a negative number."""
    sys.stderr.flush()
    if code < 0:
        signum = -code
        if signum not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
        time.sleep(LEAVE_KILL_S)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
