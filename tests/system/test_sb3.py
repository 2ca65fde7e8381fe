"""Agents of Stable-Baselines3 in real runs: they learn, twice the same, and act in a test phase without a brain."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from system.command import Command, ganglion, private
from system.processes import below
from system.world import OFTEN

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)

from ganglion.peer.snapshot import Snapshot
from ganglion.sdk import ActuatorInformation, Batch, Box, Discrete, Memory, Mode, SensorInformation
from ganglion.sdk.part import construct
from ganglion_sb3.brain import SB3Brain
from ganglion_sb3.muscle import SB3Muscle

DOCUMENT = """
uid: balance
seed: SEED
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: field, name: gymnasium, params: {id: WORLD}}}]
      agents:
        - name: scout
          muscle: sb3
          brain: {name: sb3, params: PARAMS}
          sensors: [field.observation]
          actuators: [field.action]
      simulation: {name: vanilla, conditions: [{name: max_steps, params: {steps: STEPS}}]}
      phase_config: {mode: train, worker: WORKERS, episodes: EPISODES}
  - test:
      phase_config: {mode: test, worker: 1, episodes: TESTS}
run_config: {condition: vanilla}
"""


def document(params: dict[str, Any], world: str = "CartPole-v1", **values: Any) -> str:
    """Return a document with these values in it."""
    given = {"SEED": 1, "STEPS": 500, "WORKERS": 1, "EPISODES": 3, "TESTS": 1, **values}
    text = DOCUMENT.replace("PARAMS", json.dumps(params)).replace("WORLD", world)
    for name, value in given.items():
        text = text.replace(name, str(value))
    return text


def run(folder: Path, text: str, span_s: float = 60.0) -> list[dict[str, Any]]:
    """Run a document; return its actions."""
    (folder / "balance.yml").write_text(text)
    done = ganglion(folder, "run", "-q", "balance.yml", span_s=span_s)
    assert 0 == done.returncode, done.stderr
    done = ganglion(folder, "results", "last", "--table", "actions", "--format", "json", span_s=span_s)
    assert 0 == done.returncode, done.stderr
    return [{k: v for k, v in row.items() if k != "run"} for row in json.loads(done.stdout)]


def returns(rows: list[dict[str, Any]], mode: str) -> list[float]:
    """Return the sums of objectives per episode, of one worker."""
    found: dict[tuple[int, int], float] = {}
    for row in rows:
        if row["mode"] == mode:
            key = row["worker"], row["episode"]
            found[key] = found.get(key, 0.0) + row["objective"]
    return list(found.values())


PPO = {"algorithm": "PPO", "algorithm_params": {"n_steps": 16, "batch_size": 8, "n_epochs": 2}}
SAC = {
    "algorithm": "SAC",
    "algorithm_params": {"learning_starts": 20, "policy_kwargs": {"net_arch": [16, 16]}, "buffer_size": 500},
}


@pytest.mark.parametrize(
    ("params", "values"),
    [
        pytest.param(PPO, {"EPISODES": 3}, id="PPO", marks=pytest.mark.long),
        pytest.param(PPO, {"WORKERS": 2, "EPISODES": 3}, id="PPO-2", marks=pytest.mark.long),
        pytest.param(SAC, {"world": "Pendulum-v1", "STEPS": 30, "EPISODES": 2}, id="SAC", marks=pytest.mark.long),
    ],
)
def test_trains_and_acts_twice_the_same(tmp_path: Path, params: dict[str, Any], values: Any) -> None:
    """Two runs of one document have equal rows, also those of the policy alone."""
    text = document(params, **values)
    one, two = run(tmp_path, text), run(tmp_path, text)

    assert one == two
    assert 1 == len(returns(one, "test"))
    assert values["EPISODES"] * values.get("WORKERS", 1) == len(returns(one, "train"))


def test_trains_and_acts(tmp_path: Path) -> None:
    """A run trains, stores, and acts by the policy alone."""
    found = run(tmp_path, document(PPO, EPISODES=3))

    assert (3, 1) == (len(returns(found, "train")), len(returns(found, "test")))


@pytest.mark.long
def test_balances(tmp_path: Path) -> None:
    """In 12 288 decisions PPO learns to balance for 475 steps and more, with a curve that is the same twice.

    Measured: all five episodes of the test last 500 steps.
    """
    params = {
        "algorithm": "PPO",
        "algorithm_params": {
            "n_steps": 512, "batch_size": 64, "n_epochs": 10, "gae_lambda": 0.9, "gamma": 0.98, "learning_rate": 0.001,
        },
        "total_timesteps": 12_000,
    }  # fmt: skip
    text = document(params, EPISODES=100_000, TESTS=5)
    one, two = (run(tmp_path, text, span_s=3600.0) for _ in range(2))

    assert returns(one, "train") == returns(two, "train")
    assert one == two
    assert float(np.mean(returns(one, "test"))) >= 475


class _Agent:
    """Make halves of an agent as their hosts do, without a bus."""

    def __init__(self, **params: Any) -> None:
        self.sensors = [SensorInformation(None, Box(-1.0, 1.0, (3,)), "field.observation")]
        self.actuators = [ActuatorInformation(0, Discrete(3), "field.action")]
        self.brain = self._made(SB3Brain, 1, params)
        self.brain.memory, self.brain.muscles = Memory(), ["scout/0"]
        self.brain.setup()

    def _made(self, cls: type[Any], seed: int, params: dict[str, Any]) -> Any:
        rng = np.random.default_rng(seed)
        attributes = {
            "uid": "scout/0", "name": "scout", "worker": 0, "mode": Mode.TRAIN, "seed": seed, "rng": rng,
            "params": params, "sensors": self.sensors, "actuators": self.actuators,
        }  # fmt: skip
        return construct(cls, params, {"uid": "scout/0", "seed": seed, "broker_uri": ""}, attributes)

    def muscle(self, seed: int) -> tuple[Any, Snapshot]:
        """Return a muscle that has been set up, and what takes its state."""
        muscle = self._made(SB3Muscle, seed, {})
        muscle.setup()
        muscle.update(self.brain.initial_update("scout/0"))
        return muscle, Snapshot({"muscle": (muscle, ("sensors", "actuators"))})


def _decisions(muscle: Any, count: int = 20) -> list[bytes]:
    zeros = np.zeros(1, dtype=np.int64)
    batch = Batch(np.array([[0.1, -0.5, 0.9]]), {}, [("scout", 0)], zeros, zeros, muscle.mode)
    found = [muscle.propose_batch(batch) for _ in range(count)]
    return [part for rows, data in found for part in (rows.tobytes(), np.asarray(data).tobytes())]


@pytest.mark.parametrize("params", [PPO, {"algorithm": "DQN", "total_timesteps": 100}], ids=["PPO", "DQN"])
def test_a_muscle_has_a_snapshot(params: dict[str, Any]) -> None:
    """Its host can begin its tape anew: what a successor is given makes it decide as it would have."""
    agent = _Agent(**params)
    (former, drawn), (successor, same) = agent.muscle(seed=3), agent.muscle(seed=4)
    _decisions(former)
    same.put(same.read(drawn.take({})))

    assert _decisions(former) == _decisions(successor)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize(("params", "world"), [(PPO, "CartPole-v1"), (SAC, "Pendulum-v1")], ids=["PPO", "SAC"])
def test_a_killed_muscle_comes_back(params: dict[str, Any], world: str) -> None:
    """Its tape is begun anew as the phase goes on; two losses behind that change no bit of the results."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as text:
        folder = Path(text)
        (folder / ".ganglion.yml").write_text(f"journal_begin_bytes: {OFTEN}\n")
        (folder / "balance.yml").write_text(document(params, world, STEPS=20, EPISODES=16))
        undisturbed = Command(folder, "run", "balance.yml", more=private(folder), span_s=120.0)
        assert 0 == undisturbed.end()[0]
        killed = Command(folder, "run", "balance.yml", more=private(folder), span_s=120.0)
        for _ in range(2):
            for _ in range(5):
                killed.until("episode.ended")
            [muscle] = [seen for seen in below(killed.process.pid) if seen.role == "muscle"]
            os.kill(muscle.pid, signal.SIGKILL)
        status, said = killed.end()

        assert 0 == status, (killed.events[-1:], said)
        told = [event for event in killed.events if event["event"] == "peer.restarted"]
        assert 2 == len(told), told
        assert [] == [event for event in killed.events if event["event"] == "warning"]
        same = ganglion(folder, "runs", "diff", "balance-1", "balance-2", more=private(folder))
        assert (0, "no difference\n") == (same.returncode, same.stdout)
