"""Programs of other languages, built from their recipes where their tools are; what is lacking is the skip's reason."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from ganglion_conformance.recipes import Program, Recipe, build, lacking, read_recipes

RECIPES: dict[str, Recipe] = read_recipes()
ALL = "GANGLION_ALL_LANGUAGES"  # set on a machine with all toolchains: there, no language may be skipped
_USUAL = ("python", "c", "c-muscle")  # those of every run; the others are built by `scripts/test --long`


def names(
    role: str | None = "environment", mark: pytest.MarkDecorator | None = None, usual: Collection[str] = _USUAL
) -> list[ParameterSet]:
    """Return the names of recipes as parameters of a test, those of the usual run marked by `mark`, others `long`.

    Without a role those of every role.
    """
    marks = () if mark is None else (mark,)
    return [
        pytest.param(name, marks=marks if name in usual else (pytest.mark.long,))
        for name, recipe in RECIPES.items()
        if role in (None, recipe.role)
    ]


def program_of(name: str, config: pytest.Config) -> Program:
    """Return a program, built now or earlier; skip the test with what this machine lacks."""
    recipe = RECIPES[name]
    missing = lacking(recipe)
    made = missing if missing is not None else build(recipe, Path(str(config.cache.mkdir("foreign"))))  # type: ignore[union-attr]
    if isinstance(made, str):
        if os.environ.get(ALL):
            pytest.fail(f"{made}; {ALL} is set, so that no language may be skipped")
        pytest.skip(made)
    return made


def command_of(program: Program) -> str:
    """Return how a document asks for a program: the fields of an environment or a muscle."""
    return f"command: {json.dumps(list(program.argv))}, variables: {json.dumps(dict(program.variables))}"
