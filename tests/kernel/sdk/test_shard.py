from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.information import RewardInformation
from ganglion.sdk.memory import PENDING_ROWS, Memory, MemoryShard
from ganglion.sdk.spaces import Discrete


def _memory(count: int, uid: str = "r", **more: Any) -> Memory:
    memory = Memory()
    for i in range(count):
        memory.append("a", rewards=[RewardInformation(i % 9, Discrete(9), uid)], objective=float(i), **more)
    return memory


@pytest.mark.parametrize("count", [10, PENDING_ROWS + 10])
def test_parts_of_a_shard_are_shards(count: int) -> None:
    """By number, by slice and by slice of a slice, from waiting rows and from blocks alike."""
    shard = _memory(count).tail(8)
    last = float(count - 1)

    assert ([last], 1) == (shard[-1].objective.tolist(), len(shard[-1]))
    assert [last - 7, last - 5] == shard[0:4:2].objective.tolist()
    assert [last - 5] == shard[1:][1:2].objective.tolist()
    assert (0, 0) == (len(shard[5:2]), len(shard[5:2].rewards))
    with pytest.raises(IndexError):
        _ = shard[8]


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


def test_a_shard_survives_its_memory() -> None:
    """What was shown stays as it was, whatever happens to the memory: no row is written twice."""
    memory = _memory(PENDING_ROWS * 2)
    shard = memory.tail(PENDING_ROWS + 5)
    memory.size_limit = 3
    for _ in range(PENDING_ROWS * 3):
        memory.append("b", objective=-1.0)
    memory.clear()

    assert float(PENDING_ROWS * 2 - 1) == shard.objective[-1]
    assert PENDING_ROWS + 5 == len(shard.objective)
    assert {"a"} == set(shard.tag)


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_a_shard_stays_as_it_was_when_it_was_taken(flushed: bool, read: bool) -> None:
    """What the newest row is given later does not show in it, whether it had been looked at before or not."""
    memory = _memory(3, additional_data={"a": 1}, dones=False)
    memory.append("a", dones=False)
    if flushed:
        _ = memory.tags
    shards = [memory.tail(2), memory[-1], memory.tail(9, ["a"]), memory.sample(9, rng=np.random.default_rng(1))]
    if read:
        _ = [(it.objective, it.dones, it.additional_data) for it in shards]
    memory.complete(7.0)
    memory.annotate([5])
    memory.close(terminated=True, truncated=False)

    for shard in shards:
        assert np.isnan(shard.objective[-1])
        assert (None, False) == (shard.additional_data[-1], shard.dones[-1])
        assert shard.terminated[-1] is None
    newest = memory.tail(1)
    assert ([7.0], [[5]], [True]) == (
        newest.objective.tolist(),
        newest.additional_data.tolist(),
        newest.terminated.tolist(),
    )


def test_arrays_of_a_shard_are_read_only() -> None:
    """Also those of one row that still waits."""
    memory = _memory(1, dones=False, observations=np.array([1.0]))
    for shard in (memory.tail(1), memory[0:1], MemoryShard.concat(memory.tail(1))):
        for array in (shard.rewards.values, shard.rewards["r"], shard.observations, shard.objective, shard.dones):
            assert not array.flags.writeable
