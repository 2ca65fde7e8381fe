"""Timelines: clocks, budgets, rules of ends, decisions, on index arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from ganglion.peer.step.opponents import Draws, Opponents, Pool, Turns, rated
from ganglion.peer.step.tick import Clock, EndedEpisode, Pace, Timelines, closed_flags
from ganglion.sdk.seed import stream, words
from ganglion.wire.messages import TERMINATED, TRUNCATED

NONE = np.zeros(0, np.int64)


def timelines(*clocks: Clock, bodies: list[int] | None = None, end: str = "all", **decisions: Any) -> Timelines:
    """Return timelines of environments, with one body each or with bodies in those of these numbers."""
    environment = np.array(range(len(clocks)) if bodies is None else bodies)
    ones = np.ones(len(environment), np.int64)
    period, offset = (np.array(decisions.get(key, ones * default)) for key, default in (("period", 1), ("offset", 0)))
    found = Timelines(clocks, environment, period, offset, end)
    for number in range(len(clocks)):
        found.begin(number)
    return found


def play(core: Timelines, lengths: list[int]) -> tuple[dict[str, list[int]], list[EndedEpisode]]:
    """Make ticks until the phase is over; bodies terminate after so many steps. Return ticks and episodes."""
    ticks: dict[str, list[int]] = {clock.uid: [] for clock in core.clocks}
    over: list[EndedEpisode] = []
    while not core.finished:
        for number in core.due():
            ticks[core.clocks[number].uid].append(core.tick)
            rows = core.rows[number][core.living(number)]
            ends = np.array([lengths[row] for row in rows.tolist()])
            flags = np.where(core.step[rows] + 1 >= ends, TERMINATED, 0).astype(np.uint8)
            begun = rows[flags != 0] if core.clocks[number].end == "each" else NONE
            over += core.take(number, rows, flags, 0, begun)
        if not core.finished:
            core.tick += 1
            for number, clock in enumerate(core.clocks):
                if not core.spent[number] and not core.open(number) and clock.end != "each":
                    core.begin(number)
    for number in range(len(core.clocks)):
        over += core.close(number, "truncated: phase end")
    return ticks, over


@pytest.mark.parametrize(
    ("lead", "order"),
    [
        (None, "slow fast fast fast fast fast fast fast"),
        (1, "slow fast fast late fast fast slow late"),
        (3, "slow fast fast fast fast slow late fast"),
    ],
)
def test_whoever_is_too_far_ahead_waits(lead: int | None, order: str) -> None:
    """The fastest that may step steps; it is less than `lead` ticks ahead of the slowest that is not spent."""
    pace = Pace([Clock("fast"), Clock("slow", 3), Clock("late", 2, 1), Clock("over")], lead)
    spent, found = [False, False, False, True], ["slow"]
    pace.step(1)
    while len(found) < len(order.split()):
        number = next(e for e in range(3) if pace.may_step(e, spent))
        pace.step(number)
        found.append(("fast", "slow", "late")[number])

    assert order == " ".join(found)


def test_one_environment_has_those_who_decide_of_all() -> None:
    """Who decides in one environment is who decides in it among all."""
    core = timelines(Clock("a"), Clock("b"), bodies=[0, 0, 1, 1, 1], period=[1, 2, 1, 3, 2], offset=[0, 1, 2, 0, 1])
    for step in range(7):
        core.step[:], core.alive[:] = step, [True, step != 3, True, step < 5, True]
        together = core.deciding([0, 1])

        assert together.tolist() == [*core.deciding([0]).tolist(), *core.deciding([1]).tolist()]


N, E, W = [*range(0, 17, 2)], [*range(1, 23, 3)], [*range(2, 31, 4)]


@pytest.mark.parametrize(
    ("length", "clock", "expected"),
    [
        (3, Clock("e", budget_episodes=2), ["3 terminated", "3 terminated"]),
        (3, Clock("e", budget_episodes=1), ["3 terminated"]),
        (3, Clock("e", budget_steps=7), ["3 terminated", "3 terminated", "1 truncated: budget"]),
        (4, Clock("e", budget_steps=6), ["4 terminated", "2 truncated: budget"]),
        (50, Clock("e", budget_episodes=1, max_steps=4), ["4 truncated: max_steps 4"]),
        (4, Clock("e", budget_episodes=1, max_steps=4), ["4 terminated"]),
    ],
)
def test_budgets_and_caps_are_exact(length: int, clock: Clock, expected: list[str]) -> None:
    """A budget of n steps makes n steps, one of n episodes n episodes, and a cap truncates where nothing terminates."""
    _, over = play(timelines(clock), [length])

    assert expected == [f"{one.steps} {one.reason}" for one in over]


def test_with_each_every_body_has_the_episodes_of_a_copy() -> None:
    """Bodies that begin anew within the step count their own episodes; the environment is spent with the last."""
    core = timelines(Clock("e", budget_steps=5, end="each"), bodies=[0, 0])
    found = []
    for lengths in ([2, 3],) * 5:
        rows = core.rows[0][core.living(0)]
        flags = np.where(core.step[rows] + 1 >= np.array(lengths), TERMINATED, 0).astype(np.uint8)
        found += core.take(0, rows, flags, 0, rows[flags != 0])

    expected = [(0, 0, 2), (1, 0, 3), (0, 1, 2)]
    assert expected == [(one.row, one.episode, one.steps) for one in found]


@given(period=st.integers(1, 5), offset=st.integers(0, 4), steps=st.integers(1, 20))
def test_a_body_decides_before_the_steps_of_its_clock(period: int, offset: int, steps: int) -> None:
    """A body decides before step n where n is at least its offset and as many periods behind it as are whole."""
    offset %= period
    core = timelines(Clock("e"), period=[period], offset=[offset])
    decided = []
    for step in range(steps):
        decided += [step] * len(core.deciding(core.due()))
        core.take(0, np.array([0]), np.zeros(1, np.uint8), 0, NONE)

    assert [n for n in range(steps) if n >= offset and (n - offset) % period == 0] == decided


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.sampled_from(["all", "any", "each"]), st.integers(1, 4))
def test_a_restored_state_goes_on_as_the_one_that_was_taken(lengths: list[int], end: str, ticks: int) -> None:
    """What `restore` is given makes the same of all further steps."""
    bodies = [0] * len(lengths)
    one, other = (timelines(Clock("e", budget_episodes=5, end=end), bodies=bodies) for _ in range(2))
    other.restore(one.state())
    for _ in range(ticks):
        rows = one.rows[0][one.living(0)]
        flags = np.array([TERMINATED * (lengths[row] <= 1) for row in rows.tolist()], np.uint8)
        for core in (one, other):
            core.take(0, rows, flags, 0, NONE)

    states = [[np.asarray(value).tolist() for value in core.state().values()] for core in (one, other)]
    assert states[0] == states[1]


def test_who_was_closed_is_truncated() -> None:
    """The flags of bodies that lived until the end of their episode get the bit of truncation."""
    over = EndedEpisode(0, None, 0, 3, True, "terminated", np.array([5, 7]))

    found = closed_flags(np.array([TERMINATED, 0, 0], np.uint8), np.array([4, 5, 7]), [over])
    assert [TERMINATED, TRUNCATED, TRUNCATED] == found.tolist()


def test_an_episode_that_made_no_step_is_none() -> None:
    """What is closed from outside before its first step leaves no episode."""
    assert [] == timelines(Clock("e")).close(0, "truncated: phase end")


def test_ticks_without_anybody_due_are_left_out() -> None:
    """The next tick is that of the first environment that steps."""
    core = timelines(Clock("e", 7, 3))
    core.skip()

    assert (3, [0]) == (core.tick, core.due())


def test_an_answer_overrides_the_clocks_for_one_step() -> None:
    """Who wants a decision makes one, who wants none makes none; the others, and all after a reset, go by clocks."""
    core = timelines(Clock("lake"), Clock("moor"), bodies=[0, 0, 0, 1], period=np.array([1, 1, 2, 1]))
    rows, none = core.rows[0], np.zeros(3, np.uint8)
    decides = [core.deciding([0]).tolist()]
    for wants in ([0, 1, 1], [2, 0, 2], None):
        core.want(0, rows, None if wants is None else np.array(wants, np.uint8))
        core.take(0, rows, none, 0, NONE)
        decides.append(core.deciding([0]).tolist())
    core.want(0, rows, none)
    core.take(0, rows, none, TERMINATED, NONE)
    core.begin(0)

    assert [[0, 1, 2], [1, 2], [0, 2], [0, 1]] == decides
    assert [0, 1, 2] == core.deciding([0]).tolist()
    assert [0, 1, 2, 3] == core.deciding([0, 1]).tolist()


def herd(end: Any, **clock: Any) -> Timelines:
    """Return an environment with two bodies, and two rows for bodies that are spawned."""
    ones = np.ones(4, np.int64)
    core = Timelines([Clock("lake", end=end, **clock)], ones - 1, ones, ones - 1, numbers=np.array([0, 1, -1, -1]))
    core.begin(0)
    return core


def step(
    core: Timelines, flags: dict[int, int], spawned: dict[int, int] | None = None, anew: Any = ()
) -> list[EndedEpisode]:
    """Make a step with all who live; rows have these flags, and rows become bodies of these numbers."""
    rows = core.rows[0][core.living(0)]
    given = np.array([flags.get(row, 0) for row in rows.tolist()], np.uint8)
    born = None if spawned is None else (np.array([*spawned]), np.array([*spawned.values()]))
    return core.take(0, rows, given, 0, np.array(anew, np.int64), born)


def test_a_spawned_body_takes_part_from_the_next_step_on() -> None:
    """It decides by the steps of its environment's episode, and with `all` the episode goes on for it."""
    core = herd("all")

    assert [] == step(core, {0: TERMINATED, 1: TERMINATED}, {2: 5})
    assert ([2], [2], 1, 5) == (core.living(0).tolist(), core.deciding([0]).tolist(), core.step[2], core.b[2])
    assert [] == step(core, {2: TRUNCATED}, {2: 6})  # of which the row is free again
    [over] = step(core, {2: TERMINATED})
    assert (3, True, []) == (over.steps, over.terminated, over.closed.tolist())
    core.begin(0)
    assert [0, 1] == core.living(0).tolist()


@pytest.mark.parametrize("end", ["any", 0])
def test_who_comes_with_the_end_of_an_episode_takes_no_part(end: Any) -> None:
    """Its row is nobody's, and who had it before keeps the flag of its own end."""
    core = herd(end)
    step(core, {}, {2: 5})
    rows, flags = core.rows[0][core.living(0)], np.array([1, 0, 2], np.uint8)
    over = core.take(0, rows, flags, 0, NONE, (np.array([2]), np.array([6])))

    assert ([1], 5, []) == (over[0].closed.tolist(), core.b[2], core.living(0).tolist())
    assert [1, 2, 2] == closed_flags(flags, rows, over).tolist()


def test_a_condition_that_closes_an_episode_leaves_ends_as_they_were() -> None:
    """A row that was given away within the step is closed for its new body alone."""
    core = herd("all")
    step(core, {}, {2: 5})
    rows, flags = core.rows[0][core.living(0)], np.array([0, 0, 1], np.uint8)
    assert [] == core.take(0, rows, flags, 0, NONE, (np.array([2]), np.array([6])))

    assert [2, 2, 1] == closed_flags(flags, rows, core.close(0, "condition")).tolist()


def test_spawned_bodies_with_episodes_of_their_own_end_with_those_of_the_document() -> None:
    """They begin anew by themselves, from episode 0; when the others have spent their budgets they are closed."""
    core = herd("each", budget_episodes=1)
    step(core, {0: TERMINATED}, {2: 5})
    again = step(core, {2: TRUNCATED}, {3: 6}, [2])
    last = step(core, {1: TERMINATED, 3: TERMINATED}, {3: 7})
    keys = [(over.row, over.b, over.episode, over.steps, over.reason) for over in (*again, *last)]

    assert [(2, 5, 0, 1, "truncated: environment"), (1, 1, 0, 3, "terminated"), (3, 6, 0, 1, "terminated")] == keys[:3]
    assert [(2, 5, 1, 1, "truncated: budget")] == keys[3:]
    assert (True, []) == (core.finished, core.living(0).tolist())


def test_rows_are_free_of_whom_nobody_lives() -> None:
    """Free are rows of bodies that have ended in this step, but for those that began anew."""
    core = herd("each")
    step(core, {}, {2: 5})

    assert [3] == core.free(0, NONE, NONE).tolist()
    assert [2, 3] == core.free(0, np.array([0, 2]), np.array([0])).tolist()
    assert [3] == core.free(0, np.array([2]), np.array([2])).tolist()


# -- Snapshots, draws, turns and ratings: tables ----------------------------------------------------------------------
PATH = ("phase", "duel", "agent", "ada", "opponents", "worker", 0, "team", "red")


@pytest.mark.parametrize(
    ("ratings", "returns", "expected"),
    [
        ([1200, 1200], [1, 0], [1208, 1192]),
        ([1208, 1192], [1, 0], [1215.632, 1184.368]),
        ([1200, 1200, 1200], [5, 2, 2], [1208, 1196, 1196]),
        ([1200, 1200], [3, 3], [1200, 1200]),
        ([1600, 1200], [0, 0], [1593.455, 1206.545]),
    ],
)
def test_ratings_move_pair_by_pair(ratings: list[float], returns: list[float], expected: list[float]) -> None:
    """By k / (n - 1) * (score - expected); a draw counts half."""
    assert expected == pytest.approx(rated(ratings, returns, 16), abs=5e-4)


def test_pool_is_a_ring() -> None:
    """A snapshot is due at each multiple of learned transitions that is passed; the newest four are kept."""
    pool, due = Pool[int](4, 30), []
    for count in range(7, 217, 7):
        if pool.learned(7):
            due.append(count)
            pool.add(count)

    assert [35, 63, 91, 126, 154, 182, 210] == due
    assert due[-4:] == pool.snapshots


def test_draws_are_those_of_the_stream() -> None:
    """First u, then where it is not less than the share of the current model, one of the snapshots, oldest first."""
    draws, rng, counts = Draws(words(7, PATH), 0.25), default_rng(stream(7, PATH)), [0, 0, 1, 2, 3, *[4] * 40]
    expected = []
    for count in counts:
        latest = rng.random() < 0.25 or not count
        expected.append(None if latest else int(rng.integers(count)))

    assert expected == [draws.draw(count) for count in counts]
    assert {None, 0, 1, 2, 3} == set(expected[5:])


def test_opponents_go_on_where_they_stood() -> None:
    """What another one is given as its state draws and keeps the same."""
    players = {"red": [0, 0.25, words(7, PATH)], "blue": [1, 0.0, words(8, PATH)]}
    one, other = (Opponents([[4, 3], [2, 5]], players) for _ in range(2))
    for version in range(30):
        one.learned(2, lambda version=version: [version])  # type: ignore[misc]
        one.draw("red")
    other.restore(one.state())
    found = []
    for opponents in (one, other):
        found.append([opponents.draw(name) for name in ["red", "blue"] * 9])
        opponents.learned(9, lambda: [99])
        found[-1] += [opponents.draw(name) for name in ["red", "blue"] * 9]

    assert found[0] == found[1]
    assert [99] in found[0]


@pytest.mark.parametrize(
    ("rotate_every", "teams", "decided", "due"),  # decisions of each in a tick; who is due before each tick
    [
        (None, [], [1, 2], [[0, 1], [], [1], [], [0, 1], [], [1], [], [0, 1]]),
        (3, [[0], [1]], [1, 2], [[0, 1], [], [1], [0, 1], [], [0, 1], [], [1], [0, 1]]),
        (6, [[0], [1]], [1, 1], [[0, 1], [], [], [], [1], [], [0, 1], [], [], [], [0], [], [0, 1]]),
        (4, [[0, 1], [2]], [1, 1, 1], [[0, 1, 2], [], [0, 1, 2], [], [], [], [0, 1, 2], [], [0, 1, 2]]),
    ],
)
def test_turns(rotate_every: int | None, teams: list[list[int]], decided: list[int], due: list[list[int]]) -> None:
    """Models change after four decisions, and where another team begins to learn; a state is all that there is."""
    turns, found = Turns([4] * len(decided), rotate_every, teams), []
    for _ in due:
        later = Turns([4] * len(decided), rotate_every, teams)
        later.restore(turns.state())
        turns = later
        found.append(turns.due())
        for one, count in enumerate(decided):
            turns.decided(one, count)

    assert due == found


def test_one_team_learns_at_a_time() -> None:
    """Whoever takes no turns is learned from all the while."""
    turns, told = Turns([9, 9, 9], 2, [[0], [2]]), []
    for _ in range(5):
        turns.due()
        told.append([turns.learns(one) for one in range(3)])
        turns.decided(0, 1)
        turns.decided(2, 1)

    assert [[True, True, False]] * 2 + [[False, True, True]] * 2 + [[True, True, False]] == told
