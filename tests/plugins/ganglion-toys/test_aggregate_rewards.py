from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import Box, Memory, RewardInformation, Transitions
from ganglion_toys.aggregate_rewards import AggregateRewards

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


def test_only_the_newest_row_counts(make) -> None:
    """The objective of a decision is made of its own rewards."""
    memory = _memory({"e.r": 1.0})
    memory.append("m/0", rewards=[RewardInformation(5.0, SPACE, "e.r")])

    assert 5.0 == make(AggregateRewards).internal_reward(memory)


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
