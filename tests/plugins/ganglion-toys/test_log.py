from __future__ import annotations

import json

import numpy as np
import pytest

from ganglion.sdk import Box, Memory, RewardInformation, SensorInformation, Transitions
from ganglion_toys.log import LogBrain

SPACE = Box(-np.inf, np.inf, ())


def _brain(make, **params) -> LogBrain:
    brain = make(LogBrain, **params)
    brain.memory = Memory()
    brain.sensors = [SensorInformation(None, SPACE, "lake.observation")]
    return brain


def _row(brain: LogBrain, muscle: str, step: int, rewards: list[float], truncated: bool = False) -> None:
    brain.memory.append(
        muscle,
        rewards=[RewardInformation(value, SPACE, f"lake.{i}") for i, value in enumerate(rewards)],
        decision_index=step,
        episode=2,
        terminated=False,
        truncated=truncated,
    )


def test_writes_a_line_per_call(make, tmp_path) -> None:
    """Each call appends the newest transition of its muscle, whoever's row came last."""
    path = tmp_path / "log.jsonl"
    brain = _brain(make, path=str(path))
    _row(brain, "ada/0", 0, [1.0, 2.5])
    brain.thinking("ada/0", None)
    _row(brain, "ada/1", 7, [4.0, -1.0], truncated=True)
    _row(brain, "ada/0", 1, [0.0, 0.0])
    brain.thinking("ada/1", None)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    common = {"agent": "ada", "phase": None, "environment": ["lake"], "body": [0], "episode": [2], "tick": [None]}

    assert [
        {**common, "worker": 0, "step": [0], "rewards": [3.5], "terminated": [False], "truncated": [False]},
        {**common, "worker": 1, "step": [7], "rewards": [3.0], "terminated": [False], "truncated": [True]},
    ] == lines


def test_answers_every_nth_call(make) -> None:
    """With update_every the n-th, 2n-th, ... call answers a version, others nothing; a joining muscle gets none."""
    brain = _brain(make, update_every=2)
    answers = []
    for step in range(5):
        _row(brain, "ada/0", step, [0.0])
        answers.append(brain.thinking("ada/0", None))

    assert [None, 1, None, 2, None] == [None if it is None else int(it["version"]) for it in answers]
    assert brain.initial_update("ada/1") is None
    with pytest.raises(ValueError, match="at least 0"):
        make(LogBrain, update_every=-1)


def _batch(muscles: list[str], body: list[tuple[str, str, int]]) -> Transitions:
    count = len(muscles)
    zeros, numbers = np.zeros((count, 1)), np.arange(count)
    rewards = np.array([[row, np.nan, 0.5] for row in range(count)])
    over = numbers == 1
    return Transitions(
        zeros, zeros, zeros[:, 0], rewards, zeros, over, ~over, muscles, body, numbers + 4, numbers,
        [None] * count,
    )  # fmt: skip


def test_writes_a_line_for_each_worker_of_a_round(make, tmp_path) -> None:
    """With bodies whole rounds are learned: each worker's transitions are a line, in the order in which they came."""
    path = tmp_path / "log.jsonl"
    brain = _brain(make, path=str(path), update_every=2)
    brain.bodies = (("ada", "lake", 0), ("ada", "lake", 1), ("ada", "moor", 0))
    batch = _batch(["ada/0", "ada/0", "ada/1"], [*brain.bodies[:2], brain.bodies[2]])
    answers = [brain.learn(batch), brain.learn(batch)]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    common = {"agent": "ada", "phase": None}

    assert brain.batched
    assert [
        {
            **common, "worker": 0, "environment": ["lake", "lake"], "body": [0, 1], "episode": [4, 5], "step": [0, 1],
            "tick": [None, None], "rewards": [0.5, 1.5], "terminated": [False, True], "truncated": [True, False],
        },
        {
            **common, "worker": 1, "environment": ["moor"], "body": [0], "episode": [6], "step": [2], "tick": [None],
            "rewards": [2.5], "terminated": [False], "truncated": [True],
        },
    ] * 2 == lines  # fmt: skip
    assert [None, 1] == [None if it is None else int(it["version"]) for it in answers]
