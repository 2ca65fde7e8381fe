"""A real run, looked at from another terminal: its logs, and the live view with its keys."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from system.command import GANGLION, Command, ganglion, variables

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="terminals are those of Linux")]

TALKER = """
import sys
from ganglion.sdk import ActuatorInformation, Box, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation

class Talker(Environment):
    def start_environment(self):
        self.steps = 0
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0, Discrete(2), "x")])
    def read(self):
        return [SensorInformation(float(self.steps), Box(0.0, 1e9, ()), "n")]
    def update(self, actuators):
        self.steps += 1
        if self.steps % 10 == 0:
            print("step", self.steps)
            print("grumble", self.steps, file=sys.stderr)
        return EnvironmentState(self.read(), [RewardInformation(1.0, Box(0.0, 1.0, ()), "r")])
"""
DOCUMENT = """
uid: talk
seed: 5
version: "0.1"
schedule:
  - train:
      environments: [{{environment: {{uid: net, name: "talker:Talker"}}}}]
      agents: [{{name: ada, muscle: dummy, brain: dummy, objective: dummy, sensors: [net.n], actuators: [net.x]}}]
      simulation: {{conditions: [{{name: max_steps, params: {{steps: 20}}}}]}}
      phase_config: {{mode: train, episodes: {episodes}}}
run_config: {{condition: vanilla}}
"""


def _documents(folder: Path, episodes: int) -> None:
    (folder / "talker.py").write_text(TALKER)
    (folder / "talk.yml").write_text(DOCUMENT.format(episodes=episodes))


class _Terminal:
    """A terminal in which a command runs."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.master, slave = pty.openpty()
        more = {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(
            [GANGLION, *words], stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=variables(more)
        )
        os.close(slave)
        self.text = ""

    def shows(self, pattern: str, span_s: float = 60.0) -> bool:
        """Read until what was drawn since the last call has a pattern; False if it does not come in time."""
        until_s = time.monotonic() + span_s
        while not re.search(pattern, self.text):
            if time.monotonic() > until_s or not select.select([self.master], [], [], 1.0)[0]:
                if time.monotonic() > until_s:
                    return False
                continue
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return False
            self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))
        self.text = ""
        return True

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())


def test_the_live_view_shows_a_run_and_obeys_its_keys(tmp_path: Path) -> None:
    """Pause holds it, one step moves it and holds it again, continue lets it go on, stop ends it, q leaves."""
    _documents(tmp_path, 100_000)
    run = Command(tmp_path, "run", "talk.yml")
    run.until("phase.started")
    top = _Terminal(tmp_path, "top", "talk", "--interval", "0.2")
    assert top.shows(r"talk-1 · running · phase 1/1 train · \d+/100000 episodes")
    top.press("p")
    assert top.shows(r"talk-1 · paused")
    top.press("n")
    assert top.shows(r"is paused after step")
    top.press("c")
    assert top.shows(r"talk-1 · running")
    top.press("s")
    assert top.shows(r"finishing the episode")
    top.press("q")

    assert (0, 130) == (top.process.wait(60), run.end()[0])
    os.close(top.master)


def test_the_live_view_is_a_table_on_a_pipe(tmp_path: Path) -> None:
    """Once, as text or as JSON, with rates; where nothing is live it says so."""
    nothing = ganglion(tmp_path, "top")
    assert (0, "no run is live\n") == (nothing.returncode, nothing.stdout)
    _documents(tmp_path, 100_000)
    run = Command(tmp_path, "run", "talk.yml")
    run.until("phase.started")
    lines = ganglion(tmp_path, "top").stdout.splitlines()
    [muscle] = [line.split() for line in lines if line.startswith("talk-1/muscle/ada/0")]

    assert lines[0].startswith("talk-1 · running · phase 1/1 train")
    assert float(muscle[5]) > 0  # messages in a second
    assert 0 == ganglion(tmp_path, "stop", "talk", "--now").returncode
    assert 130 == run.end()[0]
