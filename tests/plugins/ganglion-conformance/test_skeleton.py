from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ganglion import registry
from ganglion.document import load_document
from ganglion.errors import DocumentError
from ganglion_conformance import Order, PluginDriver, judge
from ganglion_conformance.new import KINDS, foreign_skeleton, skeleton
from ganglion_conformance.recipes import Probe, Recipe


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_point_names_a_class_that_is_there(kind: str) -> None:
    """Each part has an entry point in its group, and the module that it names holds the class."""
    files = skeleton(kind, "my-tank")
    project = tomllib.loads(files["pyproject.toml"])["project"]

    assert [registry.GROUPS[part].entry_points for part in KINDS[kind]] == list(project["entry-points"])
    for entries in project["entry-points"].values():
        ((name, value),) = entries.items()
        module, _, cls = value.partition(":")
        tree = ast.parse(files[module.replace(".", "/") + ".py"])
        assert "my-tank" == name
        assert cls in [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_word_of_a_template_is_left(kind: str) -> None:
    """All words are filled in, and each part has a test."""
    files = skeleton(kind, "my-tank")

    assert [] == [path for path, text in files.items() if "$" in text]
    assert {f"tests/test_{part}.py" for part in KINDS[kind]} == {p for p in files if p.startswith("tests/")}


def test_it_is_clean(tmp_path: Path) -> None:
    """What is written has the form that it recommends: a formatter would change nothing, a linter says nothing."""
    for path, text in skeleton("plugin", "tank").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    options = ["--isolated", "--no-cache", "--line-length", "120", str(tmp_path)]
    check = subprocess.run([*ruff, "check", "--select", "E,F,B,UP,D1,ANN", "--ignore", "D100,D107,ANN401", *options])
    form = subprocess.run([*ruff, "format", "--diff", *options], capture_output=True, text=True)

    assert 0 == check.returncode
    assert (0, "") == (form.returncode, form.stdout)


def test_the_document_of_each_names_what_is_there(tmp_path: Path) -> None:
    """Beside its own plugins a document names only what is installed with Ganglion."""
    for kind in KINDS:
        (tmp_path / f"{kind}.yml").write_text(skeleton(kind, "my-tank")["run.yml"])
        with pytest.raises(DocumentError) as caught:
            load_document(str(tmp_path / f"{kind}.yml"), plugins=registry)
        wrong = [fault.message for fault in caught.value.faults]

        assert [] == [message for message in wrong if "`my-tank`" not in message]
        assert len(KINDS[kind]) == len(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_what_the_bus_expects(tmp_path: Path, kind: str) -> None:
    """The tests that it comes with pass, and the kit finds no clause that its environment or its muscle breaks."""
    package = f"{kind}_of_a_skeleton"
    files = skeleton(kind, package.replace("_", "-"))
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    own = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(own, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    entries = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]

    assert 0 == done.returncode, done.stdout + done.stderr
    for role in {"environment", "muscle"} & set(KINDS[kind]):
        (place,) = entries[registry.GROUPS[role].entry_points].values()
        order = Order(role=role, plugin=place, steps=100, curve=False)
        report = judge(PluginDriver(place, str(tmp_path), [package]), order)
        assert [] == [v for v in report.verdicts if v.state == "fail"], "\n".join(report.lines())


def test_a_program_is_built_from_copies(tmp_path: Path) -> None:
    """The build of a program in another language follows its recipe: files, what is fetched, the build, the command."""
    source = tmp_path / "pendulum.x"
    source.write_text("#!/bin/sh\necho it runs, with $(cat kept)\n")
    recipe = Recipe(
        "x",
        "X",
        "x-tools",
        (Probe("true", "x"),),
        ("sh", "{folder}/pendulum"),
        "token",
        (source,),
        fetch="cat settings > kept",
        build='cp "$GANGLION_FETCHED/kept" . && cp pendulum.x pendulum',
        files=(("settings", "a word\n"),),
    )
    for path, text in foreign_skeleton(recipe, "mine").items():
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / path).write_text(text)
    for _ in range(2):  # it can be built again
        subprocess.run(["sh", "mine/build.sh"], cwd=tmp_path, check=True, timeout=30)
    said = subprocess.run(["sh", "pendulum"], cwd=tmp_path / "mine/build", capture_output=True, text=True)

    assert 'command: ["sh", "build/pendulum"]' in (tmp_path / "mine/run.yml").read_text()
    assert "it runs, with a word\n" == said.stdout
