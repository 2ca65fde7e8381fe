from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganglion.supervisor.linux import quiesced, stopped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="who is stopped is read in /proc")

WRITER = """
import os, sys, threading
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def write():
    while True:
        os.write(file, b"x" * 100)
threading.Thread(target=write).start()
write()
"""


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[list[tuple[subprocess.Popen[bytes], Path]]]:
    """Return two programs, each writing with two threads, and their files."""
    files = [tmp_path / "one", tmp_path / "two"]
    programs = [subprocess.Popen([sys.executable, "-c", WRITER, str(file)]) for file in files]
    until_s = time.monotonic() + 20
    while not all(file.exists() and file.stat().st_size for file in files):
        assert time.monotonic() < until_s
    yield list(zip(programs, files, strict=True))
    for program in programs:
        program.kill()
        program.wait()


def test_who_was_stopped_by_others_stays_so(writers: list[tuple[subprocess.Popen[bytes], Path]]) -> None:
    """Then nobody is touched: a process that is stopped for another reason is not woken by us."""
    pids = [program.pid for program, _ in writers]
    os.kill(pids[1], signal.SIGSTOP)
    while not stopped(pids[1]):
        pass
    with quiesced(pids) as stand:
        assert not stand
        assert not stopped(pids[0])
    assert stopped(pids[1])


def test_who_has_ended_does_not_stand(writers: list[tuple[subprocess.Popen[bytes], Path]]) -> None:
    """With a process that is gone there is no common moment; the others go on."""
    (one, _), (two, _) = writers
    two.kill()
    os.waitid(os.P_PID, two.pid, os.WEXITED | os.WNOWAIT)
    with quiesced([one.pid, two.pid]) as stand:
        assert not stand
    assert not stopped(one.pid)
