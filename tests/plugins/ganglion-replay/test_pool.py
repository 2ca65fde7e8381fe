"""Pools, tables and limiters of sessions: what comes and goes, what is drawn, and what is refused."""

from __future__ import annotations

import re
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import StoreError
from ganglion.sdk import INSERT, ActuatorInformation, Box, Discrete, Mode, MultiBinary, SensorInformation, Session
from ganglion_replay import (
    PoolEmpty,
    PoolMismatch,
    PoolShort,
    PoolTable,
    PoolTimeout,
    RateLimiter,
    ReplayEnd,
    SessionBatchEnvironment,
    SessionPoolEnvironment,
    n_step_targets,
    replay_sessions,
)
from ganglion_replay.table import MixedFace, TableFace

TICKS = 3


def rows(n: int, ticks: int = TICKS, first: int = 0) -> tuple[Any, Any, Any]:
    """Return observations with the closing one, actions and rewards of n sessions, all different."""
    begins = 100 * np.arange(first, first + n)[:, None]
    return begins + np.arange(ticks + 1), begins + np.arange(ticks), 1.0 * begins + np.arange(ticks)


def pool_of(n: int, ticks: int = TICKS, **options: Any) -> SessionPoolEnvironment:
    """Return a pool of n sessions."""
    pool = SessionPoolEnvironment(**options)
    if n:
        pool.load_sessions(*rows(n, ticks))
    return pool


@pytest.fixture
def session() -> Callable[..., Session]:
    """Return a function that makes a session with a number, an array and two rewards."""
    sensors = [
        SensorInformation(None, Box(-9.0, 9.0, (), np.float64), "there.level"),
        SensorInformation(None, MultiBinary(2), "there.lamps"),
    ]

    def make(steps: int, final: bool = True) -> Session:
        rewards = np.stack([np.arange(steps) + 0.5, np.arange(steps)], axis=1)
        rows = np.arange(steps + final)
        return Session(
            run="r", phase=0, worker=0, agent="ada", environment="there", body=1, episode=0, mode=Mode.TRAIN,
            sensors=sensors, actuators=[ActuatorInformation(None, Discrete(3), "there.gear")],
            observations=np.stack([rows / 2, rows % 2, rows % 2], axis=1), actions=np.arange(steps)[:, None] % 3,
            rewards=rewards, reward_ids=("there.a", "there.b"), objectives=rewards[:, 0],
            terminated=np.zeros(steps, bool), truncated=np.arange(steps) == steps - 1, ticks=np.arange(steps),
        )  # fmt: skip

    return make


def content(pool: SessionPoolEnvironment) -> Any:
    """Return all there is in a pool."""
    if not len(pool):
        return []
    batch = pool.select_session_batch(np.arange(len(pool)))
    return [
        *(one.tolist() for one in (*batch.observations, *batch.actions, batch.rewards, batch.is_alive, batch.ids)),
        pool.lengths.tolist(),
    ]


# -- what comes and goes ----------------------------------------------------------------------------------------------
def test_a_new_pool_is_empty() -> None:
    """A new pool has no sessions, not even of zeros, and nothing can be drawn from it."""
    pool = SessionPoolEnvironment()

    assert 0 == len(pool)
    for draw in (lambda: pool.sample_session_batch(1), lambda: pool.sample_slices(1, 1), lambda: pool.sample_steps(1)):
        with pytest.raises(PoolEmpty):
            draw()


@pytest.mark.parametrize("options", [{"capacity": 4}, {}])
@pytest.mark.parametrize("before", [0, 4])
def test_the_last_sessions_are_kept(options: dict[str, Any], before: int) -> None:
    """Seven sessions that are appended to a pool of at most four leave the last four, under ids that count up."""
    pool = pool_of(before, **options)
    most = None if options else 4

    ids = pool.append_sessions(*rows(7, first=before), max_pool_size=most)

    assert list(range(before, before + 7)) == ids.tolist()
    assert list(range(before + 3, before + 7)) == pool.ids.tolist()
    assert content(pool)[0] == rows(4, first=before + 3)[0].tolist()


def test_what_is_loaded_replaces_all_and_no_id_is_used_again() -> None:
    """What is loaded takes the place of all that was there; ids go on."""
    pool = pool_of(2)

    ids = pool.load_sessions(*rows(3, 5))

    assert ([2, 3, 4], [5, 5, 5]) == (ids.tolist(), pool.lengths.tolist())


@pytest.mark.parametrize(
    ("capacity", "kept"), [({"steps": 7}, 2), ({"sessions": 3, "steps": 100}, 3), ({"bytes": 250}, 3)]
)
def test_the_bound_that_is_reached_first_counts(capacity: Any, kept: int) -> None:
    """Of bounds on sessions, steps and bytes the one that is reached first drops the oldest."""
    pool = pool_of(0, capacity=capacity)

    pool.append_sessions(*rows(5))

    assert list(range(5 - kept, 5)) == pool.ids.tolist()


def test_other_lengths_are_taken_or_refused_and_never_wipe_a_pool() -> None:
    """Sessions of another length are padded and dead behind their end, or refused with the pool as it was."""
    ragged, even = pool_of(1), pool_of(1, ragged=False)
    ragged.append_sessions(*rows(1, 2, first=1))

    batch = ragged.select_session_batch([0, 1])
    before = content(even)
    with pytest.raises(PoolMismatch, match=r"session 0: expected 3 ticks, as of all others, found 2"):
        even.append_sessions(*rows(1, 2))

    assert [[1, 1, 1], [1, 1, 0]] == batch.is_alive.astype(int).tolist()
    assert [[0, 1, 2, 3], [100, 101, 102, 0]] == batch.observations[0].tolist()
    assert ([3, 2], [True, True]) == (batch.lengths.tolist(), batch.has_final.tolist())
    assert before == content(even)


MISMATCHES: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda o, a, r: (o[:, :2], a, r), r"observation 'observation_0': session 0: expected 3 or 4 ticks, found 2"),
    (lambda o, a, r: (o, a[:1], r), r"action 'action_0': expected 2 sessions, as of the rewards, found 1"),
    (lambda o, a, r: (o, a, np.where(r == 101, np.nan, r)), r"rewards: session 1, tick 1: expected numbers, found NaN"),
    (lambda o, a, r: (o, a, np.where(r == 2, np.inf, r)), r"rewards: session 0, tick 2: expected a finite number"),
    (lambda o, a, r: (o, a + 0.5, r), r"action 'action_0': session 0: expected int32, found float64"),
    (lambda o, a, r: (o, a + 2**40, r), r"action 'action_0': session 0, tick 0: .* is no value of int32"),
    (lambda o, a, r: (o[..., None], a, r), r"observation 'observation_0': session 0: expected rows of shape \(\)"),
    (lambda o, a, r: ([o, o], a, r), r"expected rows of shape \(\), found an array of shape \(2, 4\)"),
    (lambda o, a, r: ({"other": o}, a, r), r"observations: expected the items observation_0, found other"),
]


@pytest.mark.parametrize(("spoil", "text"), MISMATCHES)
def test_what_does_not_fit_changes_nothing(spoil: Any, text: str) -> None:
    """Data that are not as declared are refused by session and tick, and the pool is as it was."""
    pool = pool_of(2)
    before = content(pool)

    for take in (pool.load_sessions, pool.append_sessions):
        with pytest.raises(PoolMismatch, match=text):
            take(*spoil(*rows(2)))

    assert before == content(pool)


@pytest.mark.parametrize("bound", [0, -1, {"steps": 0}, {"days": 3}])
def test_bounds_are_at_least_one(bound: Any) -> None:
    """A bound below one, or of something else, is refused."""
    with pytest.raises(ValueError, match="capacity: expected integers of at least 1"):
        SessionPoolEnvironment(capacity=bound)


def test_a_session_beyond_the_capacity_is_refused() -> None:
    """A session that is larger than the whole pool may be would empty it, and is refused."""
    pool = pool_of(2, capacity={"steps": 10})

    with pytest.raises(PoolMismatch, match="session 0: expected at most 10 steps, as the pool's capacity, found 11"):
        pool.append_sessions(*rows(1, 11))

    assert 2 == len(pool)


def test_updates_change_nothing_before_they_are_applied() -> None:
    """A replacement can be looked at before it is made, and is made at once."""
    pool = pool_of(2)
    before = content(pool)

    updates = pool.get_session_updates(*rows(1, 2, first=7), cast_dtypes=True)
    assert [[[700, 701, 702]]] == [[one.tolist() for one in item] for item in updates["observation_sequences"]]
    assert before == content(pool)
    with pytest.raises(PoolMismatch, match="expected float32, found int64"):
        pool.get_session_updates(*rows(1), cast_dtypes=False)

    assert [2] == updates.apply().tolist()
    assert [[700, 701, 702]] == content(pool)[0]


@pytest.mark.parametrize(
    ("flags", "alive"),
    [
        ({}, [1, 1, 1, 1, 1, 1]),
        ({"terminated": [0, 1, 0, 0, 0, 0], "is_first": [0, 0, 0, 1, 0, 0]}, [1, 1, 0, 1, 1, 1]),
        ({"truncated": [0, 0, 0, 1, 0, 0]}, [1, 1, 1, 1, 0, 0]),
        ({"terminated": [0, 1, 0, 0, 0, 0], "is_alive": [1, 1, 1, 0, 0, 0]}, [1, 1, 1, 0, 0, 0]),
    ],
)
def test_what_is_alive_is_given_or_follows_from_the_flags(flags: dict[str, Any], alive: list[int]) -> None:
    """A session is alive up to its first end, and again from each first tick, unless it is said otherwise."""
    pool = pool_of(3)

    pool.load_sessions(*rows(1, 6), **{name: [flag] for name, flag in flags.items()})

    assert [alive] == pool.select_session_batch([0]).is_alive.astype(int).tolist()


def test_memories_are_those_that_were_given() -> None:
    """What agents remembered comes with its sessions, and missing memories are none, never former ones."""
    pool = pool_of(0)
    pool.load_sessions(*rows(2), prev_memory=[5.0, 6.0])
    batch = pool.select_session_batch([1, 0])
    pool.load_sessions(*rows(2))

    assert batch.preceding_agent_memories is not None
    assert [6.0, 5.0] == batch.preceding_agent_memories[0].tolist()
    assert pool.select_session_batch([0]).preceding_agent_memories is None


def test_several_items_come_as_lists_or_maps() -> None:
    """Several items are given as a list in order or by name, with shapes and dtypes of their own."""
    declared = [("image", (2, 2), np.uint8), ("speed", (), np.float32)]
    images, speeds = np.arange(32, dtype=np.uint8).reshape(2, 4, 2, 2), np.ones((2, 4))
    found = []
    for form in ([images, speeds], {"speed": speeds, "image": images}):
        pool = SessionPoolEnvironment(declared, 2, 0)
        pool.load_sessions(form, [np.zeros((2, 3), int), [[1, 2, 3], [4, 5, 6]]], np.zeros((2, 3)))
        found.append(pool.select_session_batch([1]))

    for batch in found:
        assert images[1:].tolist() == batch.observations[0].tolist()
        assert [np.dtype(np.uint8), np.dtype(np.float32)] == [one.dtype for one in batch.observations]
        assert [[4, 5, 6]] == batch.actions[1].tolist()


def test_a_pool_of_sessions_as_brains_get_them(session: Callable[..., Session]) -> None:
    """A pool of `Session`s has an item per id, the closing observations, and a decision's rewards summed."""
    pool = SessionPoolEnvironment.of([session(4), session(2, final=False)])

    batch = pool.select_session_batch([0, 1])

    assert ["there.level", "there.lamps"] == list(pool.observation_items.shapes)
    assert [[True, False], [4, 2]] == [batch.has_final.tolist(), batch.lengths.tolist()]
    assert [[0.5, 2.5, 4.5, 6.5], [0.5, 2.5, 0, 0]] == batch.rewards.tolist()
    assert np.dtype(np.int8) == batch.observations[1].dtype
    with pytest.raises(PoolEmpty):
        SessionPoolEnvironment.of([])


# -- draws ------------------------------------------------------------------------------------------------------------
def test_sessions_are_selected_as_asked() -> None:
    """Sessions come in the order that was asked for, several times too, with the same rows in every field."""
    batch = pool_of(4).select_session_batch([3, 0, 3])

    for found, whole in zip((batch.observations[0], batch.actions[0], batch.rewards), rows(4), strict=True):
        assert whole[[3, 0, 3]].tolist() == found.tolist()
    assert ([3, 0, 3], [3, 0, 3]) == (batch.ids.tolist(), batch.indices.tolist())
    assert not any(one.flags.writeable for one in (*batch.observations, *batch.actions, batch.rewards))


@pytest.mark.parametrize("selector", [[4], [-1], [True, False], [0.0], 2])
def test_places_that_are_none_are_refused(selector: Any) -> None:
    """Places out of range, negative ones, booleans and fractions are refused."""
    with pytest.raises(IndexError, match="selector: expected"):
        pool_of(4).select_session_batch(selector)


def test_draws_with_and_without_replacement() -> None:
    """Of four sessions six draws are the four, with replacement six; `wrap` has all before the first again."""
    pool = pool_of(4)

    assert {0, 1, 2, 3} == set(pool.sample_session_batch(6).ids.tolist())
    assert (4, 6) == (len(pool.sample_session_batch(6)), len(pool.sample_sessions_batch(6, replace=True)))
    wrapped = pool.sample_session_batch(6, on_short="wrap").ids.tolist()
    assert ({0, 1, 2, 3}, 2) == (set(wrapped[:4]), len(set(wrapped[4:])))
    assert np.dtype(np.int16) == pool.sample_session_batch(2, selector_dtype="int16").indices.dtype


def test_too_few_sessions_are_refused_or_awaited() -> None:
    """With `error` too few sessions are refused, with `wait` they are awaited, and in vain by numbers."""
    pool = pool_of(4)

    with pytest.raises(PoolShort, match="expected 6 sessions, found 4"):
        pool.sample_session_batch(6, on_short="error")
    with pytest.raises(PoolTimeout, match=r"waited 0.2 s: have 4 sessions, want 6"):
        pool.sample_session_batch(6, on_short="wait", timeout_s=0.2)
    feeder = threading.Thread(target=lambda: pool.append_sessions(*rows(2, first=4)))
    feeder.start()
    batch = pool.sample_session_batch(6, on_short="wait", timeout_s=60.0)
    feeder.join()

    assert set(range(6)) == set(batch.ids.tolist())
    with pytest.raises(ValueError, match="max_n_samples: expected at least 1"):
        pool.sample_session_batch(0)


@given(st.integers(0, 2**32), st.lists(st.sampled_from(["batch", "slices", "steps"]), max_size=6))
def test_equal_seeds_draw_equally(seed: int, calls: list[str]) -> None:
    """What is drawn depends on the seed and the calls that were made, on nothing else."""

    def drawn() -> list[Any]:
        pool = pool_of(5, rng_seed=seed)
        draws = {
            "batch": lambda: pool.sample_session_batch(3).ids,
            "slices": lambda: pool.sample_slices(3, 2).starts,
            "steps": lambda: pool.sample_steps(4).ticks,
        }
        return [draws[call]().tolist() for call in calls]

    assert drawn() == drawn()


def test_every_session_is_drawn_equally_often() -> None:
    """Draws are uniform over sessions, however long they are (chi-squared, 4 sessions, 4,000 draws)."""
    pool = pool_of(0)
    for i in range(4):
        pool.append_sessions(*rows(1, 1 + 5 * i))

    counts = Counter(pool.sample_session_batch(4000, replace=True).ids.tolist())

    assert sum((counts[i] - 1000) ** 2 / 1000 for i in range(4)) < 16.3  # p = 0.001


# -- slices and steps -------------------------------------------------------------------------------------------------
def test_slices_are_windows_of_one_episode() -> None:
    """A whole window has no end but at its last tick and no begin but at its first; padded ones are dead behind."""
    pool = pool_of(0)
    flags = {"terminated": [[0, 0, 1, 0, 0, 0]], "is_first": [[1, 0, 0, 1, 0, 0]]}
    pool.load_sessions(*rows(1, 6), **flags)

    whole = pool.sample_slices(200, 2)
    padded = pool.sample_slices(200, 4, partial="pad")

    assert {0, 1, 3, 4} == set(whole.starts.tolist())
    assert whole.is_alive.all()
    assert {0: 3, 1: 2, 2: 1, 3: 3, 4: 2, 5: 1} == dict(
        zip(padded.starts.tolist(), padded.lengths.tolist(), strict=True)
    )
    final = {s: bool(known) for s, known in zip(padded.starts.tolist(), padded.has_final.tolist(), strict=True)}
    assert {
        0: False,
        1: False,
        2: False,
        3: True,
        4: True,
        5: True,
    } == final  # of the first episode it was not recorded
    with pytest.raises(PoolShort, match="expected 1 windows of 4 ticks, found 0"):
        pool.sample_slices(1, 4)
    with pytest.raises(PoolShort, match="expected 5 windows of 2 ticks, found 4"):
        pool.sample_slices(5, 2, replace=False)


def test_steps_are_drawn_and_weighed_by_their_priorities() -> None:
    """With priorities 1, 3, 4 and both exponents 1 the weights are 1, 1/3, 1/4, and the draws as 1 : 3 : 4."""
    pool = pool_of(1)

    assert 3 == pool.set_priorities([0, 0, 0], [0, 1, 2], [1.0, 3.0, 4.0])
    steps = pool.sample_steps(8000, alpha=1.0, beta=1.0)

    weights = dict(zip(steps.ticks.tolist(), steps.weights.tolist(), strict=True))
    assert {0: 1.0, 1: 1 / 3, 2: 1 / 4} == {tick: pytest.approx(weight) for tick, weight in weights.items()}
    counts = Counter(steps.ticks.tolist())
    assert sum((counts[i] - 1000 * p) ** 2 / (1000 * p) for i, p in enumerate((1, 3, 4))) < 13.8  # p = 0.001
    assert (steps.observations[0] + 1).tolist() == steps.next_observations[0].tolist()


def test_new_steps_have_the_greatest_priority_so_far() -> None:
    """New steps have the greatest priority that there was, and those of sessions that were dropped are passed over."""
    pool = pool_of(1, capacity=2)
    pool.set_priorities([0], [0], [9.0])
    pool.append_sessions(*rows(2, first=1))

    assert 1 == pool.set_priorities([0, 1], [0, 0], [5.0, 1.0])
    weights = {(i, t): w for i, t, w in zip(*pool.sample_steps(500, alpha=1.0, beta=1.0)[:3], strict=True)}
    assert (1.0, pytest.approx(1 / 9)) == (weights[1, 0], weights[2, 2])
    with pytest.raises(IndexError, match="expected ids below 3"):
        pool.set_priorities([3], [0], [1.0])
    with pytest.raises(ValueError, match="numbers above 0"):
        pool.set_priorities([1], [0], [0.0])


def test_last_steps_without_a_closing_observation_are_left_out() -> None:
    """A last step is drawn only if what followed is known, or nothing did."""
    pool = pool_of(0)
    observations, actions, rewards = rows(2)
    pool.load_sessions(observations[:, :-1], actions, rewards, terminated=[[0, 0, 0], [0, 0, 1]])

    steps = pool.sample_steps(300)

    assert {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)} == set(zip(steps.ids.tolist(), steps.ticks.tolist(), strict=True))


# -- as environments --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("whole", [False, True], ids=["batch", "pool"])
def test_sessions_are_played_as_a_functional_environment(whole: bool) -> None:
    """The first observation is recorded observation 0, each step gives the next whatever is done, then it ends."""
    pool = pool_of(2)
    world: Any = pool if whole else pool.select_session_batch([0, 1])

    states = world.initial_states(2, np.random.default_rng(0))
    seen = [world.get_first_observations(states)[0].tolist()]
    for _ in range(TICKS):
        states, observations = world.get_action_results(states, [np.full(2, 9, np.int32)])
        seen.append(observations[0].tolist())

    assert rows(2)[0].T.tolist() == seen
    with pytest.raises(ReplayEnd, match="the last recorded observation is that of tick 3"):
        world.get_action_results(states, [np.zeros(2, np.int32)])


def test_a_batch_can_be_made_of_arrays() -> None:
    """A batch of arrays is alive everywhere, needs no actions, and has zeros for a closing observation it lacks."""
    batch = SessionBatchEnvironment([np.ones((2, 3)), np.ones((2, 3, 4))], [(), (4,)], rewards=np.zeros((2, 3)))

    assert batch.is_alive.all()
    assert ([], [False, False], (2, 4, 4)) == (batch.actions, batch.has_final.tolist(), batch.observations[1].shape)
    assert 0.0 == batch.observations[0][0, 3]
    with pytest.raises(PoolMismatch, match=r"is_alive: expected shape \(2, 3\), found \(2, 2\)"):
        SessionBatchEnvironment(np.ones((2, 3)), [()], rewards=np.zeros((2, 3)), is_alive=np.ones((2, 2)))


# -- what holds always ------------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), max_size=12), st.integers(1, 20))
def test_a_pool_keeps_the_newest_sessions_within_its_bounds(appended: list[tuple[int, int]], steps: int) -> None:
    """However sessions of any length come, those that stay are the newest that fit, unchanged."""
    pool = SessionPoolEnvironment(capacity={"steps": max(steps, 5)})
    model: list[tuple[int, list[float]]] = []
    for ticks, n in appended:
        given = rows(n, ticks, first=len(model))
        pool.append_sessions(*given)
        model += [(len(model) + i, row.tolist()) for i, row in enumerate(given[2])]

    kept: list[tuple[int, list[float]]] = []
    for session in reversed(model):
        if sum(len(row) for _, row in kept) + len(session[1]) > max(steps, 5):
            break
        kept.insert(0, session)
    found = pool.select_session_batch(np.arange(len(pool)))
    lengths = found.lengths.tolist()
    assert kept == [
        (i, r[:length]) for i, r, length in zip(found.ids.tolist(), found.rewards.tolist(), lengths, strict=True)
    ]


def test_bodies_of_the_bus_play_sessions_drawn_by_the_seeds_of_their_episodes() -> None:
    """Each plays one to its end, with its rewards, whatever is set; a successor goes on with the same sessions."""
    pools = [SessionPoolEnvironment(1, 1, 0) for _ in range(2)]
    for world in pools:
        world.append_sessions([[0.0, 1.0, 2.0]], [[0, 0]], [[5.0, 6.0]], terminated=[[0, 1]])
        world.append_sessions([[10.0, 11.0, 12.0]], [[0, 0]], [[7.0, 8.0]])
        world.start_environment()
    world, successor = pools
    firsts = [float(world.begin_batch(np.zeros(1, np.int64), [seed])["observation_0"][0]) for seed in range(20)]
    assert {0.0, 10.0} == set(firsts)
    found: dict[float, list[Any]] = {}
    for seed in (firsts.index(0.0), firsts.index(10.0)):
        world.begin_batch(np.zeros(1, np.int64), [seed])
        world.update_batch({})
        successor.load_state(world.save_state())
        step = successor.update_batch({"action_0": np.ones(1, np.int32)})
        found[firsts[seed]] = [
            float(step.readings["observation_0"][0]),
            float(step.rewards["reward"][0]),
            *(bool(np.asarray(flag)[0]) for flag in (step.terminated, step.truncated)),
        ]

    assert {0.0: [2.0, 6.0, True, False], 10.0: [12.0, 8.0, False, True]} == found
    with pytest.raises(ReplayEnd, match="tick 3: the last recorded observation is that of tick 2"):
        successor.update_batch({})


def table(**params: Any) -> PoolTable:
    """Return a table that ada feeds and that serves her and bob."""
    found = PoolTable(**params)
    found.uid = found.name = "recent"
    found.feed, found.serve, found.rng = ["ada"], ["ada", "bob"], np.random.default_rng(1)
    found.setup()
    return found


def decisions(begin: int, count: int, episode: int = 0, end: bool = False, stream: str = "ada/0") -> dict[str, Any]:
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
        pool.insert("ada", decisions(begin, 3))
    drawn = face(pool).sample_steps(200)

    assert set(range(7, 12)) == set(drawn.ids.tolist()) == set(drawn.ticks.tolist())
    assert (drawn.observations[:, 1] == drawn.ticks).all()
    assert (drawn.next_observations[:, 1] == drawn.ticks + 1).all()
    assert (drawn.versions == drawn.ticks // 2).all()
    assert 5 == len(face(pool))


def test_the_least_priority_makes_room() -> None:
    """With `remove: priority` those that were rated low go first, the oldest among equals; ids stay theirs."""
    pool = table(capacity={"steps": 4}, remove="priority")
    pool.insert("ada", decisions(0, 4))
    face(pool).set_priorities([1, 3], [0.25, 0.5])
    pool.insert("ada", decisions(4, 2))
    drawn = face(pool).sample_steps(100)

    assert {0, 2, 4, 5} == set(drawn.ids.tolist())
    assert (drawn.ids == drawn.ticks).all()
    with pytest.raises(ValueError, match="keeps no whole episodes"):
        face(pool).sample_session_batch(1)


def test_an_episode_goes_on_whose_only_decision_made_room() -> None:
    """With `remove: priority` the decision that goes may be the last one of the episode that the next one is of."""
    pool = table(capacity={"steps": 2}, remove="priority")
    for tick, stream in enumerate(["ada/0", "ada/1"]):
        pool.insert("ada", decisions(0, 1, tick, stream=stream))
    face(pool).set_priorities([0], [0.5])
    pool.insert("ada", decisions(1, 1, stream="ada/0"))

    assert {1, 2} == set(face(pool).sample_steps(50).ids.tolist())
    assert 2 == pool.state()["sessions"]


def test_priorities_weigh_draws() -> None:
    """Golden: p = 1 3 4, alpha = beta = 1 gives the weights 1, 1/3, 1/4; what is new has the greatest so far."""
    pool = table()
    pool.insert("ada", decisions(0, 3))
    face(pool).set_priorities([0, 1, 2], [1, 3, 4])
    drawn = face(pool).sample_steps(400, alpha=1.0, beta=1.0)
    weights = dict(zip(drawn.ids.tolist(), drawn.weights.tolist(), strict=True))
    pool.insert("ada", decisions(3, 1))

    assert {0: 1.0, 1: pytest.approx(1 / 3), 2: 0.25} == weights
    assert {3: 0.25}.items() <= dict(
        zip(*(part.tolist() for part in face(pool).sample_steps(400, alpha=1.0, beta=1.0)[:3:2]), strict=True)
    ).items()


def test_whole_episodes_are_drawn_once_they_have_ended() -> None:
    """Not one that goes on, nor one whose begin made room; each with its closing observation."""
    pool = table(capacity={"sessions": 3})
    for episode in range(3):
        pool.insert("ada", decisions(0, 2 + episode, episode, end=True))
        pool.insert("ada", decisions(0, 1, episode, stream="ada/1"))
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
        pool.insert("ada", decisions(begin, 2, stream="ada/0"))
        pool.insert("ada", decisions(begin + 10, 2, stream="ada/1"))
    batch = face(pool).sample_slices(50, 3)
    begins = batch.observations[0][:, :1, 1]

    assert set(batch.starts.tolist()) == {0, 1, 2, 3, 10, 11, 12, 13}
    assert (batch.observations[0][:, :, 1] == begins + np.arange(4)).all()


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
    pool.insert("ada", decisions(0, 2))
    with pytest.raises(Exception, match=r"actions: expected <f8 \[1\], as of the first agent, found <f8 \[2\] of bob"):
        pool.insert("bob", {**decisions(0, 1), "actions": np.zeros((1, 2))})

    assert 2 == len(pool)


def test_the_limiter_speaks() -> None:
    """Why a draw or an insert has to wait is said in numbers, and who waits is in the state."""
    pool = table(rate={"samples_per_insert": 2, "min_size": 5, "buffer": 4})
    pool.insert("ada", decisions(0, 4))
    early = pool.judge("ada", "sample_steps", {"n": 1})
    pool.insert("ada", decisions(4, 3))
    late = pool.judge("ada", INSERT, decisions(7, 1))

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
        pool.insert("ada", decisions(begin, 5))
        parts[uid] = face(pool)
    mixed = MixedFace("both", {"recent": (parts["recent"], 0.75), "demos": (parts["demos"], 0.25)})

    assert [True] * 6 + [False] * 2 == (mixed.sample_steps(8).ticks < 100).tolist()
    assert 10 == len(mixed)
    with pytest.raises(ValueError, match=r"table both: 9 steps cannot be shared out exactly \(recent 0.75, demos 0.25"):
        mixed.sample_steps(9)


def times(limiter: RateLimiter, side: str, most: int = 100) -> int:
    """Return how often a side goes on until it is blocked."""
    allowed, done = {"insert": (limiter.can_insert, limiter.inserted), "sample": (limiter.can_sample, limiter.sampled)}[
        side
    ]
    for count in range(most):
        if not allowed():
            return count
        done()
    return most


def test_the_golden_sequence() -> None:
    """At a rate of 2, a least size of 5 and a buffer of 4: no draw before 5 inserts; then 4 draws, or 2 inserts."""
    limiter = RateLimiter(2, 5, 4)
    for _ in range(5):
        assert 0 == times(limiter, "sample")
        limiter.inserted()
    other = RateLimiter(2, 5, 4)
    other.inserted(5)

    assert (4, 2) == (times(limiter, "sample"), times(other, "insert"))


def test_the_state_says_who_is_blocked_and_since_when() -> None:
    """The first refusal begins a block, which ends with what makes it possible again."""
    now_s = iter([3.0, 8.0])
    limiter = RateLimiter(2, 5, 4, clock=lambda: next(now_s))

    limiter.can_sample()
    limiter.can_sample()
    assert ("sample", 3.0) == (limiter.state()["blocked"], limiter.state()["since"])
    limiter.inserted(5)

    assert {
        "inserts": 5,
        "samples": 0,
        "d": 10,
        "low": 6,
        "high": 14,
        "blocked": None,
        "since": None,
    } == limiter.state()


@pytest.mark.parametrize("numbers", [(2, 5, 1.5), (0.5, 5, 0.9), (0, 5, 4), (2, 0, 4)])
def test_a_limiter_that_would_block_for_ever_is_refused(numbers: tuple[float, int, float]) -> None:
    """A buffer below the rate or one, no rate, or no size is refused."""
    with pytest.raises(ValueError, match="expected"):
        RateLimiter(*numbers)


@given(st.lists(st.sampled_from(["insert", "sample"]), max_size=300))
def test_the_rate_holds_whatever_is_asked(asked: list[str]) -> None:
    """From the least size on d stays between low and high, and one side can always go on."""
    limiter = RateLimiter(2, 5, 4)
    for side in asked:
        times(limiter, side, 1)
        assert limiter.can_insert() or limiter.can_sample()
        assert limiter.inserts < 5 or limiter.low <= limiter.d <= limiter.high


REWARDS, VALUES = [1.0, 2.0, 0.0, 4.0, 2.0], [16.0, 8.0, 24.0, 40.0, 12.0, 20.0]


def by_definition(
    rewards: Any, values: Any, gamma: float, n: int | None, terminated: Any, truncated: Any
) -> list[float]:
    """Return targets by their definition, tick by tick."""
    found = []
    for t in range(len(rewards)):
        ends = [k for k in range(t, len(rewards)) if terminated[k] or truncated[k]]
        m = min([n or len(rewards), len(rewards) - t, *([ends[0] - t + 1] if ends else [])])
        total = sum(gamma**i * rewards[t + i] for i in range(m))
        reached = bool(ends) and ends[0] == t + m - 1
        found.append(total + (0.0 if reached and terminated[ends[0]] else gamma**m * values[t + m]))
    return found


@given(st.data(), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 9)))
def test_targets_are_those_of_the_definition(data: Any, ticks: int, n: int | None) -> None:
    """Whatever ends where, a target is what its definition says."""
    numbers = st.integers(-8, 8).map(float)
    rewards = data.draw(st.lists(numbers, min_size=ticks, max_size=ticks))
    values = data.draw(st.lists(numbers, min_size=ticks + 1, max_size=ticks + 1))
    flags = data.draw(st.lists(st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1)]), min_size=ticks, max_size=ticks))
    terminated, truncated = (np.array([flag[i] for flag in flags], bool) for i in (0, 1))

    found = n_step_targets(rewards, values, gamma=0.5, n=n, terminated=terminated, truncated=truncated)

    assert by_definition(rewards, values, 0.5, n, terminated, truncated) == found.tolist()
    flagged = {"terminated": [terminated] * 2, "truncated": [truncated] * 2}
    assert [found.tolist()] * 2 == n_step_targets([rewards] * 2, [values] * 2, gamma=0.5, n=n, **flagged).tolist()


def test_dead_ticks_have_no_target() -> None:
    """A tick that is not alive has 0, and the one before it the value of the closing observation."""
    found = n_step_targets(REWARDS, VALUES, gamma=0.5, n=3, is_alive=[True, True, False, False, False])

    assert [1 + 0.5 * 2 + 0.25 * 24, 2 + 0.5 * 24, 0, 0, 0] == found.tolist()


@pytest.mark.parametrize(("values", "n"), [(VALUES[:5], None), (VALUES, 0)])
def test_targets_that_cannot_be_are_refused(values: Any, n: int | None) -> None:
    """As many values as rewards, or no step at all, are refused."""
    with pytest.raises(ValueError, match="n_step_targets"):
        n_step_targets(REWARDS, values, gamma=0.5, n=n)


# -- a policy over recorded sessions ----------------------------------------------------------------------------------
def counting(asked: list[list[float]]) -> Any:
    """Return a policy that remembers the sum of what it has seen; it notes what it is shown."""

    def policy(observations: list[Any], memories: list[Any]) -> Any:
        asked.append(observations[0].tolist())
        after = memories[0] + observations[0]
        return [observations[0] + 1000], [after], {"double": 2 * observations[0]}

    return policy


def pool() -> SessionPoolEnvironment:
    """Return a pool of a session of two episodes, and a shorter one."""
    found = SessionPoolEnvironment()
    flags: Any = {"terminated": [[0, 1, 0, 0]], "is_first": [[1, 0, 0, 1]]}
    found.append_sessions([[1, 2, 3, 4, 5]], [[10, 20, 30, 40]], [[1, 2, 3, 4]], prev_memories=[100.0], **flags)
    found.append_sessions([[7, 8]], [[70]], [[7]])
    return found


def test_recorded_actions_are_forced_and_the_policy_shadows_them() -> None:
    """From observation i come extras i and shadow i; memory i is after it, begins as recorded, and at zero anew."""
    asked: list[list[float]] = []
    found = replay_sessions(pool().select_session_batch([0, 1]), counting(asked))

    assert [[1, 7], [2], [4]] == asked  # nobody is asked about ticks that are dead
    assert [[10, 20, 30, 40], [70, 0, 0, 0]] == found.actions[0].tolist()
    assert found.shadow_actions is not None
    assert [[1001, 1002, 0, 1004], [1007, 0, 0, 0]] == found.shadow_actions[0].tolist()
    assert [[101, 103, 0, 4], [7, 0, 0, 0]] == found.memories[0].tolist()
    assert [[2, 4, 0, 8], [14, 0, 0, 0]] == found.extras["double"].tolist()
    assert (1 + 2 + 4 + 7) / 4 == found.mean(found.rewards)


def test_own_actions_and_rewards_of_an_objective() -> None:
    """Without force the policy's own actions count, and an objective gives the rewards anew."""
    found = replay_sessions(
        pool().select_session_batch([0]),
        counting([]),
        force_actions=False,
        objective=lambda seen, acted, following, rewards: acted[0] - 1000 + 10 * (following[0] - seen[0]) + 0 * rewards,
    )

    assert [[1001, 1002, 0, 1004]] == found.actions[0].tolist()
    assert (None, [[11, 12, 3, 14]]) == (found.shadow_actions, found.rewards.tolist())


def test_a_policy_answers_for_each_session() -> None:
    """A policy that returns fewer rows than it was shown is refused by the tick."""
    with pytest.raises(PoolMismatch, match=r"policy: tick 0: actions: expected 2 rows, found an array of shape \(1,\)"):
        replay_sessions(pool().select_session_batch([0, 1]), lambda seen, memories: (seen[0][:1], memories, None))


STEPS, LENGTH, TOGETHER, FLAT_BYTES = 1_000_000, 100, 20, 16 * 1024**2


def fed_pool() -> Callable[[], None]:
    """Return what appends a session to a fed_pool of 20,000 steps, and draws from it now and then."""
    found = SessionPoolEnvironment([("seen", (8,), np.float32)], 1, 0, capacity={"steps": 20_000})
    seen, acted = np.zeros((1, LENGTH + 1, 8), np.float32), np.zeros((1, LENGTH), np.int32)

    def add() -> None:
        [number] = found.append_sessions(seen, acted, np.ones((1, LENGTH))).tolist()
        if number % 100 == 0:
            found.sample_session_batch(64)
            steps = found.sample_steps(256, alpha=0.6, beta=0.4)
            found.set_priorities(steps.ids, steps.ticks, 1.0 + np.arange(256))

    return add


def fed_table(**params: Any) -> Callable[[], None]:
    """Return what inserts as many decisions as one session has, some at a time, and draws from them now and then."""
    found = PoolTable(capacity={"steps": 20_000}, **params)
    found.uid = found.name = "recent"
    found.feed, found.serve, found.rng = ["ada"], ["ada"], np.random.default_rng(1)
    found.setup()
    number = 0

    def add() -> None:
        nonlocal number
        for begin in range(0, LENGTH, TOGETHER):
            ticks, nothing = np.arange(begin, begin + TOGETHER), np.zeros(TOGETHER, bool)
            given: dict[str, Any] = {
                "observations": np.zeros((TOGETHER, 8), np.float32),
                "actions": np.zeros((TOGETHER, 1), np.int64),
                "objectives": np.ones(TOGETHER),
                "rewards": np.ones((TOGETHER, 1)),
                "next_observations": np.zeros((TOGETHER, 8), np.float32),
                "terminated": ticks == LENGTH - 1,
                "truncated": nothing,
                "episodes": np.full(TOGETHER, number),
                "ticks": ticks,
                "versions": ticks,
                "streams": ["ada/0"] * TOGETHER,
            }
            found.insert("ada", given)
        number += 1
        if number % 100 == 0:
            drawn = found.answer("ada", "sample_steps", {"n": 256, "alpha": 0.6, "beta": 0.4})
            found.note("ada", "set_priorities", {"ids": drawn["ids"], "values": 1.0 + np.arange(256)})

    return add


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
@pytest.mark.parametrize(
    "make", [fed_pool, fed_table, lambda: fed_table(remove="priority")], ids=["pool", "table", "priority"]
)
def test_a_million_steps_leave_it_as_large_as_it_was(make: Callable[[], Callable[[], None]]) -> None:
    """From a tenth of the steps on, the memory of the process grows by no more than 16 MiB, at its highest."""
    add, sizes = make(), []
    for number in range(STEPS // LENGTH):
        add()
        if number >= STEPS // LENGTH // 10 and number % 100 == 0:
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())

    assert max(sizes) - sizes[0] < FLAT_BYTES
