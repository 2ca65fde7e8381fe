"""The papers for users, carried out: each file that they show is written, each command run, its output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from system.languages import RECIPES

from ganglion_conformance.recipes import lacking

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
VARY = "<!-- numbers vary -->\n"
NEEDS = re.compile(r"<!-- needs (\S+) -->\n")  # a recipe of another language: the block is for machines with its tools
BLOCK = re.compile(r"((?:<!--[^\n]*-->\n)*)^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?:#|//) ([\w./-]+\.\w+)")
WAIT_S = 120.0
PAPERS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("kernel", "plugins", "scripts", "tests", ".")
    for path in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
)
PAGES = [  # those that show commands, besides the README of a newcomer
    path for path in PAPERS if path.startswith("plugins/") and "```console" in (ROOT / path).read_text()
]

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Command:
    """A command of a paper, and what the paper says that it prints."""

    text: str
    expected: str
    vary: bool
    needs: str | None = None


def _files(paper: str) -> dict[str, str]:
    """Return the files that a paper shows: blocks whose first line is a comment with nothing but a path."""
    found = {}
    for _, language, text in BLOCK.findall(paper):
        first = text.partition("\n")[0]
        name = FILE.fullmatch(first)
        if language != "console" and name:
            found[name[1]] = text
    return found


def _blocks(paper: str) -> Iterator[list[Command]]:
    """Yield the commands of each block of a console."""
    for notes, language, text in BLOCK.findall(paper):
        if language == "console":
            needs = NEEDS.search(notes)
            about = VARY in notes, needs[1] if needs else None
            parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
            assert parts[0] == "", f"a block of a console begins with a command, found {parts[0]!r}"
            yield [Command(parts[i], parts[i + 1], *about) for i in range(1, len(parts), 2)]


def _plain(text: str, vary: bool) -> str:
    """Return text as it is compared: without trailing blanks, and where numbers vary without numbers and widths."""
    if vary:
        text = re.sub(r"ganglion-\w{8}/", "#/", text)
        text = re.sub(r"\d[\d.:]*(?<=\d)", "#", text)
        text = re.sub(r"[ ─-]{2,}", " ", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _fits(command: Command, found: str) -> bool:
    """Say whether a command has printed what the paper shows; a line `...` stands for any lines."""
    shown = _plain(command.expected, command.vary).splitlines()
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, _plain(found, command.vary) + "\n" if found.strip() else "") is not None


class Shell:
    """Carry out the blocks of a paper in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tests").symlink_to(ROOT / "tests")
        site = folder / "site"
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GANGLION_")},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PIP_TARGET": str(site),  # what a paper installs is installed beside our environment, not into it
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONPATH": str(site),
            "COLUMNS": "200",
        }

    def carry_out(self, block: list[Command]) -> None:
        """Run the commands of a block; those that end in `&` end with the block."""
        waiting: list[subprocess.Popen[str]] = []
        try:
            for command in block:
                if command.text.endswith("&"):
                    process, found = self._begin(command)
                    waiting.append(process)
                else:
                    found = self._run(command.text)
                assert _fits(command, found), (
                    f"`{command.text}` prints\n{found}\nand the paper says\n{command.expected}"
                )
            for process in waiting:
                process.communicate(timeout=WAIT_S)
                assert 0 == process.returncode
        finally:
            for process in waiting:
                process.kill()

    def _run(self, text: str) -> str:
        # What scripts/run does first is tested by tests/scripts; a few episodes of the demo show the same lines.
        line = re.sub(r"^scripts/run$", "ganglion run --set schedule.train.phase_config.episodes=3", text)
        ran = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
        )
        return ran.stdout

    def _begin(self, command: Command) -> tuple[subprocess.Popen[str], str]:
        """Start a command in the background and return it when it has printed as many lines as the paper shows."""
        process = subprocess.Popen(
            ["bash", "-c", "exec " + command.text.removesuffix("&")],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        return process, "".join(process.stdout.readline() for _ in command.expected.splitlines())


@pytest.mark.parametrize(  # half a minute of a processor each
    "path", ["README.md", *(pytest.param(path, marks=pytest.mark.long) for path in PAGES)]
)
def test_paper_is_true(tmp_path: Path, path: str) -> None:
    """The files of the paper are written, its commands are run in order, and each prints what the paper says."""
    paper = (ROOT / path).read_text()
    shell = Shell(tmp_path)
    for name, text in _files(paper).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    blocks = list(_blocks(paper))
    assert blocks, f"{path} shows no command"
    lacks = [
        f"{block[0].text}: {missing}"
        for block in blocks
        if block[0].needs and (missing := lacking(RECIPES[block[0].needs]))
    ]
    for block in blocks:
        if not block[0].needs or lacking(RECIPES[block[0].needs]) is None:
            shell.carry_out(block)
    if lacks:
        pytest.skip(f"all but: {'; '.join(lacks)}")


def test_readme_is_short() -> None:
    """A newcomer's first five minutes have at most 150 lines."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("path", PAPERS)
def test_papers_name_what_there_is(path: str) -> None:
    """A relative link of a paper leads to a file; so does a path in backticks that ends in `.py` or `.md`."""
    paper = ROOT / path
    text = paper.read_text()
    prose = BLOCK.sub("", text)
    links = re.findall(
        r"\]\((?!https?:|#|reference/|pictures/|plugins/)([^)#]+)", prose
    )  # those are made when it is built
    named = re.findall(r"`([a-z_]+(?:/[\w.-]+)*/[\w-]+\.(?:py|md))`", text)
    places = (paper.parent, ROOT, ROOT / "kernel" / "ganglion")

    assert [] == [link for link in links if not (paper.parent / link).exists()]
    assert [] == [name for name in named if not any((place / name).exists() for place in places)]


@pytest.mark.parametrize("path", PAPERS)
def test_named_sections_exist(path: str) -> None:
    """A section that a paper names, by its title behind the file's name or by its number in the protocol, is there."""
    paper = ROOT / path
    text = paper.read_text()
    named = re.findall(r'`([\w/-]+\.md)`,\s+"([^"]+)"', text)
    files = [next(f for f in (paper.parent / name, ROOT / name) if f.exists()) for name, _ in named]
    numbers = re.findall(r"[Ss]ection (\d+)", text) if paper.name == "PROTOCOL.md" else []

    assert [] == [t for f, (_, t) in zip(files, named, strict=True) if t not in _titles(f.read_text())]
    assert [] == [n for n in numbers if not re.search(rf"^## {n}\. ", text, re.MULTILINE)]


def test_sections_are_named() -> None:
    """The search for names of sections finds some."""
    assert re.search(r'`PROTOCOL\.md`,\s+"[^"]+"', (ROOT / "kernel/README.md").read_text())


def _titles(text: str) -> set[str]:
    """Return the titles of a paper's sections, without their numbers."""
    return set(re.findall(r"^#+ (?:\d+\. )?(.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("path", PAPERS)
def test_no_block_is_passed_over(path: str) -> None:
    """Each block of a console is one that is carried out: none is taken for a part of another one, or of a comment."""
    paper = (ROOT / path).read_text()

    assert len(re.findall(r"^```console$", paper, re.MULTILINE)) == len(list(_blocks(paper)))


def test_difference_is_seen() -> None:
    """The comparison is no formality: another number, a line too many and a line too few do not fit."""
    command = Command("x", "a  1\n...\nb\n", False)

    assert _fits(command, "a  1\nb\n")
    assert _fits(command, "a  1\nc\nd\nb\n")
    assert not _fits(command, "a  2\nb\n")
    assert not _fits(command, "a  1\nb\nc\n")
    assert not _fits(command, "a  1\n")
    assert _fits(Command("x", "took 1.5 s\n", True), "took 12.25 s\n")
    assert not _fits(Command("x", "took 1.5 s\n", True), "took long\n")
