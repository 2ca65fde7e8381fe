"""Lost environments, on real processes: the run goes on by itself, with the rows of an undisturbed one."""

from __future__ import annotations

import json
from pathlib import Path

from system.command import ganglion

MODULE = """
import faulthandler, os, random, signal
from pathlib import Path
from ganglion.sdk import ActuatorInformation, Box, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation

class Frail(Environment):  # dies once, in the second step of its third episode, in worker 1
    def __init__(self, grave):
        self.grave = Path(grave)
    def start_environment(self):
        self.step = 0
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0, Discrete(3), "a")])
    def reset(self, request):
        return self.start_environment()
    def read(self):  # numbers that go on over episodes, from every generator that there is
        self.value = self.rng.random() + random.random()
        return [SensorInformation(self.value, Box(0.0, 2.0, ()), "s")]
    def update(self, actuators):
        self.step += 1
        if (self.worker, self.episode, self.step) == (1, 2, 2) and not self.grave.exists():
            if self.grave.name == "bottomless":
                faulthandler.disable()  # its stack is longer than what is kept
                print("it is dark in here", flush=True)
                os.kill(os.getpid(), signal.SIGSEGV)
            self.grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        reward = RewardInformation(self.step, Discrete(9), "r")
        return EnvironmentState(self.read(), [reward], terminated=self.step >= 4)
"""

DOCUMENT = """
uid: frail
seed: 5
version: "0.1"
recovery: {on_loss: recover}
run_config: {condition: vanilla}
schedule:
  - train:
      environments: [environment: {uid: hut, name: "frail:Frail", params: {grave: GRAVE}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hut.s], actuators: [hut.a]}]
      phase_config: {worker: 2, episodes: 4}
"""


def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """An environment that is killed in mid-episode comes back where it stood: exit 0, and no table differs."""
    (tmp_path / "frail.py").write_text(MODULE)
    (tmp_path / "frail.yml").write_text(DOCUMENT.replace("GRAVE", str(tmp_path / "grave")))
    done = ganglion(tmp_path, "run", "frail.yml", "frail.yml", "--json")  # the second time the grave is there

    events = [json.loads(line) for line in done.stdout.splitlines()]
    told = [(e["run"], e["event"], e["label"]) for e in events if e["event"] in ("peer.lost", "peer.restarted")]
    name = "environment hut (worker 1)"
    assert [("frail-1", "peer.lost", name), ("frail-1", "peer.restarted", name)] == told, done.stderr
    assert 0 == done.returncode, done.stderr
    compared = ganglion(tmp_path, "runs", "diff", "frail-1", "frail-2")
    assert (0, "no difference\n") == (compared.returncode, compared.stdout)
    incidents = json.loads(ganglion(tmp_path, "results", "incidents", "frail-1", "--format", "json").stdout)
    assert [("environment/hut/1", 1, "lost"), ("environment/hut/1", 2, "restarted")] == [
        (row["name"], row["incarnation"], row["kind"]) for row in incidents
    ]
    assert "after environment.update, episode 2, step 1" == incidents[0]["position"]


def test_who_dies_at_one_place_again_and_again_is_poison(tmp_path: Path) -> None:
    """The third equal death ends the run: it is told who, how, where, and what was said last; episodes are whole."""
    (tmp_path / "frail.py").write_text(MODULE)
    (tmp_path / "frail.yml").write_text(DOCUMENT.replace("GRAVE", str(tmp_path / "bottomless")))
    done = ganglion(tmp_path, "run", "frail.yml")
    rows = json.loads(ganglion(tmp_path, "runs", "--json").stdout)

    where = "after environment.update, episode 2, step 1"
    text = f"poison: environment hut (worker 1) died 3 times by SIGSEGV at the same place ({where})"
    assert 1 == done.returncode
    assert f"failed: {text}" == rows[0]["reason"], done.stderr
    assert text in done.stderr
    assert "it is dark in here" in done.stderr
    assert 0 == ganglion(tmp_path, "verify", "frail-1").returncode
