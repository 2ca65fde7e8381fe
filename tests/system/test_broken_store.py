"""Real runs whose store cannot be written for a while, or for ever: what is said, how it ends, what is there."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of other processes are a matter of Linux"
)

GANGLION = str(Path(sys.executable).with_name("ganglion"))
DOCUMENT = """\
uid: stored
seed: 7
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {uid: field, name: dummy}
      agents:
        - name: scout
          brain: {name: dummy}
          muscle: {name: dummy}
          objective: {name: dummy}
          sensors: [field.*]
          actuators: [field.*]
      phase_config: {mode: train, worker: 2, episodes: EPISODES}
run_config:
  condition: {name: vanilla}
"""


class Command:
    """Hold a running `ganglion run` and its events so far; it is killed if it does not end in time."""

    def __init__(self, folder: Path, name: str, episodes: int, results: str = "results") -> None:
        (folder / "document.yml").write_text(DOCUMENT.replace("EPISODES", str(episodes)))
        self.folder, self.results = folder, results
        words = [GANGLION, "run", "document.yml", "--name", name, "--results", results, "--json"]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
        )
        self.events: list[dict[str, Any]] = []
        self._timer = threading.Timer(60.0, self.process.kill)
        self._timer.start()

    def until(self, name: str) -> dict[str, Any]:
        """Read events until one of that name comes; return it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == name:
                return self.events[-1]
        assert self.process.stderr is not None
        raise AssertionError(f"no {name}: {self.events[-3:]}, {self.process.stderr.read()}")

    def end(self) -> tuple[int, str]:
        """Wait for the end; return exit status and what was said on stderr."""
        out, err = self.process.communicate()
        self._timer.cancel()
        self.events += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode, err

    def store(self) -> int:
        """Return the process of the store."""
        words = [GANGLION, "ps", "--results", self.results, "--json"]
        rows = json.loads(
            subprocess.run(words, capture_output=True, text=True, cwd=self.folder, check=True).stdout
        )
        return next(int(row["pid"]) for row in rows if row["role"] == "store")

    def verify(self, *arguments: str) -> tuple[int, str]:
        """Verify a run; return the status and what is said."""
        words = [GANGLION, "verify", *arguments, "--results", self.results]
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, check=False)
        return done.returncode, done.stdout


def test_a_run_goes_on_when_its_database_is_back(tmp_path: Path) -> None:
    """While the file of the store is gone the run stands and says why; then it finishes with the same results."""
    quiet = Command(tmp_path, "quiet-1", 12)
    assert 0 == quiet.end()[0]
    command = Command(tmp_path, "moved-1", 12)
    command.until("phase.started")
    database = tmp_path / "results" / "ganglion.db"
    database.rename(tmp_path / "away.db")
    waiting = command.until("waiting")
    (tmp_path / "away.db").rename(database)
    status, err = command.end()

    assert "it is gone" in waiting["text"]
    assert (0, "finished") == (status, command.events[-1]["status"]), err
    assert (0, "moved-1: whole\n") == command.verify("moved-1")
    assert quiet.verify("quiet-1", "--digest") == command.verify("moved-1", "--digest")


@pytest.mark.long
def test_a_run_whose_files_may_not_grow_stands_until_it_is_ended(tmp_path: Path) -> None:
    """The run names the cause while it stands; interrupted, it ends with whole episodes, and not with status 0."""
    command = Command(tmp_path, "full-1", 1000)
    command.until("phase.started")
    size = os.stat(tmp_path / "results" / "ganglion.db-wal").st_size  # noqa: PTH116 - beside a running writer
    resource.prlimit(command.store(), resource.RLIMIT_FSIZE, (size + 100_000, size + 100_000))
    waiting = command.until("waiting")
    subprocess.run([GANGLION, "stop", "full-1", "--now", "--results", "results"], cwd=tmp_path, check=False)
    status, _ = command.end()

    assert "cannot be written" in waiting["text"]
    assert status in (1, 130)
    assert [] == [
        line for line in command.verify("full-1")[1].splitlines() if "episode" in line or "phase" in line
    ]
