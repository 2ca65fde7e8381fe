from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.errors import DocumentError
from ganglion_conformance.recipes import foreign_folder, read_recipes, recipe_table

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


def test_every_program_of_ours_has_its_recipe() -> None:
    """Each folder beside `recipes.yml` belongs to a recipe that can be read."""
    folders = {path.name for path in foreign_folder().iterdir() if path.is_dir()}

    assert folders == {source.parent.name for r in read_recipes().values() for source in r.sources}


def test_recipe_is_read(folder: Path) -> None:
    """A recipe has its own files as sources, and the usual role."""
    recipe = read_recipes(folder)["one"]

    assert ("One", "environment", True) == (recipe.language, recipe.role, recipe.curve)
    assert ["pendulum.c"] == [source.name for source in recipe.sources]
    assert "| One | `one/` | `gcc` | `cc pendulum.c` | `./a.out` | tested |" in recipe_table({"one": recipe})


def test_programs_may_share_a_folder(folder: Path) -> None:
    """A recipe that names its own files has no others of its folder."""
    (folder / "one" / "muscle.c").write_text("int main(void) { return 1; }\n")
    text = RIGHT + RIGHT.replace("one:", "two:").replace("  auth:", "  folder: one\n  own: [muscle.c]\n  auth:")
    (folder / "recipes.yml").write_text(text)
    one, two = read_recipes(folder).values()

    assert ["muscle.c", "pendulum.c"] == [source.name for source in one.sources]
    assert ["muscle.c"] == [source.name for source in two.sources]


def test_key_changes_with_source_and_recipe(folder: Path) -> None:
    """What is built anew is told by the source, the extra files and the build."""
    keys = [read_recipes(folder)["one"].key()]
    path = folder / "one" / "pendulum.c"
    path.write_text(path.read_text() + "/* more */\n")
    keys.append(read_recipes(folder)["one"].key())
    for old, new in (("cc pen", "cc -O2 pen"), ("  auth:", "  files: {a.txt: b}\n  auth:")):
        text = (folder / "recipes.yml").read_text().replace(old, new)
        (folder / "recipes.yml").write_text(text)
        keys.append(read_recipes(folder)["one"].key())

    assert 4 == len(set(keys))
    assert keys[-1] == read_recipes(folder)["one"].key()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("  auth: tested\n", "", "expected the key auth, found none"),
        ("auth: tested", "auth: maybe", "auth: expected one of tested, library, token, found 'maybe'"),
        ("  build:", "  bulid:", "expected a key of a recipe, found 'bulid'"),
        ("try:", "tyr:", "probe: expected a list of {try, lacks}, found a list"),
        ('["{folder}/a.out"]', "a.out", "run: expected a list of texts, found the text 'a.out'"),
        ("  auth:", "  uses: [../two/x.c]\n  auth:", "expected the file"),
        ("  auth:", "  role: brain\n  auth:", "role: expected one of environment, muscle, found 'brain'"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, old: str, new: str, text: str) -> None:
    """A faulty recipe is refused with the place of its fault."""
    (folder / "recipes.yml").write_text(RIGHT.replace(old, new))

    with pytest.raises(DocumentError) as caught:
        read_recipes(folder)
    assert text in str(caught.value)
    assert "recipes.yml:" in str(caught.value)
