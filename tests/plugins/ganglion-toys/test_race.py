from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Body
from ganglion_toys.race import MOVE, Race


@pytest.fixture
def race(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a race of so many bodies, which has begun."""

    def begun(count: int, **params: Any) -> Any:
        made = make(Race, **params)
        made.bodies = [Body("ada", 0, b) for b in range(count)]
        made.start_environment()
        made.begin_batch(np.arange(count), [1] * count)
        made.rows = np.arange(count)
        return made

    return begun


@pytest.mark.parametrize(
    ("moves", "rewards"),  # of three bodies on a track of two steps
    [([[2, 2, 0], [2, 1, 2]], [1, -1, -1]), ([[2, 2, 1], [2, 2, 2]], [1, 1, -1]), ([[2, 2, 2], [2, 2, 2]], [0, 0, 0])],
)
def test_first_at_the_end_wins(race: Callable[..., Any], moves: list[list[int]], rewards: list[float]) -> None:
    """Who is at the end gets 1, who is not -1, and nobody anything where all are; then it is over for all."""
    world = race(3, length=2)
    steps = [world.update_batch({"move": np.array(row)}) for row in moves]

    assert [False, True] == [step.terminated for step in steps]
    assert [[0, 0, 0], rewards] == [step.rewards["reward"].tolist() for step in steps]


def test_bodies_see_themselves_and_the_best_of_the_others(race: Callable[..., Any]) -> None:
    """As shares of the track; nobody steps back behind the begin."""
    world = race(3, length=4, ahead=[1, 0, 0])
    seen = world.update_batch({"move": np.array([2, 2, 0])}).readings["observation"]

    assert [[0.5, 0.25], [0.25, 0.5], [0.0, 0.5]] == seen.tolist()


def test_nobody_has_to_arrive(race: Callable[..., Any]) -> None:
    """After the longest episode it is truncated for all."""
    world = race(2, longest=3)
    steps = [world.update_batch({"move": np.array([1, 2])}) for _ in range(3)]

    assert [(False, False), (False, False), (False, True)] == [(step.terminated, step.truncated) for step in steps]


def test_one_runs_alone(make: Callable[..., Any]) -> None:
    """Without bodies it has nobody to win against, and wins as soon as it is there."""
    world = make(Race, length=2)
    world.start_environment()
    states = [world.update([ActuatorInformation(2, MOVE, "move")]) for _ in range(2)]

    assert [(0.0, False), (1.0, True)] == [(state.rewards[0].value, state.terminated) for state in states]


def test_what_cannot_be_is_refused(make: Callable[..., Any], race: Callable[..., Any]) -> None:
    """Tracks without steps, starts behind the end, and races of each for itself."""
    with pytest.raises(ValueError, match="at least 1"):
        make(Race, length=0)
    with pytest.raises(ValueError, match="numbers from 0 to 5"):
        make(Race, ahead=[6])
    with pytest.raises(ValueError, match="a number for each of 2 bodies"):
        race(2, ahead=[1])
    with pytest.raises(ValueError, match="together"):
        race(2).begin_batch(np.array([1]), [1])
