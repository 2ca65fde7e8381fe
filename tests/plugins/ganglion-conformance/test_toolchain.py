from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import LaunchError
from ganglion_conformance.recipes import Probe, Program, Recipe, build, lacking


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Return a recipe for a program in the language of the shell."""
    source = tmp_path / "hello.sh"
    source.write_text("cat $1 words\n")
    words = {"language": "Shell", "packages": "dash", "run": ("sh", "{folder}/hello.sh"), "auth": "token"}
    return Recipe(name="shell", probe=(Probe(line="true", lacks="sh"),), sources=(source,), **words)


def changed(recipe: Recipe, **fields: Any) -> Recipe:
    """Return a recipe with other fields."""
    return recipe.model_copy(update=fields)


def test_what_lacks_is_the_first_probe_that_fails(recipe: Recipe) -> None:
    """A probe that fails names what is missing; commands that there are not are no error of ours."""
    assert lacking(recipe) is None
    more = Probe(line="no-such-command --version", lacks="no-such (its package)"), Probe(line="false", lacks="x")

    assert "Shell: no no-such (its package)" == lacking(changed(recipe, probe=(*recipe.probe, *more)))


def test_program_is_built_once(recipe: Recipe, tmp_path: Path) -> None:
    """Sources, extra files and what was fetched are together when it is built, and it is not built again."""
    recipe = changed(
        recipe,
        run=(*recipe.run, "{fetched}/got"),
        fetch="echo fetched > got",
        files={"deep/extra": "extra\n"},
        build='cat deep/extra "$GANGLION_FETCHED/got" > words; mkdir -p ../count; mktemp ../count/XXXXXX',
        variables={"HERE": "{folder}"},
    )
    made = [build(recipe, tmp_path / "cache") for _ in range(2)]
    assert isinstance(made[0], Program)
    folder = Path(made[0].variables["HERE"])
    said = subprocess.run(made[0].argv, cwd=folder, capture_output=True, text=True, check=True).stdout

    assert made[0] == made[1]
    assert "fetched\nextra\nfetched\n" == said
    assert 1 == len(list((tmp_path / "cache" / "count").iterdir()))


def test_failing_build_is_an_error_and_leaves_nothing(recipe: Recipe, tmp_path: Path) -> None:
    """A build that fails raises with the compiler's words; the next attempt is not fooled by its remains."""
    broken = changed(recipe, build="echo line 7: no semicolon; exit 3")
    for _ in range(2):
        with pytest.raises(LaunchError, match="line 7: no semicolon"):
            build(broken, tmp_path / "cache")

    assert [] == list((tmp_path / "cache").iterdir())


def test_what_cannot_be_fetched_is_said(recipe: Recipe, tmp_path: Path) -> None:
    """Who cannot fetch skips: the answer is a sentence, no program."""
    found = build(changed(recipe, fetch="echo no network; false"), tmp_path / "cache")

    assert "Shell: `echo no network; false` failed: no network" == found
