from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ganglion import errors
from ganglion.wire.messages import CALLS, TELLS
from ganglion_conformance.papers import ERRORS, TABLES, main, render

KERNEL = Path(__file__).parents[3] / "kernel"
PLUGINS = KERNEL.parent / "plugins"
PAPERS = (KERNEL / "PROTOCOL.md", PLUGINS / "README.md", PLUGINS / "foreign" / "README.md")


def _kinds() -> set[str]:
    """Return the words that broker and participants put into an ERROR by hand."""
    places = {"Failure": 0, "_refuse": 2, "error": 2}  # where the kind stands among the arguments
    found = set()
    for path in [*KERNEL.glob("ganglion/broker/*.py"), *KERNEL.glob("ganglion/peer/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                place = places.get(name, 99)
                word = node.args[place] if len(node.args) > place else None
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    found.add(word.value)
    return found


@pytest.mark.parametrize("paper", PAPERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_paper_is_current(paper: Path) -> None:
    """A paper shows what the code says; scripts/fix writes it."""
    text = paper.read_text()

    assert render(text) == text


def test_paper_shows_every_table() -> None:
    """No table is left out of the papers, and they mark none that there is not."""
    text = "".join(paper.read_text() for paper in PAPERS)

    assert [] == [name for name in TABLES if f"<!-- table: {name} -->" not in text]
    assert len(TABLES) == text.count("<!-- table: ") == text.count("<!-- end of ")


def test_every_message_is_described() -> None:
    """Each class of the tables of calls has a heading of its own, once."""
    text = TABLES["messages"]()
    kinds = {kind.__name__ for call in CALLS for kind in (call.request, call.reply)}
    kinds |= {tell.body.__name__ for tell in TELLS}

    assert dict.fromkeys(kinds, 1) == {name: text.count(f"#### {name}\n") for name in kinds}


def test_every_kind_of_error_is_listed() -> None:
    """A kind that broker, participants or an error's class put into ERROR has a row."""
    kinds = _kinds()
    assert {"busy", "unreachable", "unknown_call"} <= kinds
    classes = {getattr(errors, name).kind for name in errors.__all__}

    assert set() == kinds - set(ERRORS) - classes
    assert [] == [kind for kind in kinds | classes if f"`{kind}`" not in TABLES["errors"]()]


def test_remarks_of_the_code_come_along() -> None:
    """A comment behind a field or a bound stands in its row."""
    assert "answers BEAT while it works on a CALL" in TABLES["messages"]()
    assert "a double holds it" in TABLES["limits"]()


def test_unknown_section_is_refused() -> None:
    """A section that there is not is refused by name, so that a typing error empties nothing."""
    with pytest.raises(KeyError, match="cals"):
        render("<!-- table: cals -->\n<!-- end of cals -->\n")


def test_text_around_the_sections_stays(tmp_path: Path) -> None:
    """Only what stands between the marks is replaced, and a second time changes nothing."""
    path = tmp_path / "paper.md"
    path.write_text("before\n<!-- table: verbs -->\nold\n<!-- end of verbs -->\nafter\n")

    assert 0 == main(["--write", str(path)])
    once = path.read_text()
    assert 0 == main(["--write", str(path)])

    assert once == path.read_text()
    assert once.startswith("before\n<!-- table: verbs -->\n| number |")
    assert once.endswith("|\n<!-- end of verbs -->\nafter\n")


def test_a_file_is_expected() -> None:
    """Without a file it ends with 2."""
    assert 2 == main([])
    assert 2 == main(["--write"])
