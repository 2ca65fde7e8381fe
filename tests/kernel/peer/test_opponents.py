"""Snapshots, draws, turns and ratings: tables."""

from __future__ import annotations

import pytest
from numpy.random import default_rng

from ganglion.peer.step.opponents import Draws, Opponents, Pool, Turns, rated
from ganglion.sdk.seed import stream, words

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
