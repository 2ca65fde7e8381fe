"""Two algorithms that share an environment, in common ticks and free of each other, as separate processes."""

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
from system.results import table, unnamed

pytestmark = [  # the default run has them in tests/simulation/test_free.py
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]

MODULE = '''
import random, time
from ganglion_toys.counting import CountingEnvironment
from ganglion_toys.echo import EchoMuscle

def rest():
    time.sleep(random.SystemRandom().uniform(0.001, 0.020))

class Moody(EchoMuscle):
    """Take some time for each decision, another one each time."""
    def propose_actions(self, sensors, actuators):
        rest()
        return super().propose_actions(sensors, actuators)

class Weather(CountingEnvironment):
    """Take some time for each step, another one each time."""
    def update_batch(self, setpoints):
        rest()
        return super().update_batch(setpoints)
'''
GOLDEN = """\
uid: golden
seed: 7
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {uid: north, name: WORLD, params: {length: 3, verify: true}}
          clock: {period: 2, phase: 0}
          budget: {episodes: 3}
        - environment: {uid: west, name: WORLD, params: {length: 2, verify: true}}
          clock: {period: 4, phase: 2}
          budget: {episodes: 4}
      agents: [{name: ada, brain: log, muscle: MUSCLE}, {name: bob, brain: none, muscle: MUSCLE}]
      phase_config: {mode: train, sync: SYNC, worker: 2}
      simulation: {name: aeb, params: {mode: MODE}}
"""
BARRIER = {"WORLD": "counting", "MUSCLE": "echo", "MODE": "barrier", "SYNC": "lockstep"}
FREE = {"WORLD": '"parts:Weather"', "MUSCLE": '"parts:Moody"', "MODE": "free", "SYNC": "async"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short path and the module."""
    with tempfile.TemporaryDirectory(prefix="gf-", dir="/tmp") as path:
        (Path(path) / "parts.py").write_text(MODULE)
        yield Path(path)


def write(folder: Path, name: str, given: dict[str, str]) -> None:
    """Write the document with these words."""
    text = GOLDEN
    for word, value in given.items():
        text = text.replace(word, value)
    (folder / f"{name}.yml").write_text(text)


def sets(folder: Path, run: str) -> dict[str, list[str]]:
    """Return the rows of a run, each table in an order of their own."""
    names = ("episodes", "resets", "steps", "actions")
    return {
        name: sorted(json.dumps(row, sort_keys=True) for row in unnamed(table(folder, name, run))) for name in names
    }


def test_a_free_run_goes_on_after_all_is_killed(folder: Path) -> None:
    """Whatever was under way: each environment goes on where it was, and the rows are those of common ticks."""
    write(folder, "common", BARRIER)
    write(folder, "cut", FREE)
    whole = ganglion(folder, "run", "common.yml", "--name", "common", more=private(folder))
    command = Command(folder, "run", "cut.yml", "--name", "cut", more={**private(folder), MARKER: str(folder)})
    for _ in range(2):
        command.until("episode.ended")
    pids = list(marked(str(folder)))
    command.process.kill()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    command.output()
    assert {} == left_of(str(folder))
    done = ganglion(folder, "resume", "cut", more=private(folder))

    assert 0 == done.returncode, done.stdout + done.stderr
    assert 0 == whole.returncode, whole.stdout + whole.stderr
    assert sets(folder, "common") == sets(folder, "cut")
