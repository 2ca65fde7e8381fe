"""Users: under whose name a process runs, what it may reach, and which files of a run are its own."""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ganglion
from ganglion.errors import UsageError
from ganglion.run.plan import Plan
from ganglion.supervisor.linux import may_change_user

__all__ = ["PRIVATE", "User", "check_users", "open_ways", "user_of", "users_of"]

PRIVATE = 0o077
"""The mask of a run in which not all are one user: nothing that it writes is for others."""
_WAY = 0o711  # a folder that others may pass through, and not list


@dataclass(frozen=True, slots=True)
class User:
    """Hold what a process needs to become a user: numbers, and what belongs into its variables."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def own(self, path: Path) -> None:
        """Make a file of the user's own, or give him the one that is there; nobody else can read it."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
            os.fchown(fd, self.uid, self.gid)
        finally:
            os.close(fd)

    def own_folder(self, path: Path) -> None:
        """Make a folder that nobody but the user can enter, or give him the one that is there."""
        path.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(fd, 0o700)
            os.fchown(fd, self.uid, self.gid)
        finally:
            os.close(fd)

    def passes(self, path: Path) -> bool:
        """Say whether the user may pass through a folder, by owner, groups and mode."""
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
    """Return the users under whose names processes of a plan run, in order of appearance."""
    named = [part.run_as for phase in plan.phases for part in phase.parts()]
    return list(dict.fromkeys(name for name in named if name is not None))


def check_users(plan: Plan, results: Path) -> list[User]:
    """Return the users of a plan; UsageError says why a process could not run under the name of one of them."""
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
    """Return the first folder on the way to a place that a user may not pass through; what is not there is no wall."""
    path = path.resolve()
    return next((p for p in [*reversed(path.parents), path] if p.is_dir() and not user.passes(p)), None)


def open_ways(folders: Sequence[Path]) -> None:
    """Let users pass through folders of a run, and read none of the files that lie in them."""
    for folder in folders:
        folder.mkdir(exist_ok=True)
        for entry in folder.iterdir():
            if entry.is_file() and not entry.is_symlink():
                entry.chmod(0o600)
        folder.chmod(_WAY)
