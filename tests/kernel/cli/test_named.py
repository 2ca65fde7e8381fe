from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.main import main
from ganglion.cli.session import document_file


def test_a_name_means_the_document_of_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is the plugin's document, unless a file of that name is there; what looks like another file stays."""
    monkeypatch.chdir(tmp_path)
    found = document_file("demo")
    (tmp_path / "demo").write_text("mine")

    assert "demo.yml" == Path(found).name
    assert ["demo", "-", "nowhere.yml"] == [document_file(word) for word in ("demo", "-", "nowhere.yml")]


def test_a_name_that_nobody_has_is_refused_as_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A word that looks like no file is no file that cannot be read: it comes with the nearest name."""
    assert 2 == main(["run", "dmo"])
    assert "there is no document `dmo`; did you mean `demo`?" in capsys.readouterr().err


def test_commands_take_names(capsys: pytest.CaptureFixture[str]) -> None:
    """`check` and `run` read a plugin's document by its name."""
    assert 0 == main(["check", "demo"])
    assert "demo.yml: no faults" in capsys.readouterr().out
    assert 0 == main(["run", "--plan", "demo"])
