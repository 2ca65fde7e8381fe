"""An agent of Stable-Baselines3 in a real run: it learns, and acts in a test phase without a brain."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.command import ganglion
from system.results import table

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)

DOCUMENT = """
uid: balance
seed: 1
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: field, name: gymnasium, params: {id: CartPole-v1}}}]
      agents:
        - name: scout
          muscle: sb3
          brain: {name: sb3, params: {algorithm: PPO, algorithm_params: {n_steps: 16, batch_size: 8, n_epochs: 2}}}
          sensors: [field.observation]
          actuators: [field.action]
      phase_config: {mode: train, worker: 1, episodes: 3}
  - test:
      phase_config: {mode: test, worker: 1, episodes: 1}
run_config: {condition: vanilla}
"""


@pytest.mark.long  # the default run trains and acts with a learner of ours: test_learners
def test_trains_and_acts(tmp_path: Path) -> None:
    """A run trains, stores, and acts by the policy alone."""
    (tmp_path / "balance.yml").write_text(DOCUMENT)
    done = ganglion(tmp_path, "run", "-q", "balance.yml")
    assert (0, "") == (done.returncode, done.stderr)

    rows = table(tmp_path, "actions")
    assert [("train", 0), ("train", 1), ("train", 2), ("test", 0)] == list(
        dict.fromkeys((row["mode"], row["episode"]) for row in rows)
    )
