from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ganglion.supervisor.watchdog import Watchdog

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the vigil reads /proc")

SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]


class FakeMember:
    """Hold a process that a vigil looks at."""

    def __init__(self, pid: int) -> None:
        self.process = SimpleNamespace(pid=pid)
        self.child = SimpleNamespace(gone=False)
        self.why = ""
        self.due_s: float | None = None

    def kill_lost(self, why: str) -> None:
        self.why = why

    kill_hung = kill_lost


def _vigil(member: FakeMember) -> tuple[Watchdog, Any]:
    run = SimpleNamespace(over=SimpleNamespace(is_set=lambda: False), waits_due=lambda now_s: [], members={"x": member})
    known = {member.process.pid}
    supervisor: Any = SimpleNamespace(runs={"r": run}, broker=None, bus=None, known=known)
    return Watchdog(supervisor), supervisor


@pytest.mark.parametrize("here", [False, True])
def test_a_successor_comes_back_in_time_or_is_shot(here: bool) -> None:
    """Who is started again has until then to join; who has joined is let alone."""
    member = FakeMember(os.getpid())
    member.due_s = 10.0
    member.here = SimpleNamespace(is_set=lambda: here)  # type: ignore[attr-defined]
    vigil, _ = _vigil(member)
    vigil.look(9.5)
    early = member.why
    vigil.look(10.5)

    assert ("", "" if here else "it did not come back in time") == (early, member.why)
    assert member.due_s is None


def test_silent_broker_is_shot() -> None:
    """A broker that says nothing for two seconds is killed, and its end is told with that reason."""
    with subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as process:
        sent: list[int] = []
        beats: list[float] = []
        vigil, supervisor = _vigil(FakeMember(os.getpid()))
        supervisor.broker = SimpleNamespace(
            pid=process.pid, ended=SimpleNamespace(is_set=lambda: False), signal=sent.append, code=-9
        )
        supervisor.bus = SimpleNamespace(heard_s=10.0, beat=lambda: beats.append(1.0))
        for now_s in (10.1, 10.5, 11.0, 11.9):
            vigil.look(now_s)
        assert [] == sent
        assert 3 == len(beats)
        vigil.look(12.1)
        process.kill()

    assert [signal.SIGKILL] == sent
    assert "killed by SIGKILL (it was silent for 2.1 s)" == vigil.end_text(supervisor.broker)
