from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ganglion.errors import UsageError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, Recovery
from ganglion.supervisor.linux import check_users, may_change_user, open_ways, user_of

needs_right = pytest.mark.skipif(not may_change_user(), reason="only root gives files away")
PLUGIN = PluginPlan("dummy")


def plan(first: str | None = None, hill: str | None = None, ada: str | None = None) -> Plan:
    """Return a run of two phases, whose second one says under whose names its processes run."""
    environment = EnvironmentPlan("hill", PLUGIN, recovery=Recovery(run_as=hill))
    agent = AgentPlan("ada", PLUGIN, PLUGIN, PLUGIN, [], [], recovery=Recovery(run_as=ada))
    phase = PhasePlan(0, "one", [environment], [agent], PLUGIN, [], [])
    return Plan(
        "u", "u", "1", [replace(phase, environments=[EnvironmentPlan("hill")], agents=[]), replace(phase, run_as=first)]
    )


def test_stranger_is_refused(tmp_path: Path) -> None:
    """A name that this machine does not know is told before anything starts."""
    with pytest.raises(UsageError, match="run_as: expected the name of a user of this machine, found 'no-such-one'"):
        check_users(plan("no-such-one"), tmp_path)


@needs_right
def test_without_the_right_nothing_is_begun(tmp_path: Path) -> None:
    """Who may not change users is told what he would need."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        try:
            check_users(plan("daemon"), tmp_path)
        except UsageError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(read, 4096).decode()
    for fd in (read, write):
        os.close(fd)

    assert text.startswith("run_as: expected the right to change to the user 'daemon'")
    assert text.endswith("found user 65534 without it")


@needs_right
def test_a_wall_on_the_way_is_named(tmp_path: Path) -> None:
    """A folder that a user cannot pass through is named with its mode, not found out by his process."""
    wall = tmp_path / "wall"
    (wall / "results").mkdir(parents=True)
    wall.chmod(0o700)
    walls = [p for p in [*reversed(wall.parents), wall] if not user_of("nobody").passes(p)]

    with pytest.raises(
        UsageError, match=rf"the user 'nobody' may pass through {walls[0]} \(on the way to .*, found mode 0700"
    ):
        check_users(plan("nobody"), wall / "results")


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
