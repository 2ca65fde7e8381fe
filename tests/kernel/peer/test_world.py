from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ganglion.errors import AuthorError, CallFailed, RemoteProtocolError
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


class Silent(Controller):
    """Announce nothing."""


class ByTurns(Controller):
    """Announce one agent per step."""

    def turn(self, step: int) -> Sequence[str]:
        """Return the agent of the step."""
        return [AGENTS[step % 3]]


def turn_of(controller: Controller) -> Turn:
    """Return the watch over a controller."""
    return Turn(controller, AGENTS, Hooks("controller (worker 0)"))


@pytest.mark.parametrize(
    ("controller", "calls", "text"),
    [
        (Silent, [["one"], ["one"]], "agent one is asked twice in step 1: an agent acts once in a step"),
        (Silent, [["one", "one"]], "agent one is asked twice in step 1: an agent acts once in a step"),
        (Silent, [["one"], ["two"]], "agent two is asked in step 1 after others: with several workers those who act"),
        (ByTurns, [["two"]], r"agent two is asked in step 1, but turn\(0\) did not say so"),
        (Silent, [["for"]], "there is no agent 'for', expected some of one, two, three"),
    ],
)  # fmt: skip
def test_who_may_not_act_is_named(controller: type[Controller], calls: list[list[str]], text: str) -> None:
    """A second act in a step, one after having passed, one that was not announced, one of a stranger."""
    turn = turn_of(controller())
    for names in calls[:-1]:
        turn.call(names)
        turn.passing(AGENTS)

    with pytest.raises(AuthorError, match=text):
        turn.call(calls[-1])


def test_a_failing_turn_is_blamed() -> None:
    """What `turn` raises, and a stranger that it names, are the author's mistakes."""

    class Raises(Controller):
        def turn(self, step: int) -> Sequence[str]:
            raise KeyError(step)

    class Strange(Controller):
        def turn(self, step: int) -> Sequence[str]:
            return ["nobody"]

    with pytest.raises(AuthorError, match="KeyError: 2") as caught:
        turn_of(Raises()).announced(2)
    assert ["controller (worker 0), hook turn"] == caught.value.__notes__
    with pytest.raises(AuthorError, match="there is no agent 'nobody'"):
        turn_of(Strange()).announced(2)


# -- phase ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wanted", "found"), [(None, [10, 10]), (["v.r"], [10]), (["w"], [10]), (["w.r", "v"], [10, 10]), ([], [])]
)
def test_an_agent_gets_the_rewards_that_it_names(
    worker: Any, world: Any, agent: Any, wanted: list[str] | None, found: list[int]
) -> None:
    """Ids or environments; none named means those of the environments that it touches, here both of three."""
    one = agent(["v.a"], ["w.s"], rewards=wanted)
    it = worker({"v": world(ends=1), "w": world(), "x": world([])}, {"one": one})
    it.run()

    assert [found] == one.acts[-1].rewards


def test_a_strange_reward_is_refused(worker: Any, agent: Any) -> None:
    """A reward that no environment declares is named, with those that there are."""
    it = worker(agents={"one": agent(rewards=["w.luck"])})
    it.setup()
    with pytest.raises(RemoteProtocolError, match=r"agent one: rewards: 'w\.luck' is no reward of w\.r"):
        it.start()
