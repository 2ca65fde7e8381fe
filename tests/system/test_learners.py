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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "workers"),
    [
        pytest.param(DQN, 1, id="dqn-1", marks=pytest.mark.long),
        pytest.param(PPO, 2, id="ppo-2", marks=pytest.mark.long),
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


@pytest.mark.long  # the default run has ratings in the simulation, and a learner in tests/plugins/test_learning.py
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_learner_becomes_better_than_what_it_was(tmp_path: Path, seed: int) -> None:
    """An agent that plays itself: its rating rises above that of its snapshots, and that of its first model falls."""
    done = ganglion(tmp_path, "run", str(examples.PPO_RACE), "--seed", str(seed), "--plain", span_s=170.0)
    assert 0 == done.returncode, done.stdout + done.stderr
    rows = select(tmp_path, "SELECT body, rating FROM ratings WHERE phase = 1 ORDER BY tick, body")
    learner, pool, first = (row["rating"] for row in rows[-3:])
    versions = select(tmp_path, "SELECT DISTINCT version FROM opponents")

    assert 3 * 400 == len(rows)
    assert learner > 1300
    assert learner > pool > first
    assert first < 1050
    assert len(versions) >= 3
