"""Objectives, brains and transformers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ganglion.sdk import Box, EnvironmentState, Memory, RewardInformation, SensorInformation, Transitions
from ganglion_toys.aggregate_rewards import AggregateRewards
from ganglion_toys.echo import checksum
from ganglion_toys.log import LogBrain
from ganglion_toys.transformer import CountingTransformer

SPACE = Box(-np.inf, np.inf, ())


def _memory(values: dict[str, float | None]) -> Memory:
    memory = Memory()
    memory.append("m/0", rewards=[RewardInformation(value, SPACE, uid) for uid, value in values.items()])
    return memory


TWO = {"lake.level": 3.0, "lake.cost": -5.0, "moor.level": 8.0}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 6.0),
        ({"aggregation": "min"}, -5.0),
        ({"aggregation": "max"}, 8.0),
        ({"aggregation": "mean"}, 2.0),
        ({"factor": -0.5}, -3.0),
        ({"rewards": ["lake.cost"]}, -5.0),
        ({"rewards": ["level"]}, 11.0),
        ({"rewards": ["moor.level", "cost"], "aggregation": "max", "factor": 2.0}, 16.0),
    ],
)
def test_aggregates(make, params, expected) -> None:
    """Rewards are chosen by full or local ids and become one number."""
    assert expected == make(AggregateRewards, **params).internal_reward(_memory(TWO))


def test_a_missing_reward_counts_nothing(make) -> None:
    """A reward that the row lacks is left out; a row without any has no objective."""
    assert 2.0 == make(AggregateRewards, aggregation="mean").internal_reward(_memory({"e.a": 2.0, "e.b": None}))
    assert make(AggregateRewards).internal_reward(_memory({"e.a": None})) is None


def test_an_unknown_id_is_told(make) -> None:
    """An id that fits no reward is an error at the first row; an unknown aggregation at once."""
    objective = make(AggregateRewards, rewards=["level", "depth"])
    with pytest.raises(ValueError, match=r"'depth' fits none of this agent's rewards: lake.level, lake.cost"):
        objective.internal_reward(_memory(TWO))
    with pytest.raises(ValueError, match="expected one of sum, min, max, mean, found 'median'"):
        make(AggregateRewards, aggregation="median")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"rewards": "lake.cost"}, "rewards: expected a list of ids, found 'lake.cost'"),
        ({"factor": "2"}, "factor: expected a number, found '2'"),
        ({"factor": True}, "factor: expected a number, found True"),
    ],
)
def test_parameters_of_another_kind_are_refused(make, params, text) -> None:
    """One id is not taken for its letters, nor a text for a number."""
    with pytest.raises(ValueError, match=text):
        make(AggregateRewards, **params)


def _batch(rewards) -> Transitions:
    count = len(rewards)
    zeros, flags = np.zeros((count, 1)), np.zeros(count, bool)
    return Transitions(
        zeros, zeros, zeros[:, 0], rewards, zeros, flags, flags, ["m/0"] * count, [None] * count,
        np.zeros(count, int), np.zeros(count, int), [None] * count,
    )  # fmt: skip


@pytest.mark.parametrize("chosen", [None, ["level"], ["lake.level", "moor.level"]])
@pytest.mark.parametrize("aggregation", ["sum", "min", "max", "mean"])
def test_many_bodies_have_what_each_would_have(make, aggregation, chosen) -> None:
    """The numbers of a batch are those of its rows alone, bit for bit; rewards that a row lacks count nothing."""
    uids = ["lake.level", "lake.cost", "moor.level", *(f"moor.x{i}" for i in range(9))]
    rewards = np.random.default_rng(2).normal(size=(40, len(uids)))
    rewards[np.random.default_rng(3).random(rewards.shape) < 0.4] = np.nan
    rewards[7] = np.nan
    objective = make(AggregateRewards, rewards=chosen, aggregation=aggregation, factor=0.3)
    objective.reward_ids = uids
    alone = [
        objective.internal_reward(_memory({u: None if v != v else float(v) for u, v in zip(uids, row, strict=True)}))
        for row in rewards
    ]

    found = objective.internal_rewards(_batch(rewards)).tolist()
    assert alone == [None if value != value else value for value in found]
    assert alone[7] is None
    assert [] == objective.internal_rewards(_batch(rewards[:0])).tolist()


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


def _round(muscles: list[str], body: list[tuple[str, str, int]]) -> Transitions:
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
    batch = _round(["ada/0", "ada/0", "ada/1"], [*brain.bodies[:2], brain.bodies[2]])
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


GOLDEN = [([1, 0, 2, 0], 60637), ([0, 0, 0, 0], 30784), ([2, 1, 4, 3], 91454)]


@pytest.mark.parametrize(("readings", "expected"), GOLDEN)
def test_checksum(readings, expected) -> None:
    """The checksum of known readings is known."""
    assert expected == checksum([np.array(readings)])


def test_checksum_runs_through_sensors_and_arrays_in_order() -> None:
    """Arrays count in C order, sensors one after the other, floats truncated."""
    assert checksum([1, 2, 3, 4]) == checksum([np.array([[1, 2], [3, 4]])]) == checksum([1.9, np.array([2, 3, 4])])


def test_counts_on_over_episodes(make) -> None:
    """The world state becomes 1, 2, 3, a reset in between changes nothing, and all else stays."""
    transformer = make(CountingTransformer)
    found = [transformer(EnvironmentState([], [], world_state="x")).world_state for _ in range(2)]
    transformer.reset()
    last = transformer(EnvironmentState([], [], truncated=True))

    assert [1, 2] == found
    assert (3, True, False) == (last.world_state, last.truncated, last.terminated)
