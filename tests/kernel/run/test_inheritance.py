from __future__ import annotations

from typing import Any

from ganglion.run.model import Inheritance
from ganglion.wire.messages import BrainStore, BrainStored


def place(phase: Any, agent: str, shelf: str | None = None) -> str:
    """Return where a model lies."""
    return f"{shelf or '/results'}/{phase.index}/{agent}"


def models(kit: Any) -> Inheritance:
    """Return the models of a run that has left none yet."""
    return Inheritance(kit.FakeServices(lambda phase: []), place)


def test_nothing_stored_is_nothing_left(kit: Any) -> None:
    """A brain without files leaves no model behind."""
    found = models(kit)
    found.enter(kit.phase(0, agents=[kit.agent(brain="dummy")], mode="train"))
    found.stored("ada", BrainStored([]))

    assert [] == found.keep(["ada"], 1)
    assert [] == found.left()


def test_where_nobody_learns_the_former_model_is_stored(kit: Any) -> None:
    """A brain that learns stores what it has become; in a test phase it copies what it began with."""
    found, one = models(kit), kit.agent(brain="dummy", models="/shelf")
    found.restore([[0, "ada", "/a"]])
    found.enter(kit.phase(1, agents=[one]))
    assert BrainStore(source="/a", models="/results/1/ada", second="/shelf/farm-1/1/ada") == found.request(one)

    found.enter(kit.phase(2, agents=[one], mode="train"))
    assert BrainStore(second="/shelf/farm-1/2/ada") == found.request(one)
