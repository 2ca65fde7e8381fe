"""`ganglion doctor`: looks whether this machine has what is needed; each finding with its cure."""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

import ganglion
from ganglion import registry
from ganglion.cli.child import find_misfits
from ganglion.cli.settings import Settings
from ganglion.cli.stores import default_uri
from ganglion.errors import GanglionError
from ganglion.limits import PEERS
from ganglion.supervisor.connection import endpoint_folder, find_connections
from ganglion.supervisor.linux import LINUX
from ganglion.supervisor.operator import Operator
from ganglion.transport.curve import new_pair
from ganglion.wire.messages import Nothing

_PYTHON = (3, 11)
_PACKAGES = ("click", "msgpack", "numpy", "pydantic", "pyyaml", "pyzmq", "rich", "structlog", "uvloop")
_ROLES = ("environment", "muscle", "brain", "objective", "controller", "condition", "store")
_FILES = PEERS + 64  # what the broker needs at most


@dataclass(frozen=True, slots=True)
class Finding:
    """Say what was looked at, how it is (`ok`, `warn`, `fail`), and what cures it."""

    what: str
    state: str
    text: str
    cure: str = ""


@click.command("doctor")
@click.pass_obj
def command(settings: Settings) -> int:
    """Look at Python, packages, limits, folders, store, kernel, plugins; exit status 1 if one fails."""
    findings = list(examine(settings))
    if settings.json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            cure = f"; {finding.cure}" if finding.cure else ""
            click.echo(f"{finding.state:<4}  {finding.what:<10}  {finding.text}{cure}")
    return 1 if any(finding.state == "fail" for finding in findings) else 0


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield one finding after the other."""
    yield _python()
    yield _packages()
    yield _processes()
    yield _socket()
    yield _curve()
    yield _files()
    yield _results(settings.results)
    yield _store(settings)
    yield _kernel(settings)
    yield from _plugins()


def _python() -> Finding:
    found = sys.version.split()[0]
    system = os.uname()  # `platform.platform()` would start a program to find out more
    where = f"{found} at {sys.executable}, ganglion {ganglion.__version__} on {system.sysname} {system.release}"
    if sys.version_info < _PYTHON:
        return Finding("python", "fail", where, "install Python 3.11 or newer")
    return Finding("python", "ok", where)


def _packages() -> Finding:
    found, missing = [], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding("packages", "fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    return Finding("packages", "ok", ", ".join(found))


def _processes() -> Finding:
    if not LINUX:
        text = "no warm parent and no child subreaper on this system: processes start by exec, in 0.2 s each"
        return Finding("processes", "warn", text)
    if not hasattr(os, "pidfd_open"):
        return Finding(
            "processes", "fail", "this Python has no pidfd_open", "use a Python built for Linux 5.3 or newer"
        )
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding("processes", "fail", f"pidfd_open: {error.strerror}", "Linux 5.3 or newer is needed")
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return Finding("processes", "ok", f"warm parent, subreaper, pidfd; at most {_number(soft)} processes")


def _socket() -> Finding:
    try:
        folder, endpoint = endpoint_folder(f"doctor-{os.getpid()}")
        path = endpoint.removeprefix("ipc://")
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
        finally:
            Path(path).unlink(missing_ok=True)
            folder.rmdir()
    except (OSError, GanglionError) as error:
        return Finding(
            "ipc", "fail", f"cannot bind a socket: {error}", "set XDG_RUNTIME_DIR or TMPDIR to a short, writable path"
        )
    return Finding("ipc", "ok", f"sockets in {folder.parent}")


def _curve() -> Finding:
    try:
        new_pair()
    except (ImportError, GanglionError) as error:
        return Finding(
            "curve", "warn", f"no other machine can be let in: {error}", "pip install --force-reinstall pyzmq"
        )
    return Finding("curve", "ok", "keys can be made; other machines may be let in by --bind")


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_number(soft)} open files, at most {_number(hard)}"
    if hard != resource.RLIM_INFINITY and hard < _FILES:
        return Finding("files", "warn", text, f"`ulimit -n {_FILES}` serves {PEERS} peers; fewer are served now")
    return Finding("files", "ok", text)


def _results(results: Path) -> Finding:
    there = results
    while not there.exists():
        there = there.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        cure = "choose another folder with --results DIR"
        return Finding("results", "fail", f"{results} cannot be written: {error.strerror}", cure)
    return Finding("results", "ok", str(results.absolute()))


def _store(settings: Settings) -> Finding:
    if settings.store == "none":
        return Finding("store", "warn", "none: nothing is kept")
    uri = settings.store or default_uri(settings.results)
    scheme = uri.partition(":")[0]
    try:
        entry = registry.find("store", scheme)
    except GanglionError as error:
        return Finding("store", "fail", str(error))
    return Finding("store", "ok", f"{scheme} of {entry.origin}")


def _kernel(settings: Settings) -> Finding:
    living = []
    for path, connection in find_connections(settings.results):
        try:
            with Operator(connection) as operator:
                info = operator.ask("kernel.info", Nothing())
        except GanglionError as error:
            return Finding(
                "kernel", "warn", f"{path} does not answer: {error}", f"is process {connection.pid} stopped?"
            )
        living.append(f"{connection.run or 'daemon'} ({info.peers} peers, process {connection.pid})")
    return Finding("kernel", "ok", ", ".join(living) or "none is running")


def _plugins() -> Iterator[Finding]:
    entries = [entry for group in registry.GROUPS for entry in registry.entries(group)]
    wrong = find_misfits(entries)
    for (group, distribution, name), fault in wrong.items():
        yield Finding(
            "plugins", "fail", f"{group} {name} of {distribution}: {fault}", f"update or remove {distribution}"
        )
    lacking = [role for role in _ROLES if not registry.entries(role)]
    if lacking:
        yield Finding("plugins", "fail", f"none for: {', '.join(lacking)}", registry.STANDARD)
    if not wrong and not lacking:
        count = len({entry.distribution for entry in entries})
        yield Finding("plugins", "ok", f"{len(entries)} of {count} distributions, all fit")


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
