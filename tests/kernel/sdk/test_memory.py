from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ganglion.errors import AuthorError
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.memory import FIRST_BLOCK_ROWS, Memory, MemoryShard
from ganglion.sdk.spaces import Box, Discrete

SENSORS = [SensorInformation(None, Discrete(100), "e.0"), SensorInformation(None, Box(0, 1, (2,)), "e.1")]
ACTUATORS = [ActuatorInformation(None, Box(-1, 1), "e.a")]
TAGS = ("a/0", "a/1", "a/2")
REWARDS = ("r.0", "r.1")


def _memory(**arguments: Any) -> Memory:
    memory = Memory(**arguments)
    memory.declare(SENSORS, ACTUATORS)
    return memory


def _fill(memory: Memory, count: int, tag: str = "a/0", first: int = 0) -> None:
    for i in range(first, first + count):
        memory.append(tag, sensor_readings=[i % 100, [0.0, 1.0]], objective=float(i), decision_index=i)


def _or(value: Any, missing: Any = math.nan) -> Any:
    return missing if value is None else value


class Mirror(RuleBasedStateMachine):
    """A memory against a plain list of rows."""

    @initialize(limit=st.sampled_from([1, 5, 300, 1000]))
    def begin(self, limit: int) -> None:
        self.memory = _memory(size_limit=limit, rng=np.random.default_rng(0))
        self.limit = limit
        self.rows: list[dict[str, Any]] = []
        self.shards: list[tuple[Any, list[dict[str, Any]]]] = []
        self.count = 0

    def _append(self, **given: Any) -> None:
        row = {"number": self.count, **given}
        self.count += 1
        rewards = row.get("rewards")
        readings, following = row.get("readings"), row.get("next")
        self.memory.append(
            row["tag"],
            sensor_readings=None if readings is None else [readings, [readings / 100, 0.5]],
            next_readings=None if following is None else [following, [0.5, following / 100]],
            actuator_setpoints=row.get("setpoints"),
            rewards=None if rewards is None else [RewardInformation(v, Box(-9, 9), uid) for uid, v in rewards.items()],
            objective=row.get("objective"),
            dones=row.get("done"),
            decision_index=row["number"],
            episode=row.get("episode"),
            additional_data=row.get("data"),
            body=row.get("body"),
        )
        self.rows.append(row)
        del self.rows[: max(0, len(self.rows) - self.limit)]

    @rule(
        given=st.fixed_dictionaries(
            {"tag": st.sampled_from(TAGS)},
            optional={
                "readings": st.integers(0, 99),
                "next": st.integers(0, 99),
                "setpoints": st.lists(st.floats(-1, 1), min_size=1, max_size=1),
                "rewards": st.dictionaries(st.sampled_from(REWARDS), st.floats(-9, 9)),
                "objective": st.floats(-9, 9),
                "done": st.booleans(),
                "episode": st.integers(0, 5),
                "body": st.integers(0, 5),
                "data": st.one_of(st.text(), st.lists(st.integers())),
            },
        ),
        times=st.sampled_from([1, 1, 1, 40, FIRST_BLOCK_ROWS + 3]),
    )
    def append(self, given: dict[str, Any], times: int) -> None:
        for _ in range(times):
            self._append(**given)

    @rule(
        tags=st.lists(st.sampled_from(TAGS), max_size=9),
        times=st.sampled_from([1, 1, 40]),
        given=st.sets(
            st.sampled_from(["readings", "next", "setpoints", "objective", "done", "episode", "data", "body"])
        ),
    )
    def extend(self, tags: list[str], times: int, given: set[str]) -> None:
        """Many rows at once are as if each had been appended."""
        tags = tags * times
        numbers = np.arange(self.count, self.count + len(tags))
        small = numbers % 10
        columns: dict[str, Any] = {
            "readings": ("sensor_readings", np.column_stack([small, small / 100, np.full(len(tags), 0.5)])),
            "next": ("next_readings", np.column_stack([small, np.full(len(tags), 0.5), small / 100])),
            "setpoints": ("actuator_setpoints", small[:, None] / 10),
            "objective": ("objective", small / 2),
            "done": ("dones", small == 0),
            "episode": ("episode", small),
            "data": ("additional_data", [[int(it)] for it in small]),
            "body": ("body", small),
        }
        self.memory.extend(tags, decision_index=numbers, **dict(columns[name] for name in sorted(given)))
        for tag, number, it in zip(tags, numbers.tolist(), small.tolist(), strict=True):
            row = {"setpoints": [it / 10], "objective": it / 2, "done": it == 0, "data": [it]}
            row |= dict.fromkeys(("readings", "next", "episode", "body"), it)
            self.rows.append({"number": number, "tag": tag} | {name: row[name] for name in given})
        self.count += len(tags)
        del self.rows[: max(0, len(self.rows) - self.limit)]

    @rule(value=st.floats(-9, 9))
    def complete(self, value: float) -> None:
        if self.rows:
            self.memory.complete(value)
            self.rows[-1] = {**self.rows[-1], "objective": value}

    @rule(terminated=st.booleans())
    def close(self, terminated: bool) -> None:
        if self.rows:
            self.memory.close(terminated, False)
            self.rows[-1] = {**self.rows[-1], "done": terminated}

    @rule(n=st.integers(0, 700))
    def keep_shard(self, n: int) -> None:
        self.shards.append((self.memory.tail(n), self.rows[max(0, len(self.rows) - n) :]))

    @rule(n=st.integers(0, 50))
    def truncate(self, n: int) -> None:
        self.memory.truncate(n)
        kept = {tag: [row["number"] for row in self.rows if row["tag"] == tag][::-1][:n] for tag in TAGS}
        self.rows = [row for row in self.rows if row["number"] in kept[row["tag"]]]

    @rule()
    def clear(self) -> None:
        self.memory.clear()
        self.rows = []

    @rule(limit=st.sampled_from([1, 5, 300, 1000]))
    def limit_size(self, limit: int) -> None:
        self.memory.size_limit = self.limit = limit
        del self.rows[: max(0, len(self.rows) - limit)]

    @rule(n=st.integers(0, 400), tags=st.sets(st.sampled_from(TAGS), min_size=1))
    def tail_of_tags(self, n: int, tags: set[str]) -> None:
        rows = [row for row in self.rows if row["tag"] in tags]
        _check(self.memory.tail(n, include_only=tags), rows[max(0, len(rows) - n) :])

    @rule(n=st.integers(0, 60), tag=st.one_of(st.none(), st.sampled_from(TAGS)), replace=st.booleans())
    def sample(self, n: int, tag: str | None, replace: bool) -> None:
        population = {row["number"]: row for row in self.rows if tag is None or row["tag"] == tag}
        shard = self.memory.sample(n, tag, replace)
        numbers = shard.decision_index.tolist()
        assert len(shard) == (0 if not population else n if replace else min(n, len(population)))
        assert sorted(numbers) == numbers
        assert replace or len(set(numbers)) == len(numbers)
        _check(shard, [population[number] for number in numbers])

    @rule()
    def go_on_elsewhere(self) -> None:
        """Export all rows and go on elsewhere, as if nothing had been; rows of undeclared ids cannot travel."""
        fresh = _memory(size_limit=self.memory.size_limit, rng=self.memory.rng)
        with suppress(AuthorError):
            fresh.restore(self.memory.export())
            self.memory = fresh

    @invariant()
    def agrees(self) -> None:
        assert len(self.rows) == len(self.memory)
        newest = self.memory.tail(3)
        _check(newest, self.rows[-3:])

    @invariant()
    def old_shards_stay(self) -> None:
        for shard, rows in self.shards[-2:]:
            _check(shard, rows)

    def teardown(self) -> None:
        if hasattr(self, "rows"):
            _check(self.memory[:], self.rows)
            assert self.memory.tags == list(dict.fromkeys(row["tag"] for row in self.rows))


def _check(shard: Any, rows: list[dict[str, Any]]) -> None:
    """Compare every column of a shard with the rows that it should show."""
    assert len(rows) == len(shard)
    assert [row["tag"] for row in rows] == shard.tag.tolist()
    assert [row["number"] for row in rows] == shard.decision_index.tolist()
    _equal([_or(row.get("objective")) for row in rows], shard.objective)
    _equal([_or(row.get("episode")) for row in rows], shard.episode)
    assert [row.get("done") for row in rows] == shard.dones.tolist()
    assert [row.get("data") for row in rows] == shard.additional_data.tolist()
    assert [row.get("body", -1) for row in rows] == shard.body.tolist()
    assert ["e.0", "e.1"] == shard.sensor_readings.columns
    readings = [_or(row.get("readings")) for row in rows]
    _equal(readings, shard.sensor_readings["e.0"])
    _equal([[r / 100, 0.5 if r == r else r] for r in readings], shard.sensor_readings["e.1"])
    _equal([[r, r / 100, 0.5 if r == r else r] for r in readings], shard.observations)
    following = [_or(row.get("next")) for row in rows]
    _equal([[r, 0.5 if r == r else r, r / 100] for r in following], shard.next_readings.flat)
    _equal([_or(row.get("setpoints"), [math.nan]) for row in rows], shard.actions)
    for uid in shard.rewards.columns:
        _equal([_or((row.get("rewards") or {}).get(uid)) for row in rows], shard.rewards[uid])
    given = {uid for row in rows for uid in row.get("rewards") or {}}
    assert given <= set(shard.rewards.columns)


def _equal(expected: list[Any], found: Any) -> None:
    assert len(expected) == len(found)
    if expected:
        np.testing.assert_array_equal(np.array(expected, dtype=float), np.asarray(found, dtype=float))


TestMirror = Mirror.TestCase
TestMirror.settings = settings(max_examples=30, stateful_step_count=30)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"sensor_readings": [1]}, "expected 2 values in declared order"),
        ({"rewards": [1]}, "expected informations"),
        ({"sensor_readings": [SensorInformation([0.5], Box(0, 1, (1,)), "e.0")]}, "e.0 had shape"),
        ({"sensor_readings": [1, [0.0, "y"]]}, "e.1|convert|numbers"),
        ({"actuator_setpoints": [0.5], "objective": "much"}, "'much'"),
        ({"decision_index": 3, "terminated": "no"}, "'no'"),
        ({"observations": [1.0, 2.0], "actions": ["left"]}, "actions: expected numbers"),
        ({"rewards": [RewardInformation(1.0, Box(-9, 9), "r.0")], "body": 1e99}, "too large"),
    ],
)
def test_rows_that_do_not_fit_are_refused(given: dict[str, Any], match: str) -> None:
    """Plain values need a declaration, an id keeps its shape; a refused row leaves the memory as it was."""
    memory, other = _memory(), _memory()
    with pytest.raises(AuthorError, match=match):
        memory.append("a/1", additional_data="half", **given)
    for one in (memory, other):
        one.append("a/0")

    assert [["a/0"], [None]] == [memory.tags, memory[:].additional_data.tolist()]
    for name in ("rewards", "observations", "actions", "sensor_readings", "actuator_setpoints"):
        np.testing.assert_array_equal(other[:].column(name).flat, memory[:].column(name).flat)
    for name in ("objective", "terminated", "decision_index", "body"):
        np.testing.assert_array_equal(other[:].column(name), memory[:].column(name))


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"readings": [1, 2]}, "readings: expected the name of a column"),
        ({"tag": [0, 0]}, "tag: expected the name of a column"),
        ({"rewards": [[1.0], [2.0]]}, r"rewards: expected rows of shape \(2, 0\), found \(2, 1\)"),
        ({"observations": [[1.0], [2.0]]}, "observations: expected the name of a column, and no flat one"),
        ({"objective": [1.0]}, r"objective: expected rows of shape \(2,\), found \(1,\)"),
        ({"additional_data": [None]}, r"additional_data: expected rows of shape \(2,\), found \(1,\)"),
        ({"sensor_readings": np.zeros((2, 2))}, r"expected rows of shape \(2, 3\), found \(2, 2\)"),
        ({"objective": ["much", "more"]}, "objective: expected numbers, found <U4"),
        ({"actuator_setpoints": [["a"], ["b"]]}, "actuator_setpoints: expected numbers, found <U1"),
    ],
)
def test_columns_of_many_rows_that_do_not_fit_are_refused(columns: dict[str, Any], match: str) -> None:
    """A column of many rows was declared and has all of them; refused rows are not half there."""
    memory = _memory()
    with pytest.raises(AuthorError, match=match):
        memory.extend(["a/0", "a/1"], episode=[0, 1], **columns)

    assert (0, []) == (len(memory), memory.tags)


def test_integers_of_many_rows_have_missing_ones_before_and_behind_them() -> None:
    """What is missing is NaN, whichever of the rows came at once."""
    memory = Memory()
    memory.declare(actuators=[ActuatorInformation(None, Discrete(3), "e.a")])
    memory.extend(["a/0"])
    memory.extend(["a/0", "a/0"], actuator_setpoints=np.array([[1], [2]]))
    memory.extend(["a/0"])

    np.testing.assert_array_equal([[np.nan], [1.0], [2.0], [np.nan]], memory[:].actions)


def test_a_memory_of_size_0_keeps_nothing() -> None:
    """Appending to it is allowed and free."""
    memory = _memory(size_limit=0)
    _fill(memory, 3)
    memory.complete(1.0)

    assert (0, 0, []) == (len(memory), len(memory.tail(5)), memory.tags)
    with pytest.raises(AuthorError, match="size_limit"):
        memory.size_limit = -1


def test_sampling_is_uniform_and_reproducible() -> None:
    """Every row comes about equally often; equal generators draw equal rows; without one there is no sample."""
    memory = _memory()
    _fill(memory, 10)
    with pytest.raises(AuthorError, match="generator"):
        memory.sample(1)
    memory.rng = np.random.default_rng(3)
    counts = np.zeros(10)
    for _ in range(1000):
        np.add.at(counts, memory.sample(3).decision_index, 1)

    assert counts.sum() == 3000
    assert np.abs(counts - 300).max() < 5 * math.sqrt(300 * 0.7)
    first, second = (memory.sample(4, rng=np.random.default_rng(1)).decision_index for _ in range(2))
    assert first.tolist() == second.tolist()


def test_positions_count_from_the_oldest() -> None:
    """`memory[i]` and `memory[a:b]` are shards."""
    memory = _memory()
    _fill(memory, 5)

    assert [[0.0], [4.0], [1.0, 2.0]] == [memory[i].objective.tolist() for i in (0, -1, slice(1, 3))]
    with pytest.raises(IndexError):
        _ = memory[5]


def _rewarded(count: int, uid: str = "r", **more: Any) -> Memory:
    memory = Memory()
    for i in range(count):
        memory.append("a", rewards=[RewardInformation(i % 9, Discrete(9), uid)], objective=float(i), **more)
    return memory


def test_an_unknown_integer_is_nan() -> None:
    """A reward of an integer space that a row does not have, as of an environment that rests, is NaN in its column."""
    memory = _rewarded(1)
    memory.append("a", rewards=[RewardInformation(None, Discrete(9), "r")])

    np.testing.assert_array_equal([[np.nan]], memory.tail(1).rewards.flat)
    np.testing.assert_array_equal([[0.0], [np.nan]], memory.tail(2).rewards.flat)


def test_a_row_without_an_integer_that_others_have_shows_nan() -> None:
    """Setpoints of a Discrete actuator that a decision does not have are no zero."""
    memory = Memory()
    memory.declare(actuators=[ActuatorInformation(None, Discrete(3), "e.a")])
    memory.append("a", actuator_setpoints=[2])
    memory.append("a")

    np.testing.assert_array_equal([[2.0], [np.nan]], memory[:].actions)


def test_a_shard_stays_as_it_was_taken() -> None:
    """What becomes of the newest row afterwards is seen by later shards alone."""
    memory = _memory()
    _fill(memory, 2)
    before = memory.tail(2)
    memory.complete(7.0)
    memory.close(terminated=True, truncated=False)

    assert ([0.0, 1.0], [0.0, 7.0]) == (before.objective.tolist(), memory.tail(2).objective.tolist())
    assert ([None, None], [None, True]) == (before.terminated.tolist(), memory.tail(2).terminated.tolist())


def test_concat_joins_rows() -> None:
    """Rows come shard after shard; ids and flat arrays that one of them lacks are NaN in its rows."""
    first, second = _rewarded(2, observations=np.array([1, 2])).tail(2), _rewarded(2, "s").tail(2)
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
    memory = _rewarded(1, dones=False, observations=np.array([1.0]))
    for shard in (memory.tail(1), memory[0:1], MemoryShard.concat(memory.tail(1))):
        for array in (shard.rewards.values, shard.rewards["r"], shard.observations, shard.objective, shard.dones):
            assert not array.flags.writeable
