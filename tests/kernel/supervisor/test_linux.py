from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ganglion.supervisor.linux import become, children_of, may_change_user, name_process, stopped, usage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")

SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]
ORPHAN = """
import os, sys
from ganglion.supervisor.linux import (die_with_parent)
read, write = os.pipe()
if os.fork() == 0:
    die_with_parent()
    print(os.getpid(), flush=True)
    os.close(write)
    os.read(0, 1)
    os._exit(0)
sys.stdin.read(1)
os._exit(0)
"""


ADOPTED = '''
import os, resource, subprocess, sys
from ganglion.supervisor.linux import (adopt_orphans, children_of, dump_nothing, end_adopted)
adopt_orphans()
dump_nothing()
spared = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
middle = """
import subprocess, sys
none = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
print(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], **none).pid)
"""
left = subprocess.run([sys.executable, "-c", middle], capture_output=True, text=True).stdout.strip()
print(end_adopted({spared.pid}) == [f"process {left}"], children_of(os.getpid()) == [spared.pid])
print(end_adopted({spared.pid}), resource.getrlimit(resource.RLIMIT_CORE)[0])
spared.kill()
'''


def test_stopped_process_is_told_from_a_sleeping_one() -> None:
    """SIGSTOP is seen, and SIGCONT too; a process that waits is not stopped; one that is gone is not either."""
    with subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as process:
        assert process.pid in children_of(os.getpid())
        assert not stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert stopped(process.pid)
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        assert not stopped(process.pid)
        assert usage(process.pid)[1] > 0
        process.kill()
    assert not stopped(process.pid)
    assert (0.0, 0) == usage(process.pid)
    assert [] == children_of(process.pid)


def test_parent_death_ends_the_child() -> None:
    """A process that has asked for it ends with its parent."""
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        process.wait()
        assert "" == process.stdout.read()  # its other holder has gone, too
        os.close(child)


def test_name_is_shown() -> None:
    """A process can be told by its name in the system's lists; long names are cut."""
    before = Path("/proc/self/comm").read_text().strip()
    assert name_process("environment.field.0")
    try:
        assert "environment.fie" == Path("/proc/self/comm").read_text().strip()
    finally:
        name_process(before)


def test_what_was_adopted_is_ended_and_told() -> None:
    """Whoever has become ours is killed and named, who was there before is spared; no core file would be left."""
    done = subprocess.run([sys.executable, "-c", ADOPTED], capture_output=True, text=True, check=True)

    assert "True True\n[] 0\n" == done.stdout


def test_who_we_are_already_needs_no_right() -> None:
    """A process may become the user that it is; all that changes are its variables."""
    child = os.fork()
    if child == 0:
        become(os.geteuid(), os.getegid(), [], "somebody", "/somewhere")
        os._exit(os.environ["USER"] == "somebody" and os.environ["HOME"] == "/somewhere")

    assert 1 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not may_change_user(), reason="only root becomes another user")
def test_who_became_another_user_stays_it() -> None:
    """There is no way back, and the right is gone."""
    child = os.fork()
    if child == 0:
        become(65534, 65534, [65534], "nobody", "/")
        try:
            os.setuid(0)
        except PermissionError:
            os._exit(0 if not may_change_user() and os.getresuid() == (65534,) * 3 else 2)
        os._exit(1)

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
