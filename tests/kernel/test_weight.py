from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


ALL = {"asyncio", "click", "msgpack", "numpy", "pydantic", "rich", "structlog", "uvloop", "yaml", "zmq"}
CARRYING = ["broker", "cli", "document", "log", "registry", "supervisor", "transport", "wire"]
WEIGHT = {  # what is imported -> what that must not bring along
    "the package itself": (["ganglion"], ALL | NEVER),
    "the help of every command": (["ganglion.cli.main"], (ALL - {"click"}) | NEVER),
    "what is meant for commands of plugins": (["ganglion.cli.extension"], {"numpy", "rich", "sqlalchemy", "structlog"}),
    "the process of a broker": (
        ["ganglion.transport.server"],
        ALL - {"asyncio", "msgpack", "structlog", "uvloop"} | NEVER,
    ),
    "what carries, starts and prints": ([name for room in CARRYING for name in _room(room)], {"numpy"} | NEVER),
    "what checks a document": (_room("document"), {"structlog", "uvloop", "zmq"}),
    "participants": (
        [n for room in ("peer", "run", "sdk", "testing") for n in _room(room)],
        {"pydantic", "yaml"} | NEVER,
    ),
}


@pytest.mark.parametrize("what", WEIGHT)
def test_nobody_imports_what_others_need(what: str) -> None:
    """Who carries, starts, prints or checks brings no arrays, sockets or log; nobody brings what belongs to plugins."""
    modules, heavy = WEIGHT[what]

    assert set() == heavy & _imported_by(*modules)
