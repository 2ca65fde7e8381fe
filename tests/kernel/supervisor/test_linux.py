from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ganglion.supervisor.launch.system import children_of, may_change_user, open_ways, quiesced, stopped, usage, user_of

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")
SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]


ADOPTED = '''
import os, resource, subprocess, sys
from ganglion.supervisor.launch.system import (adopt_orphans, children_of, dump_nothing, end_adopted)
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


@needs_linux
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


@needs_linux
def test_what_was_adopted_is_ended_and_told() -> None:
    """Whoever has become ours is killed and named, who was there before is spared; no core file would be left."""
    done = subprocess.run([sys.executable, "-c", ADOPTED], capture_output=True, text=True, check=True)

    assert "True True\n[] 0\n" == done.stdout


@needs_linux
@pytest.mark.parametrize("before", [False, True])
def test_processes_are_quiesced_unless_another_has_stopped_one(before: bool) -> None:
    """All stand still for a while; one that somebody else has stopped stays so, and none is touched then."""
    with (
        subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as one,
        subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as two,
    ):
        if before:
            two.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, two.pid, os.WSTOPPED | os.WNOWAIT)
        with quiesced([one.pid, two.pid], 10.0) as quiet:
            assert (not before, not before, True) == (quiet, stopped(one.pid), stopped(two.pid))
        assert before == stopped(two.pid)
        for process in (one, two):
            process.kill()


needs_right = pytest.mark.skipif(not may_change_user(), reason="only root gives files away")


@needs_right
def test_who_passes(tmp_path: Path) -> None:
    """Owner, groups and others are looked at in this order, as the system does."""
    user = replace(user_of("nobody"), groups=(4711,))
    found = {}
    for owner, group, mode in [(0, 0, 0o711), (0, 0, 0o770), (user.uid, 0, 0o677), (0, 4711, 0o710), (0, 4711, 0o701)]:
        os.chown(tmp_path, owner, group)
        tmp_path.chmod(mode)
        found[owner, group, mode] = user.passes(tmp_path)
    os.chown(tmp_path, os.geteuid(), os.getegid())

    assert [True, False, False, True, False] == list(found.values())


@needs_right
def test_what_is_given_is_his_alone(tmp_path: Path) -> None:
    """Files and folders, new or there already, go to the user and no rights of others stay; no link is followed."""
    user = user_of("nobody")
    (tmp_path / "old").write_text("kept")
    (tmp_path / "old").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "old")
    for name in ("old", "new"):
        user.own(tmp_path / name)
    for _ in range(2):
        user.own_folder(tmp_path / "folder")

    found = {p.name: p.stat() for p in tmp_path.iterdir() if not p.is_symlink()}
    assert {(user.uid, user.gid)} == {(status.st_uid, status.st_gid) for status in found.values()}
    assert {"old": 0o600, "new": 0o600, "folder": 0o700} == {n: stat.S_IMODE(s.st_mode) for n, s in found.items()}
    assert "kept" == (tmp_path / "old").read_text()
    with pytest.raises(OSError, match="symbolic link"):
        user.own(tmp_path / "link")


def test_ways_are_for_passing_only(tmp_path: Path) -> None:
    """Folders may be passed through and not listed, and the files in them not be read; folders in them stay."""
    (tmp_path / "file").touch(0o644)
    (tmp_path / "inner").mkdir(mode=0o755)
    open_ways([tmp_path, tmp_path / "new"])

    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert {"file": 0o600, "inner": 0o755, "new": 0o711} == modes
    assert 0o711 == stat.S_IMODE(tmp_path.stat().st_mode)
