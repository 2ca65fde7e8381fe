"""The folder of a run: its files, its process table, its origin, its manifest."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any

import msgpack

import ganglion
from ganglion import registry
from ganglion.document import resolved
from ganglion.errors import LaunchError, RemoteProtocolError, StoreError, UsageError
from ganglion.limits import LEAVE_KILL_S, MODEL_INDEX_BYTES
from ganglion.run.plan import Plan, Process
from ganglion.supervisor.connection import CONNECTION, REMOTE, places, read_connection
from ganglion.supervisor.launch.system import User, open_ways, proc, user_of
from ganglion.supervisor.output import without_password
from ganglion.synced import write_synced
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import PROTOCOL_VERSION, Ended, Message
from ganglion.wire.name import Role

BRAINS = "brains"  # the folder of a run's models
_ID_BYTES_MAX = 40  # together with its number the id stays one plain part of a wire name
_PASS = 0o111
_NUMBERS_MAX = 1_000_000
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,46}\Z")


def run_id(uid: str) -> str:
    """Return `uid` made safe for file names and wire names: small letters, digits, `.` and `-`."""
    plain = re.sub(r"[^a-z0-9.]+", "-", uid.lower()).strip("-.")
    return plain[:_ID_BYTES_MAX].strip("-.") or "run"


def reserve(results: Path, uid: str, name: str | None = None) -> RunFolder:
    """Make the folder of a new run, named `name`, else `uid` with the first free number; raise UsageError on error."""
    try:
        if not results.is_dir():
            results.mkdir(parents=True, exist_ok=True)
            # Other users can neither list nor read the folder; programs of another user (`run_as`) pass through it.
            results.chmod(results.stat().st_mode | _PASS)
    except OSError as error:
        raise UsageError(f"results folder {results}: cannot be made: {error.strerror}") from error
    if name is not None and not _NAME.match(name):
        raise UsageError(f"--name: expected small letters, digits, `.` and `-`, at most 47, found {name!r}")
    for number in range(1, _NUMBERS_MAX if name is None else 2):
        run = name or f"{run_id(uid)}-{number}"
        try:
            (results / run).mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"results folder {results}: cannot be written: {error.strerror}") from error
        return RunFolder(run, results / run)
    raise UsageError(f"run {run} exists already in {results}; nothing is overwritten")


def log_name(process: Process) -> str:
    """Return the prefix of a process's log files; it is unique, because a role fixes the number of parts."""
    return ".".join(process.name.split("/")[1:])


class RunFolder:
    """Write the files of one run."""

    def __init__(self, run: str, path: Path) -> None:
        self.run = run
        self.path = path
        self.logs = path / "logs"

    def release(self) -> None:
        """Remove the folder of a run that is not started; files of other programs in it are kept."""
        for log in self.logs.glob("*.out*"):
            log.unlink(missing_ok=True)
        for folder in (self.logs, self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def fill(self, plan: Plan, argv: Sequence[str], store: str | None, allow: Sequence[str] = ()) -> None:
        """Write document, plan (with the packages import paths may name) and manifest; raise UsageError on failure."""
        try:
            self.logs.mkdir(exist_ok=True)
            origin = msgpack.packb({"plan": plan.to_map(), "allow": list(allow)})
            write_synced(self.path / ORIGIN, origin)
            (self.path / BRAINS).mkdir(exist_ok=True)
            (self.path / "document.yml").write_text(plan.document)
            (self.path / "resolved.yml").write_text(resolved(plan))
            manifest = self._manifest(plan, argv, store) | {"plan": hashlib.sha256(origin).hexdigest()}
            write_synced(self.path / MANIFEST, text_of(manifest).encode())
        except OSError as error:
            raise UsageError(f"results folder {self.path}: cannot be written: {error.strerror}") from error

    def journal(self, process: Process) -> Path:
        """Return the path of a participant's journal."""
        folder = self.path / "journals" if process.run_as is None else self.own(user_of(process.run_as))
        return folder / f"{log_name(process)}.journal"

    def own(self, user: User) -> Path:
        """Return the folder of this run that only one user can enter."""
        return self.path / "users" / str(user.uid)

    def open_ways(self) -> None:
        """Let the users of this run reach their own files; the other files stay unreadable to them."""
        open_ways([self.path, self.logs, *(self.path / name for name in (BRAINS, "journals", "users"))])

    def give(self, process: Process) -> User | None:
        """Make the user of a process with `run_as` the owner of the files that the process writes; return the user."""
        if process.run_as is None:
            return None
        user = user_of(process.run_as)
        user.own(self.logs / f"{log_name(process)}.jsonl")
        user.own_folder(self.own(user))
        return user

    def reopen(self, words: str, others: Sequence[str]) -> None:
        """Remove the seal from the manifest of a resumed run and record the resumption; raise StoreError on failure."""
        note = {"at": _now(), "how": words, **({"accepted": list(others)} if others else {})}
        with _rewritten(self.path, "written") as manifest:
            manifest["resumed"] = [*manifest.get("resumed", []), note]

    def _manifest(self, plan: Plan, argv: Sequence[str], store: str | None) -> dict[str, Any]:
        machine = os.uname()
        names = (machine.sysname, machine.release, machine.machine)
        return {
            "run": self.run,
            "uid": plan.uid,
            "experiment": plan.experiment,
            "seed": plan.seed,
            "started": _now(),
            "protocol": PROTOCOL_VERSION,
            **fingerprint(),
            # `platform.platform()` would start a program.
            "platform": {"system": "-".join([*names, *filter(None, platform.libc_ver())]), "cpus": os.cpu_count()},
            "source": plan.source,
            "git": _git(Path(plan.folder or ".")),
            "store": None if store is None else without_password(store),
            "argv": [without_password(argument) for argument in argv],
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _git(folder: Path) -> str | None:
    """Return the checked-out commit of the document's repository. It is read from files; no program is started."""
    for parent in [folder.resolve(), *folder.resolve().parents]:
        with contextlib.suppress(OSError):
            text = (parent / ".git" / "HEAD").read_text().strip()
            if not text.startswith("ref: "):
                return text
            reference = parent / ".git" / text.removeprefix("ref: ")
            return reference.read_text().strip() if reference.is_file() else None
    return None


def participants(processes: Sequence[Process]) -> str:
    """Return a count of processes by role: `governor, 2 controllers, 2 environments, 4 muscles, 1 brain`."""
    counts = Counter(process.role for process in processes)
    words = [role.value for role in (Role.GOVERNOR, Role.STORE) if role in counts]
    many = [role for role in (Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN, Role.TABLE) if role in counts]
    words += [f"{counts[role]} {role.value}{'s' if counts[role] > 1 else ''}" for role in many]
    return ", ".join(words)


_KERNEL_PACKAGES = ("click", "msgpack", "numpy", "pydantic", "pyyaml", "pyzmq", "rich", "structlog", "uvloop")


def fingerprint() -> dict[str, Any]:
    """Return the versions of Ganglion, Python, C library and packages, and the processor's model if available.

    The packages are those that a result may depend on: the kernel's dependencies, and all distributions with plugins.
    """
    entries = [entry for group in registry.GROUPS for entry in registry.entries(group)]
    found = {entry.distribution: entry.version for entry in entries if entry.distribution != registry.KERNEL}
    found |= {name: importlib.metadata.version(name) for name in _KERNEL_PACKAGES}
    model = re.search(r"^\s*(?:model name|cpu model|cpu part)\s*:(.*)$", proc("cpuinfo"), re.MULTILINE | re.IGNORECASE)
    return {
        "ganglion": ganglion.__version__,
        "python": sys.version.split()[0],
        "libc": " ".join(platform.libc_ver()).strip(),
        "machine": os.uname().machine,
        "processor": "" if model is None else model[1].strip(),
        "packages": dict(sorted(found.items())),
    }


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of two fingerprints, one line each: `package numpy: 2.0 then, 2.1 now`."""
    before, after = _flat(then), _flat(now)
    return [
        f"{name}: {before.get(name) or 'none'} then, {after.get(name) or 'none'} now"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _flat(tree: Mapping[str, Any]) -> dict[str, str]:
    found = {name: str(value) for name, value in tree.items() if not isinstance(value, Mapping)}
    packages = [value for value in tree.values() if isinstance(value, Mapping)]
    return found | {f"package {name}": str(version) for versions in packages for name, version in versions.items()}


PROCESS_TABLE = "state.json"
"""The name of the process table in the folder of a run."""


class Incarnation(Message):
    """Hold the newest incarnation of a name and its process; `pid` is None before the process was started.

    `started` is the start time of the process; it tells the process apart from a later one with the same pid.
    """

    incarnation: int
    pid: int | None = None
    started: int | None = None


class ProcessTable(Message):
    """Hold the process table of a run: its present phase, whether its governor has begun, and each name's incarnation.

    `stopping` is True once the run has been interrupted; from then on episodes end early. `signals` are the operators'
    signals, each with the phase that received it; a phase that begins again loses them. `ended` is set before the
    governor's report of the end is answered, because the governor does not repeat the report. `boot` identifies the
    boot of the machine; it is empty where the system does not provide it.
    """

    boot: str
    supervisor: Incarnation
    phase: int = 0
    begun: bool = False
    stopping: bool = False
    lives: dict[str, Incarnation] = field(default_factory=dict)
    signals: list[list[Any]] = field(default_factory=list)
    ended: Ended | None = None


def boot_id() -> str:
    """Return the identifier of this boot of the machine; empty where the system does not provide it."""
    return proc("sys/kernel/random/boot_id").strip()


def incarnation_of(incarnation: int, pid: int | None) -> Incarnation:
    """Return an incarnation with its process, if it has one."""
    return Incarnation(incarnation, pid, None if pid is None else _started(pid))


def lives(life: Incarnation) -> bool:
    """Return True if the process of an incarnation still exists; only valid within one boot of the machine."""
    if life.pid is None:
        return False
    try:
        os.kill(life.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process exists and belongs to another user
    return _started(life.pid) == life.started


def write_process_table(folder: Path, table: ProcessTable) -> None:
    """Write the process table into a run's folder and sync it; raise OSError on failure."""
    write_synced(folder / PROCESS_TABLE, json.dumps(asdict(table), indent=1).encode(), 0o600)


def read_process_table(folder: Path) -> ProcessTable | None:
    """Return the process table of a run's folder, None if there is none; raise StoreError if it cannot be read."""
    path = folder / PROCESS_TABLE
    try:
        return codec_of(ProcessTable).from_map(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, RemoteProtocolError) as error:
        raise StoreError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error


def _started(pid: int) -> int | None:
    fields = proc(f"{pid}/stat").rpartition(")")[2].split()
    return None if len(fields) < 20 or fields[0] == "Z" else int(fields[19])  # Z: ended and not reaped yet


_LOOK_S = 0.005


def end_orphans(run: str, table: ProcessTable) -> list[str]:
    """Kill a run's orphans and return their names; raise UsageError if its supervisor lives, LaunchError on failure."""
    if lives(table.supervisor):
        raise UsageError(f"run {run} goes on already (process {table.supervisor.pid})")
    left = {name: life.pid for name, life in table.lives.items() if life.pid is not None and lives(life)}
    for pid in left.values():
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
    until_s = time.monotonic() + 2 * LEAVE_KILL_S
    while still := [name for name in left if lives(table.lives[name])]:
        if time.monotonic() > until_s:
            raise LaunchError(f"run {run}: {still[0]} (process {left[still[0]]}) is left over and cannot be ended")
        time.sleep(_LOOK_S)
    return list(left)


def remove_connection(results: Path, run: str) -> None:
    """Remove the connection file and the socket of a run whose supervisor has ended; files of others are kept."""
    for place in places(results):
        path = place / run / CONNECTION
        try:
            connection = read_connection(path)
        except UsageError:
            continue  # missing, or owned by another user
        path.unlink(missing_ok=True)
        folder = Path(connection.endpoint.removeprefix("ipc://")).parent
        named = folder.name.startswith("ganglion-") or folder.parts[-2:] == ("ganglion", run)
        with contextlib.suppress(OSError):
            if connection.run == run and folder.is_absolute() and named and folder.stat().st_uid == os.getuid():
                for file in folder.iterdir():
                    if file.is_socket() or file.name in (CONNECTION, REMOTE):
                        file.unlink()
                folder.rmdir()


ORIGIN = "plan.msgpack"


def read_origin(folder: Path, sha256: object) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan and the allowed packages of a run; raise UsageError if the file's digest is not `sha256`."""
    path = folder / ORIGIN
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: expected the plan of the run, it cannot be read: {error.strerror}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise UsageError(f"{path}: the file is damaged: expected SHA-256 {sha256!s:.64}, found {found}")
    try:
        tree = msgpack.unpackb(data, strict_map_key=False)
        return Plan.from_map(tree["plan"]), tuple(tree["allow"])
    except (AttributeError, KeyError, TypeError, ValueError, msgpack.UnpackException) as error:
        raise UsageError(f"{path}: expected the plan of a run: {type(error).__name__}: {error}") from error


MANIFEST = "manifest.json"
_INDEX = "brains/models.json"
_SEALED = ("document.yml", "resolved.yml", ORIGIN, _INDEX)
_SEAL = "sha256"
_KEYS = ("status", "reason", "ended", "chain", "files", _SEAL)  # what a seal adds, in this order


def text_of(manifest: Mapping[str, Any]) -> str:
    """Return the canonical text of a manifest."""
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; raise OSError for any other file, for a link, or if it cannot be read."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a regular file; raise OSError as `open_regular` does."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _rewritten(folder: Path, verb: str) -> Iterator[dict[str, Any]]:
    """Yield the manifest of a run without its seal, then write it; raise StoreError ("cannot be `verb`") on failure."""
    path = folder / MANIFEST
    try:
        manifest = {k: v for k, v in json.loads(_text(path)).items() if k not in _KEYS}
        yield manifest
        write_synced(path, text_of(manifest).encode())
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise StoreError(f"manifest {path}: cannot be {verb}: {error}") from error


def seal(folder: Path, status: str, reason: str, chain: Mapping[str, Any] | None) -> None:
    """Seal the manifest of a run that has ended, with the heads of its chains; raise StoreError on failure."""
    with _rewritten(folder, "sealed") as manifest:
        manifest |= {"status": status, "reason": reason, "ended": _now()}
        manifest["chain"] = None if chain is None else dict(chain)
        files = {name: folder / name for name in _SEALED if (folder / name).exists()}
        rows = {name: {"bytes": path.stat().st_size, "sha256": file_digest(path)} for name, path in files.items()}
        manifest["files"] = rows
        manifest[_SEAL] = _own_digest(manifest)


def _own_digest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's text without its own digest."""
    rest = {key: value for key, value in manifest.items() if key != _SEAL}
    return hashlib.sha256(text_of(rest).encode()).hexdigest()


def _text(path: Path) -> str:
    if path.stat().st_size > MODEL_INDEX_BYTES:
        raise ValueError(f"expected at most {MODEL_INDEX_BYTES} bytes")
    return path.read_bytes().decode()


def read_manifest(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest of a run and its fault; the fault is empty if the manifest is unsealed or unchanged."""
    path = folder / MANIFEST
    try:
        text = _text(path)
        manifest = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"it cannot be read: {error}"
    if not isinstance(manifest, dict):
        return {}, "expected a map"
    if _SEAL in manifest and (manifest[_SEAL] != _own_digest(manifest) or text != text_of(manifest)):
        return manifest, "it is not what was sealed"
    return manifest, ""


class Files:
    """Check files of a run's folder by their digests and yield each faulty file with its fault; read each file once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digests: dict[str, str] = {}

    def sealed(self, manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Check the files that a manifest lists, and the models that their index lists."""
        files = manifest.get("files")
        for name, row in files.items() if isinstance(files, dict) else ():
            yield from self.file(name, row.get("sha256") if isinstance(row, dict) else None)
        if isinstance(files, dict) and _INDEX in files:
            yield from self._indexed()

    def file(self, name: str, sha256: Any) -> Iterator[tuple[str, str]]:
        """Check one file; a `name` that leaves the folder is a fault."""
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or "\0" in name:
            yield name, "its path leaves the folder of the run"
            return
        try:
            if name not in self._digests:
                self._digests[name] = file_digest(self._folder / place)
            if self._digests[name] != sha256:
                yield name, f"expected SHA-256 {sha256!s:.64}, found {self._digests[name]}"
        except OSError as error:
            yield name, f"it cannot be read: {error.strerror or error}"

    def model(self, path: str, sha256: Any) -> Iterator[tuple[str, str]]:
        """Check a model file by the path under which it was stored; the results may have been moved since."""
        parts = PurePosixPath(path).parts[-4:]  # brains/<phase>/<agent>/<file>
        if len(parts) < 4 or parts[0] != BRAINS:
            yield path[:200], "its path leaves the folder of the run"
            return
        yield from self.file("/".join(parts), sha256)

    def _indexed(self) -> Iterator[tuple[str, str]]:
        try:
            tree = json.loads(_text(self._folder / _INDEX))
            rows = [(str(row["path"]), row["sha256"]) for row in tree["models"]]
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            yield _INDEX, f"it cannot be read: {type(error).__name__}: {error}"
            return
        for path, sha256 in rows:
            yield from self.file(f"brains/{path}", sha256)
