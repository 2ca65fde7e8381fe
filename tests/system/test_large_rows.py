"""Real runs with pictures of a megabyte: nobody who works is called silent, and a lost process changes no row."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from system.command import Command, ganglion
from system.processes import below

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

DOCUMENTS = Path(__file__).parents[1] / "documents"


def run(folder: Path, *kills: str) -> str:
    """Run the document, kill a process of each role after an episode, and return the digest of the results."""
    folder.mkdir()
    for name in ("camera.py", "camera.yml"):
        shutil.copy(DOCUMENTS / name, folder)
    command = Command(folder, "run", "camera.yml", "--name", "camera")
    for role in kills:
        command.until("episode.ended")
        next(seen for seen in below(command.process.pid) if seen.role == role).kill()
    status, said = command.end()
    lost = [event["kind"] for event in command.events if event["event"] == "peer.lost"]
    digest = ganglion(folder, "verify", "camera", "--digest")

    assert (0, "") == (status, said)
    assert ["SIGKILL"] * len(kills) == lost
    assert 0 == digest.returncode, digest.stdout + digest.stderr
    return digest.stdout


@pytest.mark.long  # the digests of so many bytes take half a minute
def test_pictures_of_a_megabyte_are_ordinary(tmp_path: Path) -> None:
    """A brain that keeps them in its memory is not called silent; killed, and the environment too, they do the same."""
    assert run(tmp_path / "quiet") == run(tmp_path / "killed", "brain", "environment")
