"""Real runs whose brains learn from what was recorded before, by themselves or by thinking; losses are simulated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion
from system.results import table

from ganglion.sdk.models import load_arrays

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

MODULE = """
import numpy as np
from ganglion.sdk import ActuatorInformation, Box, Brain, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import Muscle, RewardInformation, SensorInformation

FIELD, PLACE = Box(-1.0, 1.0, (2,), np.float32), Discrete(5)

class Walk(Environment):
    def __init__(self, places=5):
        self.place, self.field = 2, np.zeros(2, np.float32)
        self.space = Discrete(places)
    def read(self):
        return [SensorInformation(self.place, self.space, "place"), SensorInformation(self.field, FIELD, "field")]
    def start_environment(self):
        self.place, self.steps = 2, 0
        self.field = self.rng.uniform(-1, 1, 2).astype(np.float32)
        return EnvironmentBaseline(self.read(), [ActuatorInformation(1, Discrete(3), "move")])
    def reset(self, request):
        return self.start_environment()
    def update(self, actuators):
        self.steps += 1
        self.place = min(4, max(0, self.place + int(actuators[0].value) - 1))
        self.field = self.rng.uniform(-1, 1, 2).astype(np.float32)
        over = self.place in (0, 4)
        reward = RewardInformation(float(self.place == 4), Box(0.0, 1.0, ()), "r")
        return EnvironmentState(self.read(), [reward], terminated=over, truncated=self.steps >= 6 and not over)

class Random(Muscle):
    def propose_actions(self, sensors, actuators):
        actuators[0].value = int(self.rng.integers(3))
        return actuators

class Greedy(Muscle):
    weights = np.zeros((5, 3))
    def update(self, update):
        self.weights = np.asarray(update)
    def propose_actions(self, sensors, actuators):
        place = int(sensors[0].value)
        actuators[0].value = int(np.argmax(self.weights[place] + 0.01 * self.rng.random(3)))
        return actuators

class Thinks(Brain):
    def setup(self):
        self.weights = np.zeros((5, 3))
    def thinking(self, muscle_id, data):
        if len(self.memory):
            row = self.memory.tail(1)
            place, move = int(row.sensor_readings["walk.place"][0]), int(row.actuator_setpoints["walk.move"][0])
            after = 0.0 if row.terminated[0] else 0.9 * self.weights[int(row.next_readings["walk.place"][0])].max()
            self.weights[place, move] += 0.5 * (float(row.rewards["walk.r"][0]) + after - self.weights[place, move])
        return self.weights
    def arrays(self):
        return {"weights": self.weights, "rows": np.array(len(self.memory))}
    def load_arrays(self, arrays):
        self.weights = np.array(arrays["weights"])

class Learns(Thinks):
    seen = 0
    def pretrain(self, sessions):
        for session in (s for _ in range(2) for s in sessions):
            batch = session.transitions()
            places, moves = session.readings["walk.place"], batch.actions[:, 0]
            for t in range(len(batch)):
                after = batch.bootstrap[t] * 0.9 * self.weights[places[t + 1]].max()
                target = batch.rewards[t, 0] + after
                self.weights[places[t], moves[t]] += 0.5 * (target - self.weights[places[t], moves[t]])
            self.seen += len(batch) + float(batch.observations.sum()) * 1e-6
        return self.weights
    def arrays(self):
        return {**super().arrays(), "seen": np.array(self.seen)}
"""
DOCUMENT = """
uid: school
seed: 11
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - record:
      environments: [{environment: {uid: walk, name: school:Walk}}]
      agents: [{name: ada, muscle: school:Random, sensors: [walk.*], actuators: [walk.*]}]
      phase_config: {mode: test, worker: 2, episodes: 6}
  - own:
      agents:
        - name: ada
          muscle: school:Greedy
          brain: school:Learns
          replay: [{repeat: 2}]
      phase_config: {mode: train, episodes: 3}
  - thought:
      agents: [{name: ada, brain: school:Thinks, load: false, replay: [{phase: record}, {phase: own, worker: 0}]}]
"""


def write(folder: Path) -> None:
    """Write the module and the document of a run."""
    folder.mkdir(exist_ok=True)
    (folder / "school.py").write_text(MODULE)
    (folder / "school.yml").write_text(DOCUMENT)


def carry_out(folder: Path, uid: str = "school") -> tuple[int, str]:
    """Run a document to its end; return status and what was said."""
    done = ganglion(folder, "run", f"{uid}.yml", "--quiet")
    return done.returncode, done.stderr


def weights(folder: Path, phase: int, run: str = "school-1") -> dict[str, Any]:
    """Return what the brain has learned by the end of a phase."""
    found = load_arrays(folder / "results" / run / "brains" / str(phase) / "ada" / "model.npz")
    return {name: array.tolist() for name, array in found.items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of two workers that is not disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    write(folder)
    assert (0, "") == carry_out(folder)
    return folder


def test_brains_learn_before_they_act(undisturbed: Path) -> None:
    """All recorded decisions have come, each as often as asked for; their rows are in no table, live ones are."""
    folder = undisturbed
    rows = table(folder, "actions")
    recorded = [row for row in rows if row["phase"] == 0]
    live = [[row for row in rows if row["phase"] == phase] for phase in (1, 2)]
    first = [row for row in live[0] if row["worker"] == 0]

    seen = weights(folder, 1)["seen"]
    assert 4 * len(recorded) == int(float(str(seen)))  # two passes of an entry that is shown twice
    assert len(recorded) + len(first) + len(live[1]) == weights(folder, 2)["rows"]
    assert {3} == {sum(row["worker"] == 0 and row["step"] == 0 for row in rows) for rows in live}
    assert {0, 1} == {row["worker"] for row in live[0]}


OTHER = """
uid: other
seed: 5
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - only:
      environments: [{environment: {uid: walk, name: school:Walk, params: {places: 6}}}]
      agents:
        - {name: bob, muscle: school:Greedy, brain: school:Thinks, sensors: [walk.*],
           actuators: [walk.*], replay: [{agent: ada, experiment_run: school, phase: record}]}
      phase_config: {mode: train, episodes: 1}
"""


def test_what_does_not_fit_ends_the_run(undisturbed: Path) -> None:
    """A fault of the document ends with 2, by its place and the space that was recorded; nobody has acted."""
    (undisturbed / "other.yml").write_text(OTHER)
    status, said = carry_out(undisturbed, "other")

    assert 2 == status
    assert "phase `record`, agent `ada`: sensor `walk.place`: expected Discrete(6), found Discrete(5)" in said
    assert [] == table(undisturbed, "actions", "other")


def test_a_run_without_a_store_has_recorded_nothing(tmp_path: Path) -> None:
    """It is refused before anything is started, at the places of the document."""
    write(tmp_path)
    done = ganglion(tmp_path, "--store", "none", "run", "school.yml", "--quiet")

    assert 2 == done.returncode
    assert 3 == done.stderr.count("are read from a store, and this run has none (--store none)")
    assert "school.yml:16:20: schedule.own.agents.ada.replay.0: recorded episodes are read from a store" in done.stderr
    assert not (tmp_path / "results" / "school-1" / "journals").exists()
