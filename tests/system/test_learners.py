"""The deep learners on the real bus: what they master; that runs of theirs are equal is tests/oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion

from ganglion_learners import examples

pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")


def select(folder: Path, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    rows: list[dict[str, Any]] = json.loads(ganglion(folder, "results", "--sql", query, "--format", "json").stdout)
    return rows


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
