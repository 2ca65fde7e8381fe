"""Standstill: processes stopped for some milliseconds, so that one moment can be noted of all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence

from ganglion.supervisor.linux import stopped

__all__ = ["standstill"]

_LOOK_S = 0.0002


@contextlib.contextmanager
def standstill(pids: Sequence[int], span_s: float = 0.05) -> Iterator[bool]:
    """Stop children of ours, all threads of each, while the block lasts; yields whether all of them stand.

    Nothing else runs in this process meanwhile, so keep it short; `span_s` is how long one that cannot be stopped at
    once (it waits for its disk) may take. Where one has been stopped by somebody else, nobody is touched: it would be
    woken by us.
    """
    touched: list[int] = []
    try:
        if not any(stopped(pid) for pid in pids):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    touched.append(pid)
        yield len(touched) == len(pids) and _stand(touched, time.monotonic() + span_s)
    finally:
        for pid in touched:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stand(pids: Sequence[int], until_s: float) -> bool:
    """Wait until these are stopped as wholes; False if one has ended or takes too long."""
    for pid in pids:
        while (state := _state(pid)) is None:
            if time.monotonic() > until_s:
                return False
            time.sleep(_LOOK_S)
        if state != os.CLD_STOPPED:
            return False
    return True


def _state(pid: int) -> int | None:
    """Return what the system tells of a child: that it stands, or has ended; None while it runs."""
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return os.CLD_EXITED
    return None if found is None else found.si_code
