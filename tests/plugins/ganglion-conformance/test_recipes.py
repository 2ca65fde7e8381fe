from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.errors import DocumentError
from ganglion_conformance.recipes import read_recipes, recipe_table

RIGHT = """\
one:
  language: One
  packages: gcc
  probe: [{try: "true", lacks: gcc}]
  build: cc pendulum.c
  run: ["{folder}/a.out"]
  auth: tested
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a recipe and its source."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "pendulum.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "recipes.yml").write_text(RIGHT)
    return tmp_path


def test_recipe_is_read(folder: Path) -> None:
    """A recipe has its own files as sources, and the usual role."""
    recipe = read_recipes(folder)["one"]

    assert ("One", "environment", True) == (recipe.language, recipe.role, recipe.curve)
    assert ["pendulum.c"] == [source.name for source in recipe.sources]
    assert "| One | `one/` | `gcc` | `cc pendulum.c` | `./a.out` | tested |" in recipe_table({"one": recipe})


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("  auth: tested\n", "", ":2:3: auth: Field required"),
        ("auth: tested", "auth: maybe", ":7:9: auth: Input should be 'tested', 'library' or 'token'"),
        ("  build:", "  bulid:", "bulid: Extra inputs are not permitted"),
        ("try:", "tyr:", "probe.0.try: Field required"),
        ('["{folder}/a.out"]', "a.out", ":6:8: run: Input should be a valid tuple"),
        ("  auth:", "  uses: [../two/x.c]\n  auth:", "expected the file"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, old: str, new: str, text: str) -> None:
    """A faulty recipe is refused with the place of its fault."""
    (folder / "recipes.yml").write_text(RIGHT.replace(old, new))

    with pytest.raises(DocumentError) as caught:
        read_recipes(folder)
    assert text in str(caught.value)
    assert "recipes.yml:" in str(caught.value)
