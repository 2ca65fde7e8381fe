from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import RemoteProtocolError
from ganglion.peer.author import seed_process
from ganglion.peer.snapshot import Generators, streams_of
from ganglion.sdk import ActuatorInformation, Box, Information, SensorInformation
from ganglion.sdk.seed import generator_from_words, words

STREAM = words(7, ["state"])


def made() -> tuple[Generators, dict[str, Any]]:
    """Return the generators of a new object in a freshly seeded process."""
    seed_process(STREAM)
    own = {"rng": generator_from_words(STREAM), "space.a": generator_from_words(words(7, ["space"]))}
    return Generators(own), own


DRAWS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "rng": lambda own: own["rng"].random(),
    "half": lambda own: int(own["rng"].integers(0, 1000, dtype=np.uint32)),
    "space": lambda own: own["space.a"].normal(),
    "random": lambda own: random.random(),
    "gauss": lambda own: random.gauss(),
    "numpy": lambda own: float(np.random.random()),  # noqa: NPY002 - what authors do
    "normal": lambda own: float(np.random.normal()),  # noqa: NPY002
}


@given(
    before=st.lists(st.sampled_from(sorted(DRAWS)), max_size=12),
    after=st.lists(st.sampled_from(sorted(DRAWS)), max_size=12),
)
def test_a_successor_draws_what_the_lost_one_would_have_drawn(before: list[str], after: list[str]) -> None:
    """Whatever was drawn before, the state travels as plain values and gives the same numbers afterwards."""
    generators, own = made()
    for name in before:
        DRAWS[name](own)
    saved = msgpack.unpackb(msgpack.packb(generators.save()))
    expected = [DRAWS[name](own) for name in after]

    generators, own = made()
    generators.restore(saved)
    assert expected == [DRAWS[name](own) for name in after]


@pytest.mark.parametrize(
    "state",
    [
        {"nobody": {}},
        {"rng": {}},
        {"rng": {"state": b"", "inc": 3, "has_half": 0, "half": 0}},
        {"random": {"key": b"123", "position": 1, "gauss": None}},
        {"numpy": {"key": b"\0" * 8, "position": 1, "has_gauss": 0, "gauss": 0.0}},
    ],
)
def test_a_state_that_is_none_is_refused(state: dict[str, Any]) -> None:
    """What cannot be put back is a breach of the protocol, by name."""
    generators, _ = made()

    with pytest.raises(RemoteProtocolError, match=next(iter(state))):
        generators.restore(state)


def test_streams_of_spaces_are_kept() -> None:
    """Each space has one of its own, which a successor's goes on with; what has one keeps it."""

    def declared() -> list[Information]:
        box = Box(0.0, 1.0, ())
        box.seed(generator_from_words(words(7, ["own"])))
        return [SensorInformation(None, box, "w.x"), ActuatorInformation(0.0, Box(0.0, 1.0, ()), "w.x")]

    seed_process(STREAM)
    first, second = declared(), declared()
    own = streams_of(first, STREAM)
    generators = Generators(own)
    assert ["reading w.x", "setpoint w.x"] == list(own)
    assert generator_from_words(words(7, ["own"])).uniform() == declared()[0].space.sample()
    drawn = [it.space.sample() for it in first]
    saved = generators.save()
    expected = [it.space.sample() for it in first]

    seed_process(STREAM)
    successor = Generators(streams_of(second, STREAM))
    assert drawn == [it.space.sample() for it in second]
    successor.restore(saved)
    assert expected == [it.space.sample() for it in second]
    assert drawn[0] != drawn[1]
