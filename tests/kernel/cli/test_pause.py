from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.main import main


@pytest.mark.parametrize("name", ["pause", "continue"])
def test_unknown_run_is_refused(name: str, daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that no kernel knows neither stands nor goes on; the exit status is 1. Options stand on either side."""
    assert 1 == main(["--results", str(daemon), name, "nobody"])
    assert 1 == main([name, "nobody", "--results", str(daemon)])
    assert 2 == capsys.readouterr().err.count("run 'nobody' is unknown")
