from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import CallFailed
from ganglion.peer.world import World, select
from ganglion.sdk import Discrete
from ganglion.wire.messages import EnvironmentDeclared, EnvironmentUpdated


def row(uid: str) -> dict[str, Any]:
    """Return a declaration as it travels."""
    return {"id": uid, "space": Discrete(10).to_wire()}


@pytest.fixture
def own() -> World:
    """Return an environment of two sensors and one reward, whose class is a plugin's."""
    made = World("w", "r/environment/w/0", {"plugin": {"name": "own"}})
    made.declare(EnvironmentDeclared([row("a"), row("b")], [row("x")], [[1, 2]], [row("r")], 5))
    return made


def test_declaring_takes_lists_readings_and_time(own: World) -> None:
    """After the start the readings are those of decision 0."""
    assert ([1, 2], 5, False, 1) == (own.readings, own.ticks, own.ended, len(own.actuators))
    assert {"sensors", "actuators", "rewards", "static_model"} == own.declarations().keys()


def test_an_update_brings_readings_rewards_flags_and_time(own: World) -> None:
    """Without a time of its own an environment's ticks are its steps."""
    declared = own.updated(EnvironmentUpdated([[3, 4]], [[5]], False, True), 7)

    assert (False, [3, 4], [5], True, 7) == (declared, own.readings, own.earned, own.ended, own.ticks)


def test_rewards_may_be_declared_by_the_first_update() -> None:
    """Only the first says so; none declared are none."""
    it = World("w", "r/environment/w/0", {"plugin": {"name": "own"}})
    it.declare(EnvironmentDeclared([], [], [[]]))
    found = [it.updated(EnvironmentUpdated([[]], [[5]], reward_ids=[row("r")]), n) for n in (1, 2)]

    assert ([True, False], [row("r")]) == (found, it.rewards)


def test_a_reset_begins_anew(own: World) -> None:
    """Flags fall, readings are those of decision 0."""
    own.updated(EnvironmentUpdated([[3, 4]], [[5]], True), 1)
    own.began(EnvironmentUpdated([[0, 0]], [], ticks=0))

    assert ([0, 0], False, 0) == (own.readings, own.ended, own.ticks)


def test_who_waits_earns_nothing(own: World) -> None:
    """In a step without an update the rewards are null, not those of before."""
    own.updated(EnvironmentUpdated([[3, 4]], [[5]], True), 1)
    own.rest()

    assert [None] == own.earned


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (EnvironmentUpdated([[1]], [[5]]), "readings: expected one row of 2 values"),
        (EnvironmentUpdated([], [[5]]), "readings: expected one row of 2 values"),
        (EnvironmentUpdated([[1, 2], [1, 2]], [[5]]), "readings: expected one row of 2 values"),
        (EnvironmentUpdated([5], [[5]]), "readings: expected one row of 2 values"),
        (EnvironmentUpdated([[1, 2]], [[]]), "rewards: expected one row of 1 values"),
        (EnvironmentUpdated([[1, 2]], [[5]], True, True), "terminated and truncated exclude each other"),
    ],
)
def test_a_wrong_answer_is_blamed_on_the_environment(own: World, answer: EnvironmentUpdated, text: str) -> None:
    """The error names who answered what, and what is wrong with it."""
    with pytest.raises(CallFailed, match=text) as caught:
        own.updated(answer, 1)

    assert ("r/environment/w/0", "environment.update") == (caught.value.culprit, caught.value.call)


@pytest.mark.parametrize(
    ("before", "hint"),
    [
        ([row("a")], "b"),
        ([row("a"), row("b"), row("c")], "c"),
        ([row("b"), row("a")], "their order or a space"),
        ([row("a"), {**row("b"), "space": Discrete(3).to_wire()}], "their order or a space"),
    ],
)
def test_new_objects_declare_as_the_old(own: World, before: list[dict[str, Any]], hint: str) -> None:
    """The first difference is named; equal declarations pass."""
    own.declares("sensors", [row("a"), row("b")])
    with pytest.raises(CallFailed, match=f"sensors changed between episodes: {hint}"):
        own.declares("sensors", before)


@pytest.mark.parametrize(
    ("ids", "found"), [(["w.a"], [1]), (["w.b", "w.a"], [2, 1]), (["v.a", "w.b", "w.a"], [7, 2, 1])]
)
def test_columns_are_picked_in_the_order_asked(own: World, ids: list[str], found: list[int]) -> None:
    """Of one environment or of several; what comes is a list of its own."""
    other = World("v", "r/environment/v/0", {"plugin": {"name": "own"}})
    other.declare(EnvironmentDeclared([row("a")], [], [[7]], []))
    pick = select(ids, {"w.a": (0, 0), "w.b": (0, 1), "v.a": (1, 0)}, "readings")
    picked = pick([own, other])
    picked_again = pick([own, other])
    picked.append(0)

    assert (found, [1, 2]) == (picked_again, own.readings)


def test_rewards_are_picked_likewise(own: World) -> None:
    """The same by what was earned."""
    own.updated(EnvironmentUpdated([[3, 4]], [[5]]), 1)

    assert [5] == select(["w.r"], {"w.r": (0, 0)}, "earned")([own])
