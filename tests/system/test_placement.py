"""Placement of real runs: what an environment has started is moved and given back, and results do not depend on it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from system.command import Command, ganglion

FREE = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set[int]()
pytestmark = pytest.mark.skipif(len(FREE) < 2, reason="there is no choice")

HERD = """
import json, os, subprocess, threading, time
from pathlib import Path
from ganglion.sdk import Box, Environment, EnvironmentBaseline, EnvironmentState, SensorInformation

FREE = os.sched_getaffinity(os.getppid())
OWN, CHILDREN = [], []
WAIT = threading.Event()

def place():
    OWN.append(threading.get_native_id())
    os.sched_setaffinity(OWN[0], {max(FREE)})
    WAIT.wait()

def start():
    threading.Thread(target=WAIT.wait, daemon=True).start()
    CHILDREN.append(subprocess.Popen(["sh", "-c", "cat; true"], stdin=subprocess.PIPE))

def family(pid):
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        found[int(task.name)] = sorted(os.sched_getaffinity(int(task.name)))
        for child in (task / "children").read_text().split():
            found |= family(child)
    return found

class Herd(Environment):  # steps of one kind take longer: those with a choice, or those without
    def __init__(self, slow, **more):
        super().__init__(**more)
        self.slow = slow
    def start_environment(self):
        if not OWN:
            threading.Thread(target=place, daemon=True).start()
            while not OWN or os.sched_getaffinity(OWN[0]) == FREE:
                time.sleep(0.001)
            start()
            while not (Path(f"/proc/{CHILDREN[0].pid}/task/{CHILDREN[0].pid}/children").read_text()):
                time.sleep(0.001)
        return EnvironmentBaseline(self.read(), [])
    def update(self, actuators):
        place = "kept" if len(os.sched_getaffinity(0)) == 1 else "free"
        time.sleep(0.02 if place == self.slow else 0.001)
        over = os.path.exists(f"{self.slow}.over")
        if over:
            found = family(os.getpid())
            Path(f"{self.slow}.json").write_text(json.dumps([found.pop(OWN[0]), list(found.values())]))
            start()  # in the next phase these are there, too
        return EnvironmentState(self.read(), [], terminated=over)
    def read(self):
        return [SensorInformation(1.0, Box(0.0, 2.0, ()), "s")]
"""
DOCUMENT = """
uid: herd
seed: 1
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - first:
      environments: [environment: {uid: hill, name: "herd:Herd", params: {slow: free}}]
      agents: [{name: ada, brain: dummy, muscle: dummy, objective: dummy, sensors: [hill.s], actuators: []}]
      phase_config: {mode: train, episodes: 1}
  - second:
      environments: [environment: {uid: hill, name: "herd:Herd", params: {slow: kept}}]
"""
TOGETHER = ("controller", "environment", "muscle", "brain")


def _placements(folder: Path) -> dict[str, str]:
    """Return how the processes of the run are placed, by role."""
    done = ganglion(folder, "ps", "herd-1", "--json")
    assert (0, "") == (done.returncode, done.stderr)
    return {row["role"]: row["placement"] for row in json.loads(done.stdout) if row["role"] != "broker"}


def _left(folder: Path, slow: str) -> Any:
    return json.loads((folder / f"{slow}.json").read_text())


@pytest.mark.long  # the default run moves threads and children in tests/kernel/supervisor/test_placement.py
def test_all_that_an_environment_starts_is_kept_and_given_back(tmp_path: Path) -> None:
    """What is faster together is kept with its threads and descendants, and given back where free is faster."""
    (tmp_path / "herd.py").write_text(HERD)
    (tmp_path / "herd.yml").write_text(DOCUMENT)
    command = Command(tmp_path, "run", "herd.yml")
    kept = command.until("phase.placed")
    shown = _placements(tmp_path)
    (tmp_path / "free.over").touch()
    free = command.until("phase.placed")
    shown_then = _placements(tmp_path)
    (tmp_path / "kept.over").touch()
    status, said = command.end()

    assert (0, "") == (status, said)
    assert [(0, "kept"), (1, "free")] == [(one["phase"], one["placement"]) for one in (kept, free)]
    assert kept["kept_steps_per_s"] > 1.05 * kept["free_steps_per_s"] > 0.0
    (processor,) = kept["processors"]
    assert [f"kept on {processor}"] * 4 == [shown[role] for role in TOGETHER]
    assert "free" == shown["governor"] == shown["store"]
    assert {"free"} == set(shown_then.values())
    own, places = _left(tmp_path, "free")
    assert ([max(FREE)], {(processor,)}) == (own, set(map(tuple, places)))
    own, given = _left(tmp_path, "kept")
    assert ([max(FREE)], {tuple(sorted(FREE))}) == (own, set(map(tuple, given)))
    assert len(given) == len(places) + 3  # a thread, a child and its child were started meanwhile


PACED = """
import os, time
from ganglion_toys.pendulum import Pendulum

class Paced(Pendulum):  # where one measures there is time to do so in few steps
    def update(self, actuators):
        time.sleep(0.0 if os.path.exists("hurry") else 0.005)
        return super().update(actuators)
"""
STEPS = """
uid: same
seed: 3
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - train:
      environments: [environment: {uid: rod, name: "paced:Paced"}]
      agents: [{name: ada, brain: dummy, muscle: random, objective: dummy, sensors: ["rod.*"], actuators: ["rod.*"]}]
      phase_config: {mode: train, worker: 2, episodes: 2}
"""


@pytest.mark.long
def test_results_are_the_same_wherever_processes_run(tmp_path: Path) -> None:
    """Results of a run that is free, measured, or kept on a list of processors are equal bit for bit."""
    (tmp_path / "paced.py").write_text(PACED)
    (tmp_path / "same.yml").write_text(STEPS)
    told = []
    for cpus in ("auto", "free", str(max(FREE))):
        done = ganglion(tmp_path, "run", "--json", "--cpus", cpus, "same.yml")
        assert (0, "") == (done.returncode, done.stderr)
        told.append("phase.placed" in done.stdout)
        (tmp_path / "hurry").touch()
    verified = ganglion(tmp_path, "verify", "same-1", "same-2", "same-3", "--digest", "--json")

    assert [True, False, False] == told
    assert 1 == len({run["digest"] for run in json.loads(verified.stdout)["runs"]})
