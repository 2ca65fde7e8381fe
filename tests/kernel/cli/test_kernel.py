from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganglion.cli.main import main
from ganglion.errors import PeerLost
from ganglion.supervisor.connection import Connection, connection_path, find_kernel


def test_status_and_processes_of_the_daemon(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is found by its connection file; shown are where it listens and its broker, and no token."""
    where = ["--results", str(daemon)]
    assert 0 == main(["kernel", "status", *where, "--json"])
    row = json.loads(capsys.readouterr().out)
    assert row["endpoint"].startswith("ipc:///")
    assert row["tcp"].startswith("tcp://127.0.0.1:")
    assert not [key for key in row if "token" in key]
    assert 0 == main(["kernel", "status", *where])
    head, endpoint, _ = capsys.readouterr().out.splitlines()
    assert head.startswith(f"kernel {row['version']} · process {row['pid']} · up ")
    assert f"endpoint {row['endpoint']}" == endpoint

    assert 0 == main(["ps", *where, "--json"])
    [process] = json.loads(capsys.readouterr().out)
    assert ("broker", "running", True) == (process["name"], process["state"], process["memory_bytes"] > 0)
    assert 0 == main(["ps", *where])
    header, line = capsys.readouterr().out.splitlines()
    assert ["RUN", "NAME", "ROLE", "WORKER", "HOST", "PID", "STATE", "HEARD"] == header.split()[:8]
    assert ["-", "broker", "broker", "-", "-", str(process["pid"]), "running"] == line.split()[:7]


def test_a_lock_of_a_dead_kernel_holds_nobody(tmp_path: Path) -> None:
    """Where a kernel was killed, its file stays and its lock does not: the next one comes up and leaves."""
    (tmp_path / ".kernel").mkdir()
    (tmp_path / ".kernel" / "lock").write_text("process 1, endpoint ipc:///nowhere\n")
    words = [str(Path(sys.executable).with_name("ganglion")), "kernel", "--store", "none", "--results", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().partition(" and ")[0]
        assert process.stdout.readline().startswith("connection file ")
        assert f"process {process.pid}, {endpoint}" == (tmp_path / ".kernel" / "lock").read_text().strip()
        process.terminate()
        process.communicate(timeout=10)

    assert 130 == process.returncode


def test_place_to_attach_is_printed_for_a_shell(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kernel env UID` prints the variables of the place, each as a line that a shell takes."""
    assert 0 == main(["kernel", "env", "--role", "muscle", "my tank", "--results", str(daemon)])
    lines = capsys.readouterr().out.splitlines()

    assert ["export GANGLION_NAME='my tank'", "export GANGLION_ROLE=muscle"] == [lines[1], lines[3]]
    assert lines[0].startswith("export GANGLION_ENDPOINT=tcp://127.0.0.1:")
    assert 43 == len(lines[2].removeprefix("export GANGLION_TOKEN="))


def test_a_daemon_is_told_from_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's own kernel is no daemon; a file that was named is taken as it is."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    path = connection_path(tmp_path / "x", tmp_path, "demo-1")
    made = Connection(1, os.getpid(), "ipc:///x", None, "o", "w", "a", "demo-1", str(tmp_path), None)
    made.write(path)

    assert (path, made) == find_kernel(tmp_path, None) == find_kernel(tmp_path / "else", path)
    with pytest.raises(PeerLost, match="no daemon is running"):
        find_kernel(tmp_path, None, True)
