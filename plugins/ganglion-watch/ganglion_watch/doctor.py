"""`ganglion doctor`: whether this machine has what is needed."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ganglion.cli.extension import (
    LINUX,
    PEERS,
    GanglionError,
    Nothing,
    Operator,
    __version__,
    endpoint_folder,
    find_connections,
    find_misfits,
    launcher_of,
    new_pair,
    registry,
)
from ganglion.cli.settings import Settings
from ganglion.cli.stores import store_of
from ganglion.cli.table import tell

_PYTHON = (3, 11)
_PACKAGES = ("click", "msgpack", "numpy", "pydantic", "pyyaml", "pyzmq", "rich", "structlog", "uvloop")
_ROLES = ("environment", "muscle", "brain", "objective", "controller", "condition", "store")
_FILES = PEERS + 64  # what the broker needs at most


@click.command("doctor")
@click.pass_obj
def doctor(settings: Settings) -> int:
    """Look at Python, packages, limits, folders, store, kernel, plugins; exit status 1 if one fails."""
    found = list(_examined(settings))
    rows = [{"what": what, "state": state, "text": text, "cure": "".join(cure)} for what, state, text, *cure in found]
    tell(settings, rows, (f"{state:<4}  {what:<10}  {'; '.join(said)}" for what, state, *said in found))
    return 1 if any(row["state"] == "fail" for row in rows) else 0


_Found = (
    str | list[tuple[str, ...]]
)  # what is well, or of each thing its state, a text, and where there is one the cure


def _examined(settings: Settings) -> Iterator[tuple[str, ...]]:
    """Yield what each check has found, or what it means that it raised something."""
    for check in _CHECKS:
        try:
            found = check(settings)
        except (OSError, ImportError, GanglionError) as error:
            state, text, *cure = _RAISED.get(check, ("fail", "not known"))
            found = [(state, f"{text}: {error}", *cure)]
        for row in [("ok", found)] if isinstance(found, str) else found:
            yield check.__name__.removeprefix("_"), *row


def _python(settings: Settings) -> _Found:
    system = os.uname()  # `platform.platform()` would start a program to find out more
    where = f"{sys.version.split()[0]} at {sys.executable}, ganglion {__version__}"
    where += f" on {system.sysname} {system.release}"
    return where if sys.version_info >= _PYTHON else [("fail", where, "install Python 3.11 or newer")]


def _packages(settings: Settings) -> _Found:
    there = {str(it.metadata["Name"]).lower(): it.version for it in importlib.metadata.distributions()}
    missing = [name for name in _PACKAGES if name not in there]
    if missing:
        return [("fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")]
    return ", ".join(f"{name} {there[name]}" for name in _PACKAGES)


def _processes(settings: Settings) -> _Found:
    if not LINUX:
        return [
            ("warn", "no warm parent and no child subreaper on this system: processes start by exec, in 0.2 s each")
        ]
    if not hasattr(os, "pidfd_open"):
        return [("fail", "this Python has no pidfd_open", "use a Python built for Linux 5.3 or newer")]
    os.close(os.pidfd_open(os.getpid()))
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return f"warm parent, subreaper, pidfd; at most {_number(soft)} processes"


def _ipc(settings: Settings) -> _Found:
    folder, endpoint = endpoint_folder(f"doctor-{os.getpid()}")
    path = endpoint.removeprefix("ipc://")
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
    finally:
        Path(path).unlink(missing_ok=True)
        folder.rmdir()
    return f"sockets in {folder.parent}"


def _curve(settings: Settings) -> _Found:
    new_pair()
    return "keys can be made; other machines may be let in by --bind"


def _files(settings: Settings) -> _Found:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_number(soft)} open files, at most {_number(hard)}"
    if hard != resource.RLIM_INFINITY and hard < _FILES:
        return [("warn", text, f"`ulimit -n {_FILES}` serves {PEERS} peers; fewer are served now")]
    return text


def _results(settings: Settings) -> _Found:
    there = settings.results
    while not there.exists():
        there = there.absolute().parent
    with tempfile.TemporaryFile(dir=there):
        return str(settings.results.absolute())


def _store(settings: Settings) -> _Found:
    uri = store_of(settings)
    if uri is None:
        return [("warn", "none: nothing is kept")]
    scheme = uri.partition(":")[0]
    return f"{scheme} of {registry.find('store', scheme).origin}"


def _kernel(settings: Settings) -> _Found:
    living = []
    for _, connection in find_connections(settings.results):
        with Operator(connection) as operator:
            info = operator.ask("kernel.info", Nothing())
        living.append(f"{connection.run or 'daemon'} ({info.peers} peers, process {connection.pid})")
    return ", ".join(living) or "none is running"


def _plugins(settings: Settings) -> _Found:
    entries = [entry for group in registry.GROUPS for entry in registry.entries(group)]
    found: list[tuple[str, ...]] = [
        ("fail", f"{group} {name} of {distribution}: {fault}", f"update or remove {distribution}")
        for (group, distribution, name), fault in find_misfits(entries).items()
    ]
    lacking = [role for role in _ROLES if not registry.entries(role)]
    if lacking:
        found.append(("fail", f"none for: {', '.join(lacking)}", registry.STANDARD))
    return found or f"{len(entries)} of {len({entry.distribution for entry in entries})} distributions, all fit"


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def _launcher(settings: Settings) -> _Found:
    launcher = launcher_of(settings)
    if launcher is None:
        return "of this machine"
    return [(state, text, *filter(None, [cure])) for state, text, cure in launcher.examine()]


# each is named for what it looks at
_CHECKS = (_python, _packages, _processes, _ipc, _curve, _files, _results, _store, _kernel, _launcher, _plugins)
_RAISED: dict[Callable[[Settings], _Found], tuple[str, ...]] = {  # state, text and cure where a check raises something
    _processes: ("fail", "pidfd_open", "Linux 5.3 or newer is needed"),
    _ipc: ("fail", "cannot bind a socket", "set XDG_RUNTIME_DIR or TMPDIR to a short, writable path"),
    _curve: ("warn", "no other machine can be let in", "pip install --force-reinstall pyzmq"),
    _results: ("fail", "cannot be written", "choose another folder with --results DIR"),
    _kernel: ("warn", "a kernel does not answer", "is its process stopped?"),
}
