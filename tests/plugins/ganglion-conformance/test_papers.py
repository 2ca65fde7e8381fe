from __future__ import annotations

from pathlib import Path

import pytest

from ganglion_conformance.papers import TABLES, main, render

KERNEL = Path(__file__).parents[3] / "kernel"
PLUGINS = KERNEL.parent / "plugins"
PAPERS = (KERNEL / "PROTOCOL.md", PLUGINS / "README.md", PLUGINS / "foreign" / "README.md")


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
