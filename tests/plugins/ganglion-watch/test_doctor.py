from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ganglion.cli.settings import Settings
from ganglion_watch.doctor import doctor as command


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_machine_of_the_tests_is_well(tmp_path: Path) -> None:
    """Where the tests run nothing fails; each thing is looked at, and nothing is left in the results folder."""
    result = CliRunner().invoke(command, [], obj=Settings(results=tmp_path / "r", json=True), standalone_mode=False)
    rows = json.loads(result.output)

    assert [] == [row for row in rows if row["state"] == "fail"]
    expected = "python packages processes ipc curve files results store kernel launcher plugins"
    assert expected == " ".join(row["what"] for row in rows)
    assert 0 == result.return_value
    assert not (tmp_path / "r").exists()


def test_what_fails_has_its_cure(tmp_path: Path) -> None:
    """A store that nobody ships and a results folder below a file are failures that say what to do: exit status 1."""
    (tmp_path / "file").write_text("")
    settings = Settings(results=tmp_path / "file", store="abacus://x", json=True)
    result = CliRunner().invoke(command, [], obj=settings, standalone_mode=False)
    failed = {row["what"]: row for row in json.loads(result.output) if row["state"] == "fail"}

    assert (1, {"results", "store"}) == (result.return_value, set(failed))
    assert "`ganglion plugins stores` lists those that there are" in failed["store"]["text"]
    assert "choose another folder with --results DIR" == failed["results"]["cure"]
