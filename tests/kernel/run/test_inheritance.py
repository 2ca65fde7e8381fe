from __future__ import annotations

from typing import Any

from ganglion.run.effect import Event, Record
from ganglion.run.model import Inheritance
from ganglion.wire.messages import BrainStore, BrainStored


def place(phase: Any, agent: str, shelf: str | None = None) -> str:
    """Return where a model lies."""
    return f"{shelf or '/results'}/{phase.index}/{agent}"


def models(kit: Any) -> Inheritance:
    """Return the models of a run that has left none yet."""
    return Inheritance(kit.FakeServices(lambda phase: []), place)


FILE = {"tag": "model", "path": "m.npz", "sha256": "00", "bytes": 8, "updates": 3}


def test_a_phase_begins_with_what_was_left(kit: Any) -> None:
    """What a brain has stored in one phase is what its agent begins the next one with."""
    found, one = models(kit), kit.agent(brain="dummy")
    found.enter(kit.phase(0, agents=[one], mode="train"))
    assert {} == found.first
    found.stored("ada", BrainStored([FILE]))
    record, event = found.keep(["ada"], 4)

    assert isinstance(record, Record)
    assert ["brain", 0, "ada", "model", 4, 3] == record.record[:6]
    assert isinstance(event, Event)
    assert "brain.stored" == event.name
    found.enter(kit.phase(1, agents=[one]))
    assert {"ada": "/results/0/ada"} == found.first


def test_rows_stand_in_the_order_of_the_document(kit: Any) -> None:
    """Whoever has stored first, the rows of models are in the order in which the agents were given."""
    found = models(kit)
    found.enter(kit.phase(0, agents=[kit.agent("ada", "dummy"), kit.agent("bob", "dummy")], mode="train"))
    for agent in ("bob", "ada"):
        found.stored(agent, BrainStored([FILE]))

    kept = [effect.record[2] for effect in found.keep(["ada", "bob"], 1) if isinstance(effect, Record)]
    assert ["ada", "bob"] == kept


def test_nothing_stored_is_nothing_left(kit: Any) -> None:
    """A brain without files leaves no model behind."""
    found = models(kit)
    found.enter(kit.phase(0, agents=[kit.agent(brain="dummy")], mode="train"))
    found.stored("ada", BrainStored([]))

    assert [] == found.keep(["ada"], 1)
    assert [] == found.left()


def test_what_was_left_is_known_again(kit: Any) -> None:
    """A run that goes on at a cut begins its phase with the models that the cut names."""
    found = models(kit)
    found.restore([[0, "ada", "/elsewhere"]])
    found.enter(kit.phase(1))

    assert {"ada": "/elsewhere"} == found.first
    assert [[0, "ada", "/elsewhere"]] == found.left()


def test_who_has_no_brain_hands_on(kit: Any) -> None:
    """An agent without a brain leaves a phase with the model that it began it with; one with a brain does not."""
    found = models(kit)
    found.restore([[0, "ada", "/a"], [0, "bob", "/b"]])
    agents = [kit.agent("ada"), kit.agent("bob", "dummy")]
    found.enter(kit.phase(1, agents=agents))
    found.hand_on(agents)

    assert [[0, "ada", "/a"], [0, "bob", "/b"], [1, "ada", "/a"]] == found.left()


def test_where_nobody_learns_the_former_model_is_stored(kit: Any) -> None:
    """A brain that learns stores what it has become; in a test phase it copies what it began with."""
    found, one = models(kit), kit.agent(brain="dummy", models="/shelf")
    found.restore([[0, "ada", "/a"]])
    found.enter(kit.phase(1, agents=[one]))
    assert BrainStore(source="/a", models="/results/1/ada", second="/shelf/farm-1/1/ada") == found.request(one)

    found.enter(kit.phase(2, agents=[one], mode="train"))
    assert BrainStore(second="/shelf/farm-1/2/ada") == found.request(one)
