from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.main import main


def test_faults_come_back(daemon: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A faulty document is answered with its faults, under the name of its file: exit status 2."""
    path = tmp_path / "faulty.yml"
    path.write_text("uid: x\nsead: 4\n")

    assert 2 == main(["submit", str(path), "--results", str(daemon)])
    assert f"{path}:2:1: sead: unknown key" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["missing.yml"], ["a.yml", "b.yml", "--name", "x"]])
def test_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, and one name for two documents, are exit status 2; no kernel is asked."""
    assert 2 == main(["submit", *words])
    assert capsys.readouterr().err
