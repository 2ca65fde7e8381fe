from __future__ import annotations

import pytest

from ganglion.cli.main import main


def test_a_name_that_nobody_has_is_refused_as_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A word that looks like no file is no file that cannot be read: it comes with the nearest name."""
    assert 2 == main(["run", "dmo"])
    assert "there is no document `dmo`; did you mean `demo`?" in capsys.readouterr().err


def test_commands_take_names(capsys: pytest.CaptureFixture[str]) -> None:
    """`check` and `run` read a plugin's document by its name."""
    assert 0 == main(["check", "demo"])
    assert "demo.yml: no faults" in capsys.readouterr().out
    assert 0 == main(["run", "--plan", "demo"])
