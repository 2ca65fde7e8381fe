from __future__ import annotations

from collections.abc import Sequence

import pytest

from ganglion.errors import AuthorError
from ganglion.peer.author import Hooks
from ganglion.peer.worker.world import Turn
from ganglion.sdk.controller import Controller

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
