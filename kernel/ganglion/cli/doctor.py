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
from ganglion.cli.stores import store_of
from ganglion.errors import GanglionError
from ganglion.limits import PEERS
from ganglion.supervisor.connection import Operator, endpoint_folder, find_connections
from ganglion.supervisor.linux import LINUX
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
    for check in _CHECKS:
        yield from (Finding(check.__name__.removeprefix("_"), *found) for found in check(settings))


_Found = Iterator[tuple[str, ...]]  # state, text, and where there is one the cure


def _python(settings: Settings) -> _Found:
    system = os.uname()  # `platform.platform()` would start a program to find out more
    where = f"{sys.version.split()[0]} at {sys.executable}, ganglion {ganglion.__version__}"
    where += f" on {system.sysname} {system.release}"
    new = sys.version_info >= _PYTHON
    yield ("ok", where) if new else ("fail", where, "install Python 3.11 or newer")


def _packages(settings: Settings) -> _Found:
    found, missing = [], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield "fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}"
    else:
        yield "ok", ", ".join(found)


def _processes(settings: Settings) -> _Found:
    if not LINUX:
        yield "warn", "no warm parent and no child subreaper on this system: processes start by exec, in 0.2 s each"
    elif not hasattr(os, "pidfd_open"):
        yield "fail", "this Python has no pidfd_open", "use a Python built for Linux 5.3 or newer"
    else:
        try:
            os.close(os.pidfd_open(os.getpid()))
        except OSError as error:
            yield "fail", f"pidfd_open: {error.strerror}", "Linux 5.3 or newer is needed"
        else:
            soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
            yield "ok", f"warm parent, subreaper, pidfd; at most {_number(soft)} processes"


def _ipc(settings: Settings) -> _Found:
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
        yield "fail", f"cannot bind a socket: {error}", "set XDG_RUNTIME_DIR or TMPDIR to a short, writable path"
    else:
        yield "ok", f"sockets in {folder.parent}"


def _curve(settings: Settings) -> _Found:
    try:
        new_pair()
    except (ImportError, GanglionError) as error:
        yield "warn", f"no other machine can be let in: {error}", "pip install --force-reinstall pyzmq"
    else:
        yield "ok", "keys can be made; other machines may be let in by --bind"


def _files(settings: Settings) -> _Found:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_number(soft)} open files, at most {_number(hard)}"
    if hard != resource.RLIM_INFINITY and hard < _FILES:
        yield "warn", text, f"`ulimit -n {_FILES}` serves {PEERS} peers; fewer are served now"
    else:
        yield "ok", text


def _results(settings: Settings) -> _Found:
    there = settings.results
    while not there.exists():
        there = there.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        text = f"{settings.results} cannot be written: {error.strerror}"
        yield "fail", text, "choose another folder with --results DIR"
    else:
        yield "ok", str(settings.results.absolute())


def _store(settings: Settings) -> _Found:
    uri = store_of(settings)
    if uri is None:
        yield "warn", "none: nothing is kept"
        return
    scheme = uri.partition(":")[0]
    try:
        yield "ok", f"{scheme} of {registry.find('store', scheme).origin}"
    except GanglionError as error:
        yield "fail", str(error)


def _kernel(settings: Settings) -> _Found:
    living = []
    for path, connection in find_connections(settings.results):
        try:
            with Operator(connection) as operator:
                info = operator.ask("kernel.info", Nothing())
        except GanglionError as error:
            yield "warn", f"{path} does not answer: {error}", f"is process {connection.pid} stopped?"
            return
        living.append(f"{connection.run or 'daemon'} ({info.peers} peers, process {connection.pid})")
    yield "ok", ", ".join(living) or "none is running"


def _plugins(settings: Settings) -> _Found:
    entries = [entry for group in registry.GROUPS for entry in registry.entries(group)]
    wrong = find_misfits(entries)
    for (group, distribution, name), fault in wrong.items():
        yield "fail", f"{group} {name} of {distribution}: {fault}", f"update or remove {distribution}"
    lacking = [role for role in _ROLES if not registry.entries(role)]
    if lacking:
        yield "fail", f"none for: {', '.join(lacking)}", registry.STANDARD
    if not wrong and not lacking:
        count = len({entry.distribution for entry in entries})
        yield "ok", f"{len(entries)} of {count} distributions, all fit"


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


# each is named for what it looks at
_CHECKS = (_python, _packages, _processes, _ipc, _curve, _files, _results, _store, _kernel, _plugins)
