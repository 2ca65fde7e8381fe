from __future__ import annotations

import json
from pathlib import Path

import pytest

from ganglion.cli.main import main


def test_processes_are_listed(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An idle daemon has one process, its broker; as a table and as JSON."""
    assert 0 == main(["ps", "--results", str(daemon), "--json"])
    [row] = json.loads(capsys.readouterr().out)
    assert ("broker", "running") == (row["name"], row["state"])
    assert row["memory_bytes"] > 0

    assert 0 == main(["ps", "--results", str(daemon)])
    header, line = capsys.readouterr().out.splitlines()
    assert ["RUN", "NAME", "ROLE", "WORKER", "PID", "STATE"] == header.split()[:6]
    assert ["-", "broker", "broker", "-", str(row["pid"]), "running"] == line.split()[:6]


def test_unknown_run_is_refused(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that no kernel knows ends with 1."""
    assert 1 == main(["ps", "nobody", "--results", str(daemon)])
    assert "run 'nobody' is unknown" in capsys.readouterr().err
