from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.information import RewardInformation
from ganglion.sdk.memory import Memory, MemoryShard
from ganglion.sdk.spaces import Discrete


def _memory(count: int, uid: str = "r", **more: Any) -> Memory:
    memory = Memory()
    for i in range(count):
        memory.append("a", rewards=[RewardInformation(i % 9, Discrete(9), uid)], objective=float(i), **more)
    return memory


def test_an_unknown_integer_is_nan() -> None:
    """A reward of an integer space that a row does not have, as of an environment that rests, is NaN in its column."""
    memory = _memory(1)
    memory.append("a", rewards=[RewardInformation(None, Discrete(9), "r")])

    np.testing.assert_array_equal([[np.nan]], memory.tail(1).rewards.flat)
    np.testing.assert_array_equal([[0.0], [np.nan]], memory.tail(2).rewards.flat)


def test_concat_joins_rows() -> None:
    """Rows come shard after shard; ids and flat arrays that one of them lacks are NaN in its rows."""
    first, second = _memory(2, observations=np.array([1, 2])).tail(2), _memory(2, "s").tail(2)
    joined = MemoryShard.concat(first, second)

    assert [0.0, 1.0, 0.0, 1.0] == joined.objective.tolist()
    assert ["r", "s"] == joined.rewards.columns
    np.testing.assert_array_equal([0, 1, np.nan, np.nan], joined.rewards["r"])
    np.testing.assert_array_equal([[1, 2], [1, 2], [np.nan] * 2, [np.nan] * 2], joined.observations)
    assert [1.0, 0.0] == MemoryShard.concat([first, second])[1:3].objective.tolist()
    assert ["r"] == MemoryShard.concat([first]).rewards.columns


def test_concat_of_nothing_is_refused() -> None:
    """Without a shard there are no columns either."""
    with pytest.raises(AuthorError, match="at least one"):
        MemoryShard.concat([])


def test_arrays_of_a_shard_are_read_only() -> None:
    """Also those of one row that still waits."""
    memory = _memory(1, dones=False, observations=np.array([1.0]))
    for shard in (memory.tail(1), memory[0:1], MemoryShard.concat(memory.tail(1))):
        for array in (shard.rewards.values, shard.rewards["r"], shard.observations, shard.objective, shard.dones):
            assert not array.flags.writeable
