"""Observations of 1.5 MB: runs whose processes are killed come to the same, and a journal names what others have."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.command import Command, ganglion, private
from system.processes import MARKER, left_of, marked

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")]

BYTES, STEPS, EPISODES = 1_500_000, 6, 4
SMALL_BYTES = 8 << 20  # of all journals of a worker without their blobs, and without a store's batches
MODULE = """
import os, signal
from pathlib import Path
import numpy as np
from ganglion.sdk import ActuatorInformation, Box, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import Muscle, RewardInformation, SensorInformation

def die_once(grave):
    if grave and not Path(grave).exists():
        Path(grave).touch()
        os.kill(os.getpid(), signal.SIGKILL)

class Camera(Environment):
    def __init__(self, grave):
        self.grave = grave
    def start_environment(self):
        self.step = 0
        self.picture = self.rng.integers(0, 256, 1_500_000, dtype=np.uint8)
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0, Discrete(3), "a")])
    def reset(self, request):
        return self.start_environment()
    def read(self):
        return [SensorInformation(self.picture + np.uint8(self.step), Box(0, 255, (1_500_000,), np.uint8), "s")]
    def update(self, actuators):
        self.step += 1
        if (self.episode, self.step) == (1, 4):
            die_once(self.grave)
        return EnvironmentState(self.read(), [RewardInformation(1, Discrete(9), "r")], terminated=self.step >= STEPS)

class Watcher(Muscle):
    def __init__(self, grave):
        self.grave, self.seen = grave, 0
    def propose_actions(self, sensors, actuators):
        self.seen = (31 * self.seen + int(sensors[0].value[::1000].sum())) % 1_000_003
        if self.memory and len(self.memory) == 9:
            die_once(self.grave)
        actuators[0].value = self.seen % 3
        return actuators
"""
DOCUMENT = """
uid: large
seed: 5
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - train:
      environments: [{environment: {uid: w, name: "large:Camera", params: {grave: GRAVE1}}}]
      agents:
        - name: ada
          muscle: {name: "large:Watcher", params: {grave: GRAVE2}}
          brain: dummy
          sensors: [w.s]
          actuators: [w.a]
      phase_config: {episodes: EPISODES}
"""


class Run:
    """Be one run in a folder of its own."""

    def __init__(self, folder: Path, dies: bool) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "large.py").write_text(MODULE.replace("STEPS", str(STEPS)))
        text = DOCUMENT.replace("EPISODES", str(EPISODES))
        for name in ("GRAVE1", "GRAVE2"):
            text = text.replace(name, str(folder / name) if dies else '""')
        (folder / "large.yml").write_text(text)

    def command(self, *words: str) -> Command:
        return Command(self.folder, *words, more={**private(self.folder), MARKER: str(self.folder)})

    def kill_all(self, command: Command) -> None:
        """Let all processes vanish at once."""
        pids = list(marked(str(self.folder)))
        command.process.kill()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        command.output()
        assert {} == left_of(str(self.folder))

    def digest(self) -> str:
        """Return the digest of the actions and rewards."""
        done = ganglion(self.folder, "verify", "large-1", "--digest", "--json", more=private(self.folder))
        assert 0 == done.returncode, done.stdout + done.stderr
        return str(json.loads(done.stdout)["runs"][0]["digest"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder whose path is short."""
    with tempfile.TemporaryDirectory(prefix="gl-", dir="/tmp") as path:
        yield Path(path)


def test_a_run_with_large_observations_is_killed_and_goes_on(folder: Path) -> None:
    """An environment and a muscle are lost, then all at once; results are equal, and each blob is on the disk once."""
    whole = Run(folder / "whole", dies=False)
    status, said = whole.command("run", "large.yml").end()
    assert 0 == status, said

    run = Run(folder / "cut", dies=True)
    command = run.command("run", "large.yml")
    for _ in range(2):
        command.until("episode.ended")
    journals = folder / "cut" / "results" / "large-1" / "journals"
    blobs = {file.stat().st_ino: file.stat().st_size for file in (journals / "large").iterdir() if file.suffix}
    small = {file.name: file.stat().st_size for file in journals.glob("*.journal") if file.name != "store.journal"}
    run.kill_all(command)
    status, said = run.command("resume", "large-1").end()

    assert 0 == status, said
    assert (True, True) == ((run.folder / "GRAVE1").exists(), (run.folder / "GRAVE2").exists())
    assert {BYTES} == set(blobs.values())
    assert len(blobs) <= (STEPS + 2) * (EPISODES + 1)
    assert sum(size for name, size in small.items() if name[:3] in ("con", "env")) <= SMALL_BYTES
    assert whole.digest() == run.digest()
    assert not journals.exists()
