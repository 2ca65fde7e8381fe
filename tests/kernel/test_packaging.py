from __future__ import annotations

import configparser
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {ROOT: "ganglion"} | {
    path.parent: path.parent.name.replace("-", "_") for path in sorted((ROOT / "plugins").glob("*/pyproject.toml"))
}

# What `python -m build --wheel` asks of the backend, but in one process for all.
BUILD = """
import os, sys
from hatchling.build import build_wheel
for source, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    os.chdir(source)
    os.mkdir(folder)
    build_wheel(folder)
"""


def _project(source: Path) -> dict[str, object]:
    """Return the table `project` of a distribution."""
    return tomllib.loads((source / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, zipfile.Path]:
    """Build the wheel of every distribution; return them by source folder."""
    folder = tmp_path_factory.mktemp("wheels")
    places = [str(path) for source in SOURCES for path in (source, folder / source.name)]
    done = subprocess.run([sys.executable, "-c", BUILD, *places], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {source: zipfile.Path(*(folder / source.name).glob("*.whl")) for source in SOURCES}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_distribution_has_a_paper(source: Path) -> None:
    """The README of a distribution begins with its name, in the checkout and on a package index; the list names it."""
    project = _project(source)
    listed = (ROOT / "plugins" / "README.md").read_text()

    assert "README.md" == project["readme"]
    assert (source / "README.md").read_text().casefold().startswith(f"# {project['name']}\n")
    assert source == ROOT or f"[{project['name']}]({project['name']}/README.md)" in listed


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_wheel_holds_one_package(source: Path, wheels: dict[Path, zipfile.Path]) -> None:
    """A wheel installs its one package, typed, and nothing beside it."""
    top = {entry.name for entry in wheels[source].iterdir() if not entry.name.endswith(".dist-info")}

    assert {SOURCES[source]} == top
    assert wheels[source].joinpath(SOURCES[source], "py.typed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_wheel_holds_every_file_of_the_source(source: Path, wheels: dict[Path, zipfile.Path]) -> None:
    """Modules and package data that git knows are all in the wheel."""
    package = source / "kernel" / "ganglion" if source == ROOT else source / SOURCES[source]
    tracked = subprocess.run(["git", "ls-files", "."], cwd=package, capture_output=True, text=True, check=True)
    names = wheels[source].root.namelist()

    lacking = [name for name in tracked.stdout.split() if f"{package.name}/{name}" not in names]
    assert [] == [name for name in lacking if (package / name).exists()]


@pytest.mark.slow
def test_wheel_holds_the_programs_of_other_languages(wheels: dict[Path, zipfile.Path]) -> None:
    """Recipes and programs of `plugins/foreign` are data of the kit's wheel, and the vectors too."""
    command = ["git", "ls-files", "plugins/foreign"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = set(wheels[ROOT / "plugins" / "ganglion-conformance"].root.namelist())

    assert "plugins/foreign/recipes.yml" in tracked
    assert [] == [name for name in tracked if name.replace("plugins/", "ganglion_conformance/", 1) not in names]
    assert "ganglion_conformance/vectors/v1/messages.jsonl" in names


@pytest.mark.slow
@pytest.mark.parametrize("source", [source for source in SOURCES if source != ROOT], ids=lambda path: path.name)
def test_wheel_declares_the_entry_points(source: Path, wheels: dict[Path, zipfile.Path]) -> None:
    """The built wheel offers the entry points that its pyproject.toml declares."""
    declared = _project(source).get("entry-points", {})
    (metadata,) = [entry for entry in wheels[source].iterdir() if entry.name.endswith(".dist-info")]
    offered = configparser.ConfigParser(delimiters="=")
    offered.optionxform = str
    if (metadata / "entry_points.txt").exists():
        offered.read_string((metadata / "entry_points.txt").read_text())

    assert declared == {section: dict(offered[section]) for section in offered.sections()}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_dependencies_have_lower_bounds_only(source: Path) -> None:
    """No distribution of ours keeps a newer release of a library from being used."""
    project = _project(source)
    groups = [project["dependencies"], *project.get("optional-dependencies", {}).values()]

    assert [] == [
        need
        for group in groups
        for need in group
        if any(sign in need.partition(";")[0] for sign in ("<", "==", "~=", "!="))  # behind it: for whom
    ]


def test_standard_holds_distributions_that_exist() -> None:
    """The extra `standard` names distributions of this repository."""
    ours = {source.name for source in SOURCES if source != ROOT}

    assert set(_project(ROOT)["optional-dependencies"]["standard"]) <= ours


def test_top_level_is_the_one_that_was_agreed() -> None:
    """What is visible at the top of the repository is a short list that does not grow by accident."""
    agreed = {"CHANGELOG.md", "LICENSE", "README.md", "kernel", "plugins", "pyproject.toml", "scripts", "tests"}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    visible = {line.split("/")[0] for line in tracked.splitlines() if not line.startswith(".")}

    assert agreed == visible
