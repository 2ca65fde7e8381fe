"""Tables: what they keep, draw and refuse, without a bus."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from ganglion.errors import StoreError
from ganglion.sdk import INSERT
from ganglion_replay import PoolTable
from ganglion_replay.table import MixedFace, TableFace


def table(**params: Any) -> PoolTable:
    """Return a table that ada feeds and that serves her and bob."""
    found = PoolTable(**params)
    found.uid = found.name = "recent"
    found.feed, found.serve, found.rng = ["ada"], ["ada", "bob"], np.random.default_rng(1)
    found.setup()
    return found


def rows(begin: int, count: int, episode: int = 0, end: bool = False, stream: str = "ada/0") -> dict[str, Any]:
    """Return decisions of one stream: decision i saw [episode, i] and then [episode, i + 1]."""
    ticks = np.arange(begin, begin + count)
    seen = np.stack([np.full(count, episode), ticks], axis=1).astype(float)
    last = np.arange(count) == count - 1
    return {
        "observations": seen,
        "actions": -seen[:, 1:],
        "objectives": ticks / 10,
        "rewards": np.stack([ticks, ticks], axis=1) / 20,
        "next_observations": seen + np.array([0, 1]),
        "terminated": last & end,
        "truncated": np.zeros(count, bool),
        "episodes": np.full(count, episode),
        "ticks": ticks,
        "versions": ticks // 2,
        "streams": [stream] * count,
    }


def face(of: PoolTable, agent: str = "ada") -> TableFace:
    """Return what a brain has of it, without a bus between."""

    def ask(what: str, **given: Any) -> Any:
        assert of.judge(agent, what, given) is None
        found = of.answer(agent, what, given)
        of.note(agent, what, given)
        return found

    return TableFace("recent", ask)


def test_the_oldest_decisions_make_room() -> None:
    """A table of 5 steps that was given 12 draws from the last 5 alone, each as it came, with its version."""
    pool = table(capacity={"steps": 5})
    for begin in range(0, 12, 3):
        pool.insert("ada", rows(begin, 3))
    drawn = face(pool).sample_steps(200)

    assert set(range(7, 12)) == set(drawn.ids.tolist()) == set(drawn.ticks.tolist())
    assert (drawn.observations[:, 1] == drawn.ticks).all()
    assert (drawn.next_observations[:, 1] == drawn.ticks + 1).all()
    assert (drawn.versions == drawn.ticks // 2).all()
    assert 5 == len(face(pool))


def test_the_least_priority_makes_room() -> None:
    """With `remove: priority` those that were rated low go first, the oldest among equals; ids stay theirs."""
    pool = table(capacity={"steps": 4}, remove="priority")
    pool.insert("ada", rows(0, 4))
    face(pool).set_priorities([1, 3], [0.25, 0.5])
    pool.insert("ada", rows(4, 2))
    drawn = face(pool).sample_steps(100)

    assert {0, 2, 4, 5} == set(drawn.ids.tolist())
    assert (drawn.ids == drawn.ticks).all()
    with pytest.raises(ValueError, match="keeps no whole episodes"):
        face(pool).sample_session_batch(1)


def test_an_episode_goes_on_whose_only_decision_made_room() -> None:
    """With `remove: priority` the decision that goes may be the last one of the episode that the next one is of."""
    pool = table(capacity={"steps": 2}, remove="priority")
    for tick, stream in enumerate(["ada/0", "ada/1"]):
        pool.insert("ada", rows(0, 1, tick, stream=stream))
    face(pool).set_priorities([0], [0.5])
    pool.insert("ada", rows(1, 1, stream="ada/0"))

    assert {1, 2} == set(face(pool).sample_steps(50).ids.tolist())
    assert 2 == pool.state()["sessions"]


def test_priorities_weigh_draws() -> None:
    """Golden: p = 1 3 4, alpha = beta = 1 gives the weights 1, 1/3, 1/4; what is new has the greatest so far."""
    pool = table()
    pool.insert("ada", rows(0, 3))
    face(pool).set_priorities([0, 1, 2], [1, 3, 4])
    drawn = face(pool).sample_steps(400, alpha=1.0, beta=1.0)
    weights = dict(zip(drawn.ids.tolist(), drawn.weights.tolist(), strict=True))
    pool.insert("ada", rows(3, 1))

    assert {0: 1.0, 1: pytest.approx(1 / 3), 2: 0.25} == weights
    assert {3: 0.25}.items() <= dict(
        zip(*(part.tolist() for part in face(pool).sample_steps(400, alpha=1.0, beta=1.0)[:3:2]), strict=True)
    ).items()


def test_whole_episodes_are_drawn_once_they_have_ended() -> None:
    """Not one that goes on, nor one whose begin made room; each with its closing observation."""
    pool = table(capacity={"sessions": 3})
    for episode in range(3):
        pool.insert("ada", rows(0, 2 + episode, episode, end=True))
        pool.insert("ada", rows(0, 1, episode, stream="ada/1"))
    batch = face(pool).sample_session_batch(9)

    assert [4] == batch.lengths.tolist()
    assert [[0, 1, 2, 3, 4]] == batch.observations[0][:, :, 1].tolist()
    assert [[0, 0.1, 0.2, 0.3]] == batch.rewards.tolist()
    assert [[0, 0, 1, 1]] == batch.versions.tolist()
    assert [[False, False, False, True]] == batch.terminated.tolist()


def test_slices_are_of_one_episode() -> None:
    """Each window of 3 is of neighbouring decisions of one stream, also where several came at once."""
    pool = table()
    for begin in range(0, 6, 2):
        pool.insert("ada", rows(begin, 2, stream="ada/0"))
        pool.insert("ada", rows(begin + 10, 2, stream="ada/1"))
    batch = face(pool).sample_slices(50, 3)
    begins = batch.observations[0][:, :1, 1]

    assert set(batch.starts.tolist()) == {0, 1, 2, 3, 10, 11, 12, 13}
    assert (batch.observations[0][:, :, 1] == begins + np.arange(4)).all()


def test_what_a_successor_draws() -> None:
    """A table that was put back draws, drops and limits as the one whose state it has."""
    for params in ({"capacity": {"steps": 7}}, {"capacity": {"steps": 5}, "remove": "priority"}):
        first = table(**params, rate={"samples_per_insert": 2, "min_size": 2, "buffer": 40})
        first.insert("ada", rows(0, 6, end=True))
        face(first).sample_steps(3)
        other = table(**params, rate={"samples_per_insert": 2, "min_size": 2, "buffer": 40})
        other.load_state(deepcopy(first.save_state()))
        found = []
        for pool in (first, other):
            face(pool).set_priorities([4, 5], [2, 3])
            pool.insert("ada", rows(0, 3, 1))
            steps = face(pool, "bob").sample_steps(5, alpha=0.5)
            found.append([*map(np.ndarray.tolist, steps), dict(pool.state())])

        assert found[0] == found[1]


def test_a_table_begins_with_what_was_recorded(spooled: Any) -> None:
    """The newest decisions that it has room for are there before the first insert, and count as far as `min_size`."""
    asked = spooled()
    source = {"folder": asked.folder, "sha256": asked.sha256}
    pool = table(capacity={"steps": 7}, source=source, rate={"samples_per_insert": 2, "min_size": 5, "buffer": 4})
    drawn = face(pool).sample_steps(4)

    assert (7, 5, 6.0, 9) == (len(face(pool)), pool._limiter.inserts, pool.state()["d"], pool._inserted)
    assert set(drawn.ids.tolist()) <= set(range(2, 9))
    assert {-1} == set(drawn.versions.tolist())
    assert (drawn.next_observations[:, 0] == drawn.observations[:, 0] + 1).all()


def test_a_table_of_a_copy_that_is_gone_is_refused(spooled: Any) -> None:
    """A copy has the digest that the governor has told; without one there is nothing to begin with."""
    asked = spooled()
    with pytest.raises(StoreError, match="is damaged: expected SHA-256 00"):
        table(source={"folder": asked.folder, "sha256": "00"})
    with pytest.raises(ValueError, match="recorded sessions are there in a run, which makes copies of them"):
        table(source={"run": "old"})


def test_agents_draw_for_themselves() -> None:
    """What one is given does not depend on how often another asks."""
    alone, beside = table(), table()
    for pool in (alone, beside):
        pool.insert("ada", rows(0, 20))
    face(beside, "bob").sample_steps(3)

    assert face(alone).sample_steps(9).ids.tolist() == face(beside).sample_steps(9).ids.tolist()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"capacity": 0}, "capacity: expected integers of at least 1"),
        ({"capacity": {"steps": 0}}, "capacity: expected integers of at least 1"),
        ({"capacity": {"bytes": 1}}, "capacity: expected steps or sessions, found bytes"),
        ({"remove": "random"}, "remove: expected one of fifo, priority, found 'random'"),
        ({"remove": "priority", "capacity": 3}, "needs a capacity of steps"),
        ({"rate": {"samples_per_insert": 2}}, "rate: expected samples_per_insert, min_size, buffer"),
        ({"rate": {"samples_per_insert": 5, "min_size": 1, "buffer": 4}}, "buffer: expected at least 5, found 4"),
        ({"rate": {"samples_per_insert": 5, "min_size": 1, "buffer": "x"}}, "rate: buffer: expected a number"),
    ],
)
def test_what_no_table_can_be_is_refused(params: dict[str, Any], message: str) -> None:
    """Bounds below 1, a buffer below the rate, words that are unknown."""
    with pytest.raises(ValueError, match=message):
        PoolTable(**params)


def test_rows_of_another_form_are_refused() -> None:
    """With the column, and what came first; the table is as it was."""
    pool = table()
    pool.insert("ada", rows(0, 2))
    with pytest.raises(Exception, match=r"actions: expected <f8 \[1\], as of the first agent, found <f8 \[2\] of bob"):
        pool.insert("bob", {**rows(0, 1), "actions": np.zeros((1, 2))})

    assert 2 == len(pool)


def test_the_limiter_speaks() -> None:
    """Why a draw or an insert has to wait is said in numbers, and who waits is in the state."""
    pool = table(rate={"samples_per_insert": 2, "min_size": 5, "buffer": 4})
    pool.insert("ada", rows(0, 4))
    early = pool.judge("ada", "sample_steps", {"n": 1})
    pool.insert("ada", rows(4, 3))
    late = pool.judge("ada", INSERT, rows(7, 1))

    assert "4 decisions of the first 5 were inserted" == early
    assert "1 decision would bring d from 14 above 14" == late
    assert {"inserts": 7, "samples": 0, "d": 14, "low": 6, "high": 14, "blocked": "insert"}.items() <= dict(
        pool.state()
    ).items()
    assert re.fullmatch(r"\d\d:\d\d:\d\dZ", str(pool.state()["since"]))


def test_a_mix_has_exact_shares() -> None:
    """Three quarters of 8 are 6; 9 cannot be shared out, which is said."""
    parts = {}
    for uid, begin in (("recent", 0), ("demos", 100)):
        pool = table()
        pool.insert("ada", rows(begin, 5))
        parts[uid] = face(pool)
    mixed = MixedFace("both", {"recent": (parts["recent"], 0.75), "demos": (parts["demos"], 0.25)})

    assert [True] * 6 + [False] * 2 == (mixed.sample_steps(8).ticks < 100).tolist()
    assert 10 == len(mixed)
    with pytest.raises(ValueError, match=r"table both: 9 steps cannot be shared out exactly \(recent 0.75, demos 0.25"):
        mixed.sample_steps(9)
