"""The folder of a run below the results: its id, the document as given, the plan, the manifest, logs and brains."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ganglion.document import resolved
from ganglion.errors import UsageError
from ganglion.run.plan import Plan, Process
from ganglion.supervisor.fingerprint import fingerprint
from ganglion.supervisor.manifest import MANIFEST, reopen, seal, text_of
from ganglion.supervisor.origin import ORIGIN, origin_bytes
from ganglion.supervisor.output import without_password
from ganglion.supervisor.user import User, open_ways, user_of
from ganglion.synced import write_synced
from ganglion.wire.messages import PROTOCOL_VERSION
from ganglion.wire.name import Role

__all__ = ["RunFolder", "log_name", "participants", "reserve", "run_id"]

_ID_BYTES_MAX = 40  # with its number it stays one plain part of a wire name
_PASS = 0o111
_NUMBERS_MAX = 1_000_000
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,46}\Z")


def run_id(uid: str) -> str:
    """Return `uid` made safe for files and for the wire: small letters, digits, `.` and `-`."""
    plain = re.sub(r"[^a-z0-9.]+", "-", uid.lower()).strip("-.")
    return plain[:_ID_BYTES_MAX].strip("-.") or "run"


def reserve(results: Path, uid: str, name: str | None = None) -> RunFolder:
    """Make the folder of a new run and return it: `name`, else `uid` and the first free number.

    UsageError if a run of that name exists, if it is no plain name, or if the results cannot be written.
    """
    try:
        if not results.is_dir():
            results.mkdir(parents=True, exist_ok=True)
            # Nobody else can list it, nor read what is in it; programs of another user (`run_as`) pass through.
            results.chmod(results.stat().st_mode | _PASS)
    except OSError as error:
        raise UsageError(f"results folder {results}: cannot be made: {error.strerror}") from error
    if name is not None:
        if not _NAME.match(name):
            raise UsageError(
                f"--name: expected small letters, digits, `.` and `-`, at most 47, found {name!r}"
            )
        return _make(results, [name])
    return _make(results, (f"{run_id(uid)}-{number}" for number in range(1, _NUMBERS_MAX)))


def _make(results: Path, names: Any) -> RunFolder:
    name = ""
    for name in names:
        try:
            (results / name).mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"results folder {results}: cannot be written: {error.strerror}") from error
        return RunFolder(name, results / name)
    raise UsageError(f"run {name} exists already in {results}; nothing is overwritten")


def log_name(process: Process) -> str:
    """Return the name that a process's log files begin with; a role fixes the number of parts, so it is unique."""
    return ".".join(process.name.split("/")[1:])


class RunFolder:
    """Be the folder of one run."""

    def __init__(self, run: str, path: Path) -> None:
        self.run = run
        self.path = path
        self.logs = path / "logs"

    def release(self) -> None:
        """Remove the folder of a run that is not begun after all; what is not ours in it stays."""
        for log in self.logs.glob("*.out*"):
            log.unlink(missing_ok=True)
        for folder in (self.logs, self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def fill(self, plan: Plan, argv: Sequence[str], store: str | None, allow: Sequence[str] = ()) -> None:
        """Write what was given and what it became; UsageError if it cannot be written.

        `allow` are packages that import paths may name beside those of the plan.
        """
        try:
            self.logs.mkdir(exist_ok=True)
            origin = origin_bytes(plan, allow)
            write_synced(self.path / ORIGIN, origin)
            (self.path / "brains").mkdir(exist_ok=True)
            (self.path / "document.yml").write_text(plan.document)
            (self.path / "resolved.yml").write_text(resolved(plan))
            manifest = self._manifest(plan, argv, store) | {"plan": hashlib.sha256(origin).hexdigest()}
            write_synced(self.path / MANIFEST, text_of(manifest).encode())
        except OSError as error:
            raise UsageError(f"results folder {self.path}: cannot be written: {error.strerror}") from error

    def tape(self, process: Process) -> Path:
        """Return where a participant writes down what it hears."""
        folder = self.path / "tapes" if process.run_as is None else self.own(user_of(process.run_as))
        return folder / f"{log_name(process)}.tape"

    def own(self, user: User) -> Path:
        """Return the folder that only one user of this run enters."""
        return self.path / "users" / str(user.uid)

    def open_ways(self) -> None:
        """Let the users of this run pass to what is theirs, and read nothing else."""
        open_ways([self.path, self.logs, *(self.path / name for name in ("brains", "tapes", "users"))])

    def give(self, process: Process) -> User | None:
        """Give a process that runs under another name the files that it writes; return whose they are."""
        if process.run_as is None:
            return None
        user = user_of(process.run_as)
        user.own(self.logs / f"{log_name(process)}.jsonl")
        user.own_folder(self.own(user))
        return user

    def reopen(self, words: str, others: Sequence[str]) -> None:
        """Note in the manifest that the run goes on: how, in `words`, and in what the installation is another.

        Raises:
            StoreError: That cannot be written.
        """
        note: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "how": words}
        reopen(self.path, note | ({"accepted": list(others)} if others else {}))

    def seal(self, status: str, reason: str, heads: Mapping[str, Any] | None) -> None:
        """Complete the manifest when the run has ended; StoreError if that cannot be written."""
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        seal(self.path, status, reason, ended, heads)

    def _manifest(self, plan: Plan, argv: Sequence[str], store: str | None) -> dict[str, Any]:
        return {
            "run": self.run,
            "uid": plan.uid,
            "experiment": plan.experiment,
            "seed": plan.seed,
            "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "protocol": PROTOCOL_VERSION,
            **fingerprint(),
            "platform": {"system": _system(), "cpus": os.cpu_count()},
            "source": plan.source,
            "git": _git(Path(plan.folder or ".")),
            "store": None if store is None else without_password(store),
            "argv": [without_password(argument) for argument in argv],
        }


def _system() -> str:
    """Return system, release and C library; `platform.platform()` would start a program to find out more."""
    names = os.uname()
    return "-".join([names.sysname, names.release, names.machine, *filter(None, platform.libc_ver())])


def _git(folder: Path) -> str | None:
    """Return the commit that is checked out where the document lies, read from files: no program is started."""
    for parent in [folder.resolve(), *folder.resolve().parents]:
        head = parent / ".git" / "HEAD"
        try:
            text = head.read_text().strip()
            if not text.startswith("ref: "):
                return text
            reference = parent / ".git" / text.removeprefix("ref: ")
            return reference.read_text().strip() if reference.is_file() else None
        except OSError:
            continue
    return None


def participants(processes: Sequence[Process]) -> str:
    """Return processes in words: `2 controllers, 2 environments, 4 muscles, 1 brain`."""
    counts: dict[Role, int] = {}
    for process in processes:
        counts[process.role] = counts.get(process.role, 0) + 1
    order = (Role.GOVERNOR, Role.STORE, Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN)
    return ", ".join(_count(counts[role], role.value) for role in order if role in counts)


def _count(number: int, word: str) -> str:
    if word in ("governor", "store"):
        return word
    return f"{number} {word}{'' if number == 1 else 's'}"
