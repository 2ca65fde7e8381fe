from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ganglion.cli.doctor import command, examine
from ganglion.cli.settings import Settings


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_machine_of_the_tests_is_well(tmp_path: Path) -> None:
    """Where the tests run nothing fails; each thing is looked at, and nothing is left in the results folder."""
    result = CliRunner().invoke(command, [], obj=Settings(results=tmp_path / "r", json=True), standalone_mode=False)
    rows = json.loads(result.output)

    assert [] == [row for row in rows if row["state"] == "fail"]
    expected = ["python", "packages", "processes", "ipc", "curve", "files", "results", "store", "kernel", "plugins"]
    assert expected == [row["what"] for row in rows]
    assert 0 == result.return_value
    assert not (tmp_path / "r").exists()


def test_missing_store_fails_with_its_cure(tmp_path: Path) -> None:
    """A store that nobody ships is a failure that says where to look, and the exit status is 1."""
    settings = Settings(results=tmp_path, store="abacus://x")
    [store] = [finding for finding in examine(settings) if finding.what == "store"]

    assert "fail" == store.state
    assert "`ganglion plugins stores` lists those that there are" in store.text
    assert 1 == CliRunner().invoke(command, [], obj=settings, standalone_mode=False).return_value


def test_results_that_cannot_be_written_fail(tmp_path: Path) -> None:
    """A results folder below a file is named, with what to do."""
    (tmp_path / "file").write_text("")
    [results] = [f for f in examine(Settings(results=tmp_path / "file")) if f.what == "results"]

    assert ("fail", "choose another folder with --results DIR") == (results.state, results.cure)
