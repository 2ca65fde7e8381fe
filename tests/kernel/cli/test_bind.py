from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.main import main


@pytest.mark.parametrize("words", [["kernel"], ["run"]])
@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--bind", "tcp://0.0.0.0:0", "--no-curve"], "others are always encrypted"),
        (["--bind", "tcp://192.0.2.1:0"], "cannot be bound"),
        (["--bind", "udp://127.0.0.1:0"], "expected ipc:///path or tcp://host:port"),
        (["--no-curve"], "--no-curve"),
    ],
)
def test_a_refused_bind_starts_nothing(
    words: list[str], options: list[str], found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be bound, or may not, ends with 2, its reason, and no run."""
    assert 2 == main([*words, *options, "--results", str(tmp_path), "--plain"])
    assert found in capsys.readouterr().err
    assert [] == [path for path in tmp_path.iterdir() if path.name != ".kernel"]
