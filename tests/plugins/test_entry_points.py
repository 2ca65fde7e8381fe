from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GROUPS = {
    "aliases", "brains", "commands", "conditions", "controllers", "designs", "documents", "environments", "filters",
    "launchers", "muscles", "objectives", "observers", "rewards", "schemas", "stores", "transformers",
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
    declared = {
        (group, key, value) for group, table in DECLARED[name].items() for key, value in table.items()
    }

    assert declared == installed


@pytest.mark.parametrize(("name", "point"), POINTS)
def test_entry_point_loads(name: str, point: EntryPoint) -> None:
    """Every entry point leads to something in the package of its own distribution."""
    assert point.module.split(".")[0] == name.replace("-", "_")
    assert point.load() is not None


@pytest.mark.parametrize("name", DECLARED)
def test_package_imports_nothing_heavy(name: str) -> None:
    """Importing a plugin's package alone, as listing plugins may, pulls in no numpy, SQLAlchemy or torch."""
    package = name.replace("-", "_")
    script = f"import {package}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert set() == {"gymnasium", "numpy", "sqlalchemy", "torch"} & set(done.stdout.split())
