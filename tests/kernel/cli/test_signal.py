from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.main import main


def test_unknown_run_is_refused(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that no kernel knows takes no signal; the exit status is 1."""
    assert 1 == main(["signal", "nobody", "RESET", "--results", str(daemon)])
    assert "run 'nobody' is unknown" in capsys.readouterr().err
