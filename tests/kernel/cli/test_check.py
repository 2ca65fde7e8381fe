from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ganglion.cli.main import main

GOOD = """\
uid: u
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - one:
      environments: [{environment: {uid: hill, name: dummy, params: {max_iter: 3}}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hill.0], actuators: [hill.0]}]
      phase_config: {episodes: 1}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Write a sound document."""
    path = tmp_path / "good.yml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Write a document with one fault and one warning."""
    path = tmp_path / "bad.yml"
    path.write_text(GOOD.replace("name: dummy", "name: dumy").replace('version: "0.1"', 'version: "0.9"'))
    return path


def test_format_has_stable_keys(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file has file, faults and their numbers; each fault its severity, place, path and message."""
    assert 2 == main(["check", "--format", "json", str(bad)])

    [row] = json.loads(capsys.readouterr().out)
    assert ["file", "faults", "errors", "warnings"] == list(row)
    keys = ["severity", "file", "line", "column", "path", "message"]
    assert [keys, keys] == [list(fault) for fault in row["faults"]]


def test_standard_input() -> None:
    """`-` is standard input."""
    script = "import sys; from ganglion.cli.main import main; sys.exit(main(['check', '-']))"
    done = subprocess.run([sys.executable, "-c", script], input=GOOD, capture_output=True, text=True)

    assert (0, "-: no faults\n") == (done.returncode, done.stdout)


def test_check_imports_no_array_library(good: Path) -> None:
    """Checking imports neither numpy, structlog nor zmq, and no plugin."""
    script = "import sys; from ganglion.cli.main import main; main(['check', sys.argv[1]]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, str(good)], capture_output=True, text=True)

    tops = {name.partition(".")[0] for name in done.stdout.split("\n")[-2].split()}
    assert not {"numpy", "structlog", "zmq", "uvloop", "ganglion_toys"} & tops


def test_deep(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--deep asks the constructors too; a parameter that one does not take is a fault in the document."""
    assert 0 == main(["check", "--deep", str(good)])
    assert 2 == main(["check", "--deep", "--set", "schedule.one.agents.ada.muscle.params={gain: 1}", str(good)])

    printed = capsys.readouterr().out
    assert "gain" in printed
    assert f"{good}:8:36: schedule.one.agents.ada.muscle: " in printed
