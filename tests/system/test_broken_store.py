"""Real runs whose store cannot be written for a while, or for ever: what is said, how it ends, what is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from system.command import Command, ganglion
from system.farm import dummies

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of other processes are a matter of Linux")


class Stored(Command):
    """Hold a run of some episodes, whose results are in the folder."""

    def __init__(self, folder: Path, name: str, episodes: int) -> None:
        (folder / "document.yml").write_text(dummies("stored", episodes))
        super().__init__(folder, "run", "document.yml", "--name", name)

    def store(self) -> int:
        """Return the process of the store."""
        done = ganglion(self.folder, "ps", "--json")
        assert 0 == done.returncode, done.stderr
        return next(int(row["pid"]) for row in json.loads(done.stdout) if row["role"] == "store")

    def verify(self, *arguments: str) -> tuple[int, str]:
        """Verify a run; return the status and what is said."""
        done = ganglion(self.folder, "verify", *arguments)
        return done.returncode, done.stdout


@pytest.mark.long  # the default run has it in tests/kernel/peer/test_store.py and the simulation
def test_a_run_goes_on_when_its_database_is_back(tmp_path: Path) -> None:
    """While the file of the store is gone the run stands and says why; then it finishes with the same results."""
    quiet = Stored(tmp_path, "quiet-1", 4)
    assert 0 == quiet.end()[0]
    command = Stored(tmp_path, "moved-1", 4)
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
