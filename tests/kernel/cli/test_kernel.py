from __future__ import annotations

import json
import subprocess
import sys
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


@pytest.mark.parametrize("words", [["kernel", "status"], ["kernel", "stop"], ["submit", __file__]])
def test_without_a_daemon_the_places_are_listed(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live command that reaches no kernel ends with 1 and says where it looked."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")

    assert 1 == main([*words, "--results", str(tmp_path)])
    assert str(tmp_path) in capsys.readouterr().err


def test_a_second_kernel_of_a_folder_is_refused(daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with 2 and names the process and the endpoint of the first, which stays what commands find."""
    assert 0 == main(["kernel", "status", "--results", str(daemon), "--json"])
    first = json.loads(capsys.readouterr().out)

    assert 2 == main(["kernel", "--results", str(daemon)])
    said = capsys.readouterr().err
    assert f"a kernel is running here already: process {first['pid']}, endpoint {first['endpoint']}" in said
    assert 0 == main(["kernel", "status", "--results", str(daemon), "--json"])
    assert first["endpoint"] == json.loads(capsys.readouterr().out)["endpoint"]


def test_a_lock_of_a_dead_kernel_holds_nobody(tmp_path: Path) -> None:
    """Where a kernel was killed, its file stays and its lock does not: the next one comes up and leaves."""
    (tmp_path / ".kernel").mkdir()
    (tmp_path / ".kernel" / "lock").write_text("process 1, endpoint ipc:///nowhere\n")
    words = [str(Path(sys.executable).with_name("ganglion")), "kernel", "--store", "none", "--results", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("endpoint ")
        assert process.stdout.readline().startswith("connection file ")
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


def test_place_of_no_kernel_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no kernel is running there is no place: exit status 1."""
    assert 1 == main(["kernel", "env", "tank", "--results", str(tmp_path)])
    assert "no connection file of a living kernel" in capsys.readouterr().err
