from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what scripts/setup reads, without an environment."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for source in [ROOT / "pyproject.toml", *(ROOT / "plugins").glob("*/pyproject.toml")]:
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return tmp_path


def _setup(checkout: Path, *arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run scripts/setup of a checkout with the interpreter `python`."""
    environment = os.environ | {"PYTHON": python}
    command = [checkout / "scripts" / "setup", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def _interpreter(folder: Path, text: str) -> str:
    """Write a program that stands in for an interpreter; return its path."""
    path = folder / "python-of-the-test"
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("interpreter", "said"),
    [
        ("[ $1 = -V ] && echo Python 3.9.2; exit 1", "needs Python 3.11 or newer and found Python 3.9.2"),
        ('[ $1 = -V ] && echo Python 3.11.2; case "$*" in *ensurepip*) exit 1 ;; esac', "Debian: python3-venv"),
    ],
)
def test_unfit_python_is_one_sentence_and_leaves_nothing(checkout: Path, interpreter: str, said: str) -> None:
    """A Python that is too old, or has no venv, is answered with one line that names the package, and exit 2."""
    done = _setup(checkout, python=_interpreter(checkout, interpreter))

    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == done.stderr.count("\n")
    assert said in done.stderr
    assert not list(checkout.glob(".venv*"))


def test_missing_python_is_one_sentence(checkout: Path) -> None:
    """No Python at all is answered in the same way."""
    done = _setup(checkout, python="/nowhere/python3")

    assert 2 == done.returncode
    assert 1 == done.stderr.count("\n")
    assert not (checkout / ".venv").exists()


def test_unknown_extra_names_the_known_ones(checkout: Path) -> None:
    """An extra that no distribution offers is refused with the list of those that there are."""
    done = _setup(checkout, "--with", "torhc")

    assert 2 == done.returncode
    assert "'torhc'" in done.stderr
    assert "torch" in done.stderr
    assert not (checkout / ".venv").exists()


def test_unknown_argument_is_refused(checkout: Path) -> None:
    """An argument that nobody knows is a usage error."""
    assert 2 == _setup(checkout, "--wiht", "torch").returncode


def test_failing_venv_leaves_nothing(checkout: Path) -> None:
    """An environment whose making fails half-way is removed again."""
    breaks = f'case "$*" in "-m venv"*) mkdir -p "$3/bin"; exit 1 ;; esac; exec {sys.executable} "$@"'
    done = _setup(checkout, python=_interpreter(checkout, breaks))

    assert 2 == done.returncode
    assert "could not make" in done.stderr
    assert not (checkout / ".venv").exists()


def test_folder_that_is_no_environment_is_kept(checkout: Path) -> None:
    """Something else of that name is not removed to make room."""
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "diary.txt").write_text("mine")

    assert 2 == _setup(checkout).returncode
    assert "mine" == (checkout / ".venv" / "diary.txt").read_text()


@pytest.mark.long
def test_fresh_checkout_is_set_up_once(tmp_path: Path) -> None:
    """A clean clone becomes an environment with a working command, and the second call does nothing."""
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "clone"], check=True)
    first = _setup(tmp_path / "clone")
    stamp = tmp_path / "clone" / ".venv" / "ganglion-setup"
    written = stamp.stat().st_mtime_ns
    second = _setup(tmp_path / "clone")

    assert 0 == first.returncode, first.stderr
    assert (0, "", "") == (second.returncode, second.stdout, second.stderr)
    assert written == stamp.stat().st_mtime_ns
    subprocess.run([tmp_path / "clone" / ".venv" / "bin" / "ganglion", "--help"], check=True, capture_output=True)
