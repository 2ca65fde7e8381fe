from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import AuthorError, CallFailed
from ganglion.peer.author import Hooks
from ganglion.peer.step.layout import Cut, Layout
from ganglion.peer.worker.world import Given, Turn, World
from ganglion.sdk import Discrete
from ganglion.sdk.controller import Controller
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


@pytest.mark.parametrize(("plugin", "expected"), [(None, ([[7, 3]], None)), ({"name": "own"}, ([[3]], [1]))])
def test_a_program_is_given_the_no_ops_of_what_nobody_sets(plugin: Any, expected: tuple[Any, Any]) -> None:
    """A program gets a full row, a plugin of ours what is given and its indices; None is recorded for both."""
    world = World("w", "r/environment/w/0", {"plugin": plugin})
    actuators = [{"id": "a", "space": "Discrete(10)", "value": 7}, "b: Discrete(10)"]
    world.declare(EnvironmentDeclared(["s: Discrete(10)"], actuators, [[1]], ["r: Discrete(10)"]))
    source = Layout(["b"], [Discrete(10)])
    given = Given([1], Cut(["b"], [source], [(0, 0)]))
    message = given.message(source.field([[3]]), world)

    assert expected == (message.setpoints, message.actuators)
    assert [[None, 3]] == given.recorded(source.field([[3]]), 2)


@pytest.mark.parametrize(("bodies", "text"), [(None, "its program knows of one"), (3, "its program 3")])
def test_a_program_with_another_number_of_bodies_is_refused(bodies: int | None, text: str) -> None:
    """One that knows of one body, or made another number, is refused by the uid of its environment."""
    world = World("lake", "r/environment/lake/0", {"plugin": None}, bodies=2)
    with pytest.raises(CallFailed, match=f"environment lake has 2 bodies, {text}"):
        world.declare(EnvironmentDeclared(["s: Discrete(9)"], [], [[1]] * 2, ["r: Discrete(9)"], bodies=bodies))

    world.declare(EnvironmentDeclared(["s: Discrete(9)"], [], [[1]] * 2, ["r: Discrete(9)"], bodies=2))


# -- turn -------------------------------------------------------------------------------------------------------------
AGENTS = ["one", "two", "three"]


def test_who_may_not_act_is_named() -> None:
    """After others have passed nobody acts: with several workers those who act are named at once."""
    turn = Turn(Controller(), AGENTS, Hooks("controller (worker 0)"))
    turn.call(["one"])
    turn.passing(AGENTS)

    with pytest.raises(AuthorError, match="agent two is asked in step 1 after others: with several workers those who"):
        turn.call(["two"])


def test_a_failing_turn_is_blamed() -> None:
    """What `turn` raises is the author's mistake."""
    raises = type("Raises", (Controller,), {"turn": lambda self, step: {}[step]})
    with pytest.raises(AuthorError, match="KeyError: 2") as caught:
        Turn(raises(), AGENTS, Hooks("controller (worker 0)")).announced(2)

    assert ["controller (worker 0), hook turn"] == caught.value.__notes__
