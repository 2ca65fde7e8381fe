"""Real runs whose store cannot be written for a while, or for ever: what is said, how it ends, what is there."""

from __future__ import annotations

import json
import os
import resource
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


def test_a_run_goes_on_when_its_database_is_back(tmp_path: Path) -> None:
    """While the file of the store is gone the run stands and says why; then it finishes with the same results."""
    quiet = Stored(tmp_path, "quiet-1", 12)
    assert 0 == quiet.end()[0]
    command = Stored(tmp_path, "moved-1", 12)
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


def test_a_database_that_is_damaged_fails_the_run_by_name(tmp_path: Path) -> None:
    """The run does not end as completed; with the file moved away, `resume` writes the same results."""
    quiet = Stored(tmp_path, "quiet-1", 12)
    assert 0 == quiet.end()[0]
    digest = quiet.verify("quiet-1", "--digest")
    database = tmp_path / "results" / "ganglion.db"
    command = Stored(tmp_path, "hurt-1", 12)
    command.until("episode.ended")
    with database.open("r+b") as file:
        file.truncate()
    status, _ = command.end()

    assert (1, "failed") == (status, command.events[-1]["status"])
    assert "the database is damaged: move ganglion.db, " in command.events[-1]["reason"]
    assert 1 == command.verify("hurt-1")[0]
    for path in database.parent.glob("ganglion.db*"):
        path.rename(tmp_path / path.name)
    assert 0 == ganglion(tmp_path, "resume", "hurt-1").returncode
    assert digest == command.verify("hurt-1", "--digest")


@pytest.mark.long
def test_a_run_whose_files_may_not_grow_stands_until_it_is_ended(tmp_path: Path) -> None:
    """The run names the cause while it stands; interrupted, it ends with whole episodes, and not with status 0."""
    command = Stored(tmp_path, "full-1", 1000)
    command.until("phase.started")
    size = os.stat(tmp_path / "results" / "ganglion.db-wal").st_size  # noqa: PTH116 - beside a running writer
    resource.prlimit(command.store(), resource.RLIMIT_FSIZE, (size + 100_000, size + 100_000))
    waiting = command.until("waiting")
    ganglion(tmp_path, "stop", "full-1", "--now")
    status, _ = command.end()

    assert "cannot be written" in waiting["text"]
    assert status in (1, 130)
    assert [] == [line for line in command.verify("full-1")[1].splitlines() if "episode" in line or "phase" in line]
