"""One episode without end, on real processes: who is killed in its midst goes on with the state that it had told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from system.command import ganglion

MODULE = """
import os, random, signal
from pathlib import Path
import numpy as np
from ganglion.sdk import ActuatorInformation, Box, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation

HERE = Path(__file__).parent

class Endless(Environment):  # killed where there is a file `killed`, once
    count = 0
    def start_environment(self):
        self.step, self.level = 0, np.zeros(100)
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0, Discrete(3), "a")])
    def read(self):
        self.level[self.step % 100] += self.rng.random() + random.random() + self.sensors_drawn()
        return [SensorInformation(self.level.sum(), Box(0.0, 1e9, ()), "s")]
    def sensors_drawn(self):
        return self.sensors[0].space.sample() % 1 if self.sensors else 0
    def update(self, actuators):
        Endless.count += 1
        self.step += 1
        order = HERE / "killed"
        if self.step == 400 and order.exists():
            order.unlink()
            tapes = HERE / "results" / "endless" / "tapes"
            (HERE / "size").write_text(str(max(f.stat().st_size for f in tapes.glob("*environment*hut*.tape"))))
            os.kill(os.getpid(), signal.SIGKILL)
        if self.step == 500:
            (HERE / "updates").write_text(str(Endless.count))
        reward = RewardInformation(self.step, Discrete(9999), "r")
        return EnvironmentState(self.read(), [reward], truncated=self.step >= 500)

class Speaking(Endless):
    def save_state(self):
        return {"level": self.level, "step": np.array(self.step)}
    def load_state(self, state):
        self.level, self.step = state["level"], int(state["step"])
"""

DOCUMENT = """
uid: endless
seed: 5
version: "0.1"
recovery: {on_loss: recover}
run_config: {condition: vanilla}
schedule:
  - train:
      environments: [environment: {uid: hut, name: "endless:CLASS"}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hut.s], actuators: [hut.a]}]
      phase_config: {episodes: 1}
"""


def run(folder: Path, cls: str, killed: bool) -> tuple[int, int]:
    """Run the document; return how many updates the last process made, and how long its predecessor's tape was."""
    (folder / "endless.py").write_text(MODULE)
    (folder / "endless.yml").write_text(DOCUMENT.replace("CLASS", cls))
    (folder / ".ganglion.yml").write_text("journal_begin_bytes: 4096\n")
    if killed:
        (folder / "killed").touch()
    name = "endless" if killed else "calm"
    done = ganglion(folder, "run", "endless.yml", "--json", "--name", name)
    assert 0 == done.returncode, done.stderr
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert (killed, killed) == ("peer.lost" in events, "peer.restarted" in events)
    size = folder / "size"
    return int((folder / "updates").read_text()), int(size.read_text()) if size.exists() else 0


@pytest.fixture
def calm(tmp_path: Path) -> Path:
    """Return a folder with the results of an undisturbed run, of an environment without the pair."""
    assert (500, 0) == run(tmp_path, "Endless", killed=False)
    return tmp_path


def test_who_is_killed_in_one_long_episode_goes_on_within_it(calm: Path) -> None:
    """Its successor hears a short tape, and not 400 steps again; no table differs."""
    updates, size = run(calm, "Speaking", killed=True)
    compared = ganglion(calm, "runs", "diff", "calm", "endless")

    assert 100 <= updates < 400
    assert 0 < size < 60_000
    assert (0, "no difference\n") == (compared.returncode, compared.stdout)
