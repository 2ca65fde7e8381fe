from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import CallFailed
from ganglion.peer.world import World
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
