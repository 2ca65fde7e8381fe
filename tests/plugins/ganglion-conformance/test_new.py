from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.main import main

BIN = Path(sys.executable).parent
New = Callable[..., tuple[int, str, str]]


@pytest.fixture
def new(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> New:
    """Return what carries out `ganglion new` in an empty folder: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["new", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["planet", "tank"], "expected one of environment, muscle, brain, objective, plugin, found 'planet'"),
        (["muscel", "tank"], "did you mean `muscle`?"),
        (["muscle", "My Tank"], "expected small letters, digits and single hyphens, as in `my-tank`"),
        (["muscle", "../tank"], "expected small letters, digits and single hyphens, as in `my-tank`"),
        (["muscle", "json"], "there is a Python package `json` already"),
        (["muscle", "class"], "there is a Python package `class` already"),
        (["plugin", "tests"], "`tests` is the folder of the distribution's tests"),
        (["brain", "dummy"], "there is a brain `dummy` of ganglion-toys"),
        (["environment", "tank", "--lang", "cobol"], "--lang: expected one of"),
        (["brain", "tank", "--lang", "c"], "there are skeletons of environments only, found 'brain'"),
    ],
)
def test_a_wrong_wish_writes_nothing(new: New, tmp_path: Path, words: list[str], sentence: str) -> None:
    """A kind, name or language that cannot be is refused with what can be, and the folder stays empty."""
    status, _, said = new(*words)

    assert 2 == status
    assert sentence in said
    assert [] == list(tmp_path.iterdir())


def test_what_is_there_is_not_overwritten(new: New, tmp_path: Path) -> None:
    """A folder that holds something stays as it is; an empty one is taken."""
    (tmp_path / "tank").mkdir()
    assert 0 == new("muscle", "tank")[0]
    (tmp_path / "tank/tank/muscle.py").write_text("mine")
    status, _, said = new("muscle", "tank")

    assert 2 == status
    assert "tank is there already; nothing was written" in said
    assert "mine" == (tmp_path / "tank/tank/muscle.py").read_text()


def test_what_comes_next_can_be_pasted(new: New) -> None:
    """Folders with blanks and brackets are quoted for the shell."""
    _, said, _ = new("muscle", "tank", "--into", "odd folder (1)")

    assert "next: pip install -e 'odd folder (1)' · ganglion run 'odd folder (1)/run.yml' · odd" in said


@pytest.mark.long
def test_installed_it_is_there_by_its_name(new: New, tmp_path: Path) -> None:
    """What pip has installed is listed, runs by its name, learns, and passes the tests that came with it."""
    new("plugin", "my-tank")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--target", "there"]
    subprocess.run([*pip, "./my-tank"], cwd=tmp_path, check=True, timeout=60)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "there")}

    def call(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    ganglion = str(BIN / "ganglion")
    listed = json.loads(call(ganglion, "--json", "plugins", "my-tank"))
    checked = call(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "my-tank/tests")
    changed = "--set", "schedule.train.phase_config.episodes=4"
    call(ganglion, "run", "-q", "my-tank/run.yml", *changed)
    rows = call(ganglion, "results", "episodes", "last", "--columns", "mode,steps").splitlines()

    assert ["environment", "muscle", "brain", "objective"] == [row["group"] for row in listed]
    assert "5 passed" in checked
    assert 7 == len(rows)
