"""Losses that cost one episode, on real processes: the run goes on by itself, and says what was lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion

MODULE = """
import os, random, signal
from pathlib import Path
from ganglion.sdk import ActuatorInformation, Box, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import Muscle, RewardInformation, SensorInformation

def die_once(grave):
    if not Path(grave).exists():
        Path(grave).touch()
        os.kill(os.getpid(), signal.SIGKILL)

class Dice(Environment):  # throws dice without a seed: nobody could lead a successor to where it stood
    def __init__(self, grave, at):
        self.grave, self.at = grave, tuple(at)
    def start_environment(self):
        self.step = 0
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0, Discrete(3), uid) for uid in "ab"])
    def reset(self, request):
        return self.start_environment()
    def read(self):
        return [SensorInformation(random.SystemRandom().random(), Box(0.0, 1.0, ()), "s")]
    def update(self, actuators):
        self.step += 1
        if (self.worker, self.episode, self.step) == self.at:
            die_once(self.grave)
        return EnvironmentState(self.read(), [RewardInformation(1, Discrete(9), "r")], terminated=self.step >= 4)

class Mortal(Muscle):
    def __init__(self, grave, at):
        self.grave, self.at, self.place = grave, list(at), [0, 0, 0]
    def setup(self):
        self.place = [self.worker, 0, 0]
    def reset(self):
        self.place = [self.worker, self.place[1] + 1, 0]
    def propose_actions(self, sensors, actuators):
        self.place[2] += 1
        if self.place == self.at:
            die_once(self.grave)
        for actuator in actuators:
            actuator.value = 0
        return actuators
    def update(self, update):
        pass
"""
DOCUMENT = """
uid: dice
seed: 5
version: "0.1"
run_config: {condition: vanilla}
RECOVERY
schedule:
  - train:
      environments: [ENTRY]
      agents:
        - {name: ada, muscle: MUSCLE, brain: dummy, sensors: [hut.s], actuators: [hut.a]}
        - {name: bob, muscle: dummy, brain: dummy, sensors: [hut.s], actuators: [hut.b]}
      phase_config: {worker: 2, episodes: 4}
"""


def write(folder: Path, recovery: str = "", hut: str = "at: []", more: str = "", muscle: str = "at: []") -> None:
    """Write a document whose environment dies at one place, or whose muscle does."""
    (folder / "dice.py").write_text(MODULE)
    grave = folder / "grave"
    entry = f'{{environment: {{uid: hut, name: "dice:Dice", params: {{grave: {grave}, {hut}}}}}{more}}}'
    one = f'{{name: "dice:Mortal", params: {{grave: {grave}, {muscle}}}}}'
    text = DOCUMENT.replace("RECOVERY", recovery).replace("ENTRY", entry).replace("MUSCLE", one)
    (folder / "dice.yml").write_text(text)


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table of the run."""
    rows: list[dict[str, Any]] = json.loads(ganglion(folder, "results", name, "dice-1", "--json").stdout)
    return rows


ALL = "recovery: {on_loss: restart}"
DICE = ", recovery: {deterministic: false}"
CASES = {
    "without seed": ("", {"hut": "at: [0, 1, 1]", "more": DICE}, "hut", (0, 1, 0)),
    "muscle": (ALL, {"muscle": "at: [0, 1, 2]"}, "ada", (0, 1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_one_episode_is_lost_and_the_others_are_whole(tmp_path: Path, case: str) -> None:
    """A process that is killed costs the open episode of its worker; each worker has all the others."""
    recovery, place, who, (worker, episode, steps) = CASES[case]
    write(tmp_path, recovery, **place)
    ended = ganglion(tmp_path, "run", "dice.yml", "--json")
    assert 0 == ended.returncode, ended.stdout + ended.stderr

    role = "muscle" if who == "ada" else "environment"
    rows = {(row["worker"], row["episode"]): (row["steps"], row["reason"]) for row in table(tmp_path, "episodes")}
    assert (steps, f"lost: {role} {who}") == rows.pop((worker, episode))
    whole = [(w, e) for w in range(2) for e in range(5 if w == worker else 4)]
    assert dict.fromkeys([place for place in whole if place != (worker, episode)], (4, "terminated")) == rows
    lost = [row for row in table(tmp_path, "steps") if (row["worker"], row["episode"]) == (worker, episode)]
    assert list(range(1, steps + 1)) == [row["step"] for row in lost]
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    told = [(e["event"], e["label"]) for e in events if e["event"] in ("peer.lost", "peer.restarted")]
    label = f"{role} {who} (worker {worker})"
    assert [("peer.lost", label), ("peer.restarted", label)] == told
    assert ["lost", "restarted"] == [row["kind"] for row in table(tmp_path, "incidents")]
    assert (0, "dice-1: whole\n") == (
        (verified := ganglion(tmp_path, "verify", "dice-1")).returncode, verified.stdout,
    )  # fmt: skip
