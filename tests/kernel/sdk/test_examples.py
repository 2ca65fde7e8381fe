from __future__ import annotations

import ast
import doctest
import importlib
import re
import runpy
from pathlib import Path

import pytest

from ganglion import sdk

PAGE = Path(__file__).parents[3] / "plugins" / "site" / "pages" / "sdk.md"
MODULES = [importlib.import_module(name) for name in sorted(set(sdk._HOME.values()))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
CHAPTERS = {text.partition("\n")[0]: text for text in PAGE.read_text().split("\n## ")[1:]}


def _examples() -> list[doctest.DocTest]:
    return [it for module in MODULES for it in doctest.DocTestFinder().find(module) if it.examples]


def _blocks(chapter: str) -> list[tuple[str, str]]:
    """Return the blocks of a chapter in their order, (python or text, content)."""
    return re.findall(r"^```(python|text)\n(.*?)^```$", chapter, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", _examples(), ids=lambda it: it.name)
def test_examples_say_what_comes_out(example: doctest.DocTest) -> None:
    """Each example in a docstring of the contract runs, and prints what it says."""
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)

    assert failed == 0, "".join(said)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_page_of_examples_says_what_comes_out(
    chapter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each chapter of the page is a program, which prints what stands below its blocks."""
    program = tmp_path / "chapter.py"
    program.write_text("".join(content for kind, content in _blocks(CHAPTERS[chapter]) if kind == "python"))
    runpy.run_path(str(program))

    expected = "".join(content for kind, content in _blocks(CHAPTERS[chapter]) if kind == "text")
    assert expected == capsys.readouterr().out


def test_each_name_has_an_example() -> None:
    """Each public name is used, not only imported, in code that the tests above carry out."""
    codes = ["".join(line.source for line in it.examples) for it in _examples()]
    codes += [content for text in CHAPTERS.values() for kind, content in _blocks(text) if kind == "python"]
    used = {node.id for code in codes for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}

    assert [] == sorted(set(sdk.__all__) - used)
