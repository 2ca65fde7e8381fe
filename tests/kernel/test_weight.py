from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KERNEL = Path(__file__).parents[2] / "kernel" / "ganglion"

NEVER = {"gymnasium", "matplotlib", "pandas", "pyarrow", "ray", "sqlalchemy", "starlette", "torch"}
SCRIPT = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def _room(name: str) -> list[str]:
    """Return the dotted names of all modules of a room, or of the module of that name."""
    single = KERNEL / f"{name}.py"
    paths = [single] if single.is_file() else sorted((KERNEL / name).rglob("*.py"))
    assert paths, f"there is neither a room nor a module ganglion.{name}"
    dotted = [".".join(path.relative_to(KERNEL.parent).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in dotted if not name.endswith("__main__")]


def _imported_by(*modules: str) -> set[str]:
    """Return the top-level names in `sys.modules` of a new process that imports `modules`."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, *modules], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_package_itself_is_weightless() -> None:
    """Importing `ganglion` imports no dependency and none of its own rooms' weight."""
    dependencies = {"asyncio", "click", "msgpack", "numpy", "pydantic", "rich", "structlog", "uvloop", "yaml", "zmq"}

    assert set() == (dependencies | NEVER) & _imported_by("ganglion")


def test_help_costs_click_only() -> None:
    """The module of the command line imports click, and leaves everything else to the command that needs it."""
    heavy = {"asyncio", "msgpack", "numpy", "pydantic", "rich", "structlog", "uvloop", "yaml", "zmq"}

    assert set() == (heavy | NEVER) & _imported_by("ganglion.cli.main")


def test_rooms_need_no_arrays() -> None:
    """The processes that carry, start and print do not import numpy, and no room imports what belongs to plugins."""
    rooms = ["broker", "cli", "document", "log", "registry", "supervisor", "transport", "wire"]

    assert set() == ({"numpy"} | NEVER) & _imported_by(*(name for room in rooms for name in _room(room)))


def test_documents_need_neither_sockets_nor_logs() -> None:
    """A document is checked without pyzmq, uvloop and structlog, so that `check` is quick."""
    assert set() == {"structlog", "uvloop", "zmq"} & _imported_by(*_room("document"))


def test_rooms_are_free_of_plugins_weight() -> None:
    """No room of the kernel imports what belongs to plugins, and no participant what reads documents."""
    rooms = ["peer", "run", "sdk", "testing"]

    assert set() == ({"pydantic", "yaml"} | NEVER) & _imported_by(*(name for room in rooms for name in _room(room)))
