"""Runs that go on: all processes killed, Ctrl-C, power lost; the results are those of a run that was never cut."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.command import Command, ganglion, private
from system.processes import MARKER, left_of, marked
from system.world import RUN, write_world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

SIZES = (2, 4)  # workers, episodes of each
FIRST = ("run", "chaos.yml", "--name", RUN)


class Journey:
    """Carry a run out in pieces."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.words = words
        self.pieces = 0
        write_world(folder, *SIZES)

    @property
    def run(self) -> Path:
        return self.folder / "results" / RUN

    def piece(self, *words: str) -> Command:
        self.pieces += 1
        more = {**private(self.folder), MARKER: f"{self.folder}-{self.pieces}"}
        first = (*FIRST, *self.words)
        return Command(self.folder, *(first if self.pieces == 1 else ("resume", RUN)), *words, more=more)

    def kill_all(self, command: Command) -> None:
        """Let all processes of a piece vanish at once."""
        pids = list(marked(f"{self.folder}-{self.pieces}"))
        command.process.kill()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        command.output()
        assert {} == left_of(f"{self.folder}-{self.pieces}")

    def cut(self, episodes: int, interrupt: int = 0) -> None:
        """Carry out a piece until so many episodes have ended, then kill everything, or press Ctrl-C so often."""
        command = self.piece()
        for _ in range(episodes):
            command.until("episode.ended")
        if not interrupt:
            self.kill_all(command)
            return
        for _ in range(interrupt):
            command.process.send_signal(signal.SIGINT)
        status, said = command.end()
        assert 130 == status, said

    def finish(self, *words: str) -> str:
        """Carry out the last piece; return what it said beside its events."""
        status, said = (command := self.piece(*words)).end()
        assert 0 == status, (command.events[-1], said)
        return said

    def digest(self) -> str:
        """Return the digest of the results, once nothing is wrong with them."""
        done = ganglion(self.folder, "verify", RUN, "--digest", "--json", more=private(self.folder))
        assert 0 == done.returncode, done.stdout + done.stderr
        assert [] == [*self.folder.glob("ganglion-*"), *self.folder.rglob("connection.json")]
        return str(json.loads(done.stdout)["runs"][0]["digest"])

    def other_boot(self) -> None:
        """Let the machine have begun anew since."""
        path = self.run / "state.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))


@pytest.fixture
def journey() -> Iterator[Callable[..., Journey]]:
    """Return what makes a run in a folder of its own, whose path is short: `journey("--set", "...")`."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as folder:
        yield lambda *words: Journey(Path(folder) / "a", *words)


@pytest.fixture(scope="module")
def whole() -> Iterator[str]:
    """Return the digest of the run that is never cut."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as folder:
        uncut = Journey(Path(folder) / "w")
        uncut.finish()
        yield uncut.digest()


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_run_goes_on_after_all_is_killed(journey: Callable[..., Journey], whole: str, times: int) -> None:
    """Killed in mid-episode, once, or again after it was resumed: equal results, and a manifest that is complete."""
    run = journey()
    for number in range(times):
        run.cut(3 - number)
    assert "every process goes on where it was" in run.finish()

    assert whole == run.digest()
    manifest = json.loads((run.run / "manifest.json").read_text())
    assert ("finished", times) == (manifest["status"], len(manifest["resumed"]))
    done = ganglion(run.folder, "resume", RUN, more=private(run.folder))
    assert 2 == done.returncode
    assert "has finished" in done.stderr


@pytest.mark.long
def test_an_interrupted_run_goes_on_in_mid_episode(journey: Callable[..., Journey], whole: str) -> None:
    """Its episodes were cut and stored as such; they are withdrawn, and come out whole."""
    run = journey()
    run.cut(3, interrupt=2)
    assert "every process goes on where it was interrupted" in run.finish()

    assert whole == run.digest()


@pytest.mark.long
def test_after_a_loss_of_power_the_run_goes_on_from_its_newest_checkpoint(
    journey: Callable[..., Journey], whole: str
) -> None:
    """Journals were not synced then; what was kept of them was."""
    run = journey("--set", "recovery.checkpoint_s=0.05")
    run.cut(5)
    run.other_boot()
    shutil.rmtree(run.run / "journals")
    assert "every process goes on at its checkpoint" in run.finish()

    assert whole == run.digest()
