from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.main import main


def test_without_a_kernel_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no kernel is running, the places that were looked at are told: exit status 1."""
    assert 1 == main(["attach", "environment", "dummy", "--results", str(tmp_path)])
    assert f"no kernel is running; looked below {tmp_path}" in capsys.readouterr().err


def test_a_name_that_nobody_awaits_is_refused(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel that waits for nobody of that name refuses, and its reason is told: exit status 1."""
    assert 1 == main(["attach", "environment", "dummy", "--as", "nobody", "--results", str(daemon)])
    assert "the kernel refuses 'nobody'" in capsys.readouterr().err


def test_observer_of_a_run_that_there_is_not(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An observer needs a run: one that no kernel knows is exit status 1."""
    assert 1 == main(["attach", "observer", "x", "--run", "nowhere", "--results", str(daemon)])
    assert "run 'nowhere' is unknown" in capsys.readouterr().err
