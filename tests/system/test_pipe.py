"""The pipe: programs that read and write JSON lines take part in runs, fail by name, and are replaced when they die."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from system.command import Command, ganglion

DOCUMENTS = Path(__file__).parents[1] / "documents"
KIT = ["--no-curve", "--steps", "200", "--", sys.executable, "-P", "-m", "ganglion.peer.lines"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the programs and the document of the pipe."""
    for name in ("counter.sh", "counter.ml", "counter.escript", "follow.js", "piped.yml"):
        shutil.copy(DOCUMENTS / name, tmp_path)
    return tmp_path


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.long  # the default run has the clauses of the pipe in tests/kernel/peer/test_lines.py
def test_environment_of_lines_keeps_every_clause(folder: Path) -> None:
    """The kit judges a shell script behind the pipe as it judges every program."""
    asked = ganglion(folder, "env", "test", *KIT, "sh", "counter.sh")
    assert 0 == asked.returncode, asked.stdout + asked.stderr


@pytest.mark.long
@pytest.mark.skipif(shutil.which("node") is None, reason="JavaScript: no command node")
def test_muscle_of_lines_keeps_every_clause(folder: Path) -> None:
    """The kit judges a muscle behind the pipe as it judges every program, its brain included."""
    _change(folder / "follow.js", 'asked.readings["counter.count"]', "0")
    _change(folder / "follow.js", "(count + gain) % it.space.n", "count")
    asked = ganglion(folder, "muscle", "test", *KIT, "node", "follow.js")
    assert 0 == asked.returncode, asked.stdout + asked.stderr


@pytest.mark.parametrize(
    ("command", "tool"), [("ocaml, str.cma, counter.ml", "ocaml"), ("escript, counter.escript", "escript")]
)
@pytest.mark.long
def test_the_same_environment_in_another_language(folder: Path, command: str, tool: str) -> None:
    """A run with the counter in OCaml, or in Erlang, has the tables of the shell script's."""
    if shutil.which(tool) is None:
        pytest.skip(f"no command {tool}")
    assert 0 == ganglion(folder, "run", "-q", "piped.yml").returncode
    _change(folder / "piped.yml", "sh, counter.sh", command)

    ran = ganglion(folder, "run", "-q", "piped.yml")
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    compared = ganglion(folder, "runs", "diff", "piped-1", "piped-2")
    assert (0, "no difference\n") == (compared.returncode, compared.stdout)


@pytest.mark.long
def test_wrong_line_is_named(folder: Path) -> None:
    """What a program writes wrongly fails the run with the line and the field."""
    _change(folder / "counter.sh", '"count": %d}', '"count": "x%d"}')
    ran = ganglion(folder, "run", "-q", "piped.yml")

    assert 1 == ran.returncode
    assert "line 1 of its standard output: readings.count: expected a value of" in ran.stderr


@pytest.mark.long
@pytest.mark.skipif(shutil.which("node") is None, reason="JavaScript: no command node")
def test_muscle_of_lines_learns_with_a_brain(folder: Path) -> None:
    """A muscle behind the pipe acts for a brain, which gets the rows and the data of each decision."""
    _change(
        folder / "piped.yml",
        "muscle: {name: random}",
        "muscle: {command: [node, follow.js], speaks: lines}, brain: log",
    )
    ran = ganglion(folder, "run", "-q", "piped.yml")
    assert 0 == ran.returncode, ran.stdout + ran.stderr

    found = ganglion(folder, "results", "actions", "last", "--format", "csv", "--columns", "sensors,setpoints")
    assert 37 == len(found.stdout.splitlines())


@pytest.mark.long
def test_program_is_piped_by_hand(folder: Path) -> None:
    """`ganglion kernel env` prints the place of an attached environment, and `ganglion pipe` takes it."""
    _change(folder / "piped.yml", "command: [sh, counter.sh], speaks: lines", "attach: true")
    _change(folder / "piped.yml", "worker: 2", "worker: 1")
    run = Command(folder, "run", "piped.yml")
    run.until("waiting")
    place = ganglion(folder, "kernel", "env", "counter")
    words = (line.removeprefix("export ").split("=", 1) for line in place.stdout.splitlines())
    more = {name: value.strip("'") for name, value in words}
    piped = ganglion(folder, "pipe", "--", "sh", "counter.sh", more=more)

    assert 0 == piped.returncode, piped.stdout + piped.stderr
    status, said = run.end()
    assert 0 == status, said
