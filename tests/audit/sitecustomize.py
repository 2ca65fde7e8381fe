"""Watch what a process of a test does that none of ours may do: an audit hook, loaded before everything else.

The interpreter tells its audit hooks of everything that reads code, starts programs, or opens files.
`tests/conftest.py` installs this one in the process of the tests, and puts this folder on `PYTHONPATH`, so that every
process of Ganglion which a test starts (supervisor, broker, warm parent, and what is forked from it) has it from its
first line on. What it finds it appends to the file `GANGLION_AUDIT`, and the test under way fails.

It lets authors do as they like: environments, muscles and brains of a test may start programs and write files.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).parents[2])
OURS = (f"{ROOT}/kernel/", f"{ROOT}/plugins/")
TESTS = (f"{ROOT}/tests/", f"{ROOT}/scripts/")
PACKAGES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
LIBRARY = sysconfig.get_path("stdlib")

STARTS = (
    "supervisor/launch/local.py",
    "supervisor/launch/reaper.py",
    "peer/check.py",
    "peer/lines.py",
    "cli/child.py",
    "ganglion_conformance/drivers.py",
    "ganglion_conformance/recipes.py",
    "ganglion_mosaik/link.py",
    "ganglion_mosaik/simulator.py",
    "ganglion_observers/beside.py",
    "ganglion_python/runs.py",
    "ganglion_ray/keeper.py",
    "ganglion_web/command.py",
    "ganglion_web/commands.py",
)  # these start programs; nothing else does
MAKERS = ("dataclasses.py", "collections/__init__.py", "typing.py", "enum.py", "functools.py", "inspect.py", "runpy.py")
HARNESS = ("_pytest", "pluggy", "hypothesis", "pydantic", "pydantic_core", "typing_extensions.py", "attr", "attrs")
AUTHORS = ("environment", "muscle", "brain", "observer", "check", "ganglion.cli.child")  # run what an author wrote
NEVER = frozenset({"cloudpickle", "dill", "joblib", "jsonpickle", "shelve"})  # reading with these executes
# who imports it for files of his own, which are none of ours
BROUGHT = {
    "cloudpickle": ("pyarrow", "ray", "stable_baselines3"),
    "dill": ("multiprocess", "torch"),
    "jsonpickle": ("palaestrai",),
}
HEAVY = frozenset({"numpy", "pandas", "torch", "sqlalchemy", "matplotlib", "gymnasium", "sqlite3"})
# what starts a program beside a command, in the supervisor; nothing else of these plugins is imported there
BESIDE = ("ganglion_observers", "ganglion_observers.beside", "ganglion_web", "ganglion_web.command")
TABLES = ("ganglion_palaestrai", "ganglion_sweep")  # plugins with tables of names, which the supervisor reads
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def is_ours(argv: list[str]) -> bool:
    """Say whether a command line is one of Ganglion's processes."""
    modules = [argv[place + 1] for place, word in enumerate(argv[:-1]) if word == "-m"]
    return any(module.partition(".")[0] in ("ganglion", "ganglion_conformance") for module in modules) or any(
        Path(word).name == "ganglion" for word in argv[1:2]
    )


def _kind() -> str:
    """Return what this process is: a role, `broker`, `supervisor`, `tests`, or the name of its module."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.endswith("ganglion/peer/check.py"):
            return "check"
        if path.endswith("ganglion/peer/main.py"):
            variables = frame.f_locals.get("variables")
            if isinstance(variables, dict) and "GANGLION_ROLE" in variables:
                return str(variables["GANGLION_ROLE"])
        frame = frame.f_back
    argv = sys.orig_argv
    if "-m" not in argv:
        return "supervisor" if {"run", "kernel"} & set(argv[2:3]) else "tests"
    module = argv[argv.index("-m") + 1]
    return {"ganglion.transport.server": "broker", "pytest": "tests"}.get(module, module)


def _within(path: str, places: tuple[str, ...]) -> bool:
    return path.startswith(places)


def _importing(frame: Any) -> bool:
    """Say whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _comes_from(frame: Any, package: str) -> bool:
    """Say whether something is done for a module of an installed package."""
    while frame is not None:
        if _package(frame.f_code.co_filename) == package:
            return True
        frame = frame.f_back
    return False


def _package(path: str) -> str:
    """Return the first part of a path below the installed packages, empty for a file elsewhere."""
    for place in PACKAGES:
        if path.startswith(f"{place}/"):
            return path[len(place) + 1 :].partition("/")[0]
    return ""


def _on_exec(frame: Any, args: tuple[Any, ...]) -> str | None:
    path = frame.f_code.co_filename
    if path.startswith("<frozen ") or _package(path) in HARNESS:
        return None
    if path.startswith(LIBRARY) and path.endswith(MAKERS):
        return None
    if path == f"{LIBRARY}/doctest.py" and _kind() == "tests":
        return None  # the examples of docstrings
    if _package(path) == "sqlalchemy" and any(_comes_from(frame, package) for package in ("optuna", "palaestrai")):
        return None  # their tables are classes, whose constructors SQLAlchemy writes
    if not _within(path, (*OURS, *TESTS)) and _importing(frame):
        return None  # what a library does when it is imported is its own
    return f"code {getattr(args[0], 'co_filename', args[0])!s:.100}"


def _on_marshal(frame: Any, args: tuple[Any, ...]) -> str | None:
    path = frame.f_code.co_filename
    return None if path.startswith("<frozen importlib") or _package(path) == "_pytest" else "read code"


def _on_pickle(frame: Any, args: tuple[Any, ...]) -> str | None:
    return None if _comes_from(frame, "harl") else f"{args[0]}.{args[1]}"  # its agents pickle dumps of their own


def _on_start(frame: Any, args: tuple[Any, ...]) -> str | None:
    """Look at who starts a program: past the library's own frames."""
    while frame is not None and frame.f_code.co_filename.startswith((LIBRARY, "<frozen ")):
        if _package(frame.f_code.co_filename):
            break
        frame = frame.f_back
    path = "" if frame is None else frame.f_code.co_filename
    if not _within(path, OURS) or path.endswith(STARTS):
        return None
    return f"{args[:2]!r:.200}"


def _on_import(frame: Any, args: tuple[Any, ...]) -> str | None:
    top = str(args[0]).partition(".")[0]
    if top in NEVER:
        return None if any(_comes_from(frame, who) for who in BROUGHT.get(top, ())) else str(args[0])
    if top not in HEAVY and not top.startswith("ganglion_"):
        return None
    kind = _kind()
    if kind == "broker" or (kind == "supervisor" and top not in TABLES and args[0] not in BESIDE):
        return f"{args[0]}"
    return None


def _on_open(frame: Any, args: tuple[Any, ...]) -> str | None:
    path, mode, flags = args
    if isinstance(mode, str):
        if not set("wax+") & set(mode):
            return None
    elif not (flags or 0) & WRITES:
        return None
    if isinstance(path, int):
        return None
    text = os.fsdecode(path)
    if "/" not in text and (flags or 0) & os.O_NOFOLLOW:
        return None  # below the descriptor of a folder, which was looked at when that was opened
    full = os.path.abspath(text)  # noqa: PTH100 - links are not followed here
    if "/__pycache__/" in full or _within(f"{full}/", _PLACES):
        return None
    return full


_PLACES = (
    f"{tempfile.gettempdir()}/",
    f"{os.environ.get('XDG_RUNTIME_DIR') or tempfile.gettempdir()}/",
    "/dev/null/",
    "/dev/shm/",
    "/dev/pts/",
    "/dev/tty/",
    "/proc/",
    f"{ROOT}/.pytest_cache/",
    f"{ROOT}/pytest-cache-files-",  # what pytest renames to the folder above
    f"{ROOT}/.hypothesis/",
)
_JUDGES: dict[str, Callable[[Any, tuple[Any, ...]], str | None]] = {
    "exec": _on_exec,
    "marshal.load": _on_marshal,
    "marshal.loads": _on_marshal,
    "pickle.find_class": _on_pickle,
    "os.system": _on_start,
    "os.exec": _on_start,
    "os.posix_spawn": _on_start,
    "subprocess.Popen": _on_start,
    "import": _on_import,
    "open": _on_open,
}
_ANYWHERE = ("pickle.find_class", "import")


def install(report: Callable[[str], None]) -> None:
    """Watch this process for the rest of its life; `report` is told each event in one line."""
    judges = _JUDGES
    busy = False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal busy
        judge = judges.get(event)
        if judge is None or busy:
            return
        try:
            frame = sys._getframe(1)
        except ValueError:
            return  # the interpreter itself, before the first line
        busy = True
        try:
            found = judge(frame, args)
            if found is not None:
                kind = _kind()
                if kind not in AUTHORS or event in _ANYWHERE:
                    report(f"{kind} {os.getpid()}: {event}: {found} at {frame.f_code.co_filename}:{frame.f_lineno}")
        finally:
            busy = False

    sys.addaudithook(hook)


def _append(line: str) -> None:
    with open(os.environ["GANGLION_AUDIT"], "a", encoding="utf-8") as file:  # noqa: PTH123 - no import of ours
        file.write(line.replace("\n", " ") + "\n")


if os.environ.get("GANGLION_AUDIT") and is_ours(sys.orig_argv) and __name__ == "sitecustomize":
    install(_append)
    if os.environ.get("GANGLION_AUDIT_HELLO"):
        _append(f"{_kind()} {os.getpid()}: watched")
