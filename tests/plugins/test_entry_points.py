from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest

from ganglion.sdk.part import parameters_of

ROOT = Path(__file__).parents[2]
GROUPS = {
    "aliases", "bodies", "brains", "commands", "companions", "conditions", "controllers", "designs", "documents",
    "environments", "filters", "launchers", "muscles", "objectives", "observers", "python", "replays", "rewards",
    "schemas",
    "stores", "tables", "tracers", "transformers",
}  # fmt: skip
MADE = {  # whose classes are made with `params` of a document
    f"ganglion.{kind}s"
    for kind in (
        "brain", "condition", "controller", "environment", "filter", "muscle", "objective", "observer", "reward",
        "transformer",
    )
}  # fmt: skip
DECLARED = {
    path.parent.name: tomllib.loads(path.read_text())["project"].get("entry-points", {})
    for path in sorted((ROOT / "plugins").glob("*/pyproject.toml"))
}
POINTS = [
    pytest.param(name, EntryPoint(key, value, group), id=f"{name}:{group}:{key}")
    for name, groups in DECLARED.items()
    for group, table in groups.items()
    for key, value in table.items()
]


@pytest.mark.parametrize("name", DECLARED)
def test_groups_are_known(name: str) -> None:
    """A plugin of ours declares entry points in groups that the kernel reads."""
    assert set() == set(DECLARED[name]) - {f"ganglion.{group}" for group in GROUPS}


@pytest.mark.parametrize("name", DECLARED)
def test_installed_entry_points_are_those_declared(name: str) -> None:
    """What is installed is what pyproject.toml says; if not, scripts/setup has to run again."""
    installed = {(point.group, point.name, point.value) for point in distribution(name).entry_points}
    declared = {(group, key, value) for group, table in DECLARED[name].items() for key, value in table.items()}

    assert declared == installed


@pytest.mark.parametrize(("name", "point"), POINTS)
def test_entry_point_loads(name: str, point: EntryPoint) -> None:
    """Every entry point leads to something in the package of its own distribution."""
    assert point.module.split(".")[0] == name.replace("-", "_")
    assert point.load() is not None


def told_params(cls: type) -> dict[str, str]:
    """Return what the docstring of a class says of each of its parameters."""
    _, _, section = (inspect.getdoc(cls) or "").partition("\nParams:\n")
    found: dict[str, str] = {}
    for line in section.splitlines():
        if line and not line.startswith("    "):
            break
        name, colon, text = line.strip().partition(": ")
        if colon and line[4:5].strip():
            found[name] = text
        elif found:
            found[list(found)[-1]] += f" {line.strip()}"
    return found


@pytest.mark.parametrize(("name", "point"), [it for it in POINTS if it.values[1].group in MADE])
def test_a_class_says_what_its_params_are(name: str, point: EntryPoint) -> None:
    """`ganglion plugins NAME` prints each parameter, and its default where it has one."""
    cls = point.load()
    taken, any_keyword = parameters_of(cls)
    own = {key: it for key, it in taken.items() if key not in ("uid", "seed", "broker_uri")}
    told = told_params(cls)
    silent = [key for key, it in own.items() if it.default is not it.empty and "efault" not in told.get(key, "")]

    assert cls.__dict__.get("__doc__"), "it says nothing of itself"
    assert [] == silent
    assert set(own) == set(told) or (any_keyword and set(own) < set(told))


@pytest.mark.parametrize("name", DECLARED)
def test_package_imports_nothing_heavy(name: str) -> None:
    """Importing a plugin's package alone, as listing plugins may, pulls in no numpy, SQLAlchemy or torch."""
    package = name.replace("-", "_")
    script = f"import {package}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert set() == {"gymnasium", "numpy", "sqlalchemy", "torch"} & set(done.stdout.split())
