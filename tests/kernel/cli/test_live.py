from __future__ import annotations

import os
from pathlib import Path

import pytest

from ganglion.errors import PeerLost
from ganglion.supervisor.connection import Connection, connection_path
from ganglion.supervisor.operator import find_kernel


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")


def test_daemon_is_told_from_a_run(tmp_path: Path) -> None:
    """A run's own kernel is no daemon; a file that was named is taken as it is."""
    path = connection_path(tmp_path / "x", tmp_path, "demo-1")
    made = Connection(1, os.getpid(), "ipc:///x", None, "o", "w", "a", "demo-1", str(tmp_path), None)
    made.write(path)

    assert (path, made) == find_kernel(tmp_path, None)
    assert (path, made) == find_kernel(tmp_path / "else", path)
    with pytest.raises(PeerLost, match="living daemon"):
        find_kernel(tmp_path, None, True)
