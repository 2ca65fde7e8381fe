from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.hooks import identity, seed_process
from ganglion.peer.likeness import Likeness
from ganglion.peer.portrait import NoPortrait
from ganglion.sdk import ActuatorInformation, Box, Discrete, RewardInformation, SensorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.seed import derive, generator_from_words, words

STREAM = words(1, ["muscle"])


class Net:
    """Be what an author's object consists of."""

    def __init__(self) -> None:
        self.weights = np.zeros(2)


class Actor:
    """Be an author's object."""

    rng: Any
    memory: Any
    sensors: Any

    def __init__(self) -> None:
        self.net = Net()
        self.nets = [self.net]
        self.activation = np.tanh
        self.seen: dict[Any, Any] = {}

    def live(self) -> list[float]:
        """Do something by chance, and by all that it has."""
        x = float(self.rng.random() + random.random() + np.random.rand())  # noqa: NPY002 - authors may use it
        self.net.weights = self.activation(self.net.weights + x)
        self.nets = [self.net, Net()]
        self.seen[len(self.seen), x] = self.sensors[0]
        drawn = float(self.sensors[0].space.sample()[0])
        self.memory.append(
            "a/0",
            sensor_readings=[[drawn, drawn]],
            actuator_setpoints=[1],
            rewards=[x],
            objective=x,
            next_readings=[[x % 1, 0.5]],
            additional_data={"x": np.array([x])},
        )
        tail = self.memory.tail(3)
        return [x, drawn, float(self.nets[0].weights.sum()), float(tail.objective.sum()), len(self.memory)]


def made(cls: type[Any] = Actor) -> tuple[Any, Likeness]:
    """Return an object as a host makes it, with its likeness."""
    seed_process(STREAM)
    space = Box(0.0, 1.0, (2,))
    space.seed(generator_from_words(derive(STREAM, "space")))
    actor, memory = cls(), Memory()
    sensors = [SensorInformation(None, space, "w.s")]
    memory.declare(
        sensors,
        [ActuatorInformation(None, Discrete(3), "w.a")],
        [RewardInformation(None, Box(0.0, 9.0, ()), "w.r")],
    )
    actor.__dict__ |= {"memory": memory, "sensors": sensors, **identity(STREAM)}
    return actor, Likeness({"muscle": (actor, ("memory", "sensors"))}, memory, [space], ["muscle.bus"])


def test_an_object_goes_on_bit_by_bit() -> None:
    """Whatever it has, the one into which a state is put does the same as the one it was taken of would have done."""
    actor, likeness = made()
    for _ in range(300):
        actor.live()
    actor.bus = object()
    data = likeness.take({"told": True})
    expected = [actor.live() for _ in range(5)]
    other, fresh = made()
    read = fresh.read(data)
    fresh.put(read)

    assert {"told": True} == read[0]["books"]
    assert expected == [other.live() for _ in range(5)]
    assert other.nets[0] is other.net
    assert all(one is other.sensors[0] for one in other.seen.values())
    assert not hasattr(other, "bus")


def test_streams_that_an_author_gave_to_spaces_go_on() -> None:
    """A space that was seeded anew goes on with that stream."""
    actor, likeness = made()
    actor.sensors[0].space.seed(7)
    actor.sensors[0].space.sample()
    data = likeness.take({})
    other, fresh = made()
    fresh.put(fresh.read(data))

    assert list(actor.sensors[0].space.sample()) == list(other.sensors[0].space.sample())


class Strange(Actor):
    """Have something that nobody can portray."""

    def __init__(self) -> None:
        super().__init__()
        self.net.socket = threading.Lock()  # type: ignore[attr-defined]


class Speaks(Strange):
    """Say all the same what it is."""

    def save_state(self) -> dict[str, Any]:
        """Return it."""
        return {"weights": self.net.weights}

    def load_state(self, state: Any) -> None:
        """Take it."""
        self.net.weights = state["weights"]


class Refuses(Speaks):
    """Not take it."""

    def load_state(self, state: Any) -> None:
        """Fail."""
        raise KeyError("weights")


def test_what_cannot_be_taken_is_named_with_class_and_attribute() -> None:
    """The message says whose attribute it is; who has gone back once is not portrayed; who speaks himself is taken."""
    with pytest.raises(
        NoPortrait, match=r"^muscle \(Strange\)\.net\.socket: a _thread\.lock cannot be portrayed$"
    ):
        made(Strange)[1].take({})
    with pytest.raises(NoPortrait, match=r"^muscle \(Actor\): this run has gone back before$"):
        made()[1].take({}, portraits=False)
    actor, likeness = made(Speaks)
    actor.net.weights = np.ones(2)
    data = likeness.take({}, portraits=False)
    other, fresh = made(Speaks)
    fresh.put(fresh.read(data))
    _, refuses = made(Refuses)

    assert [1.0, 1.0] == list(other.net.weights)
    with pytest.raises(AuthorError, match="muscle: load_state: KeyError: 'weights'"):
        refuses.put(refuses.read(data))


def test_rows_without_declarations_are_refused() -> None:
    """A memory that cannot be exported cannot be taken."""
    actor, likeness = made()
    actor.memory.append("a/0", sensor_readings=[SensorInformation(1, Discrete(3), "strange")])
    with pytest.raises(AuthorError, match="not declared"):
        likeness.take({})


@pytest.mark.parametrize("data", [b"", b"\x93\x01\x02\x03", b"\x92\xc4\x01\xc1\xc4\x00"])
def test_what_is_no_likeness_is_refused(data: bytes) -> None:
    """Anything else is an error of the protocol."""
    with pytest.raises(RemoteProtocolError):
        made()[1].read(data)
