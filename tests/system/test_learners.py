"""The deep learners on the real bus: trained, tested from the stored policy, equal for equal seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion

from ganglion.sdk import load_arrays
from ganglion_learners import examples

pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")

DOCUMENT = """\
uid: short
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {uid: field, name: gymnasium, params: {id: TASK, max_episode_steps: LONGEST}}
      agents:
        - name: scout
          brain: {name: BRAIN, params: PARAMS}
          muscle: {name: MUSCLE}
          objective: {name: aggregate_rewards}
          sensors: [field.*]
          actuators: [field.*]
      phase_config: {mode: train, worker: WORKERS, episodes: EPISODES}
  - again:  # goes on from the stored model
      phase_config: {episodes: 1}
  - test:
      phase_config: {mode: test, worker: 1, episodes: 2}
run_config: {condition: vanilla}
"""
CARTPOLE = {"TASK": "CartPole-v1", "LONGEST": "100"}
PENDULUM = {"TASK": "Pendulum-v1", "LONGEST": "25"}
PPO = {**CARTPOLE, "MUSCLE": "ppo", "BRAIN": "ppo", "PARAMS": "{rollout: 64, minibatch: 32, epochs: 2}"}
DQN = {
    **CARTPOLE,
    "MUSCLE": "dqn",
    "BRAIN": "dqn",
    "PARAMS": "{warm_up: 40, train_every: 4, gradient_steps: 1, update_every: 8}",
}
SAC = {**PENDULUM, "MUSCLE": "sac", "BRAIN": "sac", "PARAMS": "{warm_up: 40, minibatch: 32}"}


def write(folder: Path, words: dict[str, str], workers: int = 1, episodes: int = 6) -> None:
    """Write the short document for a learner."""
    text = DOCUMENT
    for word, value in {**words, "WORKERS": str(workers), "EPISODES": str(episodes)}.items():
        text = text.replace(word, value)
    (folder / "short.yml").write_text(text)


def select(folder: Path, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    rows: list[dict[str, Any]] = json.loads(ganglion(folder, "results", "--sql", query, "--format", "json").stdout)
    return rows


def run(folder: Path, *files: str, span_s: float = 120.0) -> None:
    """Run documents, which must succeed."""
    done = ganglion(folder, "run", *files, "--plain", span_s=span_s)
    assert 0 == done.returncode, done.stdout + done.stderr


def equal_runs(folder: Path) -> str:
    """Run the short document twice; return what differs."""
    run(folder, "short.yml", "short.yml", span_s=600.0)
    return ganglion(folder, "runs", "diff", "short-1", "short-2").stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "workers"),
    [
        pytest.param(DQN, 1, id="dqn-1", marks=pytest.mark.long),
        pytest.param(PPO, 2, id="ppo-2"),
        pytest.param(SAC, 1, id="sac-1", marks=pytest.mark.long),
    ],
)
def test_models_are_trained_on_and_tested(tmp_path: Path, words: dict[str, str], workers: int) -> None:
    """Trained, trained on from the model, and tested from the policy.

    That it is the same twice is shown by longer runs in the long tests, with one worker and with two.
    """
    write(tmp_path, words, workers)
    run(tmp_path, "short.yml", span_s=600.0)

    query = "SELECT phase, tag, updates, path FROM brains WHERE run = 'short-1' ORDER BY phase, tag"
    kept = select(tmp_path, query)
    assert [(i, tag) for i in range(3) for tag in ("", "policy")] == [(row["phase"], row["tag"]) for row in kept]
    assert kept[0]["updates"] > 2
    counts = "SELECT phase, count(*) AS n FROM actions WHERE run = 'short-1' GROUP BY phase ORDER BY phase"
    first, second, _ = (row["n"] for row in select(tmp_path, counts))
    learned = [int(load_arrays(tmp_path / row["path"])["decisions"]) for row in kept if row["tag"] == ""]
    assert [first, first + second, first + second] == learned
    assert 2 == len(select(tmp_path, "SELECT return FROM returns WHERE run = 'short-1' AND mode = 'test'"))


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [pytest.param(DQN, id="dqn"), pytest.param(PPO, id="ppo"), pytest.param(SAC, id="sac")]
)
@pytest.mark.parametrize("workers", [1, 2])
def test_equal_seeds_have_equal_learning_curves(tmp_path: Path, words: dict[str, str], workers: int) -> None:
    """Over a thousand decisions and more every setpoint is the same, with one worker and with two in lockstep."""
    write(tmp_path, words, workers, episodes=60)

    assert "no difference" == equal_runs(tmp_path)
    (row,) = select(tmp_path, "SELECT count(*) AS n FROM actions WHERE run = 'short-1'")
    assert row["n"] > 1000


MORTAL = """\
import os, signal
from pathlib import Path
from ganglion_learners.LEARNER.brain import BRAIN

class Mortal(BRAIN):
    def learn(self, batch):
        if self.decisions >= 600 and not Path("grave").exists():
            Path("grave").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().learn(batch)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "cls"), [pytest.param(DQN, "DqnBrain", id="dqn"), pytest.param(PPO, "PpoBrain", id="ppo")]
)
def test_a_killed_brain_goes_on_bit_by_bit(tmp_path: Path, words: dict[str, str], cls: str) -> None:
    """A brain that is killed in the midst of training costs nothing: all tables are those of an undisturbed run."""
    (tmp_path / "mortal.py").write_text(MORTAL.replace("LEARNER", words["BRAIN"]).replace("BRAIN", cls))
    write(tmp_path, {**words, "BRAIN": '"mortal:Mortal"'}, episodes=60)
    text = (tmp_path / "short.yml").read_text()
    recovery = "run_config: {condition: vanilla}\\nrecovery: {checkpoint_s: 0.2}\\n".replace("\\n", "\n")
    (tmp_path / "short.yml").write_text(text.replace("run_config: {condition: vanilla}\n", recovery))
    (tmp_path / "grave").touch()
    run(tmp_path, "short.yml", span_s=300.0)
    (tmp_path / "grave").unlink()
    run(tmp_path, "short.yml", span_s=300.0)

    assert (tmp_path / "grave").exists()
    assert "no difference" == ganglion(tmp_path, "runs", "diff", "short-1", "short-2").stdout.strip()


TASKS = [
    pytest.param(examples.PPO_CARTPOLE, 475.0, 100_000, id="ppo"),
    pytest.param(examples.DQN_CARTPOLE, 475.0, 100_000, id="dqn"),
    pytest.param(examples.SAC_PENDULUM, -200.0, 20_000, id="sac"),
]


@pytest.mark.long
@pytest.mark.parametrize(("document", "least", "most"), TASKS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_examples_learn_their_task(tmp_path: Path, document: Path, least: float, most: int, seed: int) -> None:
    """With default parameters, whatever the seed: after a short training the stored policy masters the task."""
    done = ganglion(tmp_path, "run", str(document), "--seed", str(seed), "--plain", span_s=3600.0)
    assert 0 == done.returncode, done.stdout + done.stderr
    (test,) = select(tmp_path, "SELECT avg(return) AS mean, count(*) AS n FROM returns WHERE mode = 'test'")
    (train,) = select(tmp_path, "SELECT sum(steps) AS n FROM returns WHERE mode = 'train'")

    assert 100 == test["n"]
    assert test["mean"] >= least
    assert train["n"] <= most


RECORDED = """\
uid: UID
seed: 1
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: field, name: cartpole, params: {longest: 200}}}]
      agents:
        - name: scout
          brain: {name: LEARNER, params: PARAMS}
          muscle: {name: LEARNER}
          sensors: [field.*]
          actuators: [field.*]
          REPLAY
      simulation: {name: vanilla, conditions: [{name: max_steps, params: {steps: STEPS}}]}
      phase_config: {mode: train, worker: WORKERS, episodes: EPISODES}
  - record:
      simulation: {name: vanilla, conditions: []}
      phase_config: {mode: test, worker: 1, episodes: 10}
run_config: {condition: vanilla}
"""


def write_recorded(folder: Path, uid: str, learner: str, **words: Any) -> None:
    """Write a document whose agent may learn from what another one has recorded."""
    text = RECORDED
    given = {"PARAMS": "{}", "REPLAY": "", "STEPS": 1, "EPISODES": 1, "WORKERS": 1, **words}
    for word, value in {"UID": uid, "LEARNER": learner, **given}.items():
        text = text.replace(word, str(value))
    (folder / f"{uid}.yml").write_text(text)


@pytest.mark.long
def test_learns_from_what_another_has_recorded(tmp_path: Path) -> None:
    """After ten recorded episodes of `sarsa` each learner balances at once; of PPO the policy is that of two workers.

    Measured on CartPole-v1 with 100 episodes of 500 steps by a trained PPO, 20 test episodes each: PPO 500 (untrained
    114), DQN 500 (9.7), sarsa 500, PPO of Stable-Baselines3 500.
    """
    replay = "replay: [{experiment_run: teach, phase: record}]"
    write_recorded(tmp_path, "teach", "sarsa", STEPS=200, EPISODES=40)
    write_recorded(tmp_path, "none", "dqn")
    write_recorded(tmp_path, "clone", "ppo", REPLAY=replay, PARAMS="{pretrain_epochs: 60}")
    write_recorded(tmp_path, "twins", "ppo", REPLAY=replay, PARAMS="{pretrain_epochs: 60}", WORKERS=2)
    write_recorded(tmp_path, "careful", "dqn", REPLAY=replay)
    # It has no `pretrain`, hears it by `thinking`, and would think the best of actions that nobody took.
    write_recorded(tmp_path, "pupil", "sarsa", REPLAY=replay, PARAMS="{initial_value: 0.0}")
    run(tmp_path, *(f"{uid}.yml" for uid in ("teach", "none", "clone", "twins", "careful", "pupil")), span_s=900.0)
    query = "select run, avg(steps) as steps from episodes where mode = 'test' group by run"
    found = {row["run"].rpartition("-")[0]: row["steps"] for row in select(tmp_path, query)}

    assert found["teach"] > 150
    assert found["none"] < 100
    assert all(found[uid] > 130 for uid in ("clone", "twins", "careful", "pupil")), found
    policies = [
        (tmp_path / "results" / f"{uid}-1" / "brains" / "0" / "scout" / "model-policy.npz").read_bytes()
        for uid in ("clone", "twins")
    ]
    assert policies[0] == policies[1]
