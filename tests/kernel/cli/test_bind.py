from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.main import main
from ganglion.cli.session import checked_bind
from ganglion.errors import UsageError


@pytest.mark.parametrize(
    "bind", ["tcp://0.0.0.0:5555", "tcp://192.0.2.1:5555", "tcp://[::]:5555", "tcp://*:1", "tcp://a.example:1"]
)
def test_no_other_machine_without_encryption(bind: str) -> None:
    """An address that others reach is encrypted, and no option changes that."""
    assert {"remote": bind} == checked_bind(bind, no_curve=False)
    with pytest.raises(UsageError, match="others are always encrypted"):
        checked_bind(bind, no_curve=True)


@pytest.mark.parametrize("bind", ["tcp://127.0.0.1:5555", "tcp://127.9.9.9:0", "tcp://[::1]:5555", "tcp://localhost:1"])
def test_loopback_is_encrypted_unless_told_not_to_be(bind: str) -> None:
    """A loopback address is encrypted too; there it may be switched off."""
    assert {"remote": bind} == checked_bind(bind, no_curve=False)
    assert {"bind": bind} == checked_bind(bind, no_curve=True)


def test_a_socket_file_is_guarded_by_the_system() -> None:
    """A socket file is for its owner alone, with or without the option."""
    assert {"bind": "ipc:///tmp/x"} == checked_bind("ipc:///tmp/x", False) == checked_bind("ipc:///tmp/x", True)


def test_nothing_is_bound_unasked() -> None:
    """Without an endpoint there is nothing to say, nor to leave out."""
    assert {} == checked_bind(None, False)
    with pytest.raises(UsageError, match="--no-curve"):
        checked_bind(None, True)


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
