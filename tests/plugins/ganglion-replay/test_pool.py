"""Pools of sessions: what comes and goes, what is drawn, and what is refused, with the pool as it was."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk import ActuatorInformation, Box, Discrete, Mode, MultiBinary, SensorInformation, Session
from ganglion_replay import (
    PoolEmpty,
    PoolMismatch,
    PoolShort,
    PoolTimeout,
    ReplayEnd,
    SessionBatchEnvironment,
    SessionPoolEnvironment,
)

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
