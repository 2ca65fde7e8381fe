"""Agents of Stable-Baselines3 in real runs: they learn, twice the same, and act in a test phase without a brain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from system.command import ganglion

pytest.importorskip(
    "stable_baselines3",
    reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3",
)

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
        pytest.param(
            SAC, {"world": "Pendulum-v1", "STEPS": 30, "EPISODES": 2}, id="SAC", marks=pytest.mark.long
        ),
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
