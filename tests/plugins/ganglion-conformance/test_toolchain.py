from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ganglion.errors import LaunchError
from ganglion_conformance.recipes import Probe, Program, Recipe, build, lacking


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Return a recipe for a program in the language of the shell."""
    source = tmp_path / "hello.sh"
    source.write_text("cat $1 words\n")
    probe = Probe("true", "sh")
    return Recipe("shell", "Shell", "dash", (probe,), ("sh", "{folder}/hello.sh"), "token", (source,))


def test_what_lacks_is_the_first_probe_that_fails(recipe: Recipe) -> None:
    """A probe that fails names what is missing; commands that there are not are no error of ours."""
    assert lacking(recipe) is None
    probes = (*recipe.probes, Probe("no-such-command --version", "no-such (its package)"), Probe("false", "x"))

    assert "Shell: no no-such (its package)" == lacking(replace(recipe, probes=probes))


def test_program_is_built_once(recipe: Recipe, tmp_path: Path) -> None:
    """Sources, extra files and what was fetched are together when it is built, and it is not built again."""
    recipe = replace(
        recipe,
        run=(*recipe.run, "{fetched}/got"),
        fetch="echo fetched > got",
        files=(("deep/extra", "extra\n"),),
        build='cat deep/extra "$GANGLION_FETCHED/got" > words; mkdir -p ../count; mktemp ../count/XXXXXX',
        variables=(("HERE", "{folder}"),),
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
    broken = replace(recipe, build="echo line 7: no semicolon; exit 3")
    for _ in range(2):
        with pytest.raises(LaunchError, match="line 7: no semicolon"):
            build(broken, tmp_path / "cache")

    assert [] == list((tmp_path / "cache").iterdir())


def test_what_cannot_be_fetched_is_said(recipe: Recipe, tmp_path: Path) -> None:
    """Who cannot fetch skips: the answer is a sentence, no program."""
    found = build(replace(recipe, fetch="echo no network; false"), tmp_path / "cache")

    assert "Shell: `echo no network; false` failed: no network" == found
