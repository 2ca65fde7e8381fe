from __future__ import annotations

import json
from pathlib import Path

import pytest

from ganglion.cli.main import main


def test_status_describes_the_daemon(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kernel status` finds the daemon by its connection file and shows where it listens, and no token."""
    assert 0 == main(["kernel", "status", "--results", str(daemon), "--json"])
    row = json.loads(capsys.readouterr().out)

    assert row["endpoint"].startswith("ipc:///")
    assert row["tcp"].startswith("tcp://127.0.0.1:")
    assert not [key for key in row if "token" in key]
    assert 0 == main(["kernel", "status", "--results", str(daemon)])
    assert f"endpoint {row['endpoint']}\n" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["kernel", "status"], ["kernel", "stop"], ["submit", __file__], ["ps"]])
def test_without_a_daemon_the_places_are_listed(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live command that reaches no kernel ends with 1 and says where it looked."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")

    assert 1 == main([*words, "--results", str(tmp_path)])
    assert str(tmp_path) in capsys.readouterr().err
